// Method `auto` in the middle of a solve: watches the progress of the method, keeps the best x, and records the
// changes. Private to systems/; SystemSolver::change_method() carries out what the rule says (systems/method_rule.hpp).
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operators/linear_operator.hpp"
#include "solvers/solve_report.hpp"
#include "solvers/solver_options.hpp"
#include "systems/kept_columns.hpp"
#include "systems/method_rule.hpp"
#include "systems/settings.hpp"

namespace protean::detail {

template <class T>
class MethodChanges final : public SolveObserver {
 public:
  // unsymmetric: whether the matrix, which was symmetric when the solve began, is no longer symmetric.
  MethodChanges(const LinearOperator<T>& A, std::function<bool()> unsymmetric)
      : A_(A), unsymmetric_(std::move(unsymmetric)) {}

  // The observer of the next part of the solve: this one if the part may be given up, else next, which may be null. A
  // method for symmetric matrices is given up if the matrix is not symmetric; this is tested if it has new values or if
  // the residuals make no progress. gmres, bicgstab and idr are given up if SlowProgress says so.
  SolveObserver* begin_part(SolveObserver* next, std::string_view method, const SolverOptions& options,
                            bool symmetric_only);
  bool on_iteration(const IterationInfo& info) override;
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const IterationInfo& info) const noexcept override;

  // Why the part was given up; empty if it was not.
  const std::string& given_up() const noexcept { return given_up_; }
  // No later part is given up.
  void watch_no_more() noexcept { watches_ = false; }

  // Before a part with another method: bring_back(); if b - A x of one of these columns is then still larger than b,
  // x := 0, and the report has that residual. Keeps copies of x. rules: of each column. Throws OutOfMemory.
  void keep(const MultiVectorView<T>& X, const ColumnNumbers& columns, std::span<const StoppingRule> rules,
            std::span<SolveReport> reports);
  // Restores the copy of each column whose x has become worse since then, if the values of A are still the same; the
  // report of the column then has its residual.
  void bring_back(const MultiVectorView<T>& X, std::span<SolveReport> reports) const;

  void note(MethodChange change, const std::function<void(const std::string&)>& on_note);
  // The last change found no memory.
  void refuse(std::string_view why, const std::function<void(const std::string&)>& on_note);
  bool changed() const noexcept;
  const std::vector<MethodChange>& changes() const noexcept { return changes_; }
  std::vector<MethodChange> take_changes() { return std::move(changes_); }

  MethodRule rule;

 private:
  const LinearOperator<T>& A_;
  const std::function<bool()> unsymmetric_;
  SolveObserver* next_ = nullptr;
  std::optional<SlowProgress>
      slow_;  // none before the first iteration, or if the method goes on however slow it is
  std::string_view method_;
  bool symmetric_ = false;  // the method is for symmetric matrices
  Revision seen_;
  std::string given_up_;
  StoppingRule stopping_;
  std::int64_t restart_ = 0;
  bool watches_ = true, begun_ = false;
  KeptColumns<T> best_;
  Revision revision_;
  std::vector<MethodChange> changes_;
};

}  // namespace protean::detail

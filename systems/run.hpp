// One solve of a SystemSolver, of one right-hand side or of several columns, in one part or more. Here is what both
// share: the loop over the parts, and what changes between two of them. One right-hand side is one column. Private to
// systems/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "solvers/auto_switcher.hpp"
#include "solvers/format_schedule.hpp"
#include "systems/continued.hpp"
#include "systems/kept_columns.hpp"
#include "systems/method_change.hpp"
#include "systems/preconditioner_change.hpp"
#include "systems/seconds.hpp"
#include "systems/sequence.hpp"
#include "systems/system_matrix.hpp"
#include "systems/system_solver.hpp"

namespace protean {
namespace detail {

// Ends the policy or the schedule of a solve, also if the solve throws.
template <class Observer>
class Finished {
 public:
  explicit Finished(Observer& observer) : observer_(observer) {}
  ~Finished() {
    try {
      observer_.finish();
    } catch (...) {}  // another exception is on its way
  }
  Finished(const Finished&) = delete;
  Finished& operator=(const Finished&) = delete;

 private:
  Observer& observer_;
};

}  // namespace detail

template <class T>
class SystemSolver<T>::Run {
 public:
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  virtual ~Run() = default;

  // The solve. The matrix and the preconditioner have been set up, unless that was ended.
  void operator()();

  MultiSolveReport report;  // of the parts so far

 protected:
  using ColumnNumbers = detail::ColumnNumbers;
  using Trial = typename detail::PreconditionerWatch<T>::Trial;

  // rules: of each column of X, with what the setup has left of the time. several: a solve of a MultiSolver, also of
  // one column.
  Run(SystemSolver& of, SystemMatrix<T>& matrix, Changes changes, const MultiVectorView<T>& X,
      std::vector<StoppingRule> rules, bool several, SolveOutcome& outcome)
      : of_(of),
        matrix_(matrix),
        changes_(changes),
        X_(X),
        rules_(std::move(rules)),
        several_(several),
        outcome_(outcome) {
    for (std::size_t c = 0; c < rules_.size(); ++c) part_.push_back(c);
  }

  // What differs. not_begun(): the report of the guess, if the setup has left no time (ended). solve_part(): solves for
  // the columns part_ from their x, by these rules. number_part(): the observer of the solve counts on from here.
  virtual MultiSolveReport not_begun(StopReason ended) = 0;
  virtual MultiSolveReport solve_part(std::vector<StoppingRule> rules) = 0;
  virtual void number_part(const ColumnNumbers& columns, double since_begin) = 0;
  // Whether the observer of the solve has ended it.
  virtual bool stopped() const = 0;
  // The rule of what decides by the residuals that it is shown.
  virtual StoppingRule steering_rule(const std::vector<StoppingRule>& rules) const = 0;

  // Makes the schedule that changes formats, if there is one. next: the observer it calls; null for none.
  FormatSchedule<T>* make_schedule(SolveObserver* next);
  // Returns solve(observer); the observer lets method and preconditioner auto and the policy decide. It is null if
  // nothing does. next: the observer that it calls; null for none. options: of the part, with steering_rule().
  // relative_residual: as PreconditionerWatch::Part has it.
  MultiSolveReport steered(SolveObserver* next, const SolverOptions& options, Trial trial,
                           std::function<double()> relative_residual,
                           const std::function<MultiSolveReport(SolveObserver*)>& solve);
  // So many columns of the part run.
  void columns_left(std::int64_t running);
  // Whether a column that has ended for this reason ends the part for all columns.
  bool ends_all(StopReason reason) const;
  // Of the trials of a preconditioner: the report of the column that has ended worst.
  static SolveReport worst_of(const MultiSolveReport& all);

  SystemSolver& of_;
  SystemMatrix<T>& matrix_;
  const Changes changes_;
  const MultiVectorView<T> X_;
  const std::vector<StoppingRule> rules_;
  const bool several_;
  ColumnNumbers part_;                  // the columns of the last part
  std::int64_t iterations_before_ = 0;  // the last part
  std::int64_t part_iterations_ = 0;    // of the last part, if it was not the first
  double seconds_before_ = 0;           // the last part, since the solve began

 private:
  template <class Is>
  ColumnNumbers columns_of_part(Is&& is) const {
    ColumnNumbers found;
    for (const std::size_t c : part_)
      if (is(report.columns[c])) found.push_back(c);
    return found;
  }
  ColumnNumbers interrupted() const {
    return columns_of_part([](const SolveReport& one) { return one.reason == StopReason::interrupted; });
  }
  std::int64_t iterations_of(const ColumnNumbers& columns) const;

  void begin_watches(bool ended);
  bool go_on(bool& renewed);
  void next_part(const ColumnNumbers& columns, double since_begin);
  void keep_history();
  // systems/preconditioner_parts.cpp
  std::unique_ptr<detail::PreconditionerWatch<T>> watch_preconditioner(const ColumnNumbers& columns) const;
  void renew(ColumnNumbers columns);
  void change_preconditioner();
  bool learn_of_change(double seconds);
  // systems/method_change.cpp
  bool change_method();
  bool may_follow(const detail::MethodEnd& end) const;
  detail::MethodEnd end_of(const SolveReport& one, const std::string& given_up) const;
  void drop_candidate(const ColumnNumbers& columns, const SolveReport& first);
  void begin_with_method(const ColumnNumbers& columns);
  bool learn_of_method();

  SolveOutcome& outcome_;
  std::optional<FormatSchedule<T>> schedule_;
  AutoSwitcher<T>* policy_ = nullptr;  // of the part
  double seconds_ = 0;                 // of the parts and what changed between them, without setups
  std::size_t seen_switches_ = 0, seen_failures_ = 0;
};

}  // namespace protean

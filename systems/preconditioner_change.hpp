// Preconditioner `auto` in the middle of a solve: watches the iterations, asks the rule (ChangeRule), sets candidates
// up, and ends the present part of the solve when another preconditioner is to go on from its x. Private to systems/.
//
// A candidate is set up between two iterations, while the solve waits: the setup uses all threads of the context, and
// by default these are all processors, so a setup in parallel would take time from the solve. It also reads the
// operator, whose format may change meanwhile. On a device steps that are queued end before the setup begins.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "preconditioners/choice/change_rule.hpp"
#include "preconditioners/choice/chosen.hpp"
#include "solvers/solve_report.hpp"
#include "systems/kept_columns.hpp"
#include "systems/settings.hpp"

namespace protean::detail {

// The properties of a matrix that the rules of type auto need; without entries if they are not available.
template <class T>
ChoiceTraits choice_traits_of(const LinearOperator<T>& A);

// A line for the user.
std::string text_of(const PreconditionerChange& change);
// Candidates that were tried in vain are not tried again.
void note_tried(PreconditionerChoice& choice, const std::vector<PreconditionerChange>& changes);
// The seconds of M^-1 r with that many columns, after a first one, which may prepare something. Throws OutOfMemory.
template <class T>
double application_seconds(const Preconditioner<T>& M, std::int64_t columns);

template <class T>
class PreconditionerWatch final : public SolveObserver {
 public:
  // Keeps references to A and chosen, which is jacobi. choice: what it has tried is not tried again.
  PreconditionerWatch(const LinearOperator<T>& A, Chosen<T>& chosen, const PreconditionerOptions& options,
                      const ChangeSituation& situation, const StoppingRule& rule,
                      const PreconditionerChoice& choice);

  // A trial, with a separate solver: solves with M for this many iterations from a copy of the x of all columns that
  // run. x is set to the copies and their norms. The observer sees the column that is furthest from its tolerance.
  // Returns the report of the column that has ended worst.
  using Trial = std::function<SolveReport(const Preconditioner<T>& M, KeptColumns<T>& x,
                                          std::int64_t iterations, SolveObserver& observer)>;
  struct Part {
    std::int64_t iterations = 0;  // before it
    double seconds = 0;           // before it
    double max_seconds = 0;       // of the part
    Trial trial;
    // The relative residual for reports, if the watch is shown a different one; may be empty.
    std::function<double()> relative_residual;
  };
  // The observer of the next part of the solve. next: null for none.
  SolveObserver* begin_part(SolveObserver* next, Part part);
  // This many columns run; called before on_iteration().
  void columns_left(std::int64_t running) noexcept { columns_ = running; }
  bool on_iteration(const IterationInfo& info) override;
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const IterationInfo& info) const noexcept override;
  // Ctrl-C, or the observer of the solve, has ended it.
  bool stopped() const noexcept { return stopped_; }

  // Whether the method has failed with a candidate in the last part of the solve, which had these columns and has ended
  // with these reports. If so, the candidate must go.
  bool candidate_failed(std::span<const SolveReport> reports, const ColumnNumbers& part);
  // Whether it has ended the last part because another preconditioner is to go on.
  bool wants_change() const noexcept { return !stopped_ && wanted_ != Next::none; }
  // Replaces the preconditioner after this many iterations. X: of the solve. If the first one comes back and x of a
  // column has become worse, it is again the x before the change; then the report of the column has its residual.
  void carry_out(std::span<SolveReport> reports, const MultiVectorView<T>& X, std::int64_t iterations);
  // The part with the candidate has ended by an exception, for this reason: the next carry_out() goes back.
  void give_up(std::string why);
  // The solve has ended: records what was learnt for later solves. Returns false if the watch has changed nothing.
  bool teach(PreconditionerChoice& choice, double seconds, std::span<const SolveReport> reports) const;

  // Whether a candidate is in use, and the seconds of its setup.
  bool in_use() const noexcept { return rule_.current() != nullptr; }
  double setup_seconds() const noexcept { return rule_.setup_seconds(); }
  // After teach().
  std::vector<PreconditionerChange> take_changes();
  // Called with a line for each change.
  std::function<void(const std::string&)> on_change;

 private:
  enum class Next : unsigned char { none, change, way_back };
  bool act(ChangeOrder order, const IterationInfo& info);
  bool set_up(const ChangeOrder& order, const IterationInfo& info);
  bool try_out(const IterationInfo& info);
  void fail(const IterationInfo& info, double seconds, std::string_view why, bool too_long = false);
  void refuse(const IterationInfo& info);
  PreconditionerChange record(PreconditionerChange::Action action, std::string_view from, std::string_view to,
                              const IterationInfo& info) const;
  void note(PreconditionerChange change);

  const LinearOperator<T>& A_;
  Chosen<T>& chosen_;
  const PreconditionerOptions options_;
  const StoppingRule stopping_;
  const Revision revision_;
  ChangeSituation situation_;
  ChangeRule rule_;
  SolveObserver* next_ = nullptr;
  Part part_;
  std::int64_t columns_;
  double baseline_ = 0;
  bool begun_ = false, stopped_ = false, gave_up_ = false;
  Next wanted_ = Next::none;
  IterationInfo last_;
  std::string failure_;  // of the candidate in use
  std::unique_ptr<Preconditioner<T>> ready_,
      first_;  // set up for its trial or the change; in use before that
  std::string_view ready_id_;
  KeptColumns<T> x_of_trial_, x_before_;
  std::vector<PreconditionerChange> changes_;
};

}  // namespace protean::detail

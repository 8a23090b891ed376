// Preconditioner `auto` in the middle of a solve: watches the iterations, asks the rule (ChangeRule), sets candidates
// up, and ends the present part of the solve when another preconditioner is to go on from its x. Private to systems/.
//
// A candidate is set up between two iterations, while the solve waits: the setup uses all threads of the context, and
// by default these are all processors, so a setup in parallel would take time from the solve. It also reads the
// operator, whose format may change meanwhile. On a device steps that are queued end before the setup begins.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/vector.hpp"
#include "preconditioners/choice/change_rule.hpp"
#include "preconditioners/choice/chosen.hpp"
#include "solvers/solve_report.hpp"
#include "systems/settings.hpp"

namespace protean::detail {

// The properties of a matrix that the rules of type auto need; without entries if they are not available.
template <class T>
ChoiceTraits choice_traits_of(const LinearOperator<T>& A);

// A line for the user.
std::string text_of(const PreconditionerChange& change);
// Candidates that were tried in vain are not tried again.
void note_tried(PreconditionerChoice& choice, const std::vector<PreconditionerChange>& changes);

template <class T>
class PreconditionerWatch final : public SolveObserver {
 public:
  // Keeps references to A and chosen, which is jacobi. choice: what it has tried is not tried again.
  PreconditionerWatch(const LinearOperator<T>& A, Chosen<T>& chosen, const PreconditionerOptions& options,
                      const ChangeSituation& situation, const StoppingRule& rule,
                      const PreconditionerChoice& choice);

  // Solves from x with M for this many iterations: a trial, with a separate solver.
  using Trial = std::function<SolveReport(const Preconditioner<T>& M, VectorView<T> x,
                                          std::int64_t iterations, SolveObserver& observer)>;
  // The observer of the next part of the solve, which begins after this many iterations and seconds. next: null for
  // none. max_seconds: the limit of the part. x: the x of the solve.
  SolveObserver* begin_part(SolveObserver* next, std::int64_t iterations, double seconds, double max_seconds,
                            VectorView<const T> x, Trial trial);
  bool on_iteration(const IterationInfo& info) override;
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const IterationInfo& info) const noexcept override;

  // Whether the solve, whose last part has ended with this report, goes on with another preconditioner: because the
  // rule wants a change, or because a candidate has failed.
  bool goes_on(const SolveReport& report);
  // Replaces the preconditioner. If the first one comes back and x has become worse, x is again the x before the
  // change; then the report has its residual.
  void carry_out(SolveReport& report, VectorView<T> x);
  // The part with the candidate has ended by an exception, for this reason: the next carry_out() goes back.
  void give_up(std::string why);
  // The solve has ended: records what was learnt for later solves. Returns false if the watch has changed nothing.
  bool teach(PreconditionerChoice& choice, double seconds, const SolveReport& report) const;

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
  double measure_application(const Preconditioner<T>& M) const;
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
  std::int64_t iterations_ = 0;  // of earlier parts
  double seconds_ = 0, max_seconds_ = 0, baseline_ = 0;
  bool begun_ = false, stopped_ = false;
  Next wanted_ = Next::none;
  IterationInfo last_;
  std::string failure_;  // of the candidate in use
  std::unique_ptr<Preconditioner<T>> ready_,
      first_;  // set up for its trial or the change; in use before that
  std::string_view ready_id_;
  VectorView<const T> x_;
  Trial trial_;
  Vector<T> x_of_trial_, x_before_;
  double residual_of_trial_ = 0, residual_before_ = 0;
  std::vector<PreconditionerChange> changes_;
};

}  // namespace protean::detail

// The parts of a solve (systems/run.hpp): what observes them, and how one follows another.
#include <algorithm>
#include <utility>

#include "systems/run.hpp"
#include "systems/schedule_points.hpp"

namespace protean {

template <class T>
std::int64_t SystemSolver<T>::Run::iterations_of(const ColumnNumbers& columns) const {
  std::int64_t most = 0;
  for (const std::size_t c : columns) most = std::max(most, report.columns[c].iterations);
  return most;
}

template <class T>
FormatSchedule<T>* SystemSolver<T>::Run::make_schedule(SolveObserver* next) {
  if (changes_ != Changes::schedule) return nullptr;
  return &schedule_.emplace(*matrix_.adaptive(), detail::with_entries(of_.settings_.schedule), next,
                            of_.settings_.on_event);
}

template <class T>
void SystemSolver<T>::Run::begin_watches(bool ended) {
  Sequence& now = *of_.sequence_;
  now.watch.reset(), now.methods.reset();
  if (ended || part_.empty()) return;
  now.watch = watch_preconditioner(part_);
  if (of_.settings_.method == detail::automatic_method)
    now.methods = std::make_unique<detail::MethodChanges<T>>(
        matrix_.A(), [this] { return !of_.is_still_symmetric(matrix_); });
}

template <class T>
void SystemSolver<T>::Run::operator()() {
  Sequence& now = *of_.sequence_;
  const StopReason ended = std::exchange(now.ended, StopReason::running);
  of_.stage("solving");
  outcome_.policy = changes_ == Changes::policy;
  // Another solve that changes the matrix writes its history.
  if (changes_ != Changes::none)
    seen_switches_ = matrix_.adaptive()->history().size(),
    seen_failures_ = matrix_.adaptive()->failures().size();
  begin_watches(ended != StopReason::running);
  bool renewed = false;
  {
    std::optional<detail::Finished<FormatSchedule<T>>> finished;
    if (schedule_) finished.emplace(*schedule_);
    Stopwatch clock;
    if (ended != StopReason::running) {
      report = not_begun(ended);
      for (SolveReport& one : report.columns) of_.explain_setup(one, ended);
    } else {
      report = solve_part(rules_);
    }
    matrix_.context()->synchronize();
    seconds_ = clock.lap();
    while (ended == StopReason::running && !stopped() && go_on(renewed)) {}
  }
  keep_history();
  if (schedule_) outcome_.events = schedule_->events();
  if (now.watch) (void)learn_of_change(seconds_);
  now.watch.reset();
  const bool other_method = learn_of_method();
  const bool changed = other_method || !outcome_.preconditioner_changes.empty();
  of_.describe(matrix_, outcome_);
  if (ended == StopReason::running) of_.remember(report.columns, seconds_, renewed, changed);
}

// After a part: the next one, if there is one. What columns have shown that failed comes first.
template <class T>
bool SystemSolver<T>::Run::go_on(bool& renewed) {
  const auto broke = [](const SolveReport& one) { return detail::broke_down(one); };
  const auto left = [](const SolveReport& one) {
    return detail::broke_down(one) || one.reason == StopReason::interrupted;
  };
  const detail::PreconditionerWatch<T>* const watch = of_.sequence_->watch.get();
  if (watch && watch->stopped()) return false;
  if (watch && of_.sequence_->watch->candidate_failed(report.columns, part_)) {
    change_preconditioner();
  } else if (!renewed && !columns_of_part(broke).empty() && of_.has_old_preconditioner(matrix_.A())) {
    renewed = true;
    renew(columns_of_part(left));
  } else if (change_method()) {
  } else if (const ColumnNumbers waiting = interrupted(); waiting.empty()) {
    return false;
  } else if (watch && watch->wants_change()) {
    change_preconditioner();
  } else if (several_) {
    next_part(waiting,
              report.seconds);  // a column that failed has ended the part for them, and nothing else changes
  } else {
    return false;
  }
  return true;
}

// Goes on with these columns. The solve has taken since_begin seconds.
template <class T>
void SystemSolver<T>::Run::next_part(const ColumnNumbers& columns, double since_begin) {
  of_.stage("solving");
  keep_history();
  std::vector<StoppingRule> rests;
  for (const std::size_t c : columns)
    rests.push_back(detail::rest_of(rules_[c], report.columns[c], since_begin));
  part_ = columns;
  // Columns that have ended may have had more iterations in their parts than the ones that go on.
  iterations_before_ = std::max(report.iterations, iterations_before_ + part_iterations_);
  seconds_before_ = since_begin;
  number_part(columns, since_begin);
  Stopwatch clock;
  MultiSolveReport second = solve_part(std::move(rests));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    SolveReport &one = report.columns[columns[i]], &then = second.columns[i];
    const double ended = since_begin + then.seconds;
    one = detail::joined(rules_[columns[i]], one, std::move(then), ended);
    report.iterations = std::max(report.iterations, one.iterations);
  }
  part_iterations_ = second.iterations;
  report.products += second.products, report.seconds = since_begin + second.seconds;
  report.product = second.product, report.preconditioner = second.preconditioner;
  matrix_.context()->synchronize();
  seconds_ += clock.lap();
}

// A policy counts the iterations of each part from 0.
template <class T>
void SystemSolver<T>::Run::keep_history() {
  if (changes_ == Changes::none) return;
  const Matrix<T>& adaptive = *matrix_.adaptive();
  const std::int64_t before = changes_ == Changes::policy ? iterations_before_ : 0;
  for (SwitchRecord one : adaptive.history().subspan(seen_switches_)) {
    one.iteration += before, one.begun_iteration += before;
    outcome_.switches.push_back(std::move(one));
  }
  for (FailedSwitch one : adaptive.failures().subspan(seen_failures_)) {
    one.iteration += before;
    outcome_.failed_switches.push_back(std::move(one));
  }
  seen_switches_ = adaptive.history().size(), seen_failures_ = adaptive.failures().size();
}

template <class T>
MultiSolveReport SystemSolver<T>::Run::steered(SolveObserver* next, const SolverOptions& options, Trial trial,
                                               std::function<double()> relative_residual,
                                               const std::function<MultiSolveReport(SolveObserver*)>& solve) {
  const Sequence& now = *of_.sequence_;
  SolveObserver* inner = next;
  if (now.watch)
    inner = now.watch->begin_part(inner, {.iterations = iterations_before_,
                                          .seconds = seconds_before_,
                                          .max_seconds = options.stopping.max_seconds,
                                          .trial = std::move(trial),
                                          .relative_residual = std::move(relative_residual)});
  if (now.methods) inner = now.methods->begin_part(inner, of_.method_, options, of_.has_null_space());
  policy_ = nullptr;
  if (changes_ != Changes::policy) return solve(inner);
  AutoSwitchOptions policy = of_.options_of_policy(
      matrix_, options.stopping, several_ ? std::max<std::int64_t>(std::ssize(part_), 1) : 0);
  // What is expected is of the preconditioner and the method that the solve began with.
  if ((now.watch && now.watch->in_use()) || (now.methods && now.methods->changed()))
    policy.expected_iterations = 0;
  else if (policy.expected_iterations > 0)
    policy.expected_iterations = std::max<std::int64_t>(policy.expected_iterations - iterations_before_, 1);
  policy_ = &matrix_.begin_policy(of_.settings_.machine, policy, inner);
  policy_->on_switch = of_.settings_.on_note;
  MultiSolveReport part;
  {
    const detail::Finished finished(*policy_);
    part = solve(policy_);
  }
  for (DecisionRecord one : policy_->decisions()) {
    one.iteration += iterations_before_, one.seconds += seconds_before_;
    outcome_.decisions.push_back(std::move(one));
  }
  outcome_.candidates = policy_->candidates();
  return part;
}

template <class T>
void SystemSolver<T>::Run::columns_left(std::int64_t running) {
  if (policy_) policy_->columns_left(running);
  if (of_.sequence_->watch) of_.sequence_->watch->columns_left(running);
}

// What is true of the matrix or of M, which all columns share. A column that stagnates alone waits for the others: it
// may have been asked for more digits than they.
template <class T>
bool SystemSolver<T>::Run::ends_all(StopReason reason) const {
  if (!detail::has_failed(reason)) return false;
  const Sequence& now = *of_.sequence_;
  if (now.watch && now.watch->in_use()) return true;
  if (reason == StopReason::stagnation) return false;
  if (detail::broke_down_for(reason) && of_.has_old_preconditioner(matrix_.A())) return true;
  if (reason == StopReason::indefinite_preconditioner && now.chosen && now.chosen->asked() != "jacobi")
    return true;
  SolveReport one;
  one.reason = reason;
  return may_follow(end_of(one, {}));
}

template <class T>
SolveReport SystemSolver<T>::Run::worst_of(const MultiSolveReport& all) {
  const auto rank = [](const SolveReport& one) {
    return one.converged() ? 0 : one.reason == StopReason::max_iterations ? 1 : 2;
  };
  return *std::max_element(all.columns.begin(), all.columns.end(),
                           [&](const SolveReport& a, const SolveReport& b) { return rank(a) < rank(b); });
}

#define PROTEAN_INSTANTIATE(T)                                                           \
  template std::int64_t SystemSolver<T>::Run::iterations_of(const ColumnNumbers&) const; \
  template FormatSchedule<T>* SystemSolver<T>::Run::make_schedule(SolveObserver*);       \
  template void SystemSolver<T>::Run::operator()();                                      \
  template void SystemSolver<T>::Run::next_part(const ColumnNumbers&, double);           \
  template MultiSolveReport SystemSolver<T>::Run::steered(                               \
      SolveObserver*, const SolverOptions&, Trial, std::function<double()>,              \
      const std::function<MultiSolveReport(SolveObserver*)>&);                           \
  template void SystemSolver<T>::Run::columns_left(std::int64_t);                        \
  template bool SystemSolver<T>::Run::ends_all(StopReason) const;                        \
  template SolveReport SystemSolver<T>::Run::worst_of(const MultiSolveReport&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean

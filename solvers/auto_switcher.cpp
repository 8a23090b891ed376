// The observer: when it looks, and what it does then. What is decided in each step lies in switcher/.
#include "solvers/auto_switcher.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/forked.hpp"
#include "core/parallel.hpp"

namespace protean {
namespace {

// The part by which a build on another processor slows the iterations: both share caches and memory.
constexpr double beside_spare_processor = 0.1;
constexpr std::int64_t first_look = 8;  // iteration of the first decision

// Until the work of another thread has ended. In a child of fork() it never does.
template <class Future>
void wait_for(Future& work, int process) {
  if (!work.valid()) return;
  if (detail::forked_from(process))
    detail::leave_in_parent(work);
  else
    work.wait();
}

}  // namespace

AutoSwitchOptions switch_options(const Context& context, const StoppingRule& rule,
                                 const PolicyOptions& policy) {
  AutoSwitchOptions result;
  result.policy = policy;
  const bool spare = context.space() == Space::host && context.threads() < available_threads();
  result.policy.overlapped = spare;
  if (spare) {
    // One thread builds alone. If the solve waited, all threads would build.
    result.policy.overlap_stretch = context.threads();
    result.policy.overlap_slowdown = beside_spare_processor;
  }
  result.goal = rule.relative_tolerance, result.absolute_goal = rule.absolute_tolerance;
  result.max_iterations = rule.max_iterations;
  return result;
}

template <class T>
AutoSwitcher<T>::AutoSwitcher(AdaptiveOperator<T>& A, const CostModel& model, FormatSurvey survey,
                              const AutoSwitchOptions& options, SolveObserver* inner)
    : A_(A),
      model_(model),
      survey_(std::move(survey)),
      options_(options),
      inner_(inner),
      time_(on_device(), A.now()) {
  check_policy(options_.policy);
  // The solver may then run the whole solve in one kernel in shared memory, which is faster than products in
  // any format.
  A_.show_rows(true);
}

template <class T>
AutoSwitcher<T>::~AutoSwitcher() {
  if (!finished_) A_.show_rows(false);
  leaving_ = true;
  wait_for(surveying_, process_), wait_for(forecasting_order_, process_);
}

template <class T>
void AutoSwitcher<T>::begin(const AutoSwitchOptions& options, SolveObserver* inner) {
  check_policy(options.policy);
  finish();
  options_ = options, inner_ = inner, finished_ = false, leaving_ = false;
  time_.begin_another(A_.now());
  forecast_ = {}, last_iteration_ = -1, switches_ = 0, to_be_recorded_ = false, decisions_.clear();
  // What was not ready when the last solve ended is asked for again.
  if (surveying_.valid()) surveying_ = {}, survey_started_ = false;
  if (forecasting_order_.valid()) forecasting_order_ = {}, order_asked_ = false;
  if (surveyed_) find_current();
  next_look_ = surveyed_ && candidates_[current_].measured ? 1 : first_look;
  A_.show_rows(true);
}

template <class T>
bool AutoSwitcher<T>::on_device() const {
  return A_.context()->space() == Space::device;
}

template <class T>
bool AutoSwitcher<T>::on_iteration(const IterationInfo& info) {
  const double now = A_.now();
  if (!time_.begun()) {
    time_.begin(now, info.seconds);
    if (info.relative_residual > 0)
      options_.goal =
          std::max(options_.goal, options_.absolute_goal * info.relative_residual / info.residual);
    first_products_ = A_.products();
  } else {
    const bool undisturbed = !build_running_ && !A_.abandoned();
    // The first recording after a change is a part of its price, also in the first format.
    const bool recorded_anew = to_be_recorded_ && info.record_seconds != record_seconds_;
    time_.charge(now, undisturbed, undisturbed && (!surveyed_ || current_ == first_),
                 recorded_anew ? info.record_seconds : 0);
    if (recorded_anew) to_be_recorded_ = false;
  }
  record_seconds_ = info.record_seconds;
  if (inner_) {
    const bool go_on = inner_->on_iteration(info);
    time_.charge_any_format(A_.now() - now);  // the caller's observer takes as long in every format
    if (!go_on) {
      finish();
      return false;
    }
  }
  if (info.iteration != last_iteration_) forecast_.add(info.iteration, info.relative_residual);
  last_iteration_ = info.iteration;
  const double before = A_.now();
  // A cancelled build that has not ended yet disturbs the measured times, so there is no decision until then.
  if (A_.rows_kept())
    record_rows_kept(info);
  else if (build_running_ || (info.iteration >= next_look_ && !A_.abandoned()))
    look(info);
  time_.leave(before, A_.now());
  return true;
}

template <class T>
bool AutoSwitcher<T>::reads_solution(const IterationInfo& info) const noexcept {
  return inner_ && inner_->reads_solution(info);
}

template <class T>
std::int64_t AutoSwitcher<T>::next_stop() const noexcept {
  return inner_ ? inner_->next_stop() : std::numeric_limits<std::int64_t>::max();
}

template <class T>
void AutoSwitcher<T>::look(const IterationInfo& info) {
  if (!build_running_) next_look_ = next_look(info.iteration);
  if (!survey_ready()) return;
  if (!options_.alone) return decide_now(info);
  if (options_.alone([&] { decide_now(info); })) return;
  SwitchDecision stay;
  stay.candidate = current_, stay.why.reason = Reason::shared;
  record(stay, info);
}

template <class T>
void AutoSwitcher<T>::decide_now(const IterationInfo& info) {
  BuildState build = BuildState::none;
  if (build_running_) {
    const Preparation preparation = A_.preparation();
    build = preparation == Preparation::running ? BuildState::running : BuildState::ready;
    if (preparation == Preparation::failed || preparation == Preparation::none) {
      (void)A_.adopt_prepared(info.iteration);  // records why
      mark_failed(building_);
      build_running_ = false, time_.disturbed();
      return;
    }
  } else {
    if (on_device()) begin_order_forecast();
    take_order_forecast();
    survey_new_order();
    if (!measuring_pays()) {
      SwitchDecision stay;
      stay.candidate = current_, stay.remaining = remaining();
      stay.why.reason = Reason::no_gain_by_table;
      return record(stay, info);
    }
    measure();
    predict();
  }
  PolicyState state;
  state.iteration = info.iteration, state.seconds = elapsed(), state.stay_seconds = time_.stay_seconds();
  state.iteration_seconds = time_.pace();
  products_per_iteration_ = info.iteration > 0 ? static_cast<double>(A_.products() - first_products_) /
                                                     static_cast<double>(info.iteration)
                                               : 1;
  state.products_per_iteration = std::max(1.0, std::round(products_per_iteration_));
  state.permute_seconds = permuted_.vectors * permute_seconds_;
  state.record_seconds = record_seconds_;
  state.remaining = remaining();
  state.candidates = candidates_, state.first = first_, state.current = current_;
  state.switches = switches_, state.build = build, state.building = building_, state.granted = granted_;
  state.price = price_, state.excess_before = excess_before_;
  SwitchDecision decision = decide(options_.policy, state);
  if (decision.action == SwitchAction::begin && options_.approve &&
      !options_.approve(candidates_[current_].product_seconds,
                        candidates_[decision.candidate].product_seconds)) {
    SwitchDecision stay;
    stay.candidate = current_, stay.remaining = state.remaining;
    stay.why = {.reason = Reason::not_approved, .name = candidates_[decision.candidate].name};
    decision = std::move(stay);
    next_look_ = info.iteration + 1;
  }
  record(decision, info);
  act(decision, info.iteration);
}

template <class T>
void AutoSwitcher<T>::finish() {
  if (finished_) return;
  finished_ = true;
  leaving_ = true;
  time_.end(A_.now());
  A_.show_rows(false);
  wait_for(surveying_, process_), wait_for(forecasting_order_, process_);
  if (build_running_) {
    build_running_ = false;
    A_.cancel(last_iteration_, "the solve ended first");
    records_[building_].why = text_of({.reason = Reason::solve_ended});
  }
  // For the record only. On a device it takes time, which nobody has asked for where nothing changed.
  if (surveyed_ && (!on_device() || (current_ != first_ && measuring_is_little()))) measure();
}

template class AutoSwitcher<float>;
template class AutoSwitcher<double>;

}  // namespace protean

#include "solvers/switcher/switching.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace protean::detail {
namespace {

constexpr std::int64_t first_look = 8;  // iteration of the first decision

}  // namespace

template <class T>
Switching<T>::Switching(Matrix<T>& A, const CostModel& model, FormatSurvey survey,
                        const AutoSwitchOptions& options, SolveObserver* inner,
                        const std::function<void(const std::string&)>& listener)
    : s_(A, model, options, listener),
      inner_(inner),
      order_(s_),
      surveys_(s_, std::move(survey), order_),
      prices_(s_, order_),
      measurements_(s_, order_),
      next_look_(first_look) {
  check_policy(s_.options.policy);
  s_.columns = ProductColumns::of_solve(options.columns);
  s_.A.measure_products_of(s_.columns.width);
  s_.candidates.let_round(options.no_rounding.empty());
  // The solver may then run the whole solve in one kernel in shared memory, which is faster than products in
  // any format.
  s_.A.show_rows(true);
}

template <class T>
Switching<T>::~Switching() {
  if (!finished_) s_.A.show_rows(false);
  s_.leaving = true;
  wait_for_threads();
}

template <class T>
void Switching<T>::begin(const AutoSwitchOptions& options, SolveObserver* inner) {
  check_policy(options.policy);
  finish();
  take_columns(ProductColumns::of_solve(options.columns));
  s_.options = options, inner_ = inner, finished_ = false, s_.leaving = false;
  s_.time.begin_another(s_.A.now());
  s_.iterations.begin(options), s_.log.begin(), to_be_recorded_ = false;
  s_.candidates.let_round(options.no_rounding.empty());
  progress_.begin(), corrections_ = 0, refusal_recorded_ = false;
  const Candidates& candidates = s_.candidates;
  const std::size_t before = candidates.current();
  surveys_.begin_another(), order_.begin_another(), measurements_.begin_another();
  if (!surveys_.done() || candidates.current() != before) measurements_.changed();
  next_look_ = surveys_.done() && candidates[candidates.current()].seen.measured ? 1 : first_look;
  s_.A.show_rows(true);
}

// What is known of products with other numbers of vectors is scaled.
template <class T>
void Switching<T>::take_columns(const ProductColumns& now) {
  if (now == s_.columns) return;
  const bool one_pass = s_.one_pass();
  count_products(s_.columns, one_pass);
  const ProductColumns before = std::exchange(s_.columns, now);
  s_.A.measure_products_of(now.width);
  if (surveys_.done()) prices_.columns_changed(before);
  if (now.width == before.width && (one_pass || now.running == before.running)) return;
  if (surveys_.done()) measurements_.columns_changed();
  s_.time.columns_changed(std::min(1.0, static_cast<double>(now.width) / static_cast<double>(before.width)));
}

template <class T>
void Switching<T>::count_products(const ProductColumns& of, bool one_pass) {
  const std::int64_t all = s_.A.products();
  products_ += static_cast<double>(all - counted_) / static_cast<double>(of.counted(one_pass));
  counted_ = all;
}

template <class T>
void Switching<T>::charge(const IterationInfo& info, double now) {
  if (!s_.time.begun()) {
    s_.time.begin(now, info.seconds);
    s_.iterations.first(info);
    counted_ = s_.A.products(), products_ = 0, first_iteration_ = info.iteration;
    return;
  }
  const bool undisturbed = !build_.running && !s_.A.abandoned();
  // The first recording after a change is a part of its price, also in the first format.
  const bool recorded_anew = to_be_recorded_ && info.record_seconds != s_.record_seconds;
  const bool first = undisturbed && (!surveys_.done() || s_.candidates.in_first());
  const double progress = rounds() ? 1 / s_.candidates[s_.candidates.current()].seen.stretch : 1;
  s_.time.charge(now, undisturbed, first, recorded_anew ? info.record_seconds : 0, progress);
  // A device reports the steps of several columns in one call: as a burst of as many iterations.
  const bool at_once = s_.on_device() && s_.columns.several;
  for (std::int64_t more = s_.iterations.last() + 1; at_once && more < info.iteration; ++more) {
    s_.time.leave(now, now);
    s_.time.charge(now, undisturbed, first);
  }
  if (recorded_anew) to_be_recorded_ = false;
}

template <class T>
bool Switching<T>::on_iteration(const IterationInfo& info) {
  const double now = s_.A.now();
  charge(info, now);
  s_.record_seconds = info.record_seconds;
  double before = now;
  if (inner_) {
    const bool go_on = inner_->on_iteration(info);
    before = s_.A.now();
    s_.time.charge_any_format(before - now);  // the caller's observer takes as long in every format
    if (!go_on) {
      finish();
      return false;
    }
  }
  s_.iterations.add(info);
  judge_rounding(info);
  // A cancelled build that has not ended yet disturbs the measured times, so there is no decision until then.
  if (s_.A.rows_kept())
    record_rows_kept(info);
  else if (asks_about_rounding(info) || build_.running || (info.iteration >= next_look_ && !s_.A.abandoned()))
    look(info);
  else  // a clock may take longer than what was done here
    return s_.time.leave(before, before), true;
  s_.time.leave(before, s_.A.now());
  return true;
}

template <class T>
void Switching<T>::record(const SwitchDecision& decision, const IterationInfo& info) {
  s_.log.add(decision, s_.candidates[decision.candidate].seen.name, info.iteration,
             s_.time.since_begin(s_.A.now()));
}

// Once for each solve.
template <class T>
void Switching<T>::record_rows_kept(const IterationInfo& info) {
  if (s_.log.empty())
    s_.log.add_stay(std::string(s_.A.running().name()), {.reason = Reason::rows_kept}, info.iteration,
                    s_.elapsed());
}

// Whether products are with rounded values.
template <class T>
bool Switching<T>::rounds() const {
  return surveys_.done() && s_.candidates.rounds(s_.candidates.current());
}

// Counts the iterations again that values in float took so far, if more is known of how many they stand for.
template <class T>
void Switching<T>::judge_rounding(const IterationInfo& info) {
  progress_.add(info.iteration, info.relative_residual, rounds());
  if (!rounds()) return;
  const double before = s_.candidates[s_.candidates.current()].seen.stretch;
  const std::optional<double> now = progress_.stretch();
  if (!now) return;
  s_.candidates.stretch_of_rounding(*now, 0);
  s_.time.charge_any_format(s_.time.first_pace() * progress_.iterations() * (1 / *now - 1 / before));
}

// Each time that b - A x has been computed with the given values, or when values in float must be left.
template <class T>
bool Switching<T>::asks_about_rounding(const IterationInfo& info) {
  if (!rounds() || no_way_back_) return false;
  const bool corrected = std::exchange(corrections_, info.corrections) != info.corrections;
  return corrected || !s_.options.no_rounding.empty() || !s_.A.left_rounding().empty();
}

template <class T>
SwitchDecision Switching<T>::stay(Why why) const {
  SwitchDecision result;
  result.candidate = s_.candidates.current(), result.why = std::move(why);
  return result;
}

template <class T>
void Switching<T>::look(const IterationInfo& info) {
  if (!build_.running) next_look_ = detail::next_look(info.iteration);
  if (!surveys_.ready()) return;
  if (s_.options.rounding && !s_.options.no_rounding.empty() && !std::exchange(refusal_recorded_, true))
    s_.stay("values in float", {.reason = Reason::rounding_refused, .other = s_.options.no_rounding});
  if (!s_.options.alone) return decide_now(info);
  if (!s_.options.alone([&] { decide_now(info); })) record(stay({.reason = Reason::shared}), info);
}

template <class T>
void Switching<T>::decide_now(const IterationInfo& info) {
  BuildState build = BuildState::none;
  if (build_.running) {
    const Preparation preparation = s_.A.preparation();
    build = preparation == Preparation::running ? BuildState::running : BuildState::ready;
    if (preparation == Preparation::failed || preparation == Preparation::none) {
      (void)s_.A.adopt_prepared(info.iteration);  // records why
      s_.candidates.fail(build_.candidate, failure());
      build_.running = false, s_.time.disturbed();
      return;
    }
  } else {
    if (s_.on_device()) order_.ask();
    order_.take();
    surveys_.again_in_new_order();
    if (!measurements_.pays(prices_)) {
      SwitchDecision none = stay({.reason = Reason::no_gain_by_table});
      none.remaining = s_.iterations.remaining();
      return record(none, info);
    }
    if (!measurements_.make()) next_look_ = s_.iterations.last() + s_.options.policy.trial_products;
    prices_.predict();
  }
  const PolicyState now = state(info, build);
  SwitchDecision decision = decide(s_.options.policy, now);
  if (const SwitchCandidate& chosen = s_.candidates[decision.candidate].seen;
      decision.action == SwitchAction::begin && s_.options.approve &&
      !s_.options.approve(now.candidates[now.current].product_seconds, chosen.product_seconds)) {
    decision = stay({.reason = Reason::not_approved, .name = chosen.name});
    decision.remaining = now.remaining;
    next_look_ = info.iteration + 1;
  }
  record(decision, info);
  act(decision, info.iteration);
}

// What the rule is given.
template <class T>
PolicyState Switching<T>::state(const IterationInfo& info, BuildState build) {
  PolicyState state;
  state.iteration = info.iteration, state.seconds = s_.elapsed();
  state.stay_seconds = s_.time.stay_seconds(), state.iteration_seconds = s_.time.undisturbed_pace();
  count_products(s_.columns, s_.candidates[s_.candidates.current()].target.one_pass);
  const std::int64_t done = info.iteration - first_iteration_;
  state.products_per_iteration =
      done > 0 ? std::max(1.0, std::round(products_ / static_cast<double>(done))) : 1;
  state.permute_seconds = order_.permuting_at_change();
  state.record_seconds = s_.record_seconds;
  state.remaining = s_.iterations.remaining();
  state.candidates = s_.candidates.seen();
  state.first = s_.candidates.first(), state.current = s_.candidates.current();
  if (rounds() && !no_way_back_)
    state.jump = info.jump, state.left_rounding = s_.A.left_rounding(),
    state.no_rounding = s_.options.no_rounding;
  state.trial_iterations = s_.iterations.per_tenth();
  state.switches = s_.log.switches(), state.build = build, state.building = build_.candidate;
  state.granted = build_.granted, state.price = build_.price, state.excess_before = build_.excess_before;
  return state;
}

template <class T>
void Switching<T>::finish() {
  if (finished_) return;
  finished_ = true;
  s_.leaving = true;
  s_.time.end(s_.A.now());
  s_.A.show_rows(false);
  wait_for_threads();
  if (build_.running) {
    build_.running = false;
    s_.A.cancel(s_.iterations.last(), "the solve ended first");
    s_.candidates[build_.candidate].seen.why = text_of({.reason = Reason::solve_ended});
  }
  // Only for the record. If it takes time, it is left out when nothing has changed.
  if (surveys_.done() &&
      (measurements_.are_free() || (!s_.candidates.in_first() && measurements_.is_little())))
    (void)measurements_.make();
}

template class Switching<float>;
template class Switching<double>;

}  // namespace protean::detail

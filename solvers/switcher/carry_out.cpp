// Carries out a decision with the operator, and learns from what it took.
#include <string>
#include <string_view>

#include "solvers/switcher/switching.hpp"

namespace protean::detail {

template <class T>
void Switching<T>::act(const SwitchDecision& decision, std::int64_t iteration) {
  if (decision.action == SwitchAction::stay) return;
  // The time of queued iterations does not belong to the change, so wait for them first.
  if (s_.on_device() && !(decision.action == SwitchAction::begin && s_.options.policy.overlapped))
    s_.A.context()->synchronize();
  const double begin = s_.A.now();
  carry_out(decision, iteration);
  s_.time.pause(s_.A.now() - begin);
}

template <class T>
void Switching<T>::carry_out(const SwitchDecision& decision, std::int64_t iteration) {
  Candidates& candidates = s_.candidates;
  const std::size_t chosen = decision.candidate, first = candidates.first();
  switch (decision.action) {
    case SwitchAction::stay:
      return;
    case SwitchAction::begin:
      return begin_build(decision, iteration);
    case SwitchAction::adopt:
      build_.running = false;
      if (s_.A.adopt_prepared(iteration))
        switched(chosen, "built next to the solve");
      else
        candidates.fail(chosen, failure());
      return;
    case SwitchAction::cancel:
      build_.running = false, s_.time.disturbed();
      s_.A.cancel(iteration, "it cost too much");
      prices_.build_was_dear();
      candidates.lose(chosen, decision.why);
      return;
    case SwitchAction::go_back:
      build_.running = false;  // the way back cancels it
      if (decision.why.reason == Reason::slower_than_first)
        candidates.lose(candidates.current(), decision.why);
      else if (decision.why.reason != Reason::rounding_refused)  // which is of this solve alone
        candidates.lose_rounding(decision.why);
      if (s_.A.switch_to(spec_of(first), iteration, decision.reason)) {
        switched(first, "back to the first format");
        return;
      }
      // It could not be built: stay, and do not try again.
      candidates[first].seen.product_seconds = candidates[candidates.current()].seen.product_seconds;
      if (candidates.rounds(candidates.current())) s_.A.leave_rounding(decision.reason), no_way_back_ = true;
      return;
  }
}

template <class T>
void Switching<T>::begin_build(const SwitchDecision& decision, std::int64_t iteration) {
  const std::size_t chosen = decision.candidate;
  build_.candidate = chosen, build_.granted = decision.granted;
  build_.price = decision.worst_seconds, build_.excess_before = decision.excess_seconds;
  build_.loads_kernels = prices_.needs_loading(chosen);
  if (s_.options.policy.overlapped) {
    s_.A.prepare(spec_of(chosen), decision.reason, iteration);
    build_.running = true;
  } else if (s_.A.switch_to(spec_of(chosen), iteration, decision.reason)) {
    switched(chosen, "while the solve waited");
  } else {
    s_.candidates.fail(chosen, failure());
  }
}

// The order is named only if it changes.
template <class T>
FormatSpec Switching<T>::spec_of(std::size_t candidate) const {
  FormatSpec spec = s_.candidates[candidate].target.spec;
  if (spec.order == s_.A.order_id()) spec.order.clear();
  spec.hand_over_order = false;  // the price is the price on the GPU
  return spec;
}

template <class T>
Why Switching<T>::failure() const {
  return {.reason = Reason::change_failed,
          .other = s_.A.failures().empty() ? std::string() : s_.A.failures().back().why};
}

template <class T>
void Switching<T>::switched(std::size_t candidate, std::string_view how) {
  const SwitchRecord& change = s_.A.history().back();
  count_products(s_.columns, s_.candidates[s_.candidates.current()].target.one_pass);
  if (candidate != s_.candidates.first()) {
    s_.log.count();
    prices_.learn(candidate, change, build_.loads_kernels);
  }
  s_.candidates.change_to(candidate, change.bytes_after);
  s_.candidates[candidate].target.one_pass = s_.one_pass();
  measurements_.changed();
  s_.time.changed();
  to_be_recorded_ = true;
  next_look_ = change.iteration + s_.options.policy.trial_products;
  s_.log.tell(change, how);
}

#define PROTEAN_INSTANTIATE(T)                                                                     \
  template void Switching<T>::act(const SwitchDecision& decision, std::int64_t iteration);         \
  template void Switching<T>::carry_out(const SwitchDecision& decision, std::int64_t iteration);   \
  template void Switching<T>::begin_build(const SwitchDecision& decision, std::int64_t iteration); \
  template FormatSpec Switching<T>::spec_of(std::size_t candidate) const;                          \
  template Why Switching<T>::failure() const;                                                      \
  template void Switching<T>::switched(std::size_t candidate, std::string_view how);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail

// Carries out a decision with the operator, and learns from what it took.
#include "solvers/auto_switcher.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "operators/kernel_loading.hpp"

namespace protean {

template <class T>
void AutoSwitcher<T>::act(const SwitchDecision& decision, std::int64_t iteration) {
  if (decision.action == SwitchAction::stay) return;
  // The time of queued iterations does not belong to the change, so wait for them first.
  if (on_device() && !(decision.action == SwitchAction::begin && options_.policy.overlapped))
    A_.context()->synchronize();
  const double begin = A_.now();
  carry_out(decision, iteration);
  time_.pause(A_.now() - begin);
}

template <class T>
void AutoSwitcher<T>::carry_out(const SwitchDecision& decision, std::int64_t iteration) {
  const std::size_t chosen = decision.candidate;
  switch (decision.action) {
    case SwitchAction::stay:
      return;
    case SwitchAction::begin:
      building_ = chosen, granted_ = decision.granted;
      price_ = decision.worst_seconds, excess_before_ = decision.excess_seconds;
      loads_kernels_ = needs_loading(chosen);
      if (options_.policy.overlapped) {
        A_.prepare(spec_of(chosen), decision.reason, iteration);
        build_running_ = true;
      } else if (A_.switch_to(spec_of(chosen), iteration, decision.reason)) {
        switched(chosen, "while the solve waited");
      } else {
        mark_failed(chosen);
      }
      return;
    case SwitchAction::adopt:
      build_running_ = false;
      if (A_.adopt_prepared(iteration))
        switched(chosen, "built beside the solve");
      else
        mark_failed(chosen);
      return;
    case SwitchAction::cancel:
      build_running_ = false, time_.disturbed();
      A_.cancel(iteration, "it cost too much");
      // The next build is likely to be slowed down in the same way.
      conversion_scale_ *= 2;
      order_scale_ *= 2;
      mark_lost(chosen, decision.why);
      return;
    case SwitchAction::go_back:
      mark_lost(current_, decision.why);
      if (A_.switch_to(spec_of(first_), iteration, decision.reason))
        switched(first_, "back to the first format");
      else  // it could not be built: stay, and do not try again
        candidates_[first_].product_seconds = candidates_[current_].product_seconds;
      return;
  }
}

template <class T>
void AutoSwitcher<T>::mark_lost(std::size_t candidate, const Why& why) {
  candidates_[candidate].lost = true, candidates_[candidate].why = text_of(why);
  records_[candidate].lost = true, records_[candidate].why = text_of(why);
}

// An order that failed with one format is not tried with another one: its price would be paid again.
template <class T>
void AutoSwitcher<T>::mark_failed(std::size_t candidate) {
  const std::string order = candidates_[candidate].order;
  const Why why = failure();
  mark_lost(candidate, why);
  if (order == candidates_[current_].order) return;
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    if (candidates_[i].order == order && candidates_[i].admitted && !candidates_[i].lost)
      mark_lost(i,
                {.reason = Reason::order_failed, .name = candidates_[candidate].name, .other = text_of(why)});
}

// The order is named only where it changes.
template <class T>
FormatSpec AutoSwitcher<T>::spec_of(std::size_t candidate) const {
  FormatSpec spec = targets_[candidate].spec;
  if (spec.order == A_.order_id()) spec.order.clear();
  spec.hand_over_order = false;  // the price is that of the GPU
  return spec;
}

template <class T>
Why AutoSwitcher<T>::failure() const {
  return {.reason = Reason::change_failed,
          .other = A_.failures().empty() ? std::string() : A_.failures().back().why};
}

template <class T>
void AutoSwitcher<T>::switched(std::size_t candidate, const std::string& how) {
  const SwitchRecord& change = A_.history().back();
  CandidateRecord& seen = records_[candidate];
  if (candidate != first_) {
    ++switches_;
    // Beside the solve a build has fewer threads, so its time is scaled to all threads.
    const double stretch = change.overlapped ? options_.policy.overlap_stretch : 1;
    const double built = (change.convert_seconds - change.order_seconds) / stretch;
    // Where kernels were loaded, that says nothing of the next time.
    const bool loaded = loads_kernels_;
    if (loaded) detail::count_loading();
    // In a change of order the conversion is the smaller part, of which little can be learnt.
    if (!loaded && change.from_order == change.to_order && seen.predicted_convert > 0)
      conversion_scale_ *= std::clamp(built / seen.predicted_convert, 0.25, 4.0);
    if (!loaded) built_[candidate] = built;
    seen.measured_convert = change.convert_seconds;
    candidates_[candidate].convert_seconds = built;
  }
  if (candidates_[current_].measured) last_in_[candidates_[current_].order] = current_;
  seen.ran = true, seen.bytes = candidates_[candidate].bytes = change.bytes_after;
  current_ = candidate;
  candidates_[candidate].measured = false;
  time_.changed(), estimated_ = false;
  to_be_recorded_ = true;
  next_look_ = change.iteration + options_.policy.trial_products;
  tell(change, how);
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  template void AutoSwitcher<T>::act(const SwitchDecision& decision, std::int64_t iteration);       \
  template void AutoSwitcher<T>::carry_out(const SwitchDecision& decision, std::int64_t iteration); \
  template void AutoSwitcher<T>::mark_lost(std::size_t candidate, const Why& why);                  \
  template void AutoSwitcher<T>::mark_failed(std::size_t candidate);                                \
  template FormatSpec AutoSwitcher<T>::spec_of(std::size_t candidate) const;                        \
  template Why AutoSwitcher<T>::failure() const;                                                    \
  template void AutoSwitcher<T>::switched(std::size_t candidate, const std::string& how);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean

// Whether another order of the rows is considered beside the present one: whether it can change at all, and what a
// sample of rows says of its gain.
#include "solvers/auto_switcher.hpp"

#include <unistd.h>

#include <chrono>
#include <system_error>

#include "core/background.hpp"
#include "core/ordering.hpp"
#include "core/signals_blocked.hpp"

namespace protean {
namespace {

constexpr double order_forecast_seconds = 3e-3;  // assumed, on a device

}  // namespace

template <class T>
bool AutoSwitcher<T>::forecasts_beside() const {
  return options_.policy.overlapped || on_device();
}

// Why the order of the rows cannot change, whatever the matrix is. Reason none where it can.
template <class T>
Why AutoSwitcher<T>::why_no_order() const {
  if (A_.elements()) return {.reason = Reason::order_of_elements};
  if (A_.context()->deterministic()) return {.reason = Reason::order_deterministic};
  if (A_.rows() != A_.cols()) return {.reason = Reason::order_not_square};
  if (static_cast<std::size_t>(A_.rows()) * sizeof(T) <= options_.cached_x)
    return {.reason = Reason::order_cached, .count = A_.rows()};
  if (options_.order == A_.order_id()) return {.reason = Reason::order_present, .name = options_.order};
  for (const OrderingEntry& entry : orderings())
    if (entry.id == options_.order && !entry.unavailable.empty())
      return {.reason = Reason::order_unavailable,
              .name = options_.order,
              .other = std::string(entry.unavailable)};
  if (!A_.permuted()) return {.reason = Reason::order_shared};
  // A build beside the solve is cancelled where it costs more than was assumed. A solve that waits has no such way out.
  if (!on_device() && !options_.policy.overlapped && !model_.knows_order(options_.order))
    return {.reason = Reason::order_unpriced, .name = options_.order};
  return {};
}

// On a device it copies many rows, so it comes after the survey, and later in the solve.
template <class T>
void AutoSwitcher<T>::begin_order_forecast() {
  if (order_asked_ || options_.order.empty()) return;
  if (Why why = why_no_order(); why.reason != Reason::none) {
    order_asked_ = true;
    return leave_order(std::move(why));
  }
  if (on_device() && !pays_beside(order_forecast_seconds)) return;
  order_asked_ = true;
  permuted_ = *A_.permuted();
  const auto work = [this, pattern = A_.ordered_source().pattern] {
    const auto forecast = [&] {
      return options_.forecast_order ? options_.forecast_order(pattern, sizeof(T))
                                     : forecast_order(*A_.context(), pattern, sizeof(T));
    };
    if (!on_device()) return forecast();
    // On a stream of its own, so that it waits for no iterations.
    const BackgroundWork background(A_.context(), leaving_, 1, nullptr, BackgroundPriority::before_solve);
    return forecast();
  };
  // Another stream may read the pattern without waiting for this one: iterations of this solve, which were queued
  // after it was made, have been reported.
  try {
    const detail::SignalsBlocked blocked;
    process_ = getpid();
    forecasting_order_ = std::async(forecasts_beside() ? std::launch::async : std::launch::deferred, work);
  } catch (const std::system_error& error) {
    return leave_order({.reason = Reason::order_no_thread, .other = error.what()});
  }
  if (!forecasts_beside()) forecasting_order_.wait();
}

// Adds each format in the other order, once it is known what that order gains.
template <class T>
void AutoSwitcher<T>::take_order_forecast() {
  if (!forecasting_order_.valid() ||
      forecasting_order_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return;
  try {
    order_forecast_ = forecasting_order_.get();
  } catch (const std::exception& error) {
    return leave_order({.reason = Reason::order_not_forecast, .other = error.what()});
  }
  const double saved = 1 - order_forecast_.product_ratio, least = options_.policy.hysteresis;
  if (saved < least)
    return leave_order({.reason = Reason::order_small_gain,
                        .other = lines_text(order_forecast_),
                        .share = saved,
                        .least_share = least});
  // Also where the host would find it because of the forecast's error.
  if (on_device() && 2 * order_forecast_.levels > most_levels_on_device)
    return leave_order({.reason = Reason::order_many_levels,
                        .iterations = order_forecast_.levels,
                        .count = most_levels_on_device});
  const std::size_t formats = targets_.size();
  for (std::size_t i = 0; i < formats; ++i) {
    if (!candidates_[i].admitted) continue;
    SwitchTarget target = targets_[i];
    target.bytes = candidates_[i].bytes;  // exact where it ran
    add_candidate(std::move(target), options_.order);
  }
}

#define PROTEAN_INSTANTIATE(T)                             \
  template bool AutoSwitcher<T>::forecasts_beside() const; \
  template Why AutoSwitcher<T>::why_no_order() const;      \
  template void AutoSwitcher<T>::begin_order_forecast();   \
  template void AutoSwitcher<T>::take_order_forecast();
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean

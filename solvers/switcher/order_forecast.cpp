#include "solvers/switcher/order_forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <system_error>
#include <utility>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"
#include "core/vector.hpp"

namespace protean::detail {
namespace {

constexpr double order_forecast_seconds = 3e-3;  // assumed, on a device
// Relative, of OrderForecast::ratio(): what a line of x costs differs between machines.
constexpr double order_uncertainty = 0.3;

}  // namespace

template <class T>
void OtherOrder<T>::begin_another() {
  if (work_.asked()) work_.forget(), asked_ = false;
}

// Why the order of the rows cannot change, whatever the matrix is. Reason none if it can.
template <class T>
Why OtherOrder<T>::why_not() const {
  const Matrix<T>& A = s_.A;
  const AutoSwitchOptions& options = s_.options;
  if (A.elements()) return {.reason = Reason::order_of_elements};
  if (A.context()->deterministic()) return {.reason = Reason::order_deterministic};
  if (A.rows() != A.cols()) return {.reason = Reason::order_not_square};
  if (static_cast<std::size_t>(A.rows() * s_.columns.width) * sizeof(T) <= options.cached_x)
    return {.reason = Reason::order_cached, .count = A.rows()};
  if (options.order == A.order_id()) return {.reason = Reason::order_present, .name = options.order};
  for (const OrderingEntry& entry : orderings())
    if (entry.id == options.order && !entry.unavailable.empty())
      return {.reason = Reason::order_unavailable,
              .name = options.order,
              .other = std::string(entry.unavailable)};
  if (!A.permuted()) return {.reason = Reason::order_shared};
  // A build next to the solve is cancelled if it costs more than was assumed. A solve that waits has no such way out.
  if (!s_.on_device() && !options.policy.overlapped && !s_.model.knows_order(options.order))
    return {.reason = Reason::order_unpriced, .name = options.order};
  return {};
}

template <class T>
void OtherOrder<T>::leave(Why why) {
  s_.stay(fmt::format("order {}", s_.options.order), std::move(why));
}

template <class T>
void OtherOrder<T>::ask() {
  if (asked_ || s_.options.order.empty()) return;
  if (Why why = why_not(); why.reason != Reason::none) {
    asked_ = true;
    return leave(std::move(why));
  }
  if (s_.on_device() && !s_.pays_beside(order_forecast_seconds)) return;
  asked_ = true;
  permuted_ = *s_.A.permuted();
  const auto work = [&s = s_, pattern = s_.A.ordered_source().pattern] {
    const auto forecast = [&] {
      return s.options.forecast_order ? s.options.forecast_order(pattern, sizeof(T))
                                      : forecast_order(*s.A.context(), pattern, sizeof(T));
    };
    if (!s.on_device()) return forecast();
    // On a separate stream, so that it waits for no iterations.
    const BackgroundWork background(s.A.context(), s.leaving, 1, nullptr, BackgroundPriority::before_solve);
    return forecast();
  };
  // Another stream may read the pattern without waiting for this one: iterations of this solve, which were queued
  // after it was made, have been reported.
  try {
    work_.begin(beside(), work);
  } catch (const std::system_error& error) {
    leave({.reason = Reason::order_no_thread, .other = error.what()});
  }
}

template <class T>
void OtherOrder<T>::take() {
  if (!work_.asked() || !work_.ready()) return;
  try {
    forecast_ = work_.take();
  } catch (const std::exception& error) {
    return leave({.reason = Reason::order_not_forecast, .other = error.what()});
  }
  const double saved = 1 - ratio(forecast_.csr_bytes), least = s_.options.policy.hysteresis;
  if (saved < least)
    return leave({.reason = Reason::order_small_gain,
                  .other = detail::lines_text(forecast_),
                  .share = saved,
                  .least_share = least});
  // Also if the host would find it because of the error of the forecast.
  if (s_.on_device() && 2 * forecast_.levels > most_levels_on_device)
    return leave({.reason = Reason::order_many_levels,
                  .iterations = forecast_.levels,
                  .count = most_levels_on_device});
  const std::size_t present = s_.candidates.size();
  for (std::size_t i = 0; i < present; ++i) {
    if (!s_.candidates[i].seen.admitted) continue;
    SwitchTarget target = s_.candidates[i].target;
    target.bytes = s_.candidates[i].seen.bytes;  // exact if it ran
    s_.candidates.add(std::move(target), s_.options.order);
  }
}

template <class T>
void OtherOrder<T>::estimate(const CostQuery& query) {
  const Candidate& current = s_.candidates[s_.candidates.current()];
  estimate_ = s_.model.ordering(query, s_.options.order, current.format, current.seen.bytes, 1);
}

// A line of x is as many lines as vectors lie side by side.
template <class T>
double OtherOrder<T>::ratio(double bytes_a_row) const {
  OrderForecast of_columns = forecast_;
  of_columns.line_bytes *= static_cast<double>(s_.columns.width);
  return of_columns.ratio(bytes_a_row);
}

template <class T>
CostPrediction OtherOrder<T>::in_it(CostPrediction cost, std::size_t bytes) const {
  // The gain of the order is a part of the time of the product, which is larger if the matrix has fewer bytes.
  cost.product_seconds *= ratio(static_cast<double>(bytes) / static_cast<double>(s_.A.rows()));
  cost.uncertainty = std::hypot(cost.uncertainty, order_uncertainty);
  return cost;
}

template <class T>
void OtherOrder<T>::predict(double product_seconds) {
  order_seconds_ = seconds(product_seconds);
  if (!permute_measured_)
    permute_seconds_ = forecast_.permutation_share(sizeof(T)) * estimate_.product_seconds * product_seconds;
}

template <class T>
double OtherOrder<T>::seconds(double product_seconds) const {
  const double by_products = scale_ * estimate_.convert_seconds * product_seconds;
  if (!s_.on_device()) return by_products;
  // On a device levels and rows are the price, not products.
  const double by_levels = scale_ * order_seconds_on_device(forecast_.levels, s_.A.rows());
  return s_.model.knows_order(s_.options.order) ? std::max(by_products, by_levels) : by_levels;
}

template <class T>
void OtherOrder<T>::time_permutation() {
  Matrix<T>& A = s_.A;
  if (permute_measured_ || permuted_.each_product == 0 || A.order().size() == 0) return;
  permute_measured_ = true;
  const double arrived = A.now();
  try {
    Vector<T> x(A.context(), A.rows()), y(A.context(), A.rows());
    A.order().template apply<T>(x, y);  // the first use of the memory takes longer
    A.context()->synchronize();
    const double begin = A.now();
    A.order().template apply_inverse<T>(y, x);
    A.order().template apply<T>(x, y);
    A.context()->synchronize();
    permute_seconds_ = (A.now() - begin) / 2;
    if (s_.on_device()) s_.time.pause(A.now() - arrived);
  } catch (const OutOfMemory&) {}  // the prediction stays
}

template <class T>
double OtherOrder<T>::permuting(const std::string& order) const {
  return order == callers_order ? 0 : permuted_.each_product * permute_seconds_;
}

template class OtherOrder<float>;
template class OtherOrder<double>;

}  // namespace protean::detail

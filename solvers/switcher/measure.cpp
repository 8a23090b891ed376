// What is measured while the solve runs, and whether the measurement is worth its time: the product of the current
// format, and the permutation of a vector.
#include "solvers/auto_switcher.hpp"

#include <algorithm>
#include <cmath>

#include "core/device_timer.hpp"
#include "core/error.hpp"

namespace protean {
namespace {

// On a device as many products are timed as take this long, which is long compared with a synchronisation.
constexpr int least_products_timed = 2, most_products_timed = 8;
constexpr double timed_seconds = 0.2e-3;
// The clock of a GPU shows no synchronisation.
constexpr double timed_seconds_of_a_gpu = 0.05e-3;
constexpr std::string_view callers_order = "none";

}  // namespace

// Work that runs beside a solve on a device: the solve should last longer.
template <class T>
bool AutoSwitcher<T>::pays_beside(double price) const {
  const Forecast left = this->remaining();
  return time_.stay_seconds() >= 4 * price || (left.known && left.low * time_.first_pace() >= 2 * price);
}

// On a device the solve waits while products are timed. Returns whether that wait is short compared with the solve so
// far.
template <class T>
bool AutoSwitcher<T>::measuring_is_little() const {
  if (!on_device()) return true;
  // An iteration takes longer than a product.
  const double pace =
      time_.present_stay_seconds() / static_cast<double>(std::max<std::int64_t>(last_iteration_, 1));
  return (2 + products_timed()) * pace <= (options_.policy.worst_factor - 1) / 2 * time_.stay_seconds();
}

// Whether the product of the first format is worth its measurement: where the account allows the time, or where a
// candidate would pay for it by the machine table.
template <class T>
bool AutoSwitcher<T>::measuring_pays() {
  if (current_ != first_ || candidates_[current_].measured || measuring_is_little()) return true;
  // An iteration, in which a product is counted, since the time of a product is not known yet: it takes longer.
  const double pace = time_.first_pace();
  if (!(pace > 0)) return true;
  estimate();
  const Forecast left = this->remaining();
  const double likely = left.known ? left.likely : static_cast<double>(last_iteration_);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i == current_ || !candidates_[i].admitted || !estimates_[i].cost.known) continue;
    if (!estimates_[i].relative) return true;
    double cost = estimates_[i].cost.scaled(pace).convert_seconds / pace + 2 + products_timed();
    if (candidates_[i].order != candidates_[current_].order) cost += order_price(pace) / pace;
    cost += (record_seconds_ + loading(i)) / pace;
    if (likely * (1 - estimates_[i].cost.product_seconds) > cost) return true;
  }
  return false;
}

// Measures the product of the current format after trial_products iterations without a build beside them.
template <class T>
void AutoSwitcher<T>::measure() {
  if (build_running_ || time_.since_change() < options_.policy.trial_products) return;
  SwitchCandidate& current = candidates_[current_];
  if (!on_device()) {
    const double measured = A_.seconds_per_product();
    // Far from what was expected: other work on the machine may have disturbed the trial, so it is made twice as long.
    const bool doubted = current_ != first_ && !current.measured &&
                         measured > current.product_seconds * (1 + 2 * current.uncertainty);
    if (doubted && time_.since_change() < 2 * options_.policy.trial_products) {
      next_look_ = last_iteration_ + options_.policy.trial_products;
      return;
    }
    time_permutation();
    if (measured > 0) current.product_seconds = measured + permuting(current.order), current.measured = true;
  } else if (!current.measured) {
    const double measured = time_products();
    time_permutation();
    current.product_seconds = measured + permuting(current.order), current.measured = true;
  }
  records_[current_].measured_product = current.product_seconds;
}

// How many products time_products() times, at most.
template <class T>
int AutoSwitcher<T>::products_timed() const {
  // An iteration takes longer than a product, so that these take less time than wanted, and not more.
  const double pace = time_.first_pace();
  if (!A_.has_machine_clock() || !detail::has_device_clock(*A_.context()) || pace <= 0)
    return most_products_timed;
  return static_cast<int>(std::clamp(std::ceil(timed_seconds_of_a_gpu / pace),
                                     static_cast<double>(least_products_timed),
                                     static_cast<double>(most_products_timed)));
}

// On a device the solve's products are queued and cannot be timed one by one. A few products with vectors of
// their own are timed instead.
template <class T>
double AutoSwitcher<T>::time_products() {
  A_.context()->synchronize();  // wait for the queued iterations
  const double arrived = A_.now();
  Vector<T> x(A_.context(), A_.cols()), y(A_.context(), A_.rows());
  const auto time = [&](int products) {
    const double begin = A_.now();
    for (int i = 0; i < products; ++i) A_.running().apply(x, y);
    A_.context()->synchronize();
    return A_.now() - begin;
  };
  if (A_.has_machine_clock() && detail::has_device_clock(*A_.context())) {
    const int products = products_timed();
    A_.running().apply(x, y);
    const auto taken = detail::device_seconds(*A_.context(), [&] {
      for (int i = 0; i < products; ++i) A_.running().apply(x, y);
    });
    time_.pause(A_.now() - arrived);
    return *taken / products;
  }
  (void)time(1);
  // The difference of two runs does not contain the time of the synchronisation.
  const double one = time(1);
  const int products =
      static_cast<int>(std::clamp(std::ceil(timed_seconds / one), static_cast<double>(least_products_timed),
                                  static_cast<double>(most_products_timed)));
  const double all = time(products), end = A_.now();
  time_.pause(end - arrived);
  return all > one ? (all - one) / (products - 1) : all / products;
}

// Measured once, in the first order that is not the caller's.
template <class T>
void AutoSwitcher<T>::time_permutation() {
  if (permute_measured_ || permuted_.each_product == 0 || A_.order().size() == 0) return;
  permute_measured_ = true;
  const double arrived = A_.now();
  try {
    Vector<T> x(A_.context(), A_.rows()), y(A_.context(), A_.rows());
    A_.order().template apply<T>(x, y);  // the first use of the memory takes longer
    A_.context()->synchronize();
    const double begin = A_.now();
    A_.order().template apply_inverse<T>(y, x);
    A_.order().template apply<T>(x, y);
    A_.context()->synchronize();
    permute_seconds_ = (A_.now() - begin) / 2;
    if (on_device()) time_.pause(A_.now() - arrived);
  } catch (const OutOfMemory&) {}  // the prediction stays
}

// Seconds that the vectors which are permuted in this order add to a product.
template <class T>
double AutoSwitcher<T>::permuting(const std::string& order) const {
  return order == callers_order ? 0 : permuted_.each_product * permute_seconds_;
}

#define PROTEAN_INSTANTIATE(T)                                    \
  template bool AutoSwitcher<T>::pays_beside(double price) const; \
  template bool AutoSwitcher<T>::measuring_is_little() const;     \
  template bool AutoSwitcher<T>::measuring_pays();                \
  template void AutoSwitcher<T>::measure();                       \
  template int AutoSwitcher<T>::products_timed() const;           \
  template double AutoSwitcher<T>::time_products();               \
  template void AutoSwitcher<T>::time_permutation();              \
  template double AutoSwitcher<T>::permuting(const std::string& order) const;
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean

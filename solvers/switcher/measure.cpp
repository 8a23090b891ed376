#include "solvers/switcher/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/device_timer.hpp"
#include "core/vector.hpp"

namespace protean::detail {
namespace {

// On a device as many products are timed as take this long, which is long compared with a synchronisation.
constexpr int least_products_timed = 2, most_products_timed = 8;
constexpr double timed_seconds = 0.2e-3;
// The clock of a GPU shows no synchronisation.
constexpr double timed_seconds_of_a_gpu = 0.05e-3;

}  // namespace

template <class T>
bool Measurements<T>::is_little() const {
  if (!s_.on_device()) return true;
  // An iteration takes longer than a product.
  const double pace =
      s_.time.present_stay_seconds() / static_cast<double>(std::max<std::int64_t>(s_.iterations.last(), 1));
  return (2 + products_timed()) * pace <= (s_.options.policy.worst_factor - 1) / 2 * s_.time.stay_seconds();
}

template <class T>
bool Measurements<T>::pays(Prices<T>& prices) const {
  const Candidates& candidates = s_.candidates;
  return !candidates.in_first() || candidates[candidates.current()].seen.measured || is_little() ||
         prices.pays_after(products_timed());
}

template <class T>
bool Measurements<T>::make() {
  const int trial = s_.options.policy.trial_products;
  if (s_.time.since_change() < trial) return true;
  Candidate& known = s_.candidates[s_.candidates.current()];
  SwitchCandidate& current = known.seen;
  if (!s_.on_device()) {
    const double measured = s_.A.seconds_per_product();
    // Far from what was expected: other work on the machine may have disturbed the trial, so it is made twice as long.
    const bool doubted = !s_.candidates.in_first() && !current.measured &&
                         measured > current.product_seconds * (1 + 2 * current.uncertainty);
    if (doubted && s_.time.since_change() < 2 * trial) return false;
    order_.time_permutation();
    if (measured > 0)
      current.product_seconds = measured + order_.permuting(current.order), current.measured = true;
  } else if (!current.measured) {
    const double measured = time_products();
    order_.time_permutation();
    current.product_seconds = measured + order_.permuting(current.order), current.measured = true;
  }
  known.measured_product = current.product_seconds;
  return true;
}

// How many products time_products() times, at most.
template <class T>
int Measurements<T>::products_timed() const {
  // An iteration takes longer than a product, so that these take less time than wanted, and not more.
  const double pace = s_.time.first_pace();
  if (!s_.A.has_machine_clock() || !has_device_clock(*s_.A.context()) || pace <= 0)
    return most_products_timed;
  return static_cast<int>(std::clamp(std::ceil(timed_seconds_of_a_gpu / pace),
                                     static_cast<double>(least_products_timed),
                                     static_cast<double>(most_products_timed)));
}

// On a device the solve's products are queued and cannot be timed one by one. A few products with vectors of
// their own are timed instead.
template <class T>
double Measurements<T>::time_products() {
  const Matrix<T>& A = s_.A;
  A.context()->synchronize();  // wait for the queued iterations
  const double arrived = A.now();
  Vector<T> x(A.context(), A.cols()), y(A.context(), A.rows());
  const auto time = [&](int products) {
    const double begin = A.now();
    for (int i = 0; i < products; ++i) A.running().apply(x, y);
    A.context()->synchronize();
    return A.now() - begin;
  };
  if (A.has_machine_clock() && has_device_clock(*A.context())) {
    const int products = products_timed();
    A.running().apply(x, y);
    const auto taken = device_seconds(*A.context(), [&] {
      for (int i = 0; i < products; ++i) A.running().apply(x, y);
    });
    s_.time.pause(A.now() - arrived);
    return *taken / products;
  }
  (void)time(1);
  // The difference of two runs does not contain the time of the synchronisation.
  const double one = time(1);
  const int products =
      static_cast<int>(std::clamp(std::ceil(timed_seconds / one), static_cast<double>(least_products_timed),
                                  static_cast<double>(most_products_timed)));
  const double all = time(products), end = A.now();
  s_.time.pause(end - arrived);
  return all > one ? (all - one) / (products - 1) : all / products;
}

template class Measurements<float>;
template class Measurements<double>;

}  // namespace protean::detail

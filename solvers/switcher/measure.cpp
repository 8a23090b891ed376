#include "solvers/switcher/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "core/blas1.hpp"
#include "core/device_timer.hpp"
#include "core/error.hpp"
#include "core/multi_vector.hpp"
#include "core/vector.hpp"
#include "operators/multi_product.hpp"

namespace protean::detail {
namespace {

// On a device as many products are timed as take this long, which is long compared with a synchronisation.
constexpr int least_products_timed = 2, most_products_timed = 8;
constexpr double timed_seconds = 0.2e-3;
// The clock of a GPU shows no synchronisation.
constexpr double timed_seconds_of_a_gpu = 0.05e-3;

}  // namespace

template <class T>
bool Measurements<T>::are_free() const {
  return !s_.on_device() && (s_.columns.width == 1 || s_.candidates[s_.candidates.current()].target.one_pass);
}

template <class T>
bool Measurements<T>::is_little() const {
  if (are_free()) return true;
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
  if (are_free()) {
    const double measured = s_.A.seconds_per_product();
    // Far from what was expected: other work on the machine may have disturbed the trial, so it is made twice as long.
    const bool doubted = !s_.candidates.in_first() && !current.measured &&
                         measured > current.product_seconds * (1 + 2 * current.uncertainty);
    if (doubted && s_.time.since_change() < 2 * trial) return false;
    order_.time_permutation();
    if (measured > 0) take(measured);
  } else if (!current.measured && !no_memory_) {
    const std::optional<double> measured = time_products();
    if (!measured) return true;
    order_.time_permutation();
    take(*measured);
  }
  known.measured_product = current.product_seconds - known.correcting;
  return true;
}

template <class T>
void Measurements<T>::take(double seconds) {
  Candidate& known = s_.candidates[s_.candidates.current()];
  SwitchCandidate& current = known.seen;
  if (const double expected = std::exchange(expected_, 0); expected > 0)
    for (std::size_t i = 0; i < s_.candidates.size(); ++i)
      if (i != s_.candidates.current() && s_.candidates[i].ran)
        s_.candidates[i].seen.product_seconds *= seconds / expected;
  known.correcting = s_.correcting(known);
  current.product_seconds = seconds + order_.permuting(current.order) + known.correcting,
  current.measured = true;
}

template <class T>
void Measurements<T>::columns_changed() {
  SwitchCandidate& current = s_.candidates[s_.candidates.current()].seen;
  expected_ = current.measured ? current.product_seconds : 0;
  current.measured = false;
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

// The solve's products are queued, or they are parts of a product of several columns, and cannot be timed one by one. A
// few products with separate vectors are timed instead.
template <class T>
std::optional<double> Measurements<T>::time_products() {
  const LinearOperator<T>& A = s_.A.running();
  const ContextPtr& context = A.context();
  const std::int64_t width = s_.columns.width;
  context->synchronize();  // wait for the queued iterations
  const double arrived = s_.A.now();
  std::optional<double> seconds;
  try {
    if (width == 1) {
      Vector<T> x(context, A.cols()), y(context, A.rows());
      seconds = seconds_of([&] { A.apply(x, y); });
    } else {
      MultiVector<T> x(context, A.cols(), width, VectorLayout::interleaved),
          y(context, A.rows(), width, VectorLayout::interleaved);
      fill<T>(*context, T(1), {x.data(), A.cols() * width, context->space()});
      const MultiVectorView<const T> X = x.view();
      const MultiVectorView<T> Y = y.view();
      MultiScratch<T> scratch;
      if (s_.candidates[s_.candidates.current()].target.one_pass)
        seconds = seconds_of([&] { multi_apply<T>(A, X, Y); });
      else
        seconds = static_cast<double>(s_.columns.running) *
                  seconds_of([&] { multi_apply<T>(A, T(1), X.part(0, 1), T(0), Y.part(0, 1), &scratch); });
    }
  } catch (const OutOfMemory& error) {
    if (width == 1) throw;
    no_memory_ = true;
    s_.stay({}, {.reason = Reason::no_memory, .other = error.what()});
  }
  s_.time.pause(s_.A.now() - arrived);
  return seconds;
}

template <class T>
double Measurements<T>::seconds_of(const std::function<void()>& product) const {
  const Matrix<T>& A = s_.A;
  if (A.has_machine_clock() && has_device_clock(*A.context())) {
    const int products = products_timed();
    product();
    const auto taken = device_seconds(*A.context(), [&] {
      for (int i = 0; i < products; ++i) product();
    });
    return *taken / products;
  }
  const auto time = [&](int products) {
    const double begin = A.now();
    for (int i = 0; i < products; ++i) product();
    A.context()->synchronize();
    return A.now() - begin;
  };
  (void)time(1);
  // The difference of two runs does not contain the time of the synchronisation.
  const double one = time(1);
  const int products =
      static_cast<int>(std::clamp(std::ceil(timed_seconds / one), static_cast<double>(least_products_timed),
                                  static_cast<double>(most_products_timed)));
  const double all = time(products);
  return all > one ? (all - one) / (products - 1) : all / products;
}

template class Measurements<float>;
template class Measurements<double>;

}  // namespace protean::detail

// What each candidate would cost and save: the cost model and the forecast of an order, scaled by what was measured.
#include "solvers/auto_switcher.hpp"

#include <algorithm>
#include <cmath>

#include "core/ordering.hpp"
#include "core/transfer.hpp"
#include "operators/kernel_loading.hpp"

namespace protean {
namespace {

// Of a build on a device, beside the conversion: memory and waits; the bounds of the comparison of products, and a
// product of the new matrix. Measured on an H200 (docs/results/switching.md).
constexpr double around_a_build = 70e-6, products_around_a_build = 1.5;
constexpr double unlike_machine = 0.3;  // relative uncertainty of times measured on another machine
constexpr double beyond_plan = 1.25;    // time of a conversion / time of the part in plan_seconds
// Relative, of OrderForecast::ratio(): what a line of x costs differs between machines.
constexpr double order_uncertainty = unlike_machine;
constexpr std::string_view callers_order = "none";

}  // namespace

// What earlier solves took is a better forecast than the first residuals of this one.
template <class T>
Forecast AutoSwitcher<T>::remaining() const {
  Forecast result = forecast_.remaining(options_.goal, options_.max_iterations);
  const double left =
      static_cast<double>(options_.expected_iterations - std::max<std::int64_t>(last_iteration_, 0));
  if (2 * left >= static_cast<double>(options_.expected_iterations) && left > 0)
    result = {left / 2, left, 2 * left, true};
  // As many again are likely, and half of them are taken for certain.
  const double following = options_.following_iterations;
  if (result.known) result.low += following / 2, result.likely += following, result.high += 4 * following;
  return result;
}

// Sizes of the assembled matrix; before it is assembled, as the survey estimated them.
template <class T>
CostQuery AutoSwitcher<T>::query(const std::string& order) const {
  const CsrMatrix<T>& source = A_.source();
  CostQuery query{A_.rows(), source.nonzeros(), source.bytes()};
  if (A_.source_assembled()) query.row_changes = row_changes(source.pattern);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].order != order) continue;
    const std::size_t bytes = candidates_[i].bytes;
    if (formats_[i] == "sell-packed") query.packed_bytes = bytes;
    if (formats_[i] != "csr" || A_.source_assembled()) continue;
    query.csr_bytes = bytes;
    query.nonzeros =
        (static_cast<std::int64_t>(bytes) - 4 * (A_.rows() + 1)) / static_cast<std::int64_t>(sizeof(T) + 4);
  }
  return query;
}

// Whether times are those of a GPU, not of a test.
template <class T>
bool AutoSwitcher<T>::has_real_device() const {
  return on_device() && !A_.context()->simulated() && A_.has_machine_clock();
}

// What the first build of a format in the process takes longer than another one.
template <class T>
double AutoSwitcher<T>::loading(std::size_t candidate) const {
  const FormatEntry* const entry = targets_[candidate].spec.entry;
  if (!entry || candidate == current_ || !has_real_device()) return 0;
  return detail::loading_seconds(*A_.context(), *entry, sizeof(T));
}
template <class T>
bool AutoSwitcher<T>::needs_loading(std::size_t candidate) const {
  const FormatEntry* const entry = targets_[candidate].spec.entry;
  return entry && has_real_device() && detail::needs_loading(*A_.context(), *entry, sizeof(T));
}

// The candidate whose measured product scales the predictions for an order: the one that ran last in that order. If
// none has run in it, the current candidate, together with the forecast of the order.
template <class T>
std::size_t AutoSwitcher<T>::reference_for(const std::string& order) const {
  const auto last = last_in_.find(order);
  return order == candidates_[current_].order || last == last_in_.end() ? current_ : last->second;
}

// The part of the predictions that depends on the current format but not on measured times. It takes longer
// than a product of a small matrix, so it is computed once for each format that runs. Measured times scale
// it.
template <class T>
void AutoSwitcher<T>::estimate() {
  if (estimated_) return;
  estimated_ = true;
  estimates_.assign(candidates_.size(), {});
  const std::string first_order = candidates_[first_].order;
  std::vector<std::string> all{first_order};
  if (candidates_.back().order != first_order) all.push_back(candidates_.back().order);
  for (const std::string& order : all) {
    const std::size_t by = reference_for(order);
    const bool same_order = candidates_[by].order == order;
    const CostQuery asked = query(order);
    const CostModel::Reference running = model_.reference(asked, formats_[by], candidates_[by].bytes);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const SwitchCandidate& candidate = candidates_[i];
      if (!candidate.admitted || candidate.order != order) continue;
      Estimate& e = estimates_[i];
      e.reference = by;
      e.cost = model_.relative(asked, formats_[i], candidate.bytes, running, 1);
      if (!same_order && e.cost.known) {
        // The gain of the order is a part of the time of the product, which is larger where the matrix has fewer bytes.
        e.cost.product_seconds *=
            order_forecast_.ratio(static_cast<double>(candidate.bytes) / static_cast<double>(A_.rows()));
        e.cost.uncertainty = std::hypot(e.cost.uncertainty, order_uncertainty);
      }
      // The table has no times of element matrices. Take the times of the table's machine, with a larger
      // uncertainty.
      if (!e.cost.known && A_.on_elements() && i != current_) {
        e.cost = model_.absolute(asked, formats_[i], candidate.bytes);
        e.cost.uncertainty = std::hypot(e.cost.uncertainty, unlike_machine);
        e.relative = false;
      }
    }
  }
  if (all.size() > 1)
    order_estimate_ = model_.ordering(query(candidates_[current_].order), options_.order, formats_[current_],
                                      candidates_[current_].bytes, 1);
}

// Seconds to find the other order and to permute the matrix.
template <class T>
double AutoSwitcher<T>::order_price(double product_seconds) const {
  const double by_products = order_scale_ * order_estimate_.convert_seconds * product_seconds;
  if (!on_device()) return by_products;
  // On a device levels and rows are the price, not products.
  const double estimate = order_scale_ * order_seconds_on_device(order_forecast_.levels, A_.rows());
  return model_.knows_order(options_.order) ? std::max(by_products, estimate) : estimate;
}

template <class T>
void AutoSwitcher<T>::predict() {
  const SwitchCandidate& current = candidates_[current_];
  if (!current.measured) return;
  estimate();
  const auto product = [&](std::size_t i) {  // without permutations
    return candidates_[i].product_seconds - permuting(candidates_[i].order);
  };
  if (current.order == candidates_[first_].order) {
    order_seconds_ = order_price(product(current_));
    if (!permute_measured_)
      permute_seconds_ =
          order_forecast_.permutation_share(sizeof(T)) * order_estimate_.product_seconds * product(current_);
  }
  // A first change from element matrices includes their assembly.
  double assembly = 0;
  if (!A_.source_assembled())
    if (const CostPrediction p =
            model_.assembly(query(current.order), formats_[current_], current.bytes, current.product_seconds);
        p.known)
      assembly = p.convert_seconds;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    SwitchCandidate& candidate = candidates_[i];
    if (!candidate.admitted || candidate.lost) continue;
    CostPrediction p = estimates_[i].cost;
    if (estimates_[i].relative) p = p.scaled(product(estimates_[i].reference));
    p.convert_seconds = std::max(p.convert_seconds, beyond_plan * targets_[i].plan_seconds /
                                                        static_cast<double>(A_.context()->threads()));
    if (!p.known) {
      if (i == current_ || i == first_) continue;
      candidate.admitted = false;
      candidate.why = text_of({.reason = Reason::not_in_table});
      records_[i].admitted = false, records_[i].why = candidate.why;
      continue;
    }
    if (!candidate.measured)
      candidate.product_seconds = p.product_seconds + permuting(candidate.order),
      candidate.uncertainty = p.uncertainty;
    candidate.convert_seconds = built_[i] > 0               ? built_[i]
                                : targets_[i].spec.elements ? 0
                                : i == first_               ? p.convert_seconds
                                              : (assembly + p.convert_seconds) * conversion_scale_;
    candidate.load_seconds = loading(i);
    candidate.convert_seconds += candidate.load_seconds;
    if (built_[i] == 0 && !targets_[i].spec.elements && has_real_device())
      candidate.convert_seconds += around_a_build + products_around_a_build * product(current_);
    if (candidate.order != current.order && candidate.order != callers_order)
      candidate.convert_seconds += order_seconds_;
    if (!records_[i].ran) {
      records_[i].predicted_product = candidate.product_seconds;
      records_[i].predicted_convert = candidate.convert_seconds;
      records_[i].uncertainty = candidate.uncertainty;
    }
  }
}

#define PROTEAN_INSTANTIATE(T)                                                         \
  template Forecast AutoSwitcher<T>::remaining() const;                                \
  template CostQuery AutoSwitcher<T>::query(const std::string& order) const;           \
  template bool AutoSwitcher<T>::has_real_device() const;                              \
  template bool AutoSwitcher<T>::needs_loading(std::size_t candidate) const;           \
  template double AutoSwitcher<T>::loading(std::size_t candidate) const;               \
  template std::size_t AutoSwitcher<T>::reference_for(const std::string& order) const; \
  template void AutoSwitcher<T>::estimate();                                           \
  template double AutoSwitcher<T>::order_price(double product_seconds) const;          \
  template void AutoSwitcher<T>::predict();
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean

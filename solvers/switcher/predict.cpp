#include "solvers/switcher/predict.hpp"

#include <algorithm>
#include <cmath>

#include "core/transfer.hpp"
#include "operators/kernel_loading.hpp"

namespace protean::detail {
namespace {

// Parts of a build on a device other than the conversion: memory and waits; the bounds of the comparison of products,
// and a product of the new matrix. Measured on an H200 (docs/results/switching.md).
constexpr double around_a_build = 70e-6, products_around_a_build = 1.5;
constexpr double unlike_machine = 0.3;  // relative uncertainty of times measured on another machine
constexpr double beyond_plan = 1.25;    // time of a conversion / time of the part in plan_seconds
// What a conversion to values in float takes longer, in products: the values are read to find those that float cannot
// hold, and read and written once more. Each pass moves fewer bytes than a product.
constexpr double products_of_rounding = 2;
// Relative, of products of several vectors: by SwitchTarget::several_bandwidth, and what is added to the uncertainty of
// products of one vector if that is not known.
constexpr double several_uncertainty = 0.25, several_uncertainty_on_device = 0.35;

}  // namespace

template <class T>
double Prices<T>::product(std::size_t i) const {
  const Candidate& candidate = s_.candidates[i];
  return candidate.seen.product_seconds - order_.permuting(candidate.seen.order) - candidate.correcting;
}

template <class T>
double Prices<T>::for_columns(const Candidate& candidate, const ProductColumns& columns) const {
  const std::size_t bytes = candidate.seen.bytes;
  const std::int64_t rows = s_.A.rows();
  return columns.traffic(bytes, rows, candidate.target.one_pass) /
         ProductColumns().traffic(bytes, rows, true);
}

template <class T>
void Prices<T>::columns_changed(const ProductColumns& before) {
  for (Candidate& candidate : s_.candidates)
    candidate.seen.product_seconds *= for_columns(candidate, s_.columns) / for_columns(candidate, before);
  s_.candidates.forget_estimates();
}

// Sizes of the assembled matrix; before it is assembled, as the survey estimated them.
template <class T>
CostQuery Prices<T>::query(const std::string& order) const {
  const Matrix<T>& A = s_.A;
  const CsrMatrix<T>& source = A.source();
  CostQuery query{A.rows(), source.nonzeros(), source.bytes()};
  if (A.source_assembled()) query.row_changes = row_changes(source.pattern);
  for (const Candidate& candidate : s_.candidates) {
    if (candidate.seen.order != order) continue;
    const std::size_t bytes = candidate.seen.bytes;
    if (candidate.format == "sell-packed") query.packed_bytes = bytes + candidate.target.saved_bytes;
    if (candidate.format != "csr" || A.source_assembled()) continue;
    query.csr_bytes = bytes;
    query.nonzeros =
        (static_cast<std::int64_t>(bytes) - 4 * (A.rows() + 1)) / static_cast<std::int64_t>(sizeof(T) + 4);
  }
  return query;
}

// What the first build of a format in the process takes longer than another one.
template <class T>
double Prices<T>::loading(std::size_t i) const {
  const FormatEntry* const entry = s_.candidates[i].target.spec.entry;
  if (!entry || i == s_.candidates.current() || !s_.has_real_device()) return 0;
  return loading_seconds(*s_.A.context(), *entry, sizeof(T));
}

template <class T>
bool Prices<T>::needs_loading(std::size_t i) const {
  const FormatEntry* const entry = s_.candidates[i].target.spec.entry;
  return entry && s_.has_real_device() && detail::needs_loading(*s_.A.context(), *entry, sizeof(T));
}

// The candidate whose measured product scales the predictions for an order: the one that ran last in that order. If
// none has run in it, the current candidate, together with the forecast of the order.
template <class T>
std::size_t Prices<T>::reference_for(const std::string& order) const {
  const std::size_t current = s_.candidates.current(), last = s_.candidates.last_measured_in(order);
  return order == s_.candidates[current].seen.order || last == s_.candidates.size() ? current : last;
}

// The part of the predictions that depends on the current candidate but not on measured times. It takes longer
// than a product of a small matrix, so it is computed once for each candidate that runs. Measured times scale
// it.
template <class T>
void Prices<T>::estimate() {
  Candidates& candidates = s_.candidates;
  if (candidates.estimated()) return;
  candidates.estimates_made();
  for (Candidate& candidate : candidates) candidate.estimate = {};
  const std::string first_order = candidates[candidates.first()].seen.order,
                    last_order = candidates[candidates.size() - 1].seen.order;
  estimate_in(first_order);
  if (last_order == first_order) return;
  estimate_in(last_order);
  order_.estimate(query(candidates[candidates.current()].seen.order));
}

// The table has times of products of one vector, in which formats differ in other ways.
template <class T>
void Prices<T>::for_several(CostPrediction& cost, const Candidate& candidate,
                            const Candidate& reference) const {
  const double uncertainty = s_.on_device() ? several_uncertainty_on_device : several_uncertainty;
  const double own = candidate.target.several_bandwidth, running = reference.target.several_bandwidth;
  if (own <= 0 || running <= 0) {
    cost.uncertainty = std::hypot(cost.uncertainty, uncertainty);
    return;
  }
  const auto bytes = [&](const Candidate& of) {
    return ProductColumns().traffic(of.seen.bytes, s_.A.rows(), true);
  };
  cost.product_seconds = bytes(candidate) / bytes(reference) * running / own;
  cost.uncertainty = uncertainty;
}

template <class T>
void Prices<T>::estimate_in(const std::string& order) {
  const std::size_t by = reference_for(order), current = s_.candidates.current();
  const Candidate& reference = s_.candidates[by];
  const CostQuery asked = query(order);
  const CostModel::Reference running = s_.model.reference(asked, reference.format, reference.seen.bytes);
  for (std::size_t i = 0; i < s_.candidates.size(); ++i) {
    Candidate& candidate = s_.candidates[i];
    if (!candidate.seen.admitted || candidate.seen.order != order) continue;
    Candidate::Estimate& e = candidate.estimate;
    e.reference = by;
    e.cost = s_.model.relative(asked, candidate.format, candidate.seen.bytes, running, 1);
    if (s_.columns.width > 1 && i != by) for_several(e.cost, candidate, reference);
    if (reference.seen.order != order && e.cost.known) e.cost = order_.in_it(e.cost, candidate.seen.bytes);
    // The table has no times of element matrices. Take the times of the table's machine, with a larger
    // uncertainty.
    if (!e.cost.known && s_.A.on_elements() && i != current) {
      e.cost = s_.model.absolute(asked, candidate.format, candidate.seen.bytes);
      e.cost.uncertainty = std::hypot(e.cost.uncertainty, unlike_machine);
      e.relative = false;
    }
  }
}

template <class T>
bool Prices<T>::pays_after(int products) {
  const Candidates& candidates = s_.candidates;
  // An iteration, in which a product is counted, since the time of a product is not known yet: it takes longer.
  const double pace = s_.time.first_pace();
  if (!(pace > 0)) return true;
  estimate();
  const Forecast left = s_.iterations.remaining();
  const double likely = left.known ? left.likely : static_cast<double>(s_.iterations.last());
  const double in_single = for_columns(candidates[candidates.current()], s_.columns),
               single_pace = pace / in_single;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const CostPrediction& predicted = candidate.estimate.cost;
    if (i == candidates.current() || !candidate.seen.admitted || !predicted.known) continue;
    const bool reorders = candidate.seen.order != candidates[candidates.current()].seen.order;
    if (!candidate.estimate.relative) return true;
    double cost = predicted.scaled(single_pace).convert_seconds / pace + 2 + products;
    if (reorders) cost += order_.seconds(pace) / pace;
    cost += (s_.record_seconds + loading(i)) / pace;
    const double product = predicted.product_seconds * for_columns(candidate, s_.columns) / in_single;
    if (likely * (1 - product) > cost) return true;
  }
  return false;
}

// A first change from element matrices includes their assembly.
template <class T>
double Prices<T>::assembly() const {
  if (s_.A.source_assembled()) return 0;
  const Candidate& current = s_.candidates[s_.candidates.current()];
  const double seconds = current.seen.product_seconds / for_columns(current, s_.columns);
  const CostPrediction p =
      s_.model.assembly(query(current.seen.order), current.format, current.seen.bytes, seconds);
  return p.known ? p.convert_seconds : 0;
}

template <class T>
void Prices<T>::predict() {
  Candidates& candidates = s_.candidates;
  const std::size_t first = candidates.first(), current = candidates.current();
  const SwitchCandidate& running = candidates[current].seen;
  if (!running.measured) return;
  estimate();
  if (running.order == candidates[first].seen.order) order_.predict(single(current));
  const double assembly_seconds = assembly();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& known = candidates[i];
    SwitchCandidate& candidate = known.seen;
    if (!candidate.admitted || candidate.lost) continue;
    CostPrediction p = known.estimate.cost;
    if (known.estimate.relative) p = p.scaled(single(known.estimate.reference));
    p.product_seconds *= for_columns(known, s_.columns);
    p.convert_seconds = std::max(p.convert_seconds, beyond_plan * known.target.plan_seconds /
                                                        static_cast<double>(s_.A.context()->threads()));
    if (!p.known) {
      if (i != current && i != first) candidates.exclude(i, {.reason = Reason::not_in_table});
      continue;
    }
    if (!candidate.measured)
      known.correcting = s_.correcting(known),
      candidate.product_seconds = p.product_seconds + order_.permuting(candidate.order) + known.correcting,
      candidate.uncertainty = p.uncertainty;
    const bool elements = known.target.spec.elements;
    candidate.convert_seconds = known.built_seconds > 0 ? known.built_seconds
                                : elements              ? 0
                                : i == first            ? p.convert_seconds
                                             : (assembly_seconds + p.convert_seconds) * conversion_scale_;
    if (known.built_seconds == 0 && known.storage != known.format)
      candidate.convert_seconds += products_of_rounding * single(current);
    candidate.load_seconds = loading(i);
    candidate.convert_seconds += candidate.load_seconds;
    if (known.built_seconds == 0 && !elements && s_.has_real_device())
      candidate.convert_seconds += around_a_build + products_around_a_build * single(current);
    if (candidate.order != running.order && candidate.order != callers_order)
      candidate.convert_seconds += order_.seconds();
    if (!known.ran) {
      known.predicted_product = candidate.product_seconds - known.correcting;
      known.predicted_convert = candidate.convert_seconds;
      known.predicted_uncertainty = candidate.uncertainty;
    }
  }
}

template <class T>
void Prices<T>::learn(std::size_t i, const SwitchRecord& change, bool loaded) {
  Candidate& known = s_.candidates[i];
  // Beside the solve a build has fewer threads, so its time is scaled to all threads.
  const double stretch = change.overlapped ? s_.options.policy.overlap_stretch : 1;
  const double built = (change.convert_seconds - change.order_seconds) / stretch;
  // If kernels were loaded, that says nothing of the next time.
  if (loaded) count_loading();
  // In a change of order the conversion is the smaller part, of which little can be learnt.
  if (!loaded && change.from_order == change.to_order && known.predicted_convert > 0)
    conversion_scale_ *= std::clamp(built / known.predicted_convert, 0.25, 4.0);
  if (!loaded) known.built_seconds = built;
  known.measured_convert = change.convert_seconds;
  known.seen.convert_seconds = built;
}

template class Prices<float>;
template class Prices<double>;

}  // namespace protean::detail

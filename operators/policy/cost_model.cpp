#include "operators/policy/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace protean {
namespace {

constexpr std::string_view csr = "csr", packed = "sell-packed", assembled = "assembly";
constexpr double assembly_products = 40;  // time of an assembly in products of csr, if not measured
// Standard deviations of the Gaussian weight in weight(): in powers of two for the working set, the mean row
// and relative bytes, absolute for row_changes. Chosen by leaving out one matrix of the table at a time
// (tests/operators/test_cost_model.cpp).
constexpr double size_scale = 2, row_scale = 1.5, bytes_scale = 0.5, packed_scale = 0.12,
                 changes_scale = 0.25;
constexpr double base_weight = 0.02;  // weight of a matrix without any similarity
// On a device, times of small matrices (in the cache, or as short as a launch) do not predict those of large
// ones, so similar size counts more.
constexpr double size_scale_on_device = 1, base_weight_on_device = 0.002;
constexpr double least_deviation = 0.05, unlike_deviation = 0.25;

double vector_bytes(std::int64_t rows) { return 16 * static_cast<double>(rows); }
double traffic(std::size_t bytes, std::int64_t rows) {
  return static_cast<double>(bytes) + vector_bytes(rows);
}

const MeasuredFormat* find(const MeasuredMatrix& matrix, std::string_view format) {
  for (const MeasuredFormat& measured : matrix.formats)
    if (measured.format == format) return &measured;
  return nullptr;
}

double squared(double x) { return x * x; }

// Similarity of a measured matrix to the one asked about: 1 (plus base_weight) if all quantities are equal.
double weight(const CostQuery& query, std::size_t bytes, const MeasuredMatrix& matrix,
              const MeasuredFormat& own, const MeasuredFormat& reference) {
  const bool on_device = matrix.space == Space::device;
  const double size = std::log2(traffic(query.csr_bytes, query.rows) / traffic(reference.bytes, matrix.rows));
  const double row = std::log2(static_cast<double>(query.nonzeros) / static_cast<double>(query.rows) *
                               static_cast<double>(matrix.rows) / static_cast<double>(matrix.nonzeros));
  const double relative = std::log2(static_cast<double>(bytes) / static_cast<double>(query.csr_bytes) *
                                    static_cast<double>(reference.bytes) / static_cast<double>(own.bytes));
  const MeasuredFormat* theirs = find(matrix, packed);
  const double columns =
      query.packed_bytes > 0 && theirs
          ? std::log2(static_cast<double>(query.packed_bytes) / static_cast<double>(query.csr_bytes) *
                      static_cast<double>(reference.bytes) / static_cast<double>(theirs->bytes))
          : 0;
  const double changes =
      query.row_changes >= 0 && matrix.row_changes >= 0 ? query.row_changes - matrix.row_changes : 0;
  return (on_device ? base_weight_on_device : base_weight) +
         std::exp(-0.5 * (squared(size / (on_device ? size_scale_on_device : size_scale)) +
                          squared(row / row_scale) + squared(relative / bytes_scale) +
                          squared(columns / packed_scale) + squared(changes / changes_scale)));
}

struct Weighted {
  double value, weight;
};

// A conversion into memory that the process uses for the first time can take five times as long as another.
// This happened with several matrices of the table. A quantile below the median ignores them.
constexpr double conversion_quantile = 0.4, conversion_base_weight = 0.1;
double weighted_quantile(std::vector<Weighted> values) {
  std::sort(values.begin(), values.end(),
            [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  double total = 0, below = 0;
  for (const Weighted& v : values) total += v.weight;
  for (const Weighted& v : values)
    if ((below += v.weight) >= conversion_quantile * total) return v.value;
  return values.empty() ? 0 : values.back().value;
}

}  // namespace

double row_changes(const SparsityPattern& pattern) {
  constexpr std::int64_t windows = 32, rows_each = 32;
  if (pattern.space != Space::host || pattern.rows < 2) return -1;
  std::int64_t changes = 0, looked_at = 0;
  const std::int64_t step = std::max<std::int64_t>(pattern.rows / windows, rows_each);
  for (std::int64_t begin = 0; begin < pattern.rows; begin += step)
    for (std::int64_t i = begin + 1; i < std::min(begin + rows_each, pattern.rows); ++i)
      ++looked_at, changes += pattern.row_length(i) != pattern.row_length(i - 1);
  return looked_at > 0 ? static_cast<double>(changes) / static_cast<double>(looked_at) : -1;
}

CostModel::Estimate CostModel::estimate(const CostQuery& query, std::string_view format,
                                        std::size_t bytes) const {
  double total = 0, closest = 0, sum = 0, squares = 0;
  std::vector<Weighted> conversions;
  for (const MeasuredMatrix& matrix : table_->matrices) {
    if (matrix.space != space_) continue;
    const MeasuredFormat *own = find(matrix, format), *reference = find(matrix, csr);
    if (!own || !reference) continue;
    const double w = weight(query, bytes, matrix, *own, *reference);
    const double log_bandwidth =
        std::log(traffic(own->bytes, matrix.rows) / own->product_seconds * reference->product_seconds /
                 traffic(reference->bytes, matrix.rows));
    total += w, closest = std::max(closest, w);
    sum += w * log_bandwidth, squares += w * squared(log_bandwidth);
    // A conversion without cost (shared arrays) counts as a thousandth of a product, since its logarithm is
    // needed.
    conversions.push_back({std::log(std::max(own->convert_seconds / reference->product_seconds, 1e-3)),
                           w + conversion_base_weight});
  }
  Estimate result;
  if (conversions.empty()) return result;
  result.known = true;
  result.log_bandwidth = sum / total;
  const double variance = std::max(0.0, squares / total - squared(result.log_bandwidth));
  result.deviation = format == csr ? 0
                                   : std::sqrt(variance + squared(least_deviation) +
                                               squared(unlike_deviation * (1 - std::min(closest, 1.0))));
  result.log_conversion = weighted_quantile(std::move(conversions));
  return result;
}

double CostModel::csr_bandwidth(const CostQuery& query) const {
  double total = 0, sum = 0;
  for (const MeasuredMatrix& matrix : table_->matrices) {
    const MeasuredFormat* reference = matrix.space == space_ ? find(matrix, csr) : nullptr;
    if (!reference) continue;
    const double w = weight(query, query.csr_bytes, matrix, *reference, *reference);
    total += w, sum += w * std::log(traffic(reference->bytes, matrix.rows) / reference->product_seconds);
  }
  return total > 0 ? std::exp(sum / total) : 0;
}

CostModel::Reference CostModel::reference(const CostQuery& query, std::string_view running,
                                          std::size_t running_bytes) const {
  const Estimate present = estimate(query, running, running_bytes);
  return {present.known, running_bytes, present.log_bandwidth, present.deviation};
}

CostPrediction CostModel::relative(const CostQuery& query, std::string_view format, std::size_t bytes,
                                   const Reference& running, double running_seconds) const {
  const Estimate target = estimate(query, format, bytes);
  if (!target.known || !running.known) return {};
  const double in_csr = running_seconds * traffic(query.csr_bytes, query.rows) /
                        traffic(running.bytes, query.rows) * std::exp(running.log_bandwidth);
  CostPrediction result;
  result.known = true;
  result.product_seconds = in_csr * traffic(bytes, query.rows) / traffic(query.csr_bytes, query.rows) /
                           std::exp(target.log_bandwidth);
  result.convert_seconds = in_csr * std::exp(target.log_conversion);
  result.uncertainty = std::hypot(target.deviation, running.deviation);
  return result;
}

CostPrediction CostModel::relative(const CostQuery& query, std::string_view format, std::size_t bytes,
                                   std::string_view running, std::size_t running_bytes,
                                   double running_seconds) const {
  return relative(query, format, bytes, reference(query, running, running_bytes), running_seconds);
}

CostPrediction CostModel::assembly(const CostQuery& query, std::string_view running,
                                   std::size_t running_bytes, double running_seconds) const {
  CostPrediction result =
      relative(query, assembled, query.csr_bytes, running, running_bytes, running_seconds);
  if (!result.known) result = absolute(query, assembled, query.csr_bytes);
  if (!result.known) {
    result = absolute(query, csr, query.csr_bytes);
    result.convert_seconds = assembly_products * result.product_seconds;
  }
  return result;
}

CostPrediction CostModel::absolute(const CostQuery& query, std::string_view format, std::size_t bytes) const {
  const double bandwidth = csr_bandwidth(query);
  if (bandwidth <= 0) return {};
  return relative(query, format, bytes, csr, query.csr_bytes,
                  traffic(query.csr_bytes, query.rows) / bandwidth);
}

}  // namespace protean

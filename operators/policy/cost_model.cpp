#include "operators/policy/cost_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "operators/policy/builtin_machine.hpp"
#include "operators/policy/conversion_fit.hpp"

namespace protean {
namespace {

using detail::ConversionFit, detail::ConversionSize, detail::conversion_size, detail::dot_of_sizes,
    detail::entries_of;

constexpr std::string_view csr = "csr", packed = "sell-packed", assembled = "assembly";
constexpr double assembly_products = 40;  // time of an assembly in products of csr, if not measured
// Standard deviations of the Gaussian weight in weight(): in powers of two for the working set, the mean row
// and relative bytes, absolute for row_changes. Chosen by leaving out one matrix of the table at a time
// (tests/operators/test_cost_model.cpp).
constexpr double size_scale = 2, row_scale = 1.5, bytes_scale = 0.5, packed_scale = 0.12,
                 changes_scale = 0.25;
constexpr double base_weight = 0.02;  // weight of a matrix without any similarity
// On a device, times of small matrices (in the cache, or as short as a launch) do not predict the times of large
// matrices, so similar size counts more; so do similar bytes (docs/results/choice.md).
constexpr double size_scale_on_device = 1, bytes_scale_on_device = 0.25, base_weight_on_device = 0.002;
constexpr double least_conversion = 1e-6;  // seconds; none if a format shares the arrays of csr
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

// Lets a map of strings be asked for a view without a copy.
struct HashOfText {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
};

double squared(double x) { return x * x; }

// What the weight of a matrix depends on, in powers of two, so that a weight needs no logarithm.
struct Size {
  double traffic, row_length, csr_bytes,
      packed;          // packed: bytes in sell-packed over bytes in csr; NaN: not known
  double row_changes;  // as it is; -1: not known

  Size(std::int64_t rows, std::int64_t nonzeros, std::size_t in_csr, std::size_t in_packed, double changes)
      : traffic(std::log2(protean::traffic(in_csr, rows))),
        row_length(std::log2(static_cast<double>(nonzeros) / static_cast<double>(rows))),
        csr_bytes(std::log2(static_cast<double>(in_csr))),
        packed(in_packed > 0 ? std::log2(static_cast<double>(in_packed)) - csr_bytes
                             : std::numeric_limits<double>::quiet_NaN()),
        row_changes(changes) {}
  explicit Size(const CostQuery& q) : Size(q.rows, q.nonzeros, q.csr_bytes, q.packed_bytes, q.row_changes) {}

  // Bytes of a format over bytes of csr.
  double relative(std::size_t bytes) const { return std::log2(static_cast<double>(bytes)) - csr_bytes; }
};

struct Measured {
  Space space;
  Size size;
};

// Similarity of a measured matrix to the one asked about: 1 (plus base_weight) if all quantities are equal. bytes:
// Size::relative() of the format; own: the same for the measured matrix.
double weight(const Size& query, double bytes, const Measured& matrix, double own) {
  const bool on_device = matrix.space == Space::device;
  const Size& measured = matrix.size;
  const double size = query.traffic - measured.traffic, row = query.row_length - measured.row_length;
  const double packed_differs = query.packed - measured.packed;
  const double columns = std::isnan(packed_differs) ? 0 : packed_differs;
  const double changes =
      query.row_changes >= 0 && measured.row_changes >= 0 ? query.row_changes - measured.row_changes : 0;
  return (on_device ? base_weight_on_device : base_weight) +
         std::exp(-0.5 * (squared(size / (on_device ? size_scale_on_device : size_scale)) +
                          squared(row / row_scale) +
                          squared((bytes - own) / (on_device ? bytes_scale_on_device : bytes_scale)) +
                          squared(columns / packed_scale) + squared(changes / changes_scale)));
}

struct Weighted {
  double value, weight;
};

constexpr std::string_view order_prefix = "order-";

// Not element matrices, not their assembly, and not an order of the rows.
bool is_storage_format(std::string_view format) {
  return format != assembled && !format.starts_with("lma-") && !format.starts_with(order_prefix);
}

std::string_view without_kernel(std::string_view format) { return format.substr(0, format.find('/')); }

// Whether the times of a format, with any of its kernels, are read before the times of all formats: csr, sell-packed,
// whose bytes a query may have, the few formats that are worth a look, and rows that are not storage formats.
template <class Names>
bool read_first(const Names& few, std::string_view format) {
  const std::string_view name = without_kernel(format);
  return !is_storage_format(format) || name == csr || name == packed || few.contains(name);
}

// A conversion into memory that the process uses for the first time can take five times as long as another.
// This happened with several matrices of the table. A quantile below the median ignores them.
constexpr double conversion_quantile = 0.4, conversion_base_weight = 0.1;
// By size, errors are even to both sides.
constexpr double quantile_by_size = 0.5, base_weight_by_size = 0.02;
double weighted_quantile(std::vector<Weighted> values, double quantile) {
  std::sort(values.begin(), values.end(),
            [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  double total = 0, below = 0;
  for (const Weighted& v : values) total += v.weight;
  for (const Weighted& v : values)
    if ((below += v.weight) >= quantile * total) return v.value;
  return values.empty() ? 0 : values.back().value;
}

}  // namespace

// The measured matrices of one space that have times in csr, in the order of the table.
struct CostModel::Samples {
  // One of the matrices in one format.
  struct Sample {
    std::size_t matrix;
    double relative_bytes;  // Size::relative()
    double log_bandwidth;   // of bandwidth / bandwidth of csr
    double log_conversion;  // in products of csr
    double convert_seconds;
    ConversionSize size;
    double log_of_size = 0;  // of convert_seconds / seconds by size
  };
  // What conversions into a format take by size, fitted to matrices of that many entries and more.
  struct BySize {
    ConversionSize factors;
    double least_entries;
  };
  std::vector<Measured> matrices;
  std::vector<double> log_csr_bandwidth;  // of matrices[i]
  // Of matrices[i] in the likely formats, in products of csr.
  struct Gain {
    double saved, conversion;  // by each product, and once
  };
  std::vector<std::vector<Gain>> gains;
  std::unordered_map<std::string, std::vector<Sample>, HashOfText, std::equal_to<>> of_format;
  std::unordered_map<std::string, BySize, HashOfText, std::equal_to<>> by_size;
  // Names of formats without their kernels, including the formats that long solves have time for.
  std::unordered_set<std::string, HashOfText, std::equal_to<>> likely, likely_or_rare;

  // few: the formats worth a look, if they are known; null: they are chosen from the table.
  Samples(const MachineTable& table, Space space, const FewFormats* few = nullptr) {
    std::vector<const MeasuredMatrix*> measured;
    for (const MeasuredMatrix& matrix : table.matrices) {
      if (matrix.space != space) continue;
      const MeasuredFormat* reference = find(matrix, csr);
      if (!reference) continue;
      measured.push_back(&matrix), add(matrix, *reference);
    }
    fit_conversions();
    // The solve waits for the look at each of these formats, so they are few.
    if (few) {
      likely.insert(few->likely.begin(), few->likely.end());
      likely_or_rare = likely, likely_or_rare.insert(few->rare.begin(), few->rare.end());
    } else {
      choose_few(measured);
    }
    for (const MeasuredMatrix* const matrix : measured) {
      const double product = find(*matrix, csr)->product_seconds;
      std::vector<Gain>& of_matrix = gains.emplace_back();
      for (const MeasuredFormat& own : matrix->formats)
        if (own.product_seconds < product && likely.contains(own.format))
          of_matrix.push_back({1 - own.product_seconds / product, own.convert_seconds / product});
    }
  }

  const std::vector<Sample>& in(std::string_view format) const {
    static const std::vector<Sample> none;
    const auto found = of_format.find(format);
    return found == of_format.end() ? none : found->second;
  }

 private:
  void fit_conversions() {
    constexpr std::size_t least_conversions = 12;
    for (auto& [format, samples] : of_format) {
      if (format == csr || !is_storage_format(format)) continue;
      ConversionFit fit;
      double least_entries = INFINITY;
      for (const Sample& sample : samples)
        if (sample.convert_seconds > least_conversion) {
          fit.add(sample.size, sample.convert_seconds);
          least_entries = std::min(least_entries, entries_of(sample.size));
        }
      const std::optional<ConversionSize> factors =
          fit.count() < least_conversions ? std::nullopt : fit.factors();
      if (!factors) continue;
      for (Sample& sample : samples)
        sample.log_of_size = std::log(std::max(sample.convert_seconds, least_conversion) /
                                      dot_of_sizes(*factors, sample.size));
      by_size.emplace(format, BySize{*factors, least_entries});
    }
  }

  // The formats that together lose least against all formats: after csr, always the format that shortens the solves of
  // the table most, as long as that is more than a few per mille. Solves of few and of many iterations count alike,
  // with their conversions. Measured, these formats lose 1 to 3 per cent against all 70 on matrices that the table does
  // not have (docs/results/choice.md).
  void choose_few(const std::vector<const MeasuredMatrix*>& measured) {
    constexpr double lengths[] = {100, 300, 1000, 1e6};  // of solves, in products
    constexpr double least_gain = 0.003, least_gain_of_rare = 0.0005;
    constexpr std::size_t most = 8, most_with_rare = 16;
    constexpr double believed = 2;  // larger losses count as this one: a single wrong time must not decide
    if (measured.empty()) return;
    const std::size_t solves = measured.size() * std::size(lengths);
    std::vector<double> best(solves, INFINITY), taken(solves);
    std::unordered_map<std::string_view, std::vector<double>> seconds;  // of a format, in each solve
    for (std::size_t i = 0; i < measured.size(); ++i)
      for (const MeasuredFormat& own : measured[i]->formats) {
        // Other kernels of csr are looked at in any case.
        if (!is_storage_format(own.format) || (own.format != csr && without_kernel(own.format) == csr))
          continue;
        std::vector<double>& all_of_it = seconds[without_kernel(own.format)];
        all_of_it.resize(solves, INFINITY);
        for (std::size_t k = 0; k < std::size(lengths); ++k) {
          const std::size_t solve = i * std::size(lengths) + k;
          const double all = (own.format == csr ? 0 : own.convert_seconds) + lengths[k] * own.product_seconds;
          all_of_it[solve] = std::min(all_of_it[solve], all), best[solve] = std::min(best[solve], all);
        }
      }
    taken = seconds[csr];
    const auto loss_with = [&](const std::vector<double>& another) {
      double sum = 0;
      for (std::size_t i = 0; i < solves; ++i)
        sum += std::min(std::min(taken[i], another[i]) / best[i], believed);
      return sum / static_cast<double>(solves);
    };
    double loss = loss_with(taken);
    // What a format gains does not grow when others are taken, so the gain that was found last is a bound, and only the
    // largest is asked for again.
    struct Offer {
      double gain;
      std::string_view format;
      std::size_t taken;  // how many formats had been when the gain was found
      bool operator<(const Offer& other) const {
        return gain < other.gain || (gain == other.gain && format > other.format);
      }
    };
    std::priority_queue<Offer> offers;
    for (const auto& [format, all_of_it] : seconds) offers.push({loss - loss_with(all_of_it), format, 0});
    while (likely_or_rare.size() < most_with_rare && !offers.empty()) {
      Offer next = offers.top();
      offers.pop();
      const std::vector<double>& own = seconds[next.format];
      if (next.taken < likely_or_rare.size()) {
        next.gain = loss - loss_with(own), next.taken = likely_or_rare.size();
        offers.push(next);
        continue;
      }
      if (!(next.gain > least_gain_of_rare)) return;
      if (likely.size() == likely_or_rare.size() && likely.size() < most && next.gain > least_gain)
        likely.insert(std::string(next.format));
      likely_or_rare.insert(std::string(next.format)), loss -= next.gain;
      for (std::size_t i = 0; i < solves; ++i) taken[i] = std::min(taken[i], own[i]);
    }
  }

  void add(const MeasuredMatrix& matrix, const MeasuredFormat& reference) {
    const MeasuredFormat* in_packed = find(matrix, packed);
    const std::size_t number = matrices.size();
    matrices.push_back({matrix.space, Size(matrix.rows, matrix.nonzeros, reference.bytes,
                                           in_packed ? in_packed->bytes : 0, matrix.row_changes)});
    const Size& size = matrices.back().size;
    log_csr_bandwidth.push_back(std::log(traffic(reference.bytes, matrix.rows) / reference.product_seconds));
    for (const MeasuredFormat& own : matrix.formats) {
      std::vector<Sample>& samples = of_format[own.format];
      // Of a format that a table has twice for a matrix, the first counts.
      if (!samples.empty() && samples.back().matrix == number) continue;
      const double bandwidth = traffic(own.bytes, matrix.rows) / own.product_seconds *
                               reference.product_seconds / traffic(reference.bytes, matrix.rows);
      // A conversion without cost (shared arrays) counts as a thousandth of a product, since its logarithm is
      // needed.
      // The price of an order is relative to the product of the matrix that was ordered.
      const MeasuredFormat& unit = own.format.starts_with(order_prefix) ? own : reference;
      const double conversion = std::max(own.convert_seconds / unit.product_seconds, 1e-3);
      samples.push_back({number, size.relative(own.bytes), std::log(bandwidth), std::log(conversion),
                         own.convert_seconds, conversion_size(matrix.rows, matrix.nonzeros, own.bytes)});
    }
  }
};

const CostModel::Samples& CostModel::few_of_builtin(Space space) {
  const auto read = [](Space part) {
    const FewFormats few = builtin_few(builtin_host(), part);
    std::unordered_set<std::string_view> names(few.likely.begin(), few.likely.end());
    names.insert(few.rare.begin(), few.rare.end());
    const auto wanted = [&](std::string_view format) { return read_first(names, format); };
    return Samples(builtin_machine(builtin_host(), part, wanted), part, &few);
  };
  if (space == Space::host) {
    static const Samples on_host = read(Space::host);
    return on_host;
  }
  static const Samples on_device = read(Space::device);
  return on_device;
}

const CostModel::Samples& CostModel::all_of_builtin(Space space) {
  const auto read = [](Space part) {
    const FewFormats few = builtin_few(builtin_host(), part);
    return Samples(builtin_machine(builtin_host(), part), part, &few);
  };
  if (space == Space::host) {
    static const Samples on_host = read(Space::host);
    return on_host;
  }
  static const Samples on_device = read(Space::device);
  return on_device;
}

CostModel::CostModel(const MachineTable& table, Space space)
    : space_(space), samples_(std::make_shared<const Samples>(table, space)) {}

CostModel::Estimate CostModel::estimate(const CostQuery& query, std::string_view format,
                                        std::size_t bytes) const {
  double total = 0, closest = 0, sum = 0, squares = 0;
  const bool unread = !samples_ && !read_first(samples().likely_or_rare, format);
  const Samples& all = unread ? all_of_builtin(space_) : samples();
  const std::vector<Samples::Sample>& samples = all.in(format);
  Estimate result;
  if (samples.empty()) return result;
  const auto fitted = all.by_size.find(format);
  const ConversionSize asked = conversion_size(query.rows, query.nonzeros, bytes);
  const bool by_size = fitted != all.by_size.end() && entries_of(asked) >= fitted->second.least_entries;
  const double conversion_base = by_size ? base_weight_by_size : conversion_base_weight;
  std::vector<Weighted> conversions;
  conversions.reserve(samples.size());
  const Size size(query);
  const double relative = size.relative(bytes);
  for (const Samples::Sample& sample : samples) {
    const double w = weight(size, relative, all.matrices[sample.matrix], sample.relative_bytes);
    total += w, closest = std::max(closest, w);
    sum += w * sample.log_bandwidth, squares += w * squared(sample.log_bandwidth);
    conversions.push_back({by_size ? sample.log_of_size : sample.log_conversion, w + conversion_base});
  }
  result.known = true;
  result.log_bandwidth = sum / total;
  const double variance = std::max(0.0, squares / total - squared(result.log_bandwidth));
  result.deviation = format == csr ? 0
                                   : std::sqrt(variance + squared(least_deviation) +
                                               squared(unlike_deviation * (1 - std::min(closest, 1.0))));
  const double conversion =
      weighted_quantile(std::move(conversions), by_size ? quantile_by_size : conversion_quantile);
  if (by_size)
    result.by_size = dot_of_sizes(fitted->second.factors, asked) * std::exp(conversion);
  else
    result.log_conversion = conversion;
  return result;
}

bool CostModel::may_be_fastest(std::string_view format) const {
  return (with_rare_ ? samples().likely_or_rare : samples().likely).contains(format);
}

bool CostModel::knows(std::string_view format) const { return !samples().in(format).empty(); }

CostModel CostModel::with_rare_formats() const {
  CostModel model = *this;
  model.with_rare_ = true;
  return model;
}

double CostModel::csr_bandwidth(const CostQuery& query) const {
  double total = 0, sum = 0;
  const Size size(query);
  const Samples& all = samples();
  for (std::size_t i = 0; i < all.matrices.size(); ++i) {
    const double w = weight(size, 0, all.matrices[i], 0);  // csr has as many bytes as csr
    total += w, sum += w * all.log_csr_bandwidth[i];
  }
  return total > 0 ? std::exp(sum / total) : 0;
}

double CostModel::expected_saving(const CostQuery& query, double products) const {
  const Samples& all = samples();
  double total = 0, sum = 0;
  const Size size(query);
  for (std::size_t i = 0; i < all.matrices.size(); ++i) {
    const double w = weight(size, 0, all.matrices[i], 0);
    double most = 0;
    for (const Samples::Gain& gain : all.gains[i])
      most = std::max(most, products * gain.saved - gain.conversion);
    total += w, sum += w * most;
  }
  return total > 0 ? sum / total * csr_seconds(query) : 0;
}

CostModel::Reference CostModel::reference(const CostQuery& query, std::string_view running,
                                          std::size_t running_bytes) const {
  const Estimate present = estimate(query, running, running_bytes);
  return {present.known, running_bytes, present.log_bandwidth, present.deviation, csr_seconds(query)};
}

CostPrediction CostPrediction::scaled(double factor) const {
  // Predictions are too uncertain to recognise a machine by a smaller difference.
  constexpr double same_machine = 2;
  CostPrediction result = *this;
  result.product_seconds *= factor, result.slower *= factor;
  const double ratio = result.slower;
  const double machine = ratio > same_machine       ? ratio / same_machine
                         : ratio < 1 / same_machine ? ratio * same_machine
                                                    : 1;
  result.convert_seconds = by_size > 0 ? by_size * machine : convert_seconds * factor;
  return result;
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
  if (running.csr_seconds > 0) result.by_size = target.by_size, result.slower = in_csr / running.csr_seconds;
  result.uncertainty = std::hypot(target.deviation, running.deviation);
  return result.scaled(1);
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

bool CostModel::knows_order(std::string_view id) const {
  return !samples().in(std::string(order_prefix) + std::string(id)).empty();
}

CostPrediction CostModel::ordering(const CostQuery& query, std::string_view id, std::string_view running,
                                   std::size_t running_bytes, double running_seconds) const {
  CostPrediction result = relative(query, csr, query.csr_bytes, running, running_bytes, running_seconds);
  const std::string row = std::string(order_prefix) + std::string(id);
  const CostPrediction measured =
      relative(query, row, query.csr_bytes, running, running_bytes, running_seconds);
  result.convert_seconds =
      measured.known ? measured.convert_seconds : order_products * result.product_seconds;
  return result;
}

double CostModel::csr_seconds(const CostQuery& query) const {
  const double bandwidth = csr_bandwidth(query);
  return bandwidth > 0 ? traffic(query.csr_bytes, query.rows) / bandwidth : 0;
}

CostPrediction CostModel::absolute(const CostQuery& query, std::string_view format, std::size_t bytes) const {
  const double seconds = csr_seconds(query);
  if (seconds <= 0) return {};
  return relative(query, format, bytes, csr, query.csr_bytes, seconds);
}

}  // namespace protean

// Selector "model": the cost model of the policy, asked before a solve.
#include "formats/selectors/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/catalogue.hpp"
#include "formats/selectors/entries.hpp"
#include "formats/survey.hpp"
#include "operators/kernel_loading.hpp"
#include "operators/policy/switch_policy.hpp"

namespace protean {
namespace {

// A format must be expected to save this part of the time in csr, and this many products: less is within the error of
// the predictions, and the look at the formats has cost as much.
constexpr double least_saving = 0.05, least_saved_products = 5;
// Predictions are doubted as the policy doubts them.
constexpr double pessimism = PolicyOptions{}.pessimism, convert_margin = PolicyOptions{}.convert_margin;

// Seconds of a look at the formats of a matrix, with what it needs to know of it: the median of what was measured
// (docs/results/switching.md). It takes up to five times as long, so twice that must be saved.
constexpr double look_on_host = 2e-4, look_on_device = 5e-4, least_worth = 2;

CostQuery sizes_of(const SparsityPattern& pattern, const ChoiceOptions& options) {
  return {pattern.rows, pattern.nonzeros,
          pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * options.value_bytes};
}

// Half of the time of that many products on a slow GPU, more than a format saves. It needs no machine table, which a
// process reads in some milliseconds.
double half_of(const CostQuery& query, double products) {
  constexpr double slow_gpu = 5e11;  // bytes a second
  return products * static_cast<double>(query.csr_bytes) / slow_gpu / 2;
}

// Seconds to load the kernels of a format that may be the fastest; 0 if the kernels of one of them are loaded.
double least_loading(const Context& context, const CostModel& model, std::size_t value_bytes) {
  double least = INFINITY;
  for (const FormatEntry* entry : catalogue())
    if (model.may_be_fastest(entry->id))
      least = std::min(least, detail::loading_seconds(context, *entry, value_bytes));
  return std::isfinite(least) ? least : 0;
}

bool is_csr(const RankedFormat& format) { return format.entry->id == "csr"; }

class ModelSelector final : public FormatSelector {
 public:
  std::string_view name() const noexcept override { return "model"; }
  std::string_view source() const noexcept override {
    return "this library: times of similar measured matrices (operators/policy/cost_model), doubted as the "
           "policy doubts them";
  }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    const ChoiceOptions& options = question.options();
    const std::vector<RankedFormat> ranked =
        rank_by_cost(question.context(), question.given(), question.model(), options, true);
    const auto csr = std::find_if(ranked.begin(), ranked.end(), is_csr);
    const double product = csr->cost.product_seconds;
    std::vector<SelectedFormat> result;
    for (const RankedFormat& format : ranked) {
      SelectedFormat selected{.entry = format.entry,
                              .score = format.total_seconds,
                              .product_seconds = format.cost.product_seconds,
                              .convert_seconds = format.cost.convert_seconds,
                              .uncertainty = format.cost.uncertainty};
      if (!format.cost.known)
        selected.reason = "the machine table has no times of it";
      else if (!is_csr(format))
        selected.reason = fmt::format(
            "a product is expected to take {:.0f} % of one in csr, and the conversion {:.1f} products of "
            "csr{}",
            100 * format.cost.product_seconds / product, format.cost.convert_seconds / product,
            detail::loading_seconds(question.context(), *format.entry, options.value_bytes) > 0
                ? ", with the kernels that it loads for the first time"
                : "");
      result.push_back(std::move(selected));
    }
    const auto stay = result.begin() + (csr - ranked.begin());
    if (!csr->cost.known) {
      stay->reason = "the machine table has no measurement in this space";
      std::rotate(result.begin(), stay, stay + 1);
      return result;
    }
    const bool known = options.expected_iterations > 0;
    const std::string over =
        fmt::format("{} iterations{}", known ? options.expected_iterations : assumed_iterations,
                    known ? "" : " (assumed)");
    stay->reason = fmt::format("no other format is expected to save anything over {}", over);
    const auto best = std::find_if_not(ranked.begin(), ranked.end(), is_csr);
    const double saved =
        best == ranked.end() || !best->cost.known ? 0 : csr->total_seconds - best->total_seconds;
    if (saved < std::max(least_saving * csr->total_seconds, least_saved_products * product))
      std::rotate(result.begin(), stay, stay + 1);
    else
      result[static_cast<std::size_t>(best - ranked.begin())].reason +=
          fmt::format("; over {} that saves {:.0f} %", over, 100 * saved / csr->total_seconds);
    return result;
  }
};

}  // namespace

std::vector<RankedFormat> rank_by_cost(const Context& context, const SparsityPattern& pattern,
                                       const CostModel& model, const ChoiceOptions& options,
                                       bool likely_only) {
  const double products = options.products();
  const CostModel* const likely = likely_only ? &model : nullptr;
  const detail::ValueBytes value_bytes(options.value_bytes, options.exact_in_float);
  // On the host formats of either space are asked about.
  const auto surveyed =
      pattern.space == Space::host
          ? survey_on_host(pattern, options.space, options.deterministic, value_bytes, options.symmetric,
                           likely)
          : survey_formats(context, pattern, options.deterministic, value_bytes, options.symmetric, likely);
  CostQuery query = sizes_of(pattern, options);
  query.row_changes = row_changes(context, pattern);
  for (const SwitchTarget& format : surveyed)
    if (format.spec.name() == "sell-packed") query.packed_bytes = format.bytes + format.saved_bytes;

  std::vector<RankedFormat> ranked;
  // Of a matrix without entries nothing can be predicted.
  const double in_csr = pattern.nonzeros > 0 ? model.csr_seconds(query) : 0;
  const CostModel::Reference reference =
      in_csr > 0 ? model.reference(query, "csr", query.csr_bytes) : CostModel::Reference{};
  const auto predict = [&](const FormatEntry& entry, std::size_t bytes) {
    return in_csr > 0 ? model.relative(query, entry.id, bytes, reference, in_csr) : CostPrediction{};
  };
  const CostPrediction csr = predict(find_format("csr"), query.csr_bytes);
  ranked.push_back({&find_format("csr"), csr, products * csr.product_seconds, query.csr_bytes});
  for (const SwitchTarget& format : surveyed) {
    if (!format.admitted || !format.spec.kernel.empty() || format.spec.entry->id == "csr") continue;
    CostPrediction cost = predict(*format.spec.entry, format.bytes);
    cost.convert_seconds += detail::loading_seconds(context, *format.spec.entry, options.value_bytes);
    const double total = convert_margin * cost.convert_seconds +
                         products * cost.product_seconds * (1 + pessimism * cost.uncertainty);
    ranked.push_back({format.spec.entry, cost, cost.known ? total : 0, format.bytes});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const RankedFormat& a, const RankedFormat& b) {
    return a.cost.known != b.cost.known ? a.cost.known : a.total_seconds < b.total_seconds;
  });
  return ranked;
}

std::string too_few_for_a_look(const Context& context, const SparsityPattern& pattern, const CostModel& model,
                               const ChoiceOptions& options) {
  if (options.expected_iterations <= 0 || pattern.nonzeros < least_entries_to_convert) return {};
  const bool here = pattern.space == Space::host;
  const double look = options.space == Space::host ? look_on_host : look_on_device;
  CostQuery query = sizes_of(pattern, options);
  if (!here && half_of(query, options.products()) < least_worth * look)
    return fmt::format("{} iterations are too few for a look at other formats, which takes about {:.2g} ms",
                       options.expected_iterations, 1e3 * look);
  // On a device that is a part of the look: the host waits for the lengths of some rows.
  if (here) query.row_changes = row_changes(context, pattern);
  const double saving = model.expected_saving(query, options.products());
  const double loading =
      least_loading(context, model, options.value_bytes) + (here ? 0 : detail::first_survey_seconds(context));
  // Of a space without times nothing is expected; the selector says so.
  if (saving >= least_worth * look + loading || model.csr_seconds(query) <= 0) return {};
  return fmt::format(
      "{} iterations are too few for a look at other formats: it takes about {:.2g} ms{}, and formats save "
      "{:.2g} ms in the mean of such solves",
      options.expected_iterations, 1e3 * look,
      loading > 0 ? fmt::format(", kernels that were not used before {:.2g} ms", 1e3 * loading) : "",
      1e3 * saving);
}

namespace selector_entries {
const FormatSelector& model() {
  static const ModelSelector selector;
  return selector;
}
}  // namespace selector_entries

}  // namespace protean

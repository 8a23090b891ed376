#include "formats/choose.hpp"

#include <fmt/format.h>

#include "formats/survey.hpp"

namespace protean {
namespace {

constexpr std::int64_t least_entries = 1000;
constexpr double least_saving = 0.03;

}  // namespace

FormatChoice choose_format(const SparsityPattern& pattern, const CostModel& model,
                           const ChoiceOptions& options) {
  if (pattern.nonzeros < least_entries)
    return {"csr", fmt::format("{} nonzeros are too few to be worth a conversion", pattern.nonzeros)};
  const bool known = options.expected_iterations > 0;
  const auto iterations = static_cast<double>(known ? options.expected_iterations : assumed_iterations);
  const double products = iterations * options.products_per_iteration;
  const auto surveyed = survey_formats(pattern, options.space, options.deterministic);
  CostQuery query{pattern.rows, pattern.nonzeros,
                  pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * sizeof(double)};
  query.row_changes = row_changes(pattern);
  for (const SwitchTarget& format : surveyed)
    if (format.spec.name() == "sell-packed") query.packed_bytes = format.bytes;
  const CostPrediction csr = model.absolute(query, "csr", query.csr_bytes);
  if (!csr.known) return {"csr", "the machine table has no measurement in this space"};
  const double stay = csr.product_seconds * products;

  const SwitchTarget* best = nullptr;
  CostPrediction best_cost;
  double best_total = stay * (1 - least_saving);
  for (const SwitchTarget& format : surveyed) {
    if (!format.admitted || !format.spec.kernel.empty() || format.spec.entry->id == "csr") continue;
    const CostPrediction cost = model.absolute(query, format.spec.name(), format.bytes);
    const double total = cost.convert_seconds + products * cost.product_seconds;
    if (cost.known && total < best_total) best = &format, best_cost = cost, best_total = total;
  }
  const std::string over = fmt::format("{:.0f} iterations{}", iterations, known ? "" : " (assumed)");
  if (!best) return {"csr", fmt::format("no other format is expected to save anything over {}", over)};
  return {
      best->spec.entry->id,
      fmt::format(
          "a product is expected to take {:.0f} % of one in csr, and the conversion {:.1f} products of csr; "
          "over {} that saves {:.0f} %",
          100 * best_cost.product_seconds / csr.product_seconds,
          best_cost.convert_seconds / csr.product_seconds, over, 100 * (1 - best_total / stay))};
}

}  // namespace protean

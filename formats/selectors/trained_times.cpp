// Selectors with trained predictions of times: of a product and of the conversion of each format, in products of csr.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "formats/selectors/entries.hpp"
#include "formats/selectors/trained.hpp"

namespace protean {
namespace {

using selectors_detail::Candidate;

// conversion + products * product * (1 + doubt * deviation), all in products of csr.
std::vector<SelectedFormat> by_times(const SelectorQuestion& question, std::string_view name, double doubt) {
  const auto& times = question.trained().times_of(name);
  std::vector<std::string_view> known;
  for (const auto& [format, model] : times) known.push_back(format);
  const double products = question.products(), unit = question.csr_seconds();
  std::vector<SelectedFormat> result;
  for (const Candidate& candidate : selectors_detail::candidates(question, known)) {
    SelectedFormat format{.entry = candidate.entry};
    if (candidate.entry->id == "csr") {
      format.score = products, format.product_seconds = unit;
      format.reason = "no other format is expected to save anything";
    } else {
      const TimesOfFormat& model = times.at(std::string(candidate.entry->id));
      const double product = std::exp(model.product(question.features()).front());
      const double conversion = std::exp(model.conversion(question.features()).front());
      format.score = conversion + products * product * (1 + doubt * model.deviation);
      format.product_seconds = product * unit, format.convert_seconds = conversion * unit;
      format.uncertainty = model.deviation;
      format.reason = fmt::format(
          "a product is expected to take {:.0f} % of one in csr, and the conversion {:.1f} products of csr",
          100 * product, conversion);
    }
    result.push_back(std::move(format));
  }
  selectors_detail::sort_by_score(result);
  return result;
}

// Two stages. The first costs nothing: with few iterations to come csr stays, and no feature is computed.
class Zhao final : public FormatSelector {
 public:
  std::string_view name() const noexcept override { return "zhao"; }
  std::string_view source() const noexcept override {
    return "Zhao, Zhou, Shen, Yiu, IPDPS 2018 (overhead-conscious): few iterations stay in csr, otherwise "
           "boosted trees predict conversions and products. The first stage takes the expected iterations "
           "instead of a forecast from 15 residuals, which the policy makes in a running solve";
  }
  bool host_only() const noexcept override { return true; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    const double products = question.products();
    if (products < least_products) {
      auto only = selectors_detail::candidates(question, {});
      return {{.entry = only.front().entry,
               .score = products,
               .product_seconds = question.csr_seconds(),
               .reason = fmt::format("{:.0f} products are too few to look at the matrix (fewer than {:.0f})",
                                     products, least_products)}};
    }
    return by_times(question, name(), 0);
  }

 private:
  static constexpr double least_products = 15;
};

class ForestTimes final : public FormatSelector {
 public:
  std::string_view name() const noexcept override { return "forest-times"; }
  std::string_view source() const noexcept override {
    return "this library: random forests that predict conversions and products of each format from all "
           "features; predictions are doubted by half their deviation on matrices left out in training, as "
           "the policy does";
  }
  bool host_only() const noexcept override { return true; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    return by_times(question, name(), 0.5);
  }
};

}  // namespace

namespace selector_entries {

const FormatSelector& zhao() {
  static const Zhao selector;
  return selector;
}
const FormatSelector& forest_times() {
  static const ForestTimes selector;
  return selector;
}

}  // namespace selector_entries

}  // namespace protean

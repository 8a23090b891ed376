// What `protean compare --selectors` finds: the format that each selector takes, and what that costs by the times that
// the comparison measures.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/report/json.hpp"
#include "formats/selectors/selector.hpp"

namespace protean::apps {

// The choice of one selector for one system.
struct SelectorVerdict {
  std::string selector, format, reason;
  double look_seconds = 0;              // to rank the formats
  std::optional<double> look_products;  // the same in products of csr
  std::optional<double> to_best,
      to_csr;       // time of the solve with all costs, over the time of the best, and of csr
  std::string why;  // why the two are not known; else empty
};

// all, or names separated by commas. Throws BadArgument for a name that there is not, and for an empty list.
std::vector<const FormatSelector*> selectors_named(const std::string& text);

// Asks each selector, and takes the time of its answer. A selector that knows no times of the space has no format, and
// the reason says so.
std::vector<SelectorVerdict> ask_selectors(std::span<const FormatSelector* const> selectors,
                                           const SparsityPattern& pattern, const CostModel& model,
                                           const ChoiceOptions& options);

// One selector over the systems of a suite for which its regret is known.
struct SelectorSummary {
  std::string selector;
  int systems = 0, missing = 0;
  double mean = 0, at_95 = 0, worst = 0;  // regret: geometric mean, 95th percentile, largest
  double slower = 0;                      // part of the systems with more than 1.02 times the time of csr
  double look = 0;                        // median, in products of csr
  std::vector<double> regrets = {};       // ascending
};
// The selectors in the order of the first system; each span has the verdicts of one system.
std::vector<SelectorSummary> summarise(const std::vector<std::span<const SelectorVerdict>>& systems);

std::string selectors_table(std::span<const SelectorVerdict> verdicts);
std::string summary_table(std::span<const SelectorSummary> summaries);
Json selectors_json(std::span<const SelectorVerdict> verdicts);
Json summary_json(std::span<const SelectorSummary> summaries);
// A section of the page: the summary, and the performance profile of Dolan and More as a picture (SVG).
std::string selectors_html(std::span<const SelectorSummary> summaries);

}  // namespace protean::apps

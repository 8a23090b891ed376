// The results of `protean compare` as a table (text), a report (JSON), CSV, and a page of HTML.
#pragma once
#include <string>
#include <vector>

#include "apps/compare/compare.hpp"

namespace protean::apps {

std::string compare_table(const Comparison& comparison);
// For one comparison its object; for a suite {"suite": [...], "broken": [...]}.
std::string compare_json(const std::vector<Comparison>& comparisons, const std::vector<std::string>& broken,
                         bool suite);
std::string compare_csv(const std::vector<Comparison>& comparisons);
// Statistics of the selectors that were asked, over all systems; empty if none was.
std::vector<SelectorSummary> selector_summaries(const std::vector<Comparison>& comparisons);
// Self-contained: style, script and data in one file, no network.
std::string compare_html(const std::vector<Comparison>& comparisons);

}  // namespace protean::apps

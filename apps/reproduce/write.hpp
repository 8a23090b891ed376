// Exhibits as text, CSV and pages.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "apps/reproduce/exhibit.hpp"

namespace protean::apps {

// A table for a terminal of `width` columns: for each column what the paper prints, ours and the ratio; findings
// and limits follow.
std::string exhibit_text(const Exhibit& exhibit, std::size_t width = 80);
// A line for each cell: id, row, matrix, column, unit, format, printed, paper, ours, ratio, word.
std::string exhibit_csv(const Exhibit& exhibit);
// One page with all its pictures, without scripts.
std::string exhibits_html(std::span<const Exhibit> exhibits);
// Markdown: a line for each exhibit, and all findings.
std::string exhibits_summary(std::span<const Exhibit> exhibits);

}  // namespace protean::apps

// Exhibits as text, CSV and pages.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "research/reproduce/exhibit.hpp"

namespace protean::research {

// A table for a terminal of `width` columns: for each column what the paper prints, ours and the ratio; findings
// and limits follow.
std::string exhibit_text(const Exhibit& exhibit, std::size_t width = 80);
// A line for each cell: id, row, matrix, column, unit, format, printed, paper, ours, ratio, word.
std::string exhibit_csv(const Exhibit& exhibit);
// One page with all its pictures, without scripts.
std::string exhibits_html(std::span<const Exhibit> exhibits);
// Markdown: a line for each exhibit, and all findings.
std::string exhibits_summary(std::span<const Exhibit> exhibits);

// Two runs next to each other, such as runs on a host and on a GPU: the paper's number, the number of each run, and the
// ratio of the second to the first. Cells belong together by their rows and columns. A page, and Markdown with the
// findings.
struct TwoRuns {
  std::span<const Exhibit> first, second;
};
std::string beside_html(const TwoRuns& runs);
std::string beside_summary(const TwoRuns& runs);

// What pages share.
std::string number_text(double value, int digits);
std::string ours_text(const Cell& cell, const Column& column);
std::string heading_of(const Column& column);
// "2026-11-25T22:00:00Z, Intel Xeon ..., 2 threads, load 0.3, version 0.1.0, commit abc"
std::string provenance_text(const Exhibit& exhibit);
std::string page_head(const std::string& title, const std::string& explained);
// "Papers: ..." and the end of a page.
std::string page_end(std::span<const Exhibit> exhibits);

}  // namespace protean::research

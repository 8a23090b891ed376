// Exhibits of S0 about its matrices: features, histograms of row lengths, pictures of patterns.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "research/reproduce/tools.hpp"

namespace protean::research::exhibits {
namespace {

// 0 or a multiple of a power of two in the histogram of row lengths.
Chart histogram(const Specimen& specimen) {
  std::map<std::int64_t, std::int64_t> counts;
  const SparsityPattern& pattern = specimen.csr.pattern;
  const std::int64_t width = std::max<std::int64_t>(1, (specimen.statistics.longest + 99) / 100);
  for (std::int64_t row = 0; row < pattern.rows; ++row) ++counts[pattern.row_length(row) / width];
  Chart chart{"steps",
              specimen.made.empty() ? specimen.name : specimen.made,
              {"entries in a row", false, false},
              {"rows", true, false},
              {},
              {{"rows", false, {}}}};
  for (const auto& [bin, count] : counts) {
    chart.series[0].points.push_back({static_cast<double>(bin * width), static_cast<double>(count)});
    if (!counts.count(bin + 1))
      chart.series[0].points.push_back({static_cast<double>((bin + 1) * width), 0.5});
  }
  return chart;
}

// The pattern on a grid of at most 48 x 48 squares; dark if a square has many entries.
Chart pattern_of(const Specimen& specimen, std::int64_t first, std::int64_t end) {
  constexpr std::int64_t squares = 48;
  const SparsityPattern& pattern = specimen.csr.pattern;
  const std::int64_t rows = end - first;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts;
  for (std::int64_t row = first; row < end; ++row)
    for (const std::int32_t col : pattern.row(row))
      if (col >= first && col < end)
        ++counts[{(row - first) * squares / rows, (col - first) * squares / rows}];
  Chart chart{
      "heat",
      fmt::format("{}, rows {} to {}", specimen.made.empty() ? specimen.name : specimen.made, first, end - 1),
      {"column", false, false},
      {"row", false, true},
      {},
      {{"entries in a square", false, {}}}};
  for (const auto& [square, count] : counts)
    chart.series[0].points.push_back({static_cast<double>(first + square.second * rows / squares),
                                      static_cast<double>(first + square.first * rows / squares),
                                      std::round(100 * std::log2(1.0 + static_cast<double>(count))) / 100});
  return chart;
}

}  // namespace

Exhibit survey_matrices(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s0-table-3"];
  e.columns = {{"M", "rows", {}, 0},
               {"NZ", "entries", {}, 0},
               {"AVG NZR", "entries", {}, 1},
               {"MAX NZR", "entries", {}, 0}};
  for (std::size_t row = 0; row < table.rows() && !lab.interrupted(); ++row) {
    const Specimen& specimen = lab.matrix(table.label(row));
    const Statistics& s = specimen.statistics;
    e.rows.push_back(
        {table.label(row),
         specimen.made,
         {cell(table, row, "M", static_cast<double>(s.rows)),
          cell(table, row, "NZ", static_cast<double>(s.nonzeros)), cell(table, row, "AVG NZR", s.mean),
          cell(table, row, "MAX NZR", static_cast<double>(s.longest))}});
  }
  note_matrices(e);
  judge(
      e,
      "Matrices that are there have the printed numbers: rows and entries equal, the mean within its last "
      "digit",
      "5.1.2",
      [&](const Numbers& n) -> Judged {
        int same = 0, all = 0;
        for (const ExhibitRow& row : e.rows) {
          if (!row.made.empty()) continue;
          ++all;
          bool equal = true;
          for (const char* column : {"M", "NZ", "MAX NZR", "AVG NZR"}) {
            const auto a = n(row.name, column), b = e.printed(row.name, column);
            equal = equal && a && b && std::fabs(*a - *b) <= (column[0] == 'A' ? 0.1 : 0);
          }
          same += equal;
        }
        if (all == 0) return {};
        return {same == all, fmt::format("{} of {}", same, all)};
      },
      true);
  return e;
}

Exhibit survey_histograms(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s0-table-3"];
  const bool graphs = entry.id == "s0-figure-11";
  e.columns = {
      {"AVG NZR", "entries", {}, 1}, {"MAX NZR", "entries", {}, 0}, {"up to 3 entries", "rows", {}, 0}};
  const std::vector<std::string> names = graphs ? std::vector<std::string>{"webbase-1M", "wiki-Talk"}
                                                : std::vector<std::string>{"bcsstk17", "FEM_3D_thermal2"};
  for (const std::string& name : names) {
    const Specimen& specimen = lab.matrix(name);
    std::int64_t few = 0;
    for (std::int64_t row = 0; row < specimen.csr.rows(); ++row)
      few += specimen.csr.pattern.row_length(row) <= 3;
    Cell third;
    // Section 5.2.
    if (name == "webbase-1M") third.printed = "915506", third.paper = 915506;
    third.ours = static_cast<double>(few);
    const std::size_t row = *table.find(name);
    e.rows.push_back(
        {name,
         specimen.made,
         {cell(table, row, "AVG NZR", specimen.statistics.mean),
          cell(table, row, "MAX NZR", static_cast<double>(specimen.statistics.longest)), third}});
    e.charts.push_back(histogram(specimen));
  }
  note_matrices(e);
  if (!graphs)
    e.limits.emplace_back(
        "The text does not name the matrices of this figure; two matrices of Table 3 are shown.");
  judge(
      e,
      graphs ? "The longest row is more than 100 times the mean"
             : "The longest row is at most 5 times the mean",
      "5.2",
      [&](const Numbers& n) -> Judged {
        std::string evidence;
        bool all = true;
        for (const ExhibitRow& row : e.rows) {
          const auto longest = n(row.name, "MAX NZR"), mean = n(row.name, "AVG NZR");
          if (!longest || !mean) return {};
          all = all && (graphs ? *longest > 100 * *mean : *longest <= 5 * *mean);
          evidence += fmt::format("{}{} {:.1f}", evidence.empty() ? "" : ", ", row.name, *longest / *mean);
        }
        return {all, evidence};
      },
      true);
  return e;
}

Exhibit survey_patterns(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"mean distance from the diagonal", "of the columns", {}, -1}};
  const bool one = entry.id == "s0-figure-10";
  const std::vector<std::string> names = one ? std::vector<std::string>{"FEM_3D_thermal2"}
                                             : std::vector<std::string>{"roadNet-CA", "webbase-1M"};
  for (const std::string& name : names) {
    const Specimen& specimen = lab.matrix(name);
    double sum = 0;
    for (std::int64_t row = 0; row < specimen.csr.rows(); ++row)
      for (const std::int32_t col : specimen.csr.pattern.row(row))
        sum += std::fabs(static_cast<double>(col - row));
    Cell distance;
    distance.ours =
        sum / static_cast<double>(specimen.csr.nonzeros()) / static_cast<double>(specimen.csr.cols());
    e.rows.push_back({name, specimen.made, {distance}});
    e.charts.push_back(pattern_of(specimen, 0, specimen.csr.rows()));
    if (one) {
      const std::int64_t half = specimen.csr.rows() / 2;
      e.charts.push_back(pattern_of(specimen, half, std::min(half + 512, specimen.csr.rows())));
    }
  }
  note_matrices(e);
  e.limits.emplace_back("A pattern is a picture: the paper prints no number to compare with.");
  return e;
}

}  // namespace protean::research::exhibits

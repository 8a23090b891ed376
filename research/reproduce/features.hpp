// The data set of S3 and what its exhibits share: P. Mpakos et al., Feature-based SpMV performance analysis on
// contemporary devices, IPDPS 2023.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "apps/matrix/presets.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "research/reproduce/tools.hpp"

namespace protean::research::exhibits {

// The formats whose best is the performance of a matrix, as section IV has them for a CPU and for a GPU.
inline std::vector<std::pair<std::string, Way>> candidates(const Lab& lab) {
  if (lab.device())
    return {{"CSR", {"csr", {}, "cusparse"}},
            {"COO", {"coo"}},
            {"HYB", {"hyb"}},
            {"CSR5", {"csr5"}},
            {"Merge", {"merge-csr"}}};
  return {{"CSR", {"csr", {{"balance", "rows"}}}},
          {"Bal-CSR", {"balanced-csr"}},
          {"Vec-CSR", {"vectorized-csr"}},
          {"CSR5", {"csr5"}},
          {"SELL-C-s", {"sell-c-sigma"}}};
}
// The one whose threads have whole rows, and the one that cuts rows at equal numbers of entries.
inline constexpr std::string_view by_rows = "CSR", by_entries = "CSR5";

inline Cell ours(std::optional<double> value, std::string word = {}) {
  return {{}, {}, value, std::move(word)};
}

// A matrix of the data set, with the GFLOPS of the candidates (0: refused).
struct Sample {
  double entries, mean, skew, similarity, neighbours;  // asked for
  double mib = 0;                                      // reached
  std::vector<double> speeds = {};
  double best() const { return speeds.empty() ? 0 : *std::max_element(speeds.begin(), speeds.end()); }
};

struct Space5 {
  std::vector<double> entries, means, skews, similarities, neighbours;
};

// Corners of Table I for size quick, all of Table I for the others. The numbers of entries are a part of the
// largest that the size allows; with full they are the middles of the ranges of the table.
inline Space5 space_of(const Lab& lab) {
  const double most = static_cast<double>(std::min<std::int64_t>(lab.most_entries(), 100000000));
  if (!info_of(lab.options().size).whole_table)
    return {{most / 8, most}, {5, 20, 100}, {0, 100}, {0.05, 0.95}, {0.05, 1.9}};
  const double mib = 1048576.0 / 12;
  const std::vector<double> entries = lab.options().size == Size::full
                                          ? std::vector<double>{11.3 * mib, 128 * mib, 1024 * mib}
                                          : std::vector<double>{most / 64, most / 8, most};
  return {entries,
          {5, 10, 20, 50, 100, 500},
          {0, 100, 1000, 10000},
          {0.05, 0.5, 0.95},
          {0.05, 0.5, 0.95, 1.4, 1.9}};
}

// Measured once a run.
inline const std::vector<Sample>& data_set(Lab& lab) {
  std::any& kept = lab.kept("features: data set");
  if (const auto* const found = std::any_cast<std::vector<Sample>>(&kept)) return *found;
  std::vector<Sample> samples;
  const Space5 space = space_of(lab);
  const auto ways = candidates(lab);
  for (const double entries : space.entries)
    for (const double mean : space.means)
      for (const double skew : space.skews)
        for (const double similarity : space.similarities)
          for (const double neighbours : space.neighbours) {
            if (lab.interrupted()) break;
            Sample sample{entries, mean, skew, similarity, neighbours};
            const double rows = std::round(entries / mean);
            // Points of the table that do not exist: a row longer than the matrix is wide, or with most of its
            // entries.
            if (rows < 16 || (skew + 1) * mean > rows || (skew + 1) * mean > 0.5 * entries) continue;
            try {
              const Specimen& specimen =
                  lab.generated(fmt::format("{:.0f} entries, mean {}, skew {}, similarity {}, neighbours {}",
                                            entries, mean, skew, similarity, neighbours),
                                "artificial",
                                {{"n", rows},
                                 {"mean", mean},
                                 {"deviation", mean * std::min(1.0, skew / 4)},
                                 {"skew", skew},
                                 {"similarity", similarity},
                                 {"neighbours", std::min(neighbours, 2 * (mean - 1) / mean)},
                                 {"bandwidth", 0.3}});
              sample.mib = specimen.statistics.features.memory_footprint_mib;
              for (const auto& [name, way] : ways)
                sample.speeds.push_back(lab.gflops(specimen, way).value_or(0));
            } catch (const BadArgument&) { continue; }
            samples.push_back(std::move(sample));
          }
  kept = std::move(samples);
  return std::any_cast<const std::vector<Sample>&>(kept);
}

template <class Wanted>
std::vector<double> bests(const std::vector<Sample>& samples, const Wanted& wanted) {
  std::vector<double> values;
  for (const Sample& sample : samples)
    if (wanted(sample) && sample.best() > 0) values.push_back(sample.best());
  return values;
}

inline void note_features(Exhibit& e, const Lab& lab, const std::vector<Sample>& samples) {
  note_machine(e, lab, "nine machines, of which it shows three");
  e.limits.push_back(fmt::format(
      "{} matrices instead of 16200, the largest of {:.1f} MiB (size {}); the paper goes to 2048.",
      samples.size(),
      samples.empty() ? 0
                      : std::max_element(samples.begin(), samples.end(),
                                         [](const auto& a, const auto& b) { return a.mib < b.mib; })
                            ->mib,
      e.size));
  e.limits.emplace_back("The paper draws boxes and prints no numbers but those of its text.");
}

inline const std::vector<Column> box_columns = {{"least", "GFLOPS", {}, 2},
                                                {"lower quartile", "GFLOPS", {}, 2},
                                                {"median", "GFLOPS", {}, 2},
                                                {"upper quartile", "GFLOPS", {}, 2},
                                                {"largest", "GFLOPS", {}, 2}};

// A row of five numbers, and a box at category `at` of the series.
inline void add_box(Exhibit& e, Series& series, double at, const std::string& name,
                    const std::vector<double>& values) {
  const std::vector<double> box = box_of(values);
  ExhibitRow row{name, fmt::format("{} matrices", values.size()), std::vector<Cell>(box_columns.size())};
  if (!box.empty()) {
    std::vector<double> point{at};
    for (std::size_t k = 0; k < 5; ++k) row.cells[k].ours = box[k], point.push_back(box[k]);
    series.points.push_back(std::move(point));
  }
  e.rows.push_back(std::move(row));
}

inline void add_stated_row(Lab& lab, Exhibit& e, std::string_view quantity, std::optional<double> value) {
  ExhibitRow row{std::string(quantity), {}, std::vector<Cell>(box_columns.size())};
  row.cells[2] = stated_cell(lab, e, quantity, value);
  e.rows.push_back(std::move(row));
}

inline std::optional<double> ratio_of_medians(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty() || b.empty()) return {};
  return median_of(a) / median_of(b);
}

inline char third_of(double value, double range) {
  return value < range / 3 ? 'S' : value < 2 * range / 3 ? 'M' : 'L';
}

}  // namespace protean::research::exhibits

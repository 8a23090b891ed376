// The features of a pattern that selectors of formats read.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "core/csr.hpp"

namespace protean {

// In the order of the trained models (formats/selectors/trained.json names the features that each model reads).
inline constexpr std::array<std::string_view, 26> feature_names = {
    "rows",       "cols",           "nonzeros",     "density",      "mean",          "deviation",
    "longest",    "shortest",       "empty_rows",   "row_changes",  "diagonals",     "true_diagonals",
    "true_ratio", "er_dia",         "er_ell",       "power_law",    "runs_min",      "runs_max",
    "runs_mean",  "runs_deviation", "run_size_min", "run_size_max", "run_size_mean", "run_size_deviation",
    "span",       "csr_bytes"};

// rows, cols, nonzeros; density: nonzeros / (rows cols); mean, deviation, longest, shortest: of row lengths (population
// deviation); empty_rows: part of the rows; row_changes: rows whose length differs from the length of the row before,
// of all; diagonals: with an entry; true_diagonals: with an entry in at least half of their places; true_ratio:
// true_diagonals / diagonals; er_dia: nonzeros / (diagonals rows); er_ell: nonzeros / (longest rows); power_law:
// exponent R of P(k) ~ k^-R, by 1 + n / sum ln(k / shortest) over the n rows with entries, 0 if all have one length;
// runs: of neighbouring columns in a row, their number over rows and their sizes; span: mean of (last column - first +
// 1) / cols over rows with entries; csr_bytes: of pattern and values of 8 bytes.
struct PatternFeatures {
  std::array<double, feature_names.size()> values{};
  double operator[](std::string_view name) const;  // 0 for an unknown name
};
// Position in feature_names; throws BadArgument for another name.
std::size_t feature_index(std::string_view name);

// One pass over a pattern in host memory with sorted rows, in one thread; 4 bytes a row and column of workspace. All
// numbers are finite, also without rows, columns or entries.
PatternFeatures features_of(const SparsityPattern& pattern);

}  // namespace protean

// Rules of the literature for the threads that compute a row of csr on a GPU: a power of two from 1 to 32. Pure
// functions of numbers, which need no GPU.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constexpr int warp_lanes = 32;

inline double mean_length(std::int64_t rows, std::int64_t nonzeros) noexcept {
  return rows > 0 ? static_cast<double>(nonzeros) / static_cast<double>(rows) : 0;
}
// The smallest power of two that is at least this length, at most a warp.
inline int lanes_at_least(double length) noexcept {
  int lanes = 1;
  while (lanes < warp_lanes && lanes < length) lanes *= 2;
  return lanes;
}

// Guo and Wang 2010: half a warp or a warp. The border is ours: half a warp up to a mean of one and a half of its size.
inline int guo_wang_lanes(std::int64_t rows, std::int64_t nonzeros) noexcept {
  return mean_length(rows, nonzeros) <= 1.5 * 16 ? 16 : 32;
}
// El Zein and Rendell 2012: a thread or a warp. They measure the border on each device; here it is a mean of 8.
inline int elzein_rendell_lanes(std::int64_t rows, std::int64_t nonzeros) noexcept {
  return mean_length(rows, nonzeros) < 8 ? 1 : 32;
}
// Yoshizawa and Takahashi 2012: enough threads for the longest row.
inline int yoshizawa_lanes(std::int64_t longest) noexcept {
  return lanes_at_least(static_cast<double>(longest));
}
// Mukunoki and Takahashi 2013: the largest power of two up to the mean length.
inline int mukunoki_lanes(std::int64_t rows, std::int64_t nonzeros) noexcept {
  int lanes = 1;
  while (lanes < warp_lanes && 2 * lanes <= mean_length(rows, nonzeros)) lanes *= 2;
  return lanes;
}
// Wang et al. 2010: slightly more threads than the mean length.
inline int wang_lanes(std::int64_t rows, std::int64_t nonzeros) noexcept {
  return lanes_at_least(mean_length(rows, nonzeros) + 1);
}
// Liu and Schmidt 2015 (LightSpMV).
inline int lightspmv_lanes(std::int64_t rows, std::int64_t nonzeros) noexcept {
  const double mean = std::rint(mean_length(rows, nonzeros));
  return mean <= 2 ? 2 : mean <= 4 ? 4 : mean <= 64 ? 8 : 32;
}

// The ranges of csr-guo-gropp: the longest row and the threads a row of each.
constexpr int guo_gropp_ranges = 6;
constexpr std::int64_t guo_gropp_longest(int range) noexcept { return std::int64_t{2} << range; }
// `entries`: how many entries of the longest row of the range a thread has; not in the last range.
constexpr int guo_gropp_lanes(int range, int entries = 1) noexcept {
  return std::max(1, std::min(warp_lanes, (2 << range) / entries));
}

// acsr: the place of a row's bin in the list. Bins 1 to bin_max, longer rows, rows without entries.
constexpr int acsr_most_bins = 10;
constexpr int acsr_bin(std::int64_t length, int bin_max) noexcept {
  if (length == 0) return bin_max + 1;
  const int bin = std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length - 1))));
  return std::min(bin, bin_max + 1) - 1;
}

// Preset::choose with one of these rules.
template <int (*rule)(std::int64_t, std::int64_t)>
void choose_lanes(const Context&, const SparsityPattern& pattern, FormatParams& params) {
  params.set("T", rule(pattern.rows, pattern.nonzeros));
}

}  // namespace protean::formats

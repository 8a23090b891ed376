// HYB: the first K entries of every row are stored in ELLPACK, the other entries as coordinates.
//
//        | 1 . 2 . |     K = 1   ell_col    = 0 1 0 0      coo_row    = 0 3 3
//    A = | . 3 . . |             ell_values = 1 3 0 4      coo_col    = 2 1 3
//        | . . . . |             empty_row  = 2            coo_values = 2 5 6
//        | 4 5 . 6 |
//
// Arrays:
//   ell_col     [K rows] int32: slot s of row r lies at s rows + r. A slot without an entry has the column of the row's
//               last entry (0 in a row without entries).
//   ell_values  [K rows], in the same places. A slot without an entry has the value 0.
//   coo_row     [m] int32, for entries K, K + 1, ... of every row, sorted by row and column.
//   coo_col     [m] int32.
//   coo_values  [m].
//   empty_row   [rows without entries] int32: ascending; absent when K = 0.
// Bytes: (v + 4) K rows + (v + 8) m + 4 empty rows, with v bytes a value.
// Parameters:
//   K           entries of each row in ELLPACK; at most cols are used. -1 takes the rule: the smallest K such
//               that fewer than a third of the rows, or fewer than break_even rows, have more than K entries.
//               It is a third because an entry in ELLPACK is assumed to be three times as fast as an entry in
//               coordinates.
//   break_even  see K.
// Wins: when most rows have similar lengths and a few are long.
// Refuses: never, except a K for which the slots would exceed any memory.
// Source: N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented
//   processors, SC 2009, doi:10.1145/1654059.1654078.
//
// Padding never carries a NaN of x into a row that does not use it. The engine has the parts and their products
// (formats/engines/sum/sum.hpp).
#include <limits>

#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {

SumCut hyb_cut(const SumCounter& counter, const FormatParams& params) {
  const SparsityPattern& pattern = counter.pattern;
  const std::int64_t rows = pattern.rows, wanted = params.integer("K"),
                     break_even = params.integer("break_even");
  if (wanted >= 0) {
    const std::int64_t counted = std::min(wanted, longest_of(counter.classes()));
    const std::vector<std::int64_t> lengths = counter.lengths(counted);
    return cut_by_width(counter, std::min(wanted, pattern.cols), entries_within(lengths, rows, counted),
                        lengths[0], PartKind::coo);
  }
  // Fewer than a third of the rows are longer than three times the mean.
  const std::vector<std::int64_t> lengths = counter.lengths(rows > 0 ? 3 * (pattern.nonzeros / rows + 1) : 0);
  const std::int64_t width = smallest_width(lengths, rows, [&](std::int64_t longer) {
    return longer == 0 || 3 * longer < rows || longer < break_even;
  });
  return cut_by_width(counter, width, entries_within(lengths, rows, width), lengths[0], PartKind::coo);
}

namespace {

constexpr ParamDoc params[] = {{.name = "K",
                                .doc = "entries of each row in the ELLPACK part; -1 takes the one-third rule",
                                .default_value = "-1",
                                .smallest = -1,
                                .largest = std::numeric_limits<std::int32_t>::max()},
                               {.name = "break_even",
                                .doc = "the rule also stops growing K when fewer rows than this are longer; "
                                       "Bell and Garland took 4096 on a GPU",
                                .default_value = "0",
                                .smallest = 0,
                                .largest = std::numeric_limits<std::int32_t>::max()}};
constexpr Kernel kernels[] = {sum_kernel};

}  // namespace

constinit const FormatEntry entries::hyb{
    .family = "hybrid",
    .id = "hyb",
    .title = "ELLPACK for the first K entries of a row, coordinates for the rest",
    .source =
        "Bell and Garland, Implementing sparse matrix-vector multiplication on "
        "throughput-oriented processors, SC 2009",
    .traits = {},
    .params = params,
    .kernels = kernels,
    .admit = admit_sum<hyb_cut>,
    .device = &device_code::hyb};

}  // namespace protean::formats

// SIC, segmented interleave combination: the rows are sorted by length, and C rows at a time are interleaved into one
// long row, which a warp or a block computes.
//
//        | 1 . 2 . |     C = 2, all rows sorted
//    A = | . 3 . . |     perm      = 3 0 1 2
//        | . . . . |     slice_ptr = 0 6 8
//        | 4 5 . 6 |     col       = 0 0 1 2 3 2 | 1 0       values = 4 1 5 2 6 . | 3 .
//
// Arrays: as in sell-c-sigma, all rows sorted.
// Bytes: (v + 4) slots + 8 (slices + 1) + 4 rows + 4 empty rows, with v bytes a value.
// Parameters:
//   C         rows in a slice. 0 takes the smallest of 2, 4, 8, 16, 32 for which a slice of mean length has 64 slots.
//             measured takes the number with the fastest product on this machine, as the source does.
//   max_fill  the most slots per entry.
// Wins: on a GPU, when rows are long and of very different lengths: neighbouring slices have about the same width, and
//   a long row has a whole warp or block. On a host it is sell-c-sigma with all rows sorted.
// Refuses: when slots > max_fill nonzeros.
// Source: X. Feng, H. Jin, R. Zheng, K. Hu, J. Zeng, Z. Shao, Optimization of sparse matrix-vector multiplication with
//   variant CSR on GPUs, ICPADS 2011, 165-172, doi:10.1109/ICPADS.2011.91. A segment (slices launched together) is our
//   reading: all slices that get a warp, and all slices that get a block. Medium confidence.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {

constexpr std::string_view sic_chosen[] = {"sigma"};

void interleave(const Context&, const SparsityPattern& pattern, FormatParams& params) {
  std::int64_t C = params.integer("C");
  if (C == 0) {
    C = 2;
    while (C < 32 && C * pattern.nonzeros < 64 * pattern.rows) C *= 2;
    params.set("C", C);
  }
  params.set("sigma", std::max<std::int64_t>(1, (pattern.rows + C - 1) / C) * C);
}
constexpr FixedParam sic_fixed[] = {{"round", "1"}};

}  // namespace

constinit const Preset entries::sic{
    .family = "ell",
    .id = "sic",
    .title = "Rows sorted by length and interleaved, a warp or a block for each slice",
    .source = "Feng, Jin, Zheng, Hu, Zeng, Shao, ICPADS 2011",
    .base = "sell-c-sigma",
    .fixed = sic_fixed,
    .choose = interleave,
    .chosen = sic_chosen,
    .device_kernel = "segments"};

}  // namespace protean::formats

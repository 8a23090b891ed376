// ELL-WARP: all rows are sorted by length and cut into slices as high as a warp.
//
//        | 1 . 2 . |     with slices of 2 rows (a warp has 32)
//    A = | . 3 . . |     perm      = 3 0 1 2
//        | . . . . |     slice_ptr = 0 6 8
//        | 4 5 . 6 |     col       = 0 0 1 2 3 2 | 1 0       values = 4 1 5 2 6 . | 3 .
//
// Arrays: as in sell-c-sigma with C = 32 and sigma = rows, rounded up to a multiple of C.
// Bytes: (v + 4) slots + 8 (slices + 1) + 4 rows + 4 empty rows, with v bytes a value.
// Parameters: max_fill of sell-c-sigma.
// Wins: when rows of very different length lie everywhere in the matrix, and x is small or gathered at random anyway:
//   no other order of whole rows has less padding in slices of this height.
// Refuses: when slots > max_fill nonzeros.
// Source: J. Wong, E. Kuhl, E. Darve, A new sparse matrix vector multiplication graphics processing unit algorithm
//   designed for finite element problems, Int. J. Numer. Methods Eng. 102(12), 1784-1814, 2015, doi:10.1002/nme.4865.
//   The paper also orders rows of equal length among themselves; this is not implemented.
#include <algorithm>

#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam ell_warp_fixed[] = {{"C", "32"}};
constexpr std::string_view ell_warp_chosen[] = {"sigma"};
constexpr std::int64_t warp = 32;

void sort_all_rows(const Context&, const SparsityPattern& pattern, FormatParams& params) {
  params.set("sigma", std::max<std::int64_t>(1, (pattern.rows + warp - 1) / warp) * warp);
}
}  // namespace

constinit const Preset entries::ell_warp{
    .family = "ell",
    .id = "ell-warp",
    .title = "Slices of a warp, all rows sorted by length",
    .source = "Wong, Kuhl, Darve, Int. J. Numer. Methods Eng. 102(12), 2015",
    .base = "sell-c-sigma",
    .fixed = ell_warp_fixed,
    .choose = sort_all_rows,
    .chosen = ell_warp_chosen};

}  // namespace protean::formats

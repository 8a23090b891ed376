// Warped ELL: slices as high as a warp; rows are sorted by length only among the rows of a thread block.
//
//        | 1 . 2 . |     with slices of 2 rows (a warp has 32) and windows of 4 (a block has 256)
//    A = | . 3 . . |     perm      = 3 0 1 2
//        | . . . . |     slice_ptr = 0 6 8
//        | 4 5 . 6 |     col       = 0 0 1 2 3 2 | 1 0       values = 4 1 5 2 6 . | 3 .
//
// Arrays: as in sell-c-sigma with C = 32 and sigma = 256.
// Bytes: (v + 4) slots + 8 (slices + 1) + 4 rows + 4 empty rows, with v bytes a value.
// Parameters: max_fill of sell-c-sigma.
// Wins: on a GPU, when lengths vary a little among neighbours: sorting 256 rows removes most of the padding, and x is
//   still read near the x of the neighbours.
// Refuses: when slots > max_fill nonzeros.
// Source: M. Maggioni, T. Berger-Wolf, J. Liang, GPU-based steady-state solution of the chemical master equation,
//   IPDPSW 2013, 579-588. The paper sorts within the rows of a warp, which changes no padding if a slice is a warp; 256
//   rows, a thread block, is our reading. Medium confidence.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam warped_ell_fixed[] = {{"C", "32"}, {"sigma", "256"}};
}

constinit const Preset entries::warped_ell{.family = "ell",
                                           .id = "warped-ell",
                                           .title = "Slices of a warp, rows sorted within a thread block",
                                           .source = "Maggioni, Berger-Wolf, Liang, IPDPSW 2013",
                                           .base = "sell-c-sigma",
                                           .fixed = warped_ell_fixed};

}  // namespace protean::formats

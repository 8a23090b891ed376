// ELLPACK-R: ELLPACK with the length of every row, so that padding is never read.
//
//        | 1 . 2 . |     rows rounded up to a multiple of 8 (here 4): one slice of width 3
//    A = | . 3 . . |     col     = 0 1 0 0 | 2 1 0 1 | 2 1 0 3       lengths = 2 1 0 3
//        | . . . . |     values  = 1 3 . 4 | 2 . . 5 | . . . 6
//        | 4 5 . 6 |
//
// Arrays: as in hll with one hack and without diagonal_index.
// Bytes: (v + 4) ld width + 4 rows, with v bytes a value; ld = rows rounded up to a multiple of 8.
// Parameters: max_fill of hll.
// Wins: on a GPU, compared with ell, when lengths vary: a warp is done when the longest of its own rows is done.
// Refuses: when ld width > max_fill nonzeros: one long row pads all the others.
// Source: F. Vazquez, J. J. Fernandez, E. M. Garzon, A new approach for sparse matrix vector product on NVIDIA GPUs,
//   Concurrency Computat. Pract. Exper. 23(8), 2011, 815-826, doi:10.1002/cpe.1658.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam ellpack_r_fixed[] = {
    {"hack", "0"}, {"sort", "none"}, {"diagonal_index", "no"}, {"threads", "1"}};
}  // namespace

constinit const Preset entries::ellpack_r{
    .family = "ell",
    .id = "ellpack-r",
    .title = "ELLPACK with row lengths",
    .source = "Vazquez, Fernandez, Garzon, Concurrency Computat. 23(8), 2011",
    .base = "hll",
    .fixed = ellpack_r_fixed,
    .device_kernel = "native"};

}  // namespace protean::formats

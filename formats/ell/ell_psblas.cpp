// The ELLPACK of PSBLAS: ELLPACK with the length of every row and the place of its diagonal entry; one or two threads
// compute a row from the same arrays.
//
//        | 1 . 2 . |     rows rounded up to a multiple of 8 (here 4): one slice of width 3
//    A = | . 3 . . |     col     = 0 1 0 0 | 2 1 0 1 | 2 1 0 3       lengths        = 2 1 0 3
//        | . . . . |     values  = 1 3 . 4 | 2 . . 5 | . . . 6       diagonal_index = 0 0 -1 -1
//        | 4 5 . 6 |
//
// Arrays: as in hll with one hack.
// Bytes: (v + 4) ld width + 8 rows, with v bytes a value; ld = rows rounded up to a multiple of 8. This is row "ELL" of
//   Table 9 of the source.
// Parameters: max_fill of hll; threads of its device kernel.
// Wins: as ellpack-r; with two threads a row also when rows are longer than a warp.
// Refuses: when ld width > max_fill nonzeros.
// Source: S. Filippone, V. Cardellini, D. Barbieri, A. Fanfarillo, Sparse matrix-vector multiplication on GPGPUs, ACM
//   TOMS 43(4), 2017, doi:10.1145/3017994, section 4.4. Two threads a row above a mean length of 32 are our reading.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam ell_psblas_fixed[] = {{"hack", "0"}, {"sort", "none"}, {"diagonal_index", "yes"}};
}

constinit const Preset entries::ell_psblas{
    .family = "ell",
    .id = "ell-psblas",
    .title = "ELLPACK with row lengths and diagonal places, as in PSBLAS",
    .source = "Filippone, Cardellini, Barbieri, Fanfarillo, ACM TOMS 43(4), 2017",
    .base = "hll",
    .fixed = ell_psblas_fixed};

}  // namespace protean::formats

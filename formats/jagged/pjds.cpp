// pJDS, padded jagged diagonals: the jags of sorted rows, padded to whole blocks of rows, with the length of every row.
//
//        | 1 . 2 . |     with blocks of 2 rows (a warp has 32)
//    A = | . 3 . . |     perm    = 3 0 1 2
//        | . . . . |     jag_ptr = 0 4 6 8                    lengths = 3 2 1 0
//        | 4 5 . 6 |     col     = 0 0 1 . | 1 2 | 3 .        values = 4 1 3 . | 5 2 | 6 .
//
// Arrays: as in jad with round = 32 and ends = rows. In the paper jag_ptr is col_start and lengths is rowmax.
// Bytes: (v + 4) slots + 8 rows + 8 (longest + 1), with v bytes a value.
// Parameters: max_fill of jad.
// Wins: on a GPU, when row lengths vary: there is hardly any padding, and every warp reads whole lines of memory.
// Refuses: when slots > max_fill nonzeros, as when a few very long rows cause 31 slots of padding for each of their
//   entries.
// Source: M. Kreutzer, G. Hager, G. Wellein, H. Fehske, A. Basermann, A. R. Bishop, Sparse matrix-vector multiplication
//   on GPGPU clusters: a new storage format and a scalable implementation, IPDPSW 2012, doi:10.1109/IPDPSW.2012.211.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam pjds_fixed[] = {{"round", "32"}, {"ends", "rows"}};
}

constinit const Preset entries::pjds{
    .family = "jagged",
    .id = "pjds",
    .title = "Padded jagged diagonals with row lengths",
    .source = "Kreutzer, Hager, Wellein, Fehske, Basermann, Bishop, IPDPSW 2012",
    .base = "jad",
    .fixed = pjds_fixed,
    .device_kernel = "native"};

}  // namespace protean::formats

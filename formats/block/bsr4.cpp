// BSR 4 x 4: block rows of dense 4 x 4 blocks.
//
//        | 1 . 2 . |     block_ptr = 0 1
//    A = | . 3 . . |     block_col = 0                                          (. is a stored 0)
//        | . . . . |     values    = 1 . 2 . | . 3 . . | . . . . | 4 5 . 6
//        | 4 5 . 6 |
//
// Arrays: as in bcsr.
// Bytes: blocks (16 v + 6) + 8 (block rows + 1), with v bytes a value.
// Parameters: max_fill, the most stored values per entry.
// Wins: when most 4 x 4 blocks of the grid that have an entry are nearly full. Papers compare their formats with it.
// Refuses: when 16 blocks > max_fill nonzeros.
// Source: Y. Niu, Z. Lu, M. Dong, Z. Jin, W. Liu, G. Tan, TileSpMV: a tiled algorithm for sparse matrix-vector
//   multiplication on GPUs, IPDPS 2021, doi:10.1109/IPDPS49936.2021.00016 (cuSPARSE's BSR with blocks of 4 x 4).
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam bsr4_fixed[] = {{"rows", "4"}, {"cols", "4"}, {"sizes", "any"}, {"order", "blocks"}};
}  // namespace

constinit const Preset entries::bsr4{.family = "block",
                                     .id = "bsr4",
                                     .title = "bcsr with 4 x 4 blocks",
                                     .source = "Niu, Lu, Dong, Jin, Liu, Tan, IPDPS 2021",
                                     .base = "bcsr",
                                     .fixed = bsr4_fixed};

}  // namespace protean::formats

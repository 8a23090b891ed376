// TileSpMV_CSR: tiles of 16 x 16, each stored as a small CSR matrix.
//
//        | 1 . 2 . |     one tile of 4 x 4
//    A = | . 3 . . |     tile_ptr = 0 1    tile_col = 0    tile_kind = 0    tile_count = 5 (entries - 1)
//        | . . . . |     index    = 0 2 3 3 6 6 6 6 6 6 6 6 6 6 6 6 | 02 10 13     (columns of 4 bits, hexadecimal)
//        | 4 5 . 6 |     values   = 1 2 3 4 5 6
//
// Arrays: as in tilespmv-adpt; every tile has 16 row pointers of 8 bits and columns of 4 bits.
// Bytes: 24 (tile rows + 1) + 32 tiles + (v + 1/2) nonzeros, rounded up to whole bytes in each tile, with v bytes a
//   value; on a device also the workspace of tilespmv-adpt.
// Parameters: none.
// Wins: as tilespmv-adpt, when the rows of the tiles have neither equal lengths nor few entries. It is also there to be
//   compared with tilespmv-adpt.
// Refuses: as tilespmv-adpt. If tiles have few entries, it is much larger than csr.
// Source: Y. Niu, Z. Lu, M. Dong, Z. Jin, W. Liu, G. Tan, TileSpMV: A tiled algorithm for sparse matrix-vector
//   multiplication on GPUs, IPDPS 2021, 68-78, doi:10.1109/IPDPS49936.2021.00016.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam tilespmv_csr_fixed[] = {{"selection", "csr"}, {"coo", "tiles"}, {"rest", "csr"}};
}

constinit const Preset entries::tilespmv_csr{.family = "tiled",
                                             .id = "tilespmv-csr",
                                             .title = "TileSpMV with all tiles in csr",
                                             .source = "Niu, Lu, Dong, Jin, Liu, Tan, IPDPS 2021",
                                             .base = "tilespmv-adpt",
                                             .fixed = tilespmv_csr_fixed};

}  // namespace protean::formats

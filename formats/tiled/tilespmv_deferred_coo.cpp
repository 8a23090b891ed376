// TileSpMV_DeferredCOO: tiles of 16 x 16, each stored in one of the ways without coordinates; the entries that would be
// coordinates form a CSR matrix, whose product is added.
//
//        | 1 . 2 . |     its only tile would be coo: no tile is stored
//    A = | . 3 . . |     tile_ptr = 0 0    rest_ptr = 0 2 3 3 6    rest_col = 0 2 1 0 1 3    rest_values = 1 2 3 4 5 6
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays: as in tilespmv-adpt with coo = deferred. There are no tiles of the kinds coo and hyb.
// Bytes: as tilespmv-adpt.
// Parameters: selection, te, th and rest of tilespmv-adpt.
// Wins: when many entries are scattered, as in graphs, next to some dense areas: a tile of one or two entries would
//   cost more than the entries. The authors take it for more than 1.8 million nonzeros.
// Refuses: as tilespmv-adpt.
// Source: Y. Niu, Z. Lu, M. Dong, Z. Jin, W. Liu, G. Tan, TileSpMV: A tiled algorithm for sparse matrix-vector
//   multiplication on GPUs, IPDPS 2021, 68-78, doi:10.1109/IPDPS49936.2021.00016.
//
// The authors multiply the CSR matrix in CSR5: rest = csr5.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam tilespmv_deferred_coo_fixed[] = {{"coo", "deferred"}};
}

constinit const Preset entries::tilespmv_deferred_coo{
    .family = "tiled",
    .id = "tilespmv-deferred-coo",
    .title = "TileSpMV with coordinates in a separate matrix",
    .source = "Niu, Lu, Dong, Jin, Liu, Tan, IPDPS 2021",
    .base = "tilespmv-adpt",
    .fixed = tilespmv_deferred_coo_fixed};

}  // namespace protean::formats

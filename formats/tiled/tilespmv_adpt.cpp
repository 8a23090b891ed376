// TileSpMV: tiles of 16 x 16, each stored in whichever of seven ways suits its entries.
//
//        | 1 . 2 . |     one tile of 4 x 4, row lengths 2 1 0 3
//    A = | . 3 . . |     tile_ptr = 0 1    tile_col = 0    tile_kind = 1 (coo)    tile_count = 5 (entries - 1)
//        | . . . . |     index    = 00 02 11 30 31 33      (hexadecimal: row and column)
//        | 4 5 . 6 |     values   = 1 2 3 4 5 6
//
// Arrays:
//   tile_ptr     [tile rows + 1] int64: tiles before each tile row, of 16 rows. Only tiles with entries are stored.
//   value_ptr    [tile rows + 1] int64, index_ptr [tile rows + 1] int64: values and bytes of `index` before each tile
//                row.
//   tile_col, tile_value, tile_index, tile_kind, tile_slots, tile_count
//                [tiles] int32, uint32, uint32, uint8, uint8, uint8, side by side in 16 bytes per tile: tile column,
//                ascending in a tile row; first value and first byte of `index`, counted from the first ones of the
//                tile row; 0 csr, 1 coo, 2 ell, 3 hyb, 4 dns, 5 dns_row, 6 dns_col; two more fields that depend on the
//                kind (formats/engines/tiles/tiles.hpp).
//   index        uint8: row pointers, columns of 4 bits, numbers of rows, bits, depending on the kind.
//   values       the values of all tiles.
//   rest_ptr     [rows + 1] int32 or int64, rest_col, rest_values: with coo = deferred, CSR arrays of the entries that
//                coo and hyb tiles would store as coordinates.
//   unit, split, partial, and the tiles of the deferred entries, on a device: workspace of a product.
// Bytes: 24 (tile rows + 1) + 16 tiles + index + v values + [p (rows + 1) + (v + 4) deferred entries], with v bytes a
//   value and p bytes a row pointer; with rest = csr5 also the bytes of a csr5 matrix of the deferred entries; on a
//   device also 16 (units + 1) + 8 (split tile rows + 1) + 16 v units of split tile rows, a unit being 8 tiles, and
//   without rest = csr5 the starts and carries of the deferred entries.
// Parameters:
//   selection  how the kind of a tile is chosen. paper: by the published rules; code: by the rules of the authors'
//              program; csr: csr for all.
//   coo        tiles: coordinates stay in their tile. deferred: they form a CSR matrix, and a second product adds it.
//              auto: deferred for matrices of more than 1.8 million entries, the authors' rule.
//   rest       csr5: the deferred entries are multiplied in csr5, as the authors do. csr: as csr does. See below.
//   te, th     percent: a tile is ell if the variation of its row lengths is at most te, and hyb if it is above th.
// Wins: when entries lie in small dense areas: an index takes half a byte, and a warp uses the 16 elements of x of a
//   tile again.
// Refuses: never, except for more than 2^32 - 1 values in 16 rows. If tiles have one or two entries, it is larger than
//   csr.
// Source: Y. Niu, Z. Lu, M. Dong, Z. Jin, W. Liu, G. Tan, TileSpMV: A tiled algorithm for sparse matrix-vector
//   multiplication on GPUs, IPDPS 2021, 68-78, doi:10.1109/IPDPS49936.2021.00016.
//
// A dns tile multiplies all its places, so a NaN in x reaches all its rows; no other kind reads x for a row that does
// not use it. The bits of dns, and the two bytes of ell and hyb that mark rows without entries, are ours. Warps that
// share a tile row add to y by atomic operations in the original; here a second launch adds their sums in a fixed
// order. The authors multiply deferred entries in CSR5, which rest = csr5 does with a copy of them; without it the
// product uses the CSR arrays, on a GPU in tiles of equal numbers of entries (formats/engines/runs/entry_tiles.cuh).
#include "formats/engines/tiles/tiles_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr ParamDoc params[] = {
    {.name = "selection",
     .doc = "kind of a tile: by the rules of the paper, by the rules of the authors' program, or csr for all",
     .default_value = "paper",
     .choices = "paper|code|csr"},
    {.name = "coo",
     .doc = "where entries that are stored as coordinates lie: in their tiles, or in a CSR matrix",
     .default_value = "tiles",
     .choices = "tiles|deferred|auto"},
    {.name = "rest",
     .doc = "product of the deferred entries: csr; or csr5, of a copy of them",
     .default_value = "csr",
     .choices = "csr|csr5"},
    {.name = "te",
     .doc = "a tile is ell if its row lengths vary by at most this percentage",
     .default_value = "20",
     .smallest = 0,
     .largest = 400},
    {.name = "th",
     .doc = "a tile is hyb if its row lengths vary by more than this percentage",
     .default_value = "100",
     .smallest = 0,
     .largest = 400}};

constexpr Kernel kernels[] = {native_host_kernel<TileMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::tilespmv_adpt{.family = "tiled",
                                                   .id = "tilespmv-adpt",
                                                   .title = "TileSpMV: tiles of 16 x 16 stored in seven ways",
                                                   .source = "Niu, Lu, Dong, Jin, Liu, Tan, IPDPS 2021",
                                                   .traits = {.admits_slowly = true},
                                                   .params = params,
                                                   .kernels = kernels,
                                                   .admit = admit_tiles,
                                                   .device = &device_code::tilespmv_adpt};

}  // namespace protean::formats

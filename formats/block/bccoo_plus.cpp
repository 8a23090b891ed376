// BCCOO+: the matrix is cut into vertical slices, which are stacked one above the other in BCCOO; a second step adds
// their products.
//
//        | 1 . 2 . |     2 slices, 2 x 2 blocks: the stacked matrix has the block rows        (. is a stored 0)
//    A = | . 3 . . |     1 . | . . | 2 . | . .
//        | . . . . |     . 3 | 4 5 | . . | . 6
//        | 4 5 . 6 |     flags = 0 0 0 0    block_col = 0 0 1 1     columns as in A
//
// Arrays: as in bccoo for the stacked matrix, and
//   stacked  [slices block rows R]: the products of the slices, written by each product.
// Bytes: as bccoo, plus v slices block rows R, with v bytes a value.
// Parameters:
//   slices            vertical slices with the same number of columns of blocks, the last with fewer. 1 is bccoo,
//                     without `stacked` and the second step; measured takes the number among 1, 2, 4, 8, 16 and 32 with
//                     the fastest product on this machine, and so chooses between bccoo and bccoo-plus, as the paper's
//                     tuner does.
//   max_fill_percent  see Refuses.
//   rows, cols, shape, tile, lanes, max_fill: as in bccoo.
// Wins: on a GPU, when neighbouring rows have entries in distant columns and x does not fit into the cache: one slice
//   of x is read at a time.
// Refuses: as bccoo, and when `stacked` is more than max_fill_percent of the nonzeros.
// Source: S. Yan, C. Li, Y. Zhang, H. Zhou, yaSpMV: yet another SpMV framework on GPUs, PPoPP 2014, 107-118,
//   doi:10.1145/2555243.2555255.
//
// Each block row of a slice without entries has one block of zeros, so slices of hypersparse matrices are large. On a
// GPU a product is two launches: the blocks with their carries, and the sum of the slices. With many carries it is
// three, as in bccoo. The paper's tuner measures shape, slices and tile together, as {shape: measured, slices:
// measured, tile: measured} does; the authors' program looks at slices only if a matrix has more columns than rows. NaN
// and infinity in x: as in bccoo; a block of zeros lies in the first column of its slice.
#include "formats/engines/flagged_blocks/flagged_blocks_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr ParamDoc params[] = {
    {.name = "slices",
     .doc = "vertical slices of the matrix, 1 to 32; 1 is bccoo",
     .default_value = "2",
     .choices = "2|measured|1|4|8|16|32|..."},
    flag_rows_param,
    flag_cols_param,
    flag_shape_param,
    flag_tile_param,
    flag_lanes_param,
    block_fill_param,
    {.name = "max_fill_percent",
     .doc = "the format refuses more sums of slices than this percentage of the nonzeros",
     .default_value = "100",
     .smallest = 0,
     .largest = 1'000'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<FlaggedMatrix>(Sums::ordered)};
}  // namespace

constinit const FormatEntry entries::bccoo_plus{.family = "block",
                                                .id = "bccoo-plus",
                                                .title = "bccoo of vertical slices",
                                                .source = "Yan, Li, Zhang, Zhou, PPoPP 2014",
                                                .traits = {.shares_rows = true, .admits_slowly = true},
                                                .params = params,
                                                .kernels = kernels,
                                                .admit = admit_flagged_on_host,
                                                .device = &device_code::bccoo_plus};

}  // namespace protean::formats

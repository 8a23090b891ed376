// BCOO: coordinates of small dense blocks on a grid.
//
//        | 1 . 2 . |     2 x 2 blocks                          (. is a stored 0)
//    A = | . 3 . . |     block_row = 0 0 1 1
//        | . . . . |     block_col = 0 1 0 1
//        | 4 5 . 6 |     values    = 1 . . 3 | 2 . . . | . . 4 5 | . . . 6
//                        entries   =    9         1        12         8
//
// Arrays:
//   block_row  [blocks] int32: ascending.
//   block_col  [blocks] int32: number of the block's column of blocks, ascending within a block row.
//   values     [R C blocks]: one block after another, each row by row.
//   entries    [ceil(R C / 8) blocks] uint8: as in bcsr.
//   On a GPU also, for each segment of 128 blocks, carry_row int32 and R values: the block row that began in an earlier
//   segment, and its sums.
// Bytes: blocks (v R C + 8 + ceil(R C / 8)), with v bytes a value; on a GPU 4 + v R more per segment.
// Parameters: rows, cols, max_fill: as in bcsr.
// Wins: when block rows differ much in length, or many are empty: threads share the blocks, not the block rows.
//   Otherwise bcsr needs fewer bytes.
// Refuses: when R C blocks > max_fill nonzeros.
// Source: S. Yan, C. Li, Y. Zhang, H. Zhou, yaSpMV: yet another SpMV framework on GPUs, PPoPP 2014,
//   doi:10.1145/2555243.2555255 (blocked COO, before it is compressed).
//
// A NaN or infinity in x_j also reaches rows without an entry in column j if one of their blocks covers it.
#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BlockSpec bcoo_spec(const FormatParams& params) {
  return {{.container = BlockContainer::list}, allowed_shapes(params), fewest_bytes};
}

namespace {
constexpr ParamDoc params[] = {block_rows_param, block_cols_param, block_fill_param};
constexpr Kernel kernels[] = {native_host_kernel<BlockMatrix>(Sums::ordered)};
}  // namespace

constinit const FormatEntry entries::bcoo{.family = "block",
                                          .id = "bcoo",
                                          .title = "Coordinates of small dense blocks",
                                          .source = "Yan, Li, Zhang, Zhou, PPoPP 2014",
                                          .traits = {.admits_slowly = true},
                                          .params = params,
                                          .kernels = kernels,
                                          .admit = admit_blocks_on_host<bcoo_spec>,
                                          .device = &device_code::bcoo};

}  // namespace protean::formats

// BCCOO: blocked coordinates whose rows are compressed to one bit a block.
//
//        | 1 . 2 . |     2 x 2 blocks                          (. is a stored 0)
//    A = | . 3 . . |     flags     = 1 0 1 0         0: the last block of its block row
//        | . . . . |     block_col = 0 1 0 1
//        | 4 5 . 6 |     values    = 1 . 2 . . . . . | . 3 . . 4 5 . 6     row 0 of all blocks, then row 1
//                        entries   = 9 1 12 8
//
// Arrays:
//   There is a slot for each block, and for each block of zeros that fills up the last tiles.
//   flags      [slots / 8] uint8: bit k % 8 of byte k / 8 is 1 if block k + 1 lies in the same block row, and in
//              padding.
//   block_col  [slots] uint16 if there are at most 65,536 columns of blocks, else int32: number of the column of
//              blocks.
//   values     [R][C slots]: R arrays, one for each row of a block.
//   first_row  [tiles + 1] int32: the block row of the first block of each tile.
//   entries    [ceil(R C / 8) slots] uint8: as in bcsr.
//   A block row without entries has one block of zeros. The blocks of `lanes` neighbouring tiles alternate in all
//   arrays but flags (formats/engines/flagged_blocks/flagged_blocks.hpp). On a GPU also R values for each 128 tiles:
//   what these tiles add to the block row that began before them.
// Bytes: slots (v R C + 2 + ceil(R C / 8) + 1/8) + 4 (tiles + 1), with v bytes a value; 4 instead of 2 with int32
//   columns; on a GPU v R more for each 128 tiles, and 4 more.
// Parameters:
//   rows, cols  the size of the blocks; auto takes the size with the fewest bytes in a sample of the rows; measured
//               takes the size with the fastest product on this machine, as the paper's tuner does.
//   shape       2, 3 or 4 takes the size with the second, third or fourth fewest bytes; measured takes the fastest of
//               the first four, to which the paper's tuner restricts its search.
//   tile        blocks of one thread of a GPU; measured takes the fastest.
//   lanes       number of tiles whose blocks alternate. 0: 1 on a host and 32 on a GPU, which takes no other number.
//   max_fill    see Refuses.
// Wins: on a GPU, for matrices of small dense blocks whose block rows differ in length: threads have equal work, and
//   the rows take one bit per block instead of bcoo's 32.
// Refuses: when R C times the blocks, not counting one for each block row, are more than max_fill nonzeros.
// Source: S. Yan, C. Li, Y. Zhang, H. Zhou, yaSpMV: yet another SpMV framework on GPUs, PPoPP 2014, 107-118,
//   doi:10.1145/2555243.2555255.
//
// A thread of a GPU loads the flags of up to 32 blocks as one word. The paper's blocks of threads wait for the blocks
// before them (adjacent synchronisation). Here each block of threads leaves a carry, and the last block to finish adds
// the carries in their order: nothing waits, and the sum of a row has a fixed order. A product is one launch; if there
// are more than 256 carries, a second launch adds them. Columns are not compressed to differences. A NaN or infinity in
// x_j also reaches rows without an entry in column j if one of their blocks covers it; blocks of zeros lie in column 0.
#include "formats/engines/flagged_blocks/flagged_blocks_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr ParamDoc params[] = {flag_rows_param, flag_cols_param,  flag_shape_param,
                               flag_tile_param, flag_lanes_param, block_fill_param};
constexpr Kernel kernels[] = {native_host_kernel<FlaggedMatrix>(Sums::ordered)};
}  // namespace

constinit const FormatEntry entries::bccoo{.family = "block",
                                           .id = "bccoo",
                                           .title = "Blocks with one bit for the row",
                                           .source = "Yan, Li, Zhang, Zhou, PPoPP 2014",
                                           .traits = {.shares_rows = true, .admits_slowly = true},
                                           .params = params,
                                           .kernels = kernels,
                                           .admit = admit_flagged_on_host,
                                           .device = &device_code::bccoo};

}  // namespace protean::formats

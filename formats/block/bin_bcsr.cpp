// BIN-BCSR: rows of 3 x 3 blocks in bins, each padded to its longest row and stored in planes; the blocks on the
// diagonal are in a separate array.
//
//        | 1 . 2 . |     2 x 2 blocks, bin = 2                 (. is a stored 0)
//    A = | . 3 . . |     slice_ptr = 0 2
//        | . . . . |     block_col = 1 0
//        | 4 5 . 6 |     values    = 2 . | . . | . 4 | . 5     diagonal = 1 . | . . | . . | 3 6
//
// Arrays:
//   slice_ptr         [bins + 1] int64: slots before each bin.
//   block_col         [slots] int32: block k of the block row at place i of a bin of h block rows lies at slice_ptr + k
//                     h + i. Padding repeats the column of the last block; a block row without blocks off the diagonal
//                     has its own number.
//   values            [size^2 slots]: size^2 planes. Value (r, c) of slot s lies at (r size + c) slots + s.
//   entries           [ceil(size^2 / 8) slots] uint8: as in bcsr.
//   diagonal          [size^2 block rows]: the same for all blocks on the diagonal.
//   diagonal_entries  [ceil(size^2 / 8) block rows] uint8.
// Bytes: (slots + block rows) (v size^2 + ceil(size^2 / 8)) + 4 slots + 8 (bins + 1), with v bytes a value.
// Parameters: size, the rows and columns of a block; bin, the block rows of a bin; max_fill, the most stored values per
//   entry.
// Wins: on a GPU, with three unknowns at each node, as in the dynamics of deformable bodies.
// Refuses: rectangular matrices; when the stored values are more than max_fill nonzeros.
// Source: D. Weber, J. Bender, M. Schnoes, A. Stork, D. Fellner, Efficient GPU data structures and methods to solve
//   sparse linear systems in dynamics applications, Computer Graphics Forum 32(1), 2013, 16-26,
//   doi:10.1111/j.1467-8659.2012.03227.x.
//
// If size does not divide the rows, the last blocks are filled with 0; rows that do not exist are not written.
// A NaN or infinity in x_j also reaches rows without an entry in column j if one of their blocks covers it, including
// the block on the diagonal. In deterministic mode they do not.
#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BlockSpec bin_bcsr_spec(const FormatParams& params) {
  const std::int64_t size = params.integer("size");
  return {{.container = BlockContainer::slices,
           .order = BlockOrder::planes,
           .slice = params.integer("bin"),
           .diagonal_apart = true},
          {{size, size}},
          nullptr};
}

namespace {
constexpr ParamDoc params[] = {
    {.name = "size", .doc = "rows and columns of a block", .default_value = "3", .smallest = 1, .largest = 8},
    {.name = "bin", .doc = "block rows of a bin", .default_value = "32", .smallest = 1, .largest = 1 << 20},
    block_fill_param};
constexpr Kernel kernels[] = {native_host_kernel<BlockMatrix>(Sums::ordered)};
}  // namespace

constinit const FormatEntry entries::bin_bcsr{
    .family = "block",
    .id = "bin-bcsr",
    .title = "Bins of padded rows of 3 x 3 blocks in planes, the diagonal apart",
    .source = "Weber, Bender, Schnoes, Stork, Fellner, Computer Graphics Forum 32(1), 2013",
    .traits = {.square_only = true, .admits_slowly = true, .grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_blocks_on_host<bin_bcsr_spec>,
    .device = &device_code::bin_bcsr};

}  // namespace protean::formats

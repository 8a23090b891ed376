// BSELLPACK: ELL of small dense blocks in slices of block rows. Each slice is padded to its longest block row.
//
//        | 1 . 2 . |     1 x 2 blocks, slice = 2: units of 2 values                  (. is a stored 0)
//    A = | . 3 . . |     slice_ptr = 0 4 8
//        | . . . . |     block_col = 0 0 1 0 | 0 0 0 1
//        | 4 5 . 6 |     values    = 1 . . 3 2 . . . | . . 4 5 . . . 6
//
// Arrays:
//   slice_ptr  [slices + 1] int64: slots before each slice; none if slice = 0.
//   block_col  [slots] int32: block k of the block row at place i of a slice of h block rows lies at slice_ptr + k h +
//              i. It begins at column C times that number. Padding repeats the last block's column; it is 0 in an empty
//              block row. The last slice has only the block rows that are left.
//   values     [R C slots]: in units of 4 values (of C if 4 does not divide C; of 1 with order elements). Unit u of
//              block k of all block rows of a slice lie together: at (R C slice_ptr + k h R C) + (u h + i) W. 0 if
//              there is no entry.
//   entries    [ceil(R C / 8) slots] uint8: as in bcsr.
//   perm       [block rows] int32: with sort all, the block row at each place.
// Bytes: slots (v R C + 4 + ceil(R C / 8)) + 8 (slices + 1), and 4 block rows with sort all; v bytes a value.
// Parameters:
//   rows, cols, max_fill  as in bcsr.
//   slice     block rows of a slice; 0: one slice of all block rows (bell).
//   sort      all: block rows by descending number of blocks, sorted stably (bellpack).
//   order     of the values: units, or elements.
//   model     the measure by which auto chooses R and C: bytes, as in bcsr, or choi, the time of a model (bellpack).
// Wins: on a GPU, when neighbouring block rows have about the same number of blocks: neighbouring threads, one for each
//   block row, read neighbouring values, and x is loaded once for all rows of a block.
// Refuses: when R C slots > max_fill nonzeros.
// Source: B.-Y. Su, K. Keutzer, clSpMV: a cross-platform OpenCL SpMV framework on GPUs, ICS 2012,
//   doi:10.1145/2304576.2304624 (SBELL), also for the slices of 32.
//
// A NaN or infinity in x_j also reaches rows without an entry in column j if one of their blocks covers it, and empty
// block rows of a slice if block 0 covers it. In deterministic mode they do not.
#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BlockSpec bsellpack_spec(const FormatParams& params) {
  return {{.container = BlockContainer::slices,
           .order = BlockOrder::slices,
           .slice = params.integer("slice"),
           .sorted = params.word("sort") == "all",
           .units = params.word("order") == "units"},
          allowed_shapes(params),
          params.word("model") == "choi" ? choi_model : fewest_bytes};
}

namespace {
constexpr ParamDoc params[] = {
    block_rows_param,
    block_cols_param,
    {.name = "slice",
     .doc = "block rows of a slice; 0: one slice of all block rows",
     .default_value = "32",
     .smallest = 0,
     .largest = 1 << 20},
    {.name = "sort",
     .doc = "all: sort the block rows by descending number of blocks",
     .default_value = "none",
     .choices = "none|all"},
    {.name = "order",
     .doc = "values that lie together for each block row: units of 4, or single elements",
     .default_value = "units",
     .choices = "units|elements"},
    {.name = "model",
     .doc = "measure by which auto chooses a block: bytes, or the time of the model of Choi, Singh and Vuduc",
     .default_value = "bytes",
     .choices = "bytes|choi"},
    block_fill_param};
constexpr Kernel kernels[] = {native_host_kernel<BlockMatrix>(Sums::ordered)};
}  // namespace

constinit const FormatEntry entries::bsellpack{.family = "block",
                                               .id = "bsellpack",
                                               .title = "Sliced ELL of small dense blocks",
                                               .source = "Su, Keutzer, ICS 2012",
                                               .traits = {.admits_slowly = true, .grows_with_longest = true},
                                               .params = params,
                                               .kernels = kernels,
                                               .admit = admit_blocks_on_host<bsellpack_spec>,
                                               .device = &device_code::bsellpack};

}  // namespace protean::formats

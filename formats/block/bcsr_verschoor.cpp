// BCSR of Verschoor and Jalba: block rows of about the same length are computed side by side.
//
//        | 1 . 2 . |     1 x 2 blocks, K = 2                   (. is a stored 0)
//    A = | . 3 . . |     block_ptr = 0 2 3 3 5
//        | . . . . |     border    = 0 3 | 1 2
//        | 4 5 . 6 |     block_col = 0 1 0 0 1
//                        values    = 1 . 2 . | . 3 | | 4 5 . 6
//
// Arrays: as in bcsr, and
//   border  [block rows] int32: the block rows by descending number of blocks, sorted stably. The other arrays and y
//           keep their order.
// Bytes: as bcsr, plus 4 block rows.
// Parameters: rows, cols, max_fill: as in bcsr. For the kernel on a GPU:
//   K        number of block rows that a block of threads computes.
//   mapping  the threads that share a block row: a warp; part of a warp, as many as the mean block row has work for; or
//            an even share of the block of threads.
// Wins: on a GPU, when the lengths of block rows differ: the block rows of one block of threads are alike, so it does
//   not wait for a long one. On a host it is bcsr.
// Refuses: when R C blocks > max_fill nonzeros.
// Source: M. Verschoor, A. C. Jalba, Analysis and performance estimation of the conjugate gradient method on multiple
//   GPUs, Parallel Computing 38(10-11), 2012, 552-575, doi:10.1016/j.parco.2012.07.002.
//
// A NaN or infinity in x_j also reaches rows without an entry in column j if one of their blocks covers it.
#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BlockSpec bcsr_verschoor_spec(const FormatParams& params) {
  return {{.sorted = true}, allowed_shapes(params), fewest_bytes};
}

namespace {
constexpr ParamDoc params[] = {block_rows_param, block_cols_param, block_fill_param};
constexpr Kernel kernels[] = {native_host_kernel<BlockMatrix>(Sums::ordered)};
}  // namespace

constinit const FormatEntry entries::bcsr_verschoor{
    .family = "block",
    .id = "bcsr-verschoor",
    .title = "Compressed rows of small dense blocks, computed in the order of their lengths",
    .source = "Verschoor, Jalba, Parallel Computing 38(10-11), 2012",
    .traits = {.admits_slowly = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_blocks_on_host<bcsr_verschoor_spec>,
    .device = &device_code::bcsr_verschoor};

}  // namespace protean::formats

// BCSR: compressed rows of small dense blocks on a grid.
//
//        | 1 . 2 . |     2 x 2 blocks                          (. is a stored 0)
//    A = | . 3 . . |     block_ptr = 0 2 4
//        | . . . . |     block_col = 0 1 0 1
//        | 4 5 . 6 |     values    = 1 . . 3 | 2 . . . | . . 4 5 | . . . 6
//                        entries   =    9         1        12         8
//
// Arrays:
//   block_ptr  [block rows + 1] int64: number of blocks before each block row; block rows = ceil(rows / R).
//   block_col  [blocks] int32: number of the block's column of blocks, ascending within a block row. The
//              block begins at matrix column C times that number.
//   values     [R C blocks]: one block after another, each row by row; 0 if there is no such entry, row or column. With
//              order = units a block is R C / W units of W neighbouring values, W = 4 if C is a multiple of 4, else C;
//              unit u of all blocks lies before unit u + 1 of all blocks.
//   entries    [ceil(R C / 8) blocks] uint8: bit i % 8 of byte i / 8 of a block is 1 if its value i is an entry. It
//              distinguishes stored zeros from fill. Products do not read it, except in deterministic mode.
// Bytes: blocks (v R C + 4 + ceil(R C / 8)) + 8 (block rows + 1), with v bytes a value.
// Parameters:
//   rows, cols  R and C: 1 to 8 or auto. auto takes the size among 2, 3 and 4 that needs the fewest bytes. It counts
//               blocks in all rows of a matrix of up to 768 rows, and in 32 groups of 24 rows of a larger matrix.
//               Products with 5, 7 and with 6 and another size are slower.
//   sizes       the sizes that auto considers: any, or squares of 2 and 4 (for bcsr-cnc).
//   order       blocks or units. units is the order of clSpMV (Su and Keutzer, ICS 2012, Fig. 9), for a GPU: a warp
//               computes a block row, and each lane loads four values at a time.
//   max_fill    the most stored values per entry.
// Wins: when unknowns come in groups, such as the displacements of each node of a mesh. One column index serves R C
//   values, and x is loaded without a gather.
// Refuses: when R C blocks > max_fill nonzeros.
// Source: A. Pinar, M. T. Heath, Improving performance of sparse matrix-vector multiplication, SC 1999,
//   doi:10.1145/331532.331562; E.-J. Im, K. Yelick, R. Vuduc, Sparsity: optimization framework for sparse
//   matrix kernels, Int. J. High Perform. Comput. Appl. 18(1), 2004, doi:10.1177/1094342004041296.
//
// A NaN or infinity in x_j also reaches rows without an entry in column j if one of their blocks covers column j,
// because 0 times it is NaN. In deterministic mode it reaches only rows with an entry there.
#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/view/array_views.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BlockSpec bcsr_spec(const FormatParams& params) {
  const bool squares = params.word("sizes") == "2x2-4x4";
  BlockRule rule;
  if (params.word("order") == "units") rule.order = BlockOrder::planes, rule.units = true;
  return {rule, squares ? std::vector<BlockShape>{{2, 2}, {4, 4}} : allowed_shapes(params), fewest_bytes};
}

namespace {

template <class T>
class Bcsr final : public BlockMatrix<T>, public HasArrayView<BlockView<T>> {
 public:
  using BlockMatrix<T>::BlockMatrix;
  BlockView<T> array_view() const noexcept override {
    const BlockGrid<T> a = this->row_view();
    return {a.rows, a.cols, a.block_rows, a.slots, a.R, a.C, a.ptr, a.block_col, a.values};
  }
};

constexpr ParamDoc params[] = {
    block_rows_param,
    block_cols_param,
    {.name = "sizes",
     .doc = "any: as rows and cols say; 2x2-4x4: 2 x 2 or 4 x 4, whichever needs fewer bytes",
     .default_value = "any",
     .choices = "any|2x2-4x4"},
    {.name = "order",
     .doc = "blocks: one block after another; units: four values of all blocks together",
     .default_value = "blocks",
     .choices = "blocks|units"},
    block_fill_param};
constexpr Kernel kernels[] = {native_host_kernel<Bcsr>(Sums::ordered), PROTEAN_KOKKOS_KERNEL(bcsr)};

}  // namespace

constinit const FormatEntry entries::bcsr{
    .family = "block",
    .id = "bcsr",
    .title = "Compressed rows of small dense blocks",
    .source = "Pinar, Heath, SC 1999; Im, Yelick, Vuduc, IJHPCA 18(1), 2004",
    .traits = {.admits_slowly = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_blocks_on_host<bcsr_spec>,
    .device = &device_code::bcsr};

}  // namespace protean::formats

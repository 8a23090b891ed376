// BELLPACK: the block rows are sorted by their number of blocks and cut into slices, and each slice is an ELL of small
// dense blocks.
//
//        | 1 . 2 . |     1 x 2 blocks, slice = 2, order elements       (. is a stored 0)
//    A = | . 3 . . |     perm      = 0 3 | 1 2
//        | . . . . |     slice_ptr = 0 4 6
//        | 4 5 . 6 |     block_col = 0 0 1 1 | 0 0
//                        values    = 1 4 . 5 2 . . 6 | . . 3 .
//
// Arrays: as in bsellpack with perm and with order elements: value e of block k of all block rows of a slice lie
// together.
// Bytes: as bsellpack.
// Parameters: rows, cols, slice, max_fill: as in bsellpack, except that auto takes rows and cols of a block from the
//   model of the paper, in the form that bcsr-choi describes.
// Wins: on a GPU, when block rows differ in their numbers of blocks: it has fewer slots than bsellpack, but y is
//   written in the order of the sorted block rows.
// Refuses: when R C slots > max_fill nonzeros.
// Source: J. W. Choi, A. Singh, R. W. Vuduc, Model-driven autotuning of sparse matrix-vector multiply on GPUs, PPoPP
//   2010, doi:10.1145/1693453.1693471.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam bellpack_fixed[] = {{"sort", "all"}, {"order", "elements"}, {"model", "choi"}};
}  // namespace

constinit const Preset entries::bellpack{.family = "block",
                                         .id = "bellpack",
                                         .title = "bsellpack, block rows sorted, single elements",
                                         .source = "Choi, Singh, Vuduc, PPoPP 2010",
                                         .base = "bsellpack",
                                         .fixed = bellpack_fixed};

}  // namespace protean::formats

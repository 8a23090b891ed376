// ELLPACK-RP: ELLPACK-R whose rows are sorted by length.
//
//        | 1 . 2 . |     rows rounded up to a multiple of 8 (here 4): one slice of width 3
//    A = | . 3 . . |     perm    = 3 0 1 2                           lengths = 3 2 1 0
//        | . . . . |     col     = 0 0 1 0 | 1 2 1 0 | 3 2 1 0
//        | 4 5 . 6 |     values  = 4 1 3 . | 5 2 . . | 6 . . .
//
// Arrays: as in hll with one hack, sorted, without diagonal_index.
// Bytes: (v + 4) ld width + 8 rows, with v bytes a value; ld = rows rounded up to a multiple of 8.
// Parameters: max_fill of hll.
// Wins: on a GPU, when lengths vary much: all rows of a warp have about the same length.
// Refuses: when ld width > max_fill nonzeros; sorting does not reduce what is stored.
// Source: W. Cao, L. Yao, Z. Li, Y. Wang, Z. Wang, Implementing sparse matrix-vector multiplication using CUDA based on
//   a hybrid sparse matrix format, ICCASM 2010, doi:10.1109/ICCASM.2010.5623237.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam ellpack_rp_fixed[] = {
    {"hack", "0"}, {"sort", "all"}, {"diagonal_index", "no"}, {"threads", "1"}};
}  // namespace

constinit const Preset entries::ellpack_rp{.family = "ell",
                                           .id = "ellpack-rp",
                                           .title = "ELLPACK with row lengths, rows sorted by length",
                                           .source = "Cao, Yao, Li, Wang, Wang, ICCASM 2010",
                                           .base = "hll",
                                           .fixed = ellpack_rp_fixed,
                                           .device_kernel = "native"};

}  // namespace protean::formats

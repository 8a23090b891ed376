// RgCSR, row-grouped CSR: groups of 128 rows, each padded to its longest row and stored column by column, with row
// lengths. A thread block computes a group.
//
//        | 1 . 2 . |     groups of 2 rows
//    A = | . 3 . . |     slice_ptr = 0 4 10
//        | . . . . |     col       = 0 1 2 1 | 0 0 0 1 0 3        lengths = 2 1 0 3
//        | 4 5 . 6 |     values    = 1 3 2 . | . 4 . 5 . 6
//
// Arrays: as in hll with hack = 128 and without diagonal_index.
// Bytes: (v + 4) slots + 8 (groups + 1) + 4 rows, with v bytes a value.
// Parameters: max_fill of hll.
// Wins: when the lengths of 128 neighbouring rows are similar: fewer pointers than hll, and more padding.
// Refuses: when slots > max_fill nonzeros.
// Source: T. Oberhuber, A. Suzuki, J. Vacata, New row-grouped CSR format for storing the sparse matrices on GPU with
//   implementation in CUDA, Acta Technica 56, 2011, 447-466, arXiv:1012.2270. The groups of 128 rows are quoted from
//   memory of that paper: medium confidence.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam rgcsr_fixed[] = {
    {"hack", "128"}, {"sort", "none"}, {"diagonal_index", "no"}, {"threads", "1"}};
}  // namespace

constinit const Preset entries::rgcsr{.family = "ell",
                                      .id = "rgcsr",
                                      .title = "Row-grouped CSR: groups of a thread block",
                                      .source = "Oberhuber, Suzuki, Vacata, Acta Technica 56, 2011",
                                      .base = "hll",
                                      .fixed = rgcsr_fixed,
                                      .device_kernel = "native"};

}  // namespace protean::formats

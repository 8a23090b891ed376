// CSC with atomic additions: on a GPU a group of threads computes each column and adds to y by atomic operations.
//
//        | 1 . 2 . |     col_ptr = 0 2 4 5 6             2 threads a column: for column 0 they read x[0] once
//    A = | . 3 . . |     row     = 0 3 | 1 3 | 0 | 3     and add 1 x[0] to y[0], 4 x[0] to y[3]
//        | . . . . |     values  = 1 4 | 3 5 | 2 | 6
//        | 4 5 . 6 |
//
// Arrays: as in csc, on a GPU without `split`.
// Bytes: as csc; on a GPU (v + 4) nnz + p (cols + 1), with v bytes a value and p = 4 or 8 bytes a pointer.
// Parameters:
//   lanes  threads for each column on a GPU; 0 takes the largest power of two up to the mean length of a column.
// Wins: on a GPU, as the product with the transpose of a matrix that is stored by rows, when columns seldom share rows
//   of y. (Kernel native of csc divides the entries instead of the columns.) On a host it is the kernel of csc.
// Refuses: deterministic mode on a GPU, since the order of the sums is not fixed.
// Source: M. R. Hugues, S. G. Petiton, Sparse matrix formats evaluation and optimization on a GPU, HPCC 2010, 122-129,
//   as described by Filippone et al., ACM TOMS 43 (2017), doi:10.1145/3017994: one or several threads for a column.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constinit const Preset entries::csc_atomic{.family = "column",
                                           .id = "csc-atomic",
                                           .title = "csc, threads for each column, sums by atomic operations",
                                           .source = "Hugues, Petiton, HPCC 2010",
                                           .base = "csc",
                                           .host_kernel = "native",
                                           .device_kernel = "atomic"};

}  // namespace protean::formats

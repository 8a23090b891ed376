// CSC in two passes on a GPU: the products of all columns first, then the sums of all rows.
//
//        | 1 . 2 . |     col_ptr = 0 2 4 5 6             row_ptr = 0 2 3 3 6
//    A = | . 3 . . |     row     = 0 3 | 1 3 | 0 | 3     map     = 0 4 | 2 | | 1 3 5
//        | . . . . |     values  = 1 4 | 3 5 | 2 | 6     products = 1 x0, 4 x0 | 3 x1, 5 x1 | 2 x2 | 6 x3
//        | 4 5 . 6 |
//
// Arrays: as in csc, on a GPU without `split`, and there also
//   row_ptr   [rows + 1] as wide as col_ptr.
//   map       [nnz] as wide as col_ptr: the place of each entry in `values`, in the order of csr.
//   products  [nnz] workspace.
// Bytes: as csc; on a GPU (2 v + 4 + p) nnz + p (cols + rows + 2), with v bytes a value and p = 4 or 8 bytes a pointer.
// Parameters:
//   lanes  threads for each column on a GPU; 0 takes the largest power of two up to the mean length of a column.
// Wins: on a GPU, compared with csc, when the sums must have a fixed order. Reading `products` through `map` makes it
//   slower than csr. On a host it is the kernel of csc.
// Refuses: never.
// Source: M. R. Hugues, S. G. Petiton, Sparse matrix formats evaluation and optimization on a GPU, HPCC 2010, 122-129,
//   as described by Filippone et al., ACM TOMS 43 (2017), doi:10.1145/3017994: one or several threads for a column.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constinit const Preset entries::csc_two_pass{.family = "column",
                                             .id = "csc-two-pass",
                                             .title = "csc, products of columns, then sums of rows",
                                             .source = "Hugues, Petiton, HPCC 2010",
                                             .base = "csc",
                                             .host_kernel = "native",
                                             .device_kernel = "two-pass"};

}  // namespace protean::formats

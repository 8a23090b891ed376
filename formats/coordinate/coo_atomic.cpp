// COO with atomic additions on a GPU: any thread may add to any row of y.
//
//        | 1 . 2 . |     row    = 0 0 1 3 3 3
//    A = | . 3 . . |     col    = 0 2 1 0 1 3
//        | . . . . |     values = 1 2 3 4 5 6
//        | 4 5 . 6 |
//
// Arrays: as in coo.
// Bytes: (v + 8) nnz, with v bytes a value.
// Parameters: none.
// Wins: on a GPU, when rows are short and scattered: only the entries are stored. On a host it is the kernel of coo,
//   without atomic operations.
// Refuses: deterministic mode on a GPU, since the order of the sums is not fixed.
// Source: N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented processors, SC
//   2009, doi:10.1145/1654059.1654078. Neighbouring entries of a row are added before the atomic operation; an earlier
//   launch multiplies y by beta.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constinit const Preset entries::coo_atomic{.family = "coordinate",
                                           .id = "coo-atomic",
                                           .title = "coo, sums by atomic operations",
                                           .source = "Bell, Garland, SC 2009",
                                           .base = "coo",
                                           .host_kernel = "native",
                                           .device_kernel = "atomic"};

}  // namespace protean::formats

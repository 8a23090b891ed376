// CSR with a group of threads for each row on a GPU, after Reguly and Giles: a rule for the size of the group.
//
//        | 1 . 2 . |     2 threads a row: thread 0 of row 3 adds 4 and 6, thread 1 adds 5; then they exchange their
//    A = | . 3 . . |     sums
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays: as in csr, the caller's own.
// Bytes: as csr.
// Parameters: balance of csr, which only the host uses.
// Wins: on a GPU, when all rows have about the same length. On a host it is the kernel of csr.
// Refuses: never.
// Source: I. Reguly, M. Giles, Efficient sparse matrix-vector multiplication on cache-based GPUs, InPar 2012,
//   doi:10.1109/InPar.2012.6339602, section 4: the size of a group is the smallest power of two above the root of the
//   mean length.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constinit const Preset entries::csr_reguly_giles{.family = "row",
                                                 .id = "csr-reguly-giles",
                                                 .title = "csr, a group of threads for each row",
                                                 .source = "Reguly, Giles, InPar 2012",
                                                 .base = "csr",
                                                 .host_kernel = "native",
                                                 .device_kernel = "reguly-giles"};

}  // namespace protean::formats

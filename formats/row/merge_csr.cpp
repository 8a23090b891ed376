// Merge-CSR: csr whose rows and entries are divided evenly among the threads, if need be in the middle of a row.
//
//        | 1 . 2 . |     two threads, 4 rows + 6 entries: 5 steps each
//    A = | . 3 . . |     thread 1: rows 0 and 1 and their entries 1 2 | 3
//        | . . . . |     thread 2: rows 2 and 3 and the entries 4 5 6
//        | 4 5 . 6 |
//
// Arrays: as in csr: the caller's own arrays.
// Bytes: as csr; on a GPU also 4 + v bytes for each 896 rows + entries, with v bytes a value. Each product overwrites
//   them.
// Parameters: none. It is csr with balance = merge.
// Wins: when a few rows hold a large share of the entries, or most rows are empty: every thread has the same work,
//   whatever the lengths are. On a GPU nothing is prepared, so it also suits a matrix that is multiplied only a few
//   times.
// Refuses: never. In deterministic mode rows are never cut on a host, so it is csr there.
// Source: D. Merrill, M. Garland, Merge-based parallel sparse matrix-vector multiplication, SC 2016,
//   doi:10.1109/SC.2016.57.
//
// The host uses the kernel of csr; a GPU has its own kernel (merge_csr.cu).
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam merge_csr_fixed[] = {{"balance", "merge"}};
}

constinit const Preset entries::merge_csr{.family = "row",
                                          .id = "merge-csr",
                                          .title = "csr, rows and entries divided evenly among threads",
                                          .source = "Merrill, Garland, SC 2016",
                                          .base = "csr",
                                          .fixed = merge_csr_fixed,
                                          .host_kernel = "native",
                                          .device_kernel = "merge"};

}  // namespace protean::formats

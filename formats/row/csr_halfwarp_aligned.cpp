// CSR with half a warp for each row on a GPU and rows that begin where a half-warp's load does, after Baskaran and
// Bordawekar.
//
//        | 1 . 2 . |     row_ptr = 0 16 32 32 48
//    A = | . 3 . . |     col     = 0 2 2 2 ... | 1 1 1 1 ... | | 0 1 3 3 ...
//        | . . . . |     values  = 1 2 . . ... | 3 . . . ... | | 4 5 6 . ...      (. is a stored 0)
//        | 4 5 . 6 |
//
// Arrays: as in icsr with align = 16.
// Bytes: as icsr.
// Parameters: max_fill of icsr.
// Wins: on a GPU, when rows have about a multiple of 16 entries: 16 threads compute a row, and the loads of a half-warp
//   are aligned. y is written once, and x goes through the read-only cache. On a host it is icsr.
// Refuses: when slots > max_fill nonzeros.
// Source: M. M. Baskaran, R. Bordawekar, Optimizing sparse matrix-vector multiplication on GPUs, IBM Research Report
//   RC24704, 2009. Staging x in shared memory, which the report also describes, is not built.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam csr_halfwarp_aligned_fixed[] = {{"align", "16"}, {"T", "16"}};
}

constinit const Preset entries::csr_halfwarp_aligned{.family = "row",
                                                     .id = "csr-halfwarp-aligned",
                                                     .title = "csr, aligned rows, half a warp a row",
                                                     .source = "Baskaran, Bordawekar, IBM RC24704, 2009",
                                                     .base = "icsr",
                                                     .fixed = csr_halfwarp_aligned_fixed,
                                                     .host_kernel = "native",
                                                     .device_kernel = "native"};

}  // namespace protean::formats

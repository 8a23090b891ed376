// CSR with one thread for each row on a GPU.
//
//        | 1 . 2 . |     thread 3 adds 4, 5 and 6 one after another
//    A = | . 3 . . |
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays: as in csr, the caller's own.
// Bytes: as csr.
// Parameters: threads a block on a GPU (block).
// Wins: on a GPU, when rows have a few entries and the same length: every thread is busy, and nothing is exchanged. On
//   a host it is the kernel of csr with whole rows.
// Refuses: never.
// Source: N. Bell, M. Garland, Efficient sparse matrix-vector multiplication on CUDA, NVR-2008-004, NVIDIA, 2008 (CSR,
//   scalar).
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam csr_scalar_fixed[] = {{"balance", "rows"}, {"repeat", "1"}, {"T", "1"}};
}  // namespace

constinit const Preset entries::csr_scalar{.family = "row",
                                           .id = "csr-scalar",
                                           .title = "csr, a thread a row",
                                           .source = "Bell, Garland, NVIDIA NVR-2008-004, 2008",
                                           .base = "csr",
                                           .fixed = csr_scalar_fixed,
                                           .host_kernel = "native",
                                           .device_kernel = "cooperative"};

}  // namespace protean::formats

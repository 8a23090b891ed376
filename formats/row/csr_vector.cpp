// CSR with a warp for each row on a GPU.
//
//        | 1 . 2 . |     lanes 0, 1 and 2 of a warp of 32 read 4, 5 and 6
//    A = | . 3 . . |     together; 29 lanes have nothing to do
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays: as in csr, the caller's own.
// Bytes: as csr.
// Parameters: threads a block on a GPU (block).
// Wins: on a GPU, when rows have 32 entries and more: a warp reads neighbouring entries. On a host it is the kernel of
//   csr with whole rows.
// Refuses: never.
// Source: N. Bell, M. Garland, Efficient sparse matrix-vector multiplication on CUDA, NVR-2008-004, NVIDIA, 2008 (CSR,
//   vector).
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam csr_vector_fixed[] = {{"balance", "rows"}, {"repeat", "1"}, {"T", "32"}};
}  // namespace

constinit const Preset entries::csr_vector{.family = "row",
                                           .id = "csr-vector",
                                           .title = "csr, a warp a row",
                                           .source = "Bell, Garland, NVIDIA NVR-2008-004, 2008",
                                           .base = "csr",
                                           .fixed = csr_vector_fixed,
                                           .host_kernel = "native",
                                           .device_kernel = "cooperative"};

}  // namespace protean::formats

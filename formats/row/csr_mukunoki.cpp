// CSR with as many threads for each row on a GPU as a row of mean length keeps busy, after Mukunoki and Takahashi.
//
//        | 1 . 2 . |     mean length 1.5: one thread a row; a mean of 3 would be
//    A = | . 3 . . |     2 threads, one of 4 would be 4
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays: as in csr, the caller's own.
// Bytes: as csr.
// Parameters: threads a block on a GPU (block).
// Wins: on a GPU, when all rows have about the same length: no thread is without an entry. On a host it is the kernel
//   of csr with whole rows.
// Refuses: never.
// Source: D. Mukunoki, D. Takahashi, Optimization of sparse matrix-vector multiplication for CRS format on NVIDIA
//   Kepler architecture GPUs, ICCSA 2013, LNCS 7975, 211-223: shuffles, no loop over rows. The largest power of two up
//   to the mean, at most 32, is our reading of the rule.
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam csr_mukunoki_fixed[] = {{"balance", "rows"}, {"repeat", "1"}};
constexpr std::string_view csr_mukunoki_chosen[] = {"T"};
}  // namespace

constinit const Preset entries::csr_mukunoki{.family = "row",
                                             .id = "csr-mukunoki",
                                             .title = "csr, threads a row by the mean length",
                                             .source = "Mukunoki, Takahashi, ICCSA 2013",
                                             .base = "csr",
                                             .fixed = csr_mukunoki_fixed,
                                             .choose = choose_lanes<mukunoki_lanes>,
                                             .chosen = csr_mukunoki_chosen,
                                             .host_kernel = "native",
                                             .device_kernel = "cooperative"};

}  // namespace protean::formats

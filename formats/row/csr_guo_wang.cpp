// CSR with half a warp or a warp for each row on a GPU, after Guo and Wang.
//
//        | 1 . 2 . |     mean length 1.5: 16 threads a row, of which
//    A = | . 3 . . |     3 have an entry of row 3
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays: as in csr, the caller's own.
// Bytes: as csr.
// Parameters: threads a block on a GPU (block).
// Wins: on a GPU, when rows have 16 entries and more. On a host it is the kernel of csr with whole rows.
// Refuses: never.
// Source: P. Guo, L. Wang, Auto-tuning CUDA parameters for sparse matrix-vector multiplication on GPUs, ICCIS 2010,
//   1154-1157. The border between the two sizes, a mean of 24, is ours.
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam csr_guo_wang_fixed[] = {{"balance", "rows"}, {"repeat", "1"}};
constexpr std::string_view csr_guo_wang_chosen[] = {"T"};
}  // namespace

constinit const Preset entries::csr_guo_wang{.family = "row",
                                             .id = "csr-guo-wang",
                                             .title = "csr, 16 or 32 threads a row",
                                             .source = "Guo, Wang, ICCIS 2010",
                                             .base = "csr",
                                             .fixed = csr_guo_wang_fixed,
                                             .choose = choose_lanes<guo_wang_lanes>,
                                             .chosen = csr_guo_wang_chosen,
                                             .host_kernel = "native",
                                             .device_kernel = "cooperative"};

}  // namespace protean::formats

// CSR with as many threads for each row on a GPU as the longest row asks for, after Yoshizawa and Takahashi.
//
//        | 1 . 2 . |     the longest row has 3 entries: 4 threads a row
//    A = | . 3 . . |
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays: as in csr, the caller's own.
// Bytes: as csr.
// Parameters: threads a block on a GPU (block).
// Wins: on a GPU, when the longest row is hardly longer than the others: no group goes on alone. On a host it is the
//   kernel of csr with whole rows.
// Refuses: never.
// Source: H. Yoshizawa, D. Takahashi, Automatic tuning of sparse matrix-vector multiplication for CRS format on GPUs,
//   CSE 2012, 130-136. The number of threads is the smallest power of two that is at least the longest row, at most 32.
#include "formats/engines/rows/rows.hpp"
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam csr_yoshizawa_fixed[] = {{"balance", "rows"}, {"repeat", "1"}};
constexpr std::string_view csr_yoshizawa_chosen[] = {"T"};
void choose_csr_yoshizawa(const Context& context, const SparsityPattern& pattern, FormatParams& params) {
  params.set("T", yoshizawa_lanes(longest_row(context, pattern)));
}
}  // namespace

constinit const Preset entries::csr_yoshizawa{.family = "row",
                                              .id = "csr-yoshizawa",
                                              .title = "csr, threads a row by the longest row",
                                              .source = "Yoshizawa, Takahashi, CSE 2012",
                                              .base = "csr",
                                              .fixed = csr_yoshizawa_fixed,
                                              .choose = choose_csr_yoshizawa,
                                              .chosen = csr_yoshizawa_chosen,
                                              .host_kernel = "native",
                                              .device_kernel = "cooperative"};

}  // namespace protean::formats

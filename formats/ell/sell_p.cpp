// SELL-P: sliced ELLPACK whose slices are as wide as a multiple of the threads of a row.
//
//        | 1 . 2 . |     with slices of 2 rows (the format has 32) and 2 threads a row (it has 4)
//    A = | . 3 . . |     slice_ptr = 0 4 12
//        | . . . . |     col       = 0 1 2 1 | 0 0 0 1 0 3 0 3
//        | 4 5 . 6 |     values    = 1 3 2 . | . 4 . 5 . 6 . .
//
// Arrays: as in sell-c-sigma without perm, with C = 32 and round = 4.
// Bytes: (v + 4) slots + 8 (slices + 1) + 4 empty rows, with v bytes a value.
// Parameters: max_fill of sell-c-sigma.
// Wins: on a GPU, when rows have 16 entries and more, and there are too few rows to give each processor enough threads.
//   Four threads of different warps share a row, and none of them ends earlier than the others. On a host it is sell
//   with more padding.
// Refuses: when slots > max_fill nonzeros.
// Source: H. Anzt, S. Tomov, J. Dongarra, Implementing a sparse matrix vector product for the SELL-C/SELL-C-sigma
//   formats on NVIDIA GPUs, Tech. Rep. EECS-14-727, University of Tennessee, 2014. Padding has column 0 in the paper;
//   ours has the row's last column.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam sell_p_fixed[] = {{"C", "32"}, {"sigma", "1"}, {"round", "4"}, {"threads", "4"}};
}  // namespace

constinit const Preset entries::sell_p{.family = "ell",
                                       .id = "sell-p",
                                       .title = "Slices padded to a multiple of the threads of a row",
                                       .source = "Anzt, Tomov, Dongarra, Tech. Rep. EECS-14-727, 2014",
                                       .base = "sell-c-sigma",
                                       .fixed = sell_p_fixed,
                                       .device_kernel = "native"};

}  // namespace protean::formats

// Sliced ELLR-T: slices of S rows, with T threads per row, which read neighbouring entries.
//
//        | 1 . 2 . |     S = 2, T = 2
//    A = | . 3 . . |     slice_ptr = 0 4 12
//        | . . . . |     col       = 0 2 1 1 | 0 0 0 1 0 0 3 3        lengths = 1 1 0 2 (steps of T entries)
//        | 4 5 . 6 |     values    = 1 2 3 . | . . 4 5 . . 6 .
//
// Arrays:
//   slice_ptr  [slices + 1] int64: slots before each slice; absent if one slice holds all rows (S = 0).
//   col        [slots] int32: slot k of row i of slice s lies at slice_ptr[s] + (k / T) S T + i T + k % T. Entries come
//              first, columns ascending. Padding repeats the row's last column.
//   values     [slots]: 0 if padded. Widths are multiples of T; the last slice is padded to S rows.
//   lengths    [rows] int32: number of entries of the row divided by T, rounded up.
// Bytes: (v + 4) slots + 8 (slices + 1) + 4 rows, with v bytes a value.
// Parameters:
//   S         rows in a slice; 0: all rows, rounded up to a multiple of 16. The source takes the threads of a block
//             divided by T.
//   T         threads per row: 1, 2, 4, 8, 16 or 32; measured takes the number with the fastest product on this
//             machine.
//   max_fill  the most slots per entry.
// Wins: on a GPU, when rows have 16 entries and more: neighbouring threads share a row and read side by side.
// Refuses: when slots > max_fill nonzeros.
// Source: A. Dziekonski, A. Lamecki, M. Mrozowski, A memory efficient and fast sparse matrix vector product on a GPU,
//   PIER 116, 2011, 49-63, doi:10.2528/PIER11031607.
//
// An infinite x_j gives NaN in a row that ends in a padded step and whose last column is j.
#include "formats/engines/slices/slices.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

SliceRule sliced_ellr_t_rule(const SparsityPattern&, const FormatParams& params) {
  SliceRule rule;
  rule.C = params.integer("S"), rule.align = 16;
  rule.threads = rule.round = static_cast<int>(params.integer("T"));
  rule.order = LaneOrder::threads, rule.kind = LaneLengths::steps;
  return rule;
}

namespace {

constexpr ParamDoc params[] = {{.name = "S",
                                .doc = "rows in a slice; 0: all rows",
                                .default_value = "32",
                                .smallest = 0,
                                .largest = 1 << 20},
                               {.name = "T",
                                .doc = "threads per row; measured: the fastest",
                                .default_value = "4",
                                .choices = "measured|1|2|4|8|16|32"},
                               slice_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<SliceMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::sliced_ellr_t{.family = "ell",
                                                   .id = "sliced-ellr-t",
                                                   .title = "Slices whose rows have T threads side by side",
                                                   .source = "Dziekonski, Lamecki, Mrozowski, PIER 116, 2011",
                                                   .traits = {.grows_with_longest = true},
                                                   .params = params,
                                                   .kernels = kernels,
                                                   .admit = admit_slices_on_host<sliced_ellr_t_rule>,
                                                   .device = &device_code::sliced_ellr_t};

}  // namespace protean::formats

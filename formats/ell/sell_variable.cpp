// SELL with slices of variable heights: neighbouring rows of similar length lie in one slice, so there is little
// padding although no row changes its place.
//
//        | 1 . 2 . |     C = 4, padding = 25
//    A = | . 3 4 . |     row_start = 0 3 4
//        | 5 . . . |     slice_ptr = 0 6 9
//        | 6 7 . 8 |     col       = 0 1 0 2 2 0 | 0 1 3
//                        values    = 1 3 5 2 4 . | 6 7 8        (. is a stored 0)
//
// Arrays:
//   row_start  [slices + 1] int32: the first row of each slice, ascending; then the number of rows.
//   slice_ptr  [slices + 1] int64: number of slots before each slice. Slice s has h = row_start[s + 1] - row_start[s]
//              rows and is (slice_ptr[s + 1] - slice_ptr[s]) / h slots wide.
//   col        [slots] int32: slot k of row i of slice s lies at slice_ptr[s] + k h + i. Entries come first, columns
//              ascending. Padding repeats the row's last column (0 in rows without entries).
//   values     [slots]: 0 if padded.
//   empty      [rows without entries] int32, ascending: these rows give 0, whatever x[0] is.
// Bytes: (v + 4) slots + 12 (slices + 1) + 4 empty rows, with v bytes a value.
// Parameters:
//   C        the most rows in a slice. Slices do not cross multiples of C, so each block of C rows is cut by itself.
//   padding  the most padding in a slice, in percent of its slots. A slice takes the next row as long as it stays
//            within this limit. 0 allows only rows of the same length.
// Wins: when rows come in groups of similar length that do not all fill a slice of fixed height, as in matrices of
//   several kinds of equations, and when sorting would separate neighbouring columns.
// Refuses: never, because the padding is bounded.
// Source: A. Monakov, A. Lokhmotov, A. Avetisyan, Automatically tuning sparse matrix-vector multiplication for GPU
//   architectures, HiPEAC 2010, 111-125, doi:10.1007/978-3-642-11515-8_10. The paper leaves open how the heights are
//   found; the rule above is ours.
//
// A NaN in x reaches only rows that use it. An infinite x_j gives NaN in a padded row whose last column is j.
#include "formats/engines/slices/slices.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

SliceRule sell_variable_rule(const SparsityPattern&, const FormatParams& params) {
  SliceRule rule;
  rule.C = params.integer("C"), rule.padding = static_cast<int>(params.integer("padding"));
  rule.kind = LaneLengths::none;
  return rule;
}

namespace {

constexpr ParamDoc params[] = {
    {.name = "C", .doc = "the most rows in a slice", .default_value = "32", .smallest = 1, .largest = 32},
    {.name = "padding",
     .doc = "the most padding in a slice, in percent of its slots",
     .default_value = "10",
     .smallest = 0,
     .largest = 99}};

constexpr Kernel kernels[] = {native_host_kernel<SliceMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::sell_variable{.family = "ell",
                                                   .id = "sell-variable",
                                                   .title = "Sliced ELLPACK, slices of variable heights",
                                                   .source = "Monakov, Lokhmotov, Avetisyan, HiPEAC 2010",
                                                   .traits = {},
                                                   .params = params,
                                                   .kernels = kernels,
                                                   .admit = admit_slices_on_host<sell_variable_rule>,
                                                   .device = &device_code::sell_variable};

}  // namespace protean::formats

// SELL-C-sigma: rows sorted by length inside windows of sigma rows, cut into slices of C rows, each slice as
// wide as its longest row; a SIMD lane computes a row.
//
//        | 1 . 2 . |     C = 2, sigma = 4:  lengths 2 1 0 3
//    A = | . 3 . . |     perm      = 3 0 1 2
//        | . . . . |     slice_ptr = 0 6 8
//        | 4 5 . 6 |     col       = 0 0  1 2  3 2 | 1 0
//                        values    = 4 1  5 2  6 . | 3 .        (. is a stored 0)
//                        empty     = 3
//
// Arrays:
//   slice_ptr  [slices + 1] int64: number of slots before each slice; slices = ceil(rows / C). Slice s is
//              (slice_ptr[s + 1] - slice_ptr[s]) / C slots wide.
//   col        [slots] int32: slot k of lane i of slice s at slice_ptr[s] + k C + i. Entries come first,
//              columns ascending. Padding repeats the row's last column (0 in rows without entries and past
//              the last row), so the first column that does not ascend ends a row.
//   values     [slots]: 0 if padded. The last slice is padded to C rows.
//   perm       [rows] int32, only when sigma > 1: the row at each position; stable, longest first inside a
//              window.
//   empty      [rows without entries] int32: their positions, ascending. They give 0, whatever x[0] is.
// Bytes: (v + 4) slots + 8 (slices + 1) + 4 rows [sigma > 1] + 4 empty rows, with v bytes a value.
// Parameters:
//   C         rows in a slice. 0 takes 8 on the host (8 doubles fill the widest SIMD register of today's processors),
//             and 32, a warp, on the device.
//   sigma     rows in a window, a multiple of C. 1 keeps the order of the rows, and so neighbouring columns together,
//             which stencils need. 0 takes 1 if that stores at most 1.15 slots an entry, else 512.
//   round     the width of a slice is a multiple of it.
//   max_fill  the most slots an entry.
//   threads   of the native device kernel: threads a row, in different warps of a block; 0 takes 1, or more if the rows
//             are too few to fill the device.
// Wins: on rows of similar length.
// Refuses: when slots > max_fill nonzeros, or when sigma is not a multiple of C.
// Source: M. Kreutzer, G. Hager, G. Wellein, H. Fehske, A. R. Bishop, A unified sparse matrix data format for
//   efficient general sparse matrix-vector multiplication on modern processors with wide SIMD units, SIAM J.
//   Sci. Comput. 36(5), C401-C423, 2014, doi:10.1137/130930352.
//
// A NaN in x reaches only rows that use it. An infinite x_j gives NaN in a padded row whose last column is j.
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/slices/slices.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr std::int64_t usual_window = 512;

SliceRule rule_of(const FormatParams& params, std::int64_t usual_height) {
  const std::int64_t C = params.integer("C"), sigma = params.integer("sigma");
  SliceRule rule;
  rule.C = C == 0 ? usual_height : C;
  rule.window = sigma == 0 ? usual_window : sigma == 1 ? 0 : sigma;
  rule.sort_if_it_pays = sigma == 0;
  rule.round = static_cast<int>(params.integer("round"));
  rule.kind = LaneLengths::none;
  return rule;
}

}  // namespace

SliceRule sell_c_sigma_rule_on_host(const SparsityPattern&, const FormatParams& params) {
  return rule_of(params, 8);
}
SliceRule sell_c_sigma_rule_on_device(const SparsityPattern&, const FormatParams& params) {
  return rule_of(params, 32);
}

namespace {

constexpr ParamDoc params[] = {
    {.name = "C",
     .doc = "rows in a slice; 0 is 8 on the host and 32 on the device; measured: the fastest",
     .default_value = "0",
     .choices = "0|measured|1|2|4|8|16|32|64"},
    {.name = "sigma",
     .doc =
         "rows in a window sorted by length, a multiple of C; 1 keeps the order; 0 sorts only when that pays",
     .default_value = "0",
     .smallest = 0,
     .largest = std::int64_t{1} << 30},
    {.name = "round",
     .doc = "widths of slices are multiples of it",
     .default_value = "1",
     .choices = "1|2|4|8|16|32"},
    slice_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<SliceMatrix>(Sums::ordered),
                              PROTEAN_KOKKOS_KERNEL(sell_c_sigma)};

}  // namespace

constinit const FormatEntry entries::sell_c_sigma{
    .family = "ell",
    .id = "sell-c-sigma",
    .title = "Sliced ELLPACK, rows sorted in windows",
    .source = "Kreutzer, Hager, Wellein, Fehske, Bishop, SIAM J. Sci. Comput. 36(5), 2014",
    .traits = {.grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_slices_on_host<sell_c_sigma_rule_on_host>,
    .device = &device_code::sell_c_sigma};

}  // namespace protean::formats

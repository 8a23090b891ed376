// ELLPACK: every row padded to the length of the longest, stored column by column.
//
//        | 1 . 2 . |     align = 1: ld = 4, width = 3
//    A = | . 3 . . |     col    = 0 1 0 0 | 2 1 0 1 | 2 1 0 3
//        | . . . . |     values = 1 3 . 4 | 2 . . 5 | . . . 6        (. is a stored 0)
//        | 4 5 . 6 |     empty  = 2
//
// Arrays:
//   col     [ld width] int32: slot k of row r at k ld + r; ld = rows rounded up to a multiple of align, width
//           = length of the longest row. Entries come first, columns ascending. Padding repeats the row's
//           last column (0 in rows without entries and past the last row), so the first column that does not
//           ascend ends a row.
//   values  [ld width]: 0 if padded.
//   empty   [rows without entries] int32, ascending: these rows give 0, whatever x[0] is.
// Bytes: (v + 4) ld width + 4 empty rows, with v bytes a value.
// Parameters:
//   align     ld is a multiple of it. With 8, every column of values begins on a cache line.
//   max_fill  the most slots an entry.
// Wins: on small matrices with rows of equal length (stencils). A large matrix is read in 2 width streams at once;
//   sell-c-sigma reads two.
// Refuses: when ld width > max_fill nonzeros: one long row pads all the others.
// Source: R. G. Grimes, D. R. Kincaid, D. M. Young, ITPACK 2.0 user's guide, CNA-150, University of Texas,
//   1979; N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented
//   processors, SC 2009, doi:10.1145/1654059.1654078.
//
// A NaN in x reaches only rows that use it. An infinite x_j gives NaN in a padded row whose last column is j.
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/slices/slices.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

SliceRule ell_rule(const SparsityPattern&, const FormatParams& params) {
  SliceRule rule;
  rule.C = 0, rule.align = params.integer("align"), rule.kind = LaneLengths::none;
  return rule;
}

namespace {

constexpr ParamDoc params[] = {{.name = "align",
                                .doc = "the length of a stored column is a multiple of this",
                                .default_value = "8",
                                .smallest = 1,
                                .largest = 1024},
                               slice_fill_param};
constexpr Kernel kernels[] = {native_host_kernel<SliceMatrix>(Sums::ordered), PROTEAN_KOKKOS_KERNEL(ell)};

}  // namespace

constinit const FormatEntry entries::ell{
    .family = "ell",
    .id = "ell",
    .title = "ELLPACK",
    .source = "Grimes, Kincaid, Young, ITPACK 2.0 user's guide, 1979; Bell, Garland, SC 2009",
    .traits = {.grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_slices_on_host<ell_rule>,
    .device = &device_code::ell};

}  // namespace protean::formats

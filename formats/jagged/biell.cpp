// BiELL, bisection ELLPACK: strips of W rows sorted by length, cut into groups of W, W / 2, ... 1 rows, each stored as
// ELLPACK.
//
//        | 1 . 2 . |     W = 4: lengths 3 2 1 0; groups end at the lengths of positions 2, 1 and 0
//    A = | . 3 . . |     perm      = 3 0 1 -3
//        | . . . . |     group_ptr = 0 4 6 7
//        | 4 5 . 6 |     col       = 0 0 1 0 | 1 2 | 3        values = 4 1 3 . | 5 2 | 6
//
// Arrays:
//   group_ptr  [strips (log2 W + 1) + 1] int64: slots before each group. Group g of a strip has the first h = W / 2^g
//              rows of the strip and their entries from the end of group g - 1 to the length of the row at position W /
//              2^(g + 1) of the strip; the last group ends at the length of the row at position 0.
//   perm       [rows] int32: the row at each position; -1 - row if it has no entries. Longest first within a strip,
//              stable. The last strip is filled up with empty rows.
//   col        [slots] int32: slot k of row r of group i lies at group_ptr[i] + k h + r. Padding repeats the row's last
//              column, 0 in a row without entries.
//   values     [slots]: 0 if padded.
// Bytes: (v + 4) slots + 8 (strips (log2 W + 1) + 1) + 4 rows, with v bytes a value.
// Parameters:
//   W         rows of a strip: 2, 4, 8, 16 or 32.
//   sort      strip sorts the rows of each strip, all sorts all rows.
//   max_fill  the most slots per entry.
// Wins: on a GPU, when lengths vary within a strip: all W lanes work until the strip ends, and there is less padding
//   than in sell. Bisection passes the threads of rows that have ended on to the other rows.
// Refuses: when slots > max_fill nonzeros.
// Source: C. Zheng, S. Gu, T.-X. Gu, B. Yang, X.-P. Liu, BiELL: a bisection ELLPACK-based storage format for optimizing
//   SpMV on GPUs, J. Parallel Distrib. Comput. 74(7), 2014, 2639-2647, doi:10.1016/j.jpdc.2014.03.002. A public code
//   cuts a group one position earlier than its own description; we follow the description. Medium confidence.
#include "formats/engines/jags/jags.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr ParamDoc params[] = {
    {.name = "W", .doc = "rows of a strip", .default_value = "32", .choices = "2|4|8|16|32"},
    {.name = "sort",
     .doc = "sorts the rows of each strip, or all rows",
     .default_value = "strip",
     .choices = "strip|all"},
    jagged_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<BisectedMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::biell{
    .family = "jagged",
    .id = "biell",
    .title = "Bisection ELLPACK: strips in groups of half as many rows",
    .source = "Zheng, Gu, Gu, Yang, Liu, JPDC 74(7), 2014",
    .traits = {},
    .params = params,
    .kernels = kernels,
    .admit = admit_strips_on_host,
    .device = &device_code::biell};

}  // namespace protean::formats

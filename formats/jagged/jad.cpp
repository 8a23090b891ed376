// JAD, jagged diagonals: the rows are sorted by length over the whole matrix; then come the first entries of all rows,
// the second entries of all rows that have one, and so on, without padding.
//
//        | 1 . 2 . |     perm    = 3 0 1 2
//    A = | . 3 . . |     jag_ptr = 0 3 5 6
//        | . . . . |     col     = 0 0 1 | 1 2 | 3
//        | 4 5 . 6 |     values  = 4 1 3 | 5 2 | 6
//
// Arrays:
//   jag_ptr   [longest + 1] int64: number of slots before each jag; longest is the number of entries of the longest
//             row. Jag k holds entry k of all rows that have one; these rows come first. No jag is longer than the one
//             before.
//   jag_rows  [longest] int32, with round > 1 and ends = jags: the number of rows of each jag. Otherwise jag_ptr gives
//             it.
//   lengths   [rows] int32, with ends = rows: the number of entries of the row at each position.
//   perm      [rows] int32: the row at each position; longest first, sorted stably.
//   col       [slots] int32: entry k of position p lies at jag_ptr[k] + p; ascending with k.
//   values    [slots]: 0 between the end of a jag and the next.
// Bytes: (v + 4) slots + 4 rows (1 + [lengths]) + 8 (longest + 1) + 4 longest [jag_rows], with v bytes a value. If
//   round is 1, there are as many slots as entries.
// Parameters:
//   round     the slots of a jag are a multiple of this.
//   ends      which array says where a row ends: jags (jag_rows) or rows (lengths).
//   max_fill  the most slots per entry.
// Wins: when rows have very different lengths, because there is no padding. If lengths alternate, sorting separates
//   neighbouring rows, which then no longer share x in the cache; sell-c-sigma sorts within windows to avoid this.
// Refuses: when slots > max_fill nonzeros, which can only be with round > 1.
// Source: Y. Saad, Krylov subspace methods on supercomputers, SIAM J. Sci. Stat. Comput. 10(6), 1989,
//   doi:10.1137/0910073; R. Li, Y. Saad, GPU-accelerated preconditioned iterative linear solvers, J.
//   Supercomput. 63, 2013, doi:10.1007/s11227-012-0825-3.
//
// The product goes over strips of rows, four SIMD registers at a time, and not over whole jags, so that y is
// written once. A NaN in x reaches only rows that use it.
#include "formats/engines/jags/jags.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr ParamDoc params[] = {
    {.name = "round",
     .doc = "the slots of a jag are a multiple of this",
     .default_value = "1",
     .smallest = 1,
     .largest = 1024},
    {.name = "ends",
     .doc = "which array says where a row ends: the rows of a jag, or the lengths of rows",
     .default_value = "jags",
     .choices = "jags|rows"},
    jagged_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<JagMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::jad{
    .family = "jagged",
    .id = "jad",
    .title = "Jagged diagonals",
    .source = "Saad, SIAM J. Sci. Stat. Comput. 10(6), 1989; Li, Saad, J. Supercomput. 63, 2013",
    .traits = {},
    .params = params,
    .kernels = kernels,
    .admit = admit_jags_on_host,
    .device = &device_code::jad};

}  // namespace protean::formats

// HLL, hacked ELLPACK: slices (hacks) of 32 rows in the order of the matrix, each padded to its longest row, with the
// length of every row.
//
//        | 1 . 2 . |     hack = 2
//    A = | . 3 . . |     slice_ptr = 0 4 10
//        | . . . . |     col       = 0 1 2 1 | 0 0 0 1 0 3        lengths        = 2 1 0 3
//        | 4 5 . 6 |     values    = 1 3 2 . | . 4 . 5 . 6        diagonal_index = 0 0 -1 -1
//
// Arrays:
//   slice_ptr       [hacks + 1] int64: slots before each hack; absent if one hack holds all rows (hack = 0).
//   col             [slots] int32: slot k of row i of hack h lies at slice_ptr[h] + k hack + i. Entries come first,
//                   columns ascending. Padding repeats the row's last column.
//   values          [slots]: 0 if padded. The last hack is padded to `hack` rows.
//   lengths         [rows] int32: number of entries of the row at each position.
//   perm            [rows] int32, only if rows are sorted: the row at each position, longest first, sorted stably.
//   diagonal_index  [rows] int32, with diagonal_index = yes: which entry of the row is the diagonal one; -1 if there is
//                   none.
// Bytes: (v + 4) slots + 8 (hacks + 1) + 4 rows (1 + [sorted] + [diagonal_index]), with v bytes a value. Filippone et
//   al. count 4 bytes for each offset of a hack.
// Parameters:
//   hack            rows in a hack; 0: all rows, rounded up to a multiple of 8.
//   sort            none, or all rows by descending length.
//   diagonal_index  yes or no.
//   max_fill        the most slots per entry.
//   threads         of the device kernel: threads per row; 0 takes 2 if the mean length is above 32, else 1.
// Wins: when neighbouring rows have similar lengths. Padding is stored but never multiplied, so a NaN or an infinity
//   in x reaches only rows that use it.
// Refuses: when slots > max_fill nonzeros.
// Source: D. Barbieri, V. Cardellini, A. Fanfarillo, S. Filippone, Three storage formats for sparse matrices on GPGPUs,
//   Tech. Rep. RR-15.6, Universita di Roma Tor Vergata, 2015; S. Filippone, V. Cardellini, D. Barbieri, A. Fanfarillo,
//   ACM TOMS 43(4), 2017, doi:10.1145/3017994, section 4.4.
#include "formats/engines/slices/slices.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

SliceRule hll_rule(const SparsityPattern& pattern, const FormatParams& params) {
  SliceRule rule;
  rule.C = params.integer("hack");
  rule.diagonal_index = params.word("diagonal_index") == "yes";
  if (params.word("sort") == "all")
    rule.window = std::max<std::int64_t>(1, rule.blocks(pattern.rows)) * rule.height(pattern.rows);
  return rule;
}

namespace {

constexpr ParamDoc params[] = {{.name = "hack",
                                .doc = "rows in a hack; 0: all rows",
                                .default_value = "32",
                                .smallest = 0,
                                .largest = 1 << 20},
                               {.name = "sort",
                                .doc = "sort rows by descending length, or keep their order",
                                .default_value = "none",
                                .choices = "none|all"},
                               {.name = "diagonal_index",
                                .doc = "keeps which entry of each row is the diagonal one",
                                .default_value = "yes",
                                .choices = "yes|no"},
                               slice_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<SliceMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::hll{
    .family = "ell",
    .id = "hll",
    .title = "Hacked ELLPACK: slices with row lengths",
    .source = "Barbieri, Cardellini, Fanfarillo, Filippone, Tech. Rep. RR-15.6, 2015",
    .traits = {.grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_slices_on_host<hll_rule>,
    .device = &device_code::hll};

}  // namespace protean::formats

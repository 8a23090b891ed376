// HEC: the first L entries of every row are stored in ELLPACK, the other entries as compressed rows.
//
//        | 1 . 2 . |     p = 2   ell_col    = 0 1 0 0      csr_row_ptr = 0 1 1 1 3
//    A = | . 3 . . |     L = 1   ell_values = 1 3 0 4      csr_col     = 2 1 3
//        | . . . . |             empty_row  = 2            csr_values  = 2 5 6
//        | 4 5 . 6 |
//
// Arrays:
//   ell_col      [L rows] int32: slot s of row r lies at s rows + r. A slot without an entry has the column of the
//                row's last entry (0 in a row without entries).
//   ell_values   [L rows], in the same places. A slot without an entry has the value 0.
//   csr_col      [m] int32, for entries L, L + 1, ... of every row.
//   csr_values   [m].
//   csr_row_ptr  [rows + 1] int32 or int64, as in the source: the row pointers of these entries.
//   empty_row    [rows without entries] int32: ascending; absent when L = 0.
// Bytes: (v + 4) (L rows + m) + p (rows + 1) + 4 empty rows, with v bytes a value and p = 4 or 8 bytes a row pointer. A
//   part without entries takes none.
// Parameters:
//   p  the cost of an entry of csr if a slot of ELLPACK costs 1; from 1 to 1000. L is the smallest number that
//      minimises L rows + p m. measured takes the value among 1, 2, 3, 5, 10 and 20 with the fastest product on this
//      machine.
// Wins: when most rows have similar lengths and the others are longer.
// Refuses: never.
// Source: H. Liu, S. Yu, Z. Chen, B. Hsieh, L. Shao, Sparse matrix-vector multiplication on NVIDIA GPU, International
//   Journal of Numerical Analysis and Modeling, Series B 3 (2012) 185-191.
//
// It differs from hyb in the rule and in the format of the other entries. The authors measure p in preliminary tests on
// their GPU, and take about 20; here the two parts cost about the same, and the default is 2; p = measured does such
// tests. Padding carries no NaN of x. The engine has the parts and their products (formats/engines/sum/sum.hpp).
#include "formats/engines/tuning/text_integer.hpp"
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {

// One more slot costs all rows a slot, and saves p for each longer row: the cost is convex in L.
SumCut hec_cut(const SumCounter& counter, const FormatParams& params) {
  const std::int64_t rows = counter.pattern.rows, p = integer_within(params, "p", 1, 1000);
  const std::vector<std::int64_t> lengths =
      counter.lengths(rows > 0 ? p * (counter.pattern.nonzeros / rows + 1) : 0);
  const std::int64_t width =
      smallest_width(lengths, rows, [&](std::int64_t longer) { return p * longer <= rows; });
  return cut_by_width(counter, width, entries_within(lengths, rows, width), lengths[0], PartKind::csr);
}

namespace {

constexpr ParamDoc params[] = {{.name = "p",
                                .doc = "the cost of an entry of csr if a slot of ELLPACK costs 1",
                                .default_value = "2",
                                .choices = "2|measured|1|3|5|10|20|..."}};
constexpr Kernel kernels[] = {sum_kernel};

}  // namespace

constinit const FormatEntry entries::hec{
    .family = "hybrid",
    .id = "hec",
    .title = "ELLPACK for the first L entries of a row, csr for the rest",
    .source = "Liu, Yu, Chen, Hsieh, Shao, Int. J. Numerical Analysis and Modeling B 2012",
    .traits = {},
    .params = params,
    .kernels = kernels,
    .admit = admit_sum<hec_cut>,
    .device = &device_code::hec};

}  // namespace protean::formats

// SHEC: rows of similar length form a segment, which is ELLPACK if they are short and csr if they are long.
//
//        | 1 . 2 . |     row_list = 2 1 0 3   segments: 0 entries; 1; 2 or 3; 4 to 7; 8 to 15; ...
//    A = | . 3 . . |     ell1_col = 1         ell2_col    = 0 0 2 1 2 3
//        | . . . . |     ell1_values = 3      ell2_values = 1 4 2 5 0 6
//        | 4 5 . 6 |
//
// Arrays: numbered by segment, from 0, in ascending order of lengths, without the segments that have no rows.
//   row_list       [rows] int32: the rows of one segment after another, each in ascending order. Absent when one
//                  segment has all rows.
//   ell<s>_col     [width n] int32: slot k of the n rows of a short segment lies at k n + position in the segment.
//                  width is the length of the longest of them. A slot without an entry has the column of the row's last
//                  entry.
//   ell<s>_values  [width n], in the same places. A slot without an entry has the value 0.
//   csr<s>_col, csr<s>_values  [m], csr<s>_row_ptr [n + 1]: the rows of a long segment, by position.
// Bytes: (v + 4) (slots + entries of csr) + p (rows + 1 of each segment of csr) + 4 rows, with v bytes a value and p =
//   4 or 8 bytes a row pointer. There is no list when there is one segment.
// Parameters:
//   ell_below  segments whose rows have fewer entries are ELLPACK, others csr.
// Wins: on a GPU, when the lengths differ much: the threads of a warp have about the same work, and at most half of the
//   slots are padding.
// Refuses: never.
// Source: X. Feng, H. Jin, R. Zheng, Z. Shao, L. Zhu, A segment-based sparse matrix vector multiplication on CUDA,
//   Concurrency and Computation: Practice and Experience 26(1) (2014) 271-286.
//
// We know of it the segments by length, ELLPACK or csr for each, and less auxiliary data. The borders are ours: lengths
// from a power of two to below the next one. On a GPU each segment is one launch; a row of csr has as many threads as
// the shortest row of its segment has entries, at most a warp. One list serves all segments, and segments of ELLPACK
// need neither lengths nor pointers.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {

SumCut shec_cut(const SumCounter& counter, const FormatParams& params) {
  const std::int64_t ell_below = params.integer("ell_below");
  SumCut cut{.by = SumCut::By::length};
  std::int64_t shortest = 0, past = 1;
  for (const LengthClass& found : counter.classes()) {
    const bool ell = past <= ell_below;
    cut.parts.push_back({.kind = ell ? PartKind::ell : PartKind::csr,
                         .rows = found.rows,
                         .entries = found.entries,
                         .width = ell ? found.longest : 0,
                         .longest = past - 1,
                         .lanes = static_cast<int>(std::clamp<std::int64_t>(shortest, 1, 32))});
    shortest = past, past *= 2;
  }
  return cut;
}

namespace {

constexpr ParamDoc params[] = {{.name = "ell_below",
                                .doc = "segments whose rows have fewer entries are ELLPACK, others csr",
                                .default_value = "32",
                                .smallest = 1,
                                .largest = 1 << 16}};
constexpr Kernel kernels[] = {sum_kernel};

}  // namespace

constinit const FormatEntry entries::shec{
    .family = "hybrid",
    .id = "shec",
    .title = "Segments of rows of similar length, in ELLPACK or csr each",
    .source = "Feng, Jin, Zheng, Shao, Zhu, Concurrency and Computation 2014",
    .traits = {},
    .params = params,
    .kernels = kernels,
    .admit = admit_sum<shec_cut>,
    .device = &device_code::shec};

}  // namespace protean::formats

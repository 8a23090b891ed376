// HDC: diagonals that are nearly full are stored as diagonals, all other entries as compressed rows.
//
//        | 1 . 2 . |     dia_off     = 0               csr_row_ptr = 0 1 1 1 3
//    A = | . 3 . . |     dia_values  = 1 3 0 6         csr_col     = 2 0 1
//        | . . . . |     dia_entries = 11              csr_values  = 2 4 5
//        | 4 5 . 6 |
//
// Arrays:
//   dia_off      [d] int32: column - row of the diagonals, ascending.
//   dia_entries  [ceil(rows / 8) d] uint8: a bit for each value, 1 if it is an entry, as in dia.
//   dia_values   [rows d]: a(r, r + dia_off[i]) lies at i rows + r; 0 if there is no entry or no such column.
//   csr_col, csr_values  [m]: the other entries.
//   csr_row_ptr  [rows + 1] int32 or int64, as in the source.
// Bytes: d (v rows + 4 + ceil(rows / 8)) + (v + 4) m + p (rows + 1), with v bytes a value and p = 4 or 8 bytes a row
//   pointer. A part without entries takes no bytes.
// Parameters:
//   fill   a diagonal is stored if more than this percentage of its places is filled. 0: v / (v + 4), at which both
//          parts take the same number of bytes.
//   reach  a diagonal must cross at least this percentage of the rows, because in the array it is as long as all rows.
// Wins: for stencils with some irregular rows.
// Refuses: never.
// Source: W. Yang, K. Li, Y. Liu, L. Shi, L. Wan, Optimization of quasi-diagonal matrix-vector multiplication on GPU,
//   International Journal of High Performance Computing Applications 28(2) (2014) 183-195.
//
// y is written once: threads compute both parts of a row, on a GPU in one launch. A NaN or infinity in x also reaches
// rows whose diagonal has no entry there; in deterministic mode it reaches only rows with an entry there. `reach` is
// ours.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {

SumCut hdc_cut(const SumCounter& counter, const FormatParams& params) {
  const std::int64_t rows = counter.pattern.rows, shortest = (rows * params.integer("reach") + 99) / 100;
  SumCut cut = cut_by_diagonal(
      counter, dense_diagonals(counter, params.integer("fill"), -rows, counter.pattern.cols, shortest),
      PartKind::csr);
  cut.fused = true;
  return cut;
}

namespace {

constexpr ParamDoc params[] = {fill_param,
                               {.name = "reach",
                                .doc = "a diagonal must cross at least this percentage of the rows",
                                .default_value = "50",
                                .smallest = 0,
                                .largest = 100}};
constexpr Kernel kernels[] = {sum_kernel};

}  // namespace

constinit const FormatEntry entries::hdc{
    .family = "hybrid",
    .id = "hdc",
    .title = "Dense diagonals, and csr for other entries",
    .source = "Yang, Li, Liu, Shi, Wan, Int. J. High Performance Computing Applications 2014",
    .traits = {},
    .params = params,
    .kernels = kernels,
    .admit = admit_sum<hdc_cut>,
    .device = &device_code::hdc};

}  // namespace protean::formats

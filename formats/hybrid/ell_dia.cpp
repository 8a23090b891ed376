// ELL+DIA: the main diagonal and its two neighbours are stored as diagonals if they are dense, all other entries in
// ELLPACK.
//
//        | 1 . 2 . |     dia_off     = 0               ell_col    = 2 0 0 0 2 0 0 1
//    A = | . 3 . . |     dia_values  = 1 3 0 6         ell_values = 2 0 0 4 0 0 0 5
//        | . . . . |     dia_entries = 11              empty_row  = 1 2
//        | 4 5 . 6 |
//
// Arrays:
//   dia_off      [d] int32: column - row of the diagonals, ascending: some of -1, 0, 1.
//   dia_entries  [ceil(rows / 8) d] uint8: a bit for each value, 1 if it is an entry, as in dia.
//   dia_values   [rows d]: a(r, r + dia_off[i]) lies at i rows + r; 0 if there is no entry or no such column.
//   ell_col      [width rows] int32: the other entries: slot s of row r lies at s rows + r. width is the most such
//                entries of a row. A slot without an entry has the column of the row's last entry (0 in a row without
//                entries).
//   ell_values   [width rows], in the same places. A slot without an entry has the value 0.
//   empty_row    [rows without entries in ELLPACK] int32: ascending; absent when width is 0.
// Bytes: d (v rows + 4 + ceil(rows / 8)) + (v + 4) width rows + 4 empty rows, with v bytes a value.
// Parameters:
//   fill      a diagonal is stored if more than this percentage of its places is filled. 0: v / (v + 4), above which a
//             place of the diagonal takes fewer bytes than its entries in ELLPACK.
//   max_fill  the most stored values per entry.
// Wins: for matrices of chains, whose three diagonals are full and whose rows have equal numbers of other entries.
// Refuses: when more than max_fill nonzeros values would be stored, since one long row pads all others.
// Source: M. Maggioni, T. Berger-Wolf, J. Liang, GPU-based steady-state solution of the chemical master equation, IPDPS
//   Workshops 2013, 579-588.
//
// The authors cut the ELLPACK part into slices (warped-ell); here it is in one piece. A NaN or infinity in x also
// reaches rows whose diagonal has no entry there; in deterministic mode it reaches only rows with an entry there. On a
// GPU both parts are one launch. A diagonal must cross half of the rows.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {

SumCut ell_dia_cut(const SumCounter& counter, const FormatParams& params) {
  return cut_by_diagonal(
      counter, dense_diagonals(counter, params.integer("fill"), -1, 1, (counter.pattern.rows + 1) / 2),
      PartKind::ell);
}

namespace {

constexpr ParamDoc params[] = {fill_param, max_fill_param};
constexpr Kernel kernels[] = {sum_kernel};

}  // namespace

constinit const FormatEntry entries::ell_dia{
    .family = "hybrid",
    .id = "ell-dia",
    .title = "The main diagonal and its neighbours as diagonals, ELLPACK for other entries",
    .source = "Maggioni, Berger-Wolf, Liang, IPDPS Workshops 2013",
    .traits = {.grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_sum<ell_dia_cut>,
    .device = &device_code::ell_dia};

}  // namespace protean::formats

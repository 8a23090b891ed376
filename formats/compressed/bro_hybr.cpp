// BRO-HYBR: the first K entries of every row are stored in BRO-ELL, the other entries in BRO-CSR.
//
//        | 1 . 2 . |     K = 1, h = 2                       the rest: row 0 has column 2, row 3 has 1 and 3
//    A = | . 3 . . |     col_ptr   = 0 1 2                  tail_row_ptr    = 0 1 1 1 3
//        | . . . . |     bit_alloc = 2 | 1                  tail_row_symbol = 0 1 1 1 3
//        | 4 5 . 6 |     values    = 1 3 | . 4              tail_width      = 0 0 0 2    tail_values = 2 5 6
//
// Arrays: as in bro-ell for the first K entries of every row, and as in bro-csr, with names that begin with tail_, for
//   the others. If there are no others, only the arrays of bro-ell. With sort = length also
//   perm  [rows] int32: the row at each position. Longer rows come first; rows of equal length keep their order.
// Bytes: the sum of both, plus 4 rows with perm.
// Parameters: K and break_even of hyb; h of bro-ell; sort, the order of the rows.
// Wins: when hyb does, and long rows have columns near each other.
// Refuses: never.
// Source: W. T. Tang et al., TPDS 2015, doi:10.1109/TPDS.2014.2357437 (see bro_csr.cpp); the rule for K is the rule of
//   hyb.
//
// The engine is engines/bits/bro.hpp.
#include "formats/compressed/bro_rules.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BroShape bro_hybr_shape(const SumCounter& counter, const FormatParams& params) {
  return {.slices = true,
          .K = hyb_cut(counter, params).width,
          .h = static_cast<int>(params.integer("h")),
          .tail = BroTail::rows,
          .sorted = params.word("sort") == "length"};
}

namespace {
constexpr ParamDoc params[] = {bro_slots_param, bro_break_even_param, bro_height_param,
                               ParamDoc{.name = "sort",
                                        .doc = "order of the rows: as in the matrix, or longer rows first",
                                        .default_value = "none",
                                        .choices = "none|length"}};
constexpr Kernel kernels[] = {bro_kernel};
}  // namespace

constinit const FormatEntry entries::bro_hybr{
    .family = "compressed",
    .id = "bro-hybr",
    .title = "BRO-ELL for the first K entries of a row, BRO-CSR for the rest",
    .source = "Tang et al., TPDS 2015",
    .traits = {.admission_converts = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_bro<bro_hybr_shape>,
    .device = &device_code::bro_hybr};

}  // namespace protean::formats

// BRO-HYB: the first K entries of every row are stored in BRO-ELL, the other entries in BRO-COO.
//
//        | 1 . 2 . |     K = 1, h = 2                       the rest, W = 2, q = 2: rows 0 3 | 3, padding 3
//    A = | . 3 . . |     col_ptr   = 0 1 2                  tail_base   = 0
//        | . . . . |     bit_alloc = 2 | 1                  tail_width  = 2
//        | 4 5 . 6 |     values    = 1 3 | . 4              tail_col    = 2 1 3       tail_values = 2 5 6
//
// Arrays: as in bro-ell for the first K entries of every row, and as in bro-coo, with names that begin with tail_, for
//   the others. If there are no others, only the arrays of bro-ell.
// Bytes: the sum of both.
// Parameters: K and break_even of hyb; h of bro-ell; W and q of bro-coo.
// Wins: when hyb does: most rows have similar lengths and a few are long.
// Refuses: never.
// Source: W. T. Tang et al., SC 2013, doi:10.1145/2503210.2503234 (see bro_ell.cpp); the rule for K is the rule of hyb.
//
// The engine is engines/bits/bro.hpp.
#include "formats/compressed/bro_rules.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BroShape bro_hyb_shape(const SumCounter& counter, const FormatParams& params) {
  return {.slices = true,
          .K = hyb_cut(counter, params).width,
          .h = static_cast<int>(params.integer("h")),
          .tail = BroTail::entries,
          .W = static_cast<int>(params.integer("W")),
          .q = static_cast<int>(params.integer("q"))};
}

namespace {
constexpr ParamDoc params[] = {bro_slots_param, bro_break_even_param, bro_height_param, bro_lanes_param,
                               bro_depth_param};
constexpr Kernel kernels[] = {bro_kernel};
}  // namespace

constinit const FormatEntry entries::bro_hyb{
    .family = "compressed",
    .id = "bro-hyb",
    .title = "BRO-ELL for the first K entries of a row, BRO-COO for the rest",
    .source = "Tang et al., SC 2013",
    .traits = {.admission_converts = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_bro<bro_hyb_shape>,
    .device = &device_code::bro_hyb};

}  // namespace protean::formats

// BRO-COO: coordinates whose rows are stored as differences in few bits, interval by interval.
//
//        | 1 . 2 . |     W = 2, q = 2: rows 0 0 1 3 | 3 3 3 3, the last two are padding
//    A = | . 3 . . |     base  = 0 3     lane 0: 0 1, lane 1: 0 3 | 0 0, 0 0
//        | . . . . |     width = 2 0     interval_symbol = 0 2 2     symbols = 0x10000000 0x30000000
//        | 4 5 . 6 |     col   = 0 2 1 0 | 1 3                       values  = 1 2 3 4 | 5 6
//
// Arrays:
//   base             [intervals] int32: the row of the first entry of each W q entries.
//   width            [intervals] uint8: bits of a difference in each interval.
//   interval_symbol  [intervals + 1] int64: symbols before each interval.
//   symbols          [m] uint32: lane l of an interval has the entries l, l + W, l + 2 W, ... Its fields are the
//                    differences of their rows, the first one from base, with the highest bit first, filled up to whole
//                    symbols; symbol j of lane l lies at interval_symbol + j W + l. Padding of the last interval has
//                    the row of the last entry.
//   col              [nnz] int32: not coded.
//   values           [nnz].
// Bytes: (v + 4) nnz + 4 m + 13 intervals + 8, with v bytes a value; on a device (v + 4) intervals more, for the sums
//   of the first row of each interval.
// Parameters: W, the lanes of an interval; q, the entries of a lane.
// Wins: when coo does: a row index takes 1 or 2 bits instead of 32.
// Refuses: never.
// Source: W. T. Tang et al., SC 2013, doi:10.1145/2503210.2503234 (see bro_ell.cpp). The order of the lanes is our
//   reading. Medium confidence.
//
// engines/bits/bits.hpp has the streams, and engines/bits/bro.hpp everything else.
#include "formats/compressed/bro_rules.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BroShape bro_coo_shape(const SumCounter&, const FormatParams& params) {
  return {.tail = BroTail::entries,
          .W = static_cast<int>(params.integer("W")),
          .q = static_cast<int>(params.integer("q"))};
}

namespace {
constexpr ParamDoc params[] = {bro_lanes_param, bro_depth_param};
constexpr Kernel kernels[] = {bro_kernel};
}  // namespace

constinit const FormatEntry entries::bro_coo{.family = "compressed",
                                             .id = "bro-coo",
                                             .title = "Coordinates, differences of rows in few bits",
                                             .source = "Tang et al., SC 2013",
                                             .traits = {.shares_rows = true, .admission_converts = true},
                                             .params = params,
                                             .kernels = kernels,
                                             .admit = admit_bro<bro_coo_shape>,
                                             .device = &device_code::bro_coo};

}  // namespace protean::formats

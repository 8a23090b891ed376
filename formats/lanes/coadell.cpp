// CoAdELL, compressed AdELL: the columns of a lane are stored as its first column and 16-bit differences.
//
//        | 1 . 2 . |     W = 2: 1 entry a lane; widths 1, so there are no differences
//    A = | . 3 . . |     unit_ptr = 0 2 4 6 8                 first    = 0 2 | 1 0 | 0 1 | 3 3
//        | . . . . |     lane_row = 0 0 | 1 -3 | 3 3 | 3 -4   code_ptr = 0 0 0 0
//        | 4 5 . 6 |     values   = 1 2 | 3 . | 4 5 | 6 .     delta, col empty
//
// Arrays:
//   unit_ptr, lane_row, values, carry  as in adell.
//   first     [warps W] int32: the first column of each lane.
//   code_ptr  [warps] int64: d >= 0: the differences of this warp begin at delta[d]; -1 - c: its columns begin at
//             col[c].
//   delta     [slots of coded warps without their first row of slots] uint16: slot k > 0 of lane l of warp u lies at
//             code_ptr[u] + (k - 1) W + l; 0 in padding.
//   col       [slots of other warps] int32: the columns of warps in which a difference needs more than 16 bits.
// Bytes: v slots + 8 (2 warps + 1) + 8 warps W + 2 [delta] + 4 [col] + v warps [carry], with v bytes a value.
// Parameters: W, the lanes of a warp; max_fill, the most slots per entry.
// Wins: as adell, when rows have many entries: an index takes 2 bytes instead of 4.
// Refuses: when slots > max_fill nonzeros.
// Source: M. Maggioni, T. Berger-Wolf, CoAdELL: adaptivity and compression for improving sparse matrix-vector
//   multiplication on GPUs, IPDPSW 2014, 933-940, doi:10.1109/IPDPSW.2014.106. The single width of 16 bits and the
//   choice for each warp are our reading. Low confidence.
#include "formats/engines/lanes/lanes.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

LaneRule coadell_rule(const SparsityPattern& pattern, const FormatParams& params) {
  return {LaneMapping::greedy, static_cast<int>(params.integer("W")), mean_and_a_tenth(pattern), true};
}

namespace {

constexpr ParamDoc params[] = {lane_width_param, lane_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<LaneMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::coadell{.family = "lanes",
                                             .id = "coadell",
                                             .title = "Compressed AdELL: 16-bit differences of columns",
                                             .source = "Maggioni, Berger-Wolf, IPDPSW 2014",
                                             .traits = {.shares_rows = true, .admission_converts = true},
                                             .params = params,
                                             .kernels = kernels,
                                             .admit = admit_lanes_on_host<coadell_rule>,
                                             .device = &device_code::coadell};

}  // namespace protean::formats

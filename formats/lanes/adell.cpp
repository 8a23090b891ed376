// AdELL, adaptive ELLPACK: each warp computes one or more rows, and long rows get more of its lanes than short rows.
//
//        | 1 . 2 . |     W = 2: 1 entry a lane
//    A = | . 3 . . |     unit_ptr = 0 2 4 6 8
//        | . . . . |     lane_row = 0 0 | 1 -3 | 3 3 | 3 -4
//        | 4 5 . 6 |     col      = 0 2 | 1 0  | 0 1 | 3 3      values = 1 2 | 3 . | 4 5 | 6 .
//
// Arrays:
//   unit_ptr  [warps + 1] int64: slots before each warp. Its width is the number of entries of its fullest lane.
//   lane_row  [warps W] int32: the row of each lane, ascending; -1 - row if the lane has no entries.
//   col       [slots] int32: slot k of lane l of warp u lies at unit_ptr[u] + k W + l. The lanes of a row hold its
//             entries in consecutive pieces. Padding repeats the row's last column.
//   values    [slots]: 0 if padded.
//   carry     [warps], on a device, if a row continues in the next warp: workspace of a product.
// Bytes: (v + 4) slots + 8 (warps + 1) + 4 warps W + v warps [carry], with v bytes a value.
// Parameters: W, the lanes of a warp; max_fill, the most slots per entry.
// Wins: on a GPU, when rows are of very different lengths: the lanes of a warp have about the same number of entries,
//   rows keep their order, and there is no parameter to choose.
// Refuses: when slots > max_fill nonzeros.
// Source: M. Maggioni, T. Berger-Wolf, AdELL: an adaptive warp-balancing ELL format for efficient sparse matrix-vector
//   multiplication on GPUs, ICPP 2013, 11-20, doi:10.1109/ICPP.2013.10. The number of lanes of a row follows a public
//   code: the entries of the row over 1.1 times the mean. Medium confidence.
//
// The original adds to y by atomic operations if a row lies in several warps. Here the warps leave carries, which a
// second launch adds in a fixed order. Every 4096 rows a new warp begins.
#include "formats/engines/lanes/lanes.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

LaneRule adell_rule(const SparsityPattern& pattern, const FormatParams& params) {
  return {LaneMapping::greedy, static_cast<int>(params.integer("W")), mean_and_a_tenth(pattern), false};
}

namespace {

constexpr ParamDoc params[] = {lane_width_param, lane_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<LaneMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::adell{.family = "lanes",
                                           .id = "adell",
                                           .title = "Adaptive ELLPACK: long rows have more lanes of a warp",
                                           .source = "Maggioni, Berger-Wolf, ICPP 2013",
                                           .traits = {.shares_rows = true},
                                           .params = params,
                                           .kernels = kernels,
                                           .admit = admit_lanes_on_host<adell_rule>,
                                           .device = &device_code::adell};

}  // namespace protean::formats

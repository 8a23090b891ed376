// ArgCSR, adaptive row-grouped CSR: each group of successive rows has a fixed number of lanes, which its rows get in
// proportion to their entries.
//
//        | 1 . 2 . |     chunks = 4, desired = 1: all rows are one group
//    A = | . 3 . . |     unit_ptr = 0 12
//        | . . . . |     lane_row = 0 1 -3 3
//        | 4 5 . 6 |     col      = 0 1 0 0 | 2 1 0 1 | 2 1 0 3        values = 1 3 . 4 | 2 . . 5 | . . . 6
//
// Arrays:
//   unit_ptr  [units + 1] int64: slots before each group. Its width is the number of entries of its fullest lane.
//   lane_row  [units chunks] int32: the row of each lane, ascending; -1 - row if the lane has no entries. It is the
//             map from chunks to rows; the map from rows to chunks and the rows of a group follow from it.
//   col       [slots] int32: slot k of lane l of group u lies at unit_ptr[u] + k chunks + l. Padding repeats the row's
//             last column.
//   values    [slots]: 0 if padded.
// Bytes: (v + 4) slots + 8 (units + 1) + 4 units chunks, with v bytes a value.
// Parameters:
//   chunks    lanes of a group, the threads of a block: 4, 8, ... 256.
//   desired   entries of a lane: a group is closed when it has chunks * desired entries or chunks rows.
//   max_fill  the most slots per entry.
// Wins: on a GPU, when rows are of very different lengths, but none is much longer than a group: no thread waits long.
// Refuses: when slots > max_fill nonzeros, as when a row much longer than a group makes it wide.
// Source: M. Heller, T. Oberhuber, Improved row-grouped CSR format for storing of sparse matrices on GPU, ALGORITMY
//   2012, 282-290. The lanes that are left over are given to rows as in the authors' later code.
//
// Every 4096 rows a new group begins.
#include "formats/engines/lanes/lanes.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

LaneRule argcsr_rule(const SparsityPattern&, const FormatParams& params) {
  return {LaneMapping::whole, static_cast<int>(params.integer("chunks")), params.integer("desired"), false};
}

namespace {

constexpr ParamDoc params[] = {
    {.name = "chunks",
     .doc = "lanes of a group of rows (threads of a block)",
     .default_value = "256",
     .choices = "4|8|16|32|64|128|256"},
    {.name = "desired",
     .doc = "entries of a lane: a group ends when it has chunks times this many entries",
     .default_value = "16",
     .smallest = 1,
     .largest = 4096},
    lane_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<LaneMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::argcsr{.family = "lanes",
                                            .id = "argcsr",
                                            .title = "Adaptive row-grouped CSR: groups of rows share lanes",
                                            .source = "Heller, Oberhuber, ALGORITMY 2012",
                                            .traits = {},
                                            .params = params,
                                            .kernels = kernels,
                                            .admit = admit_lanes_on_host<argcsr_rule>,
                                            .device = &device_code::argcsr};

}  // namespace protean::formats

// The lanes of aligned-coo, planned from the number of rows of each length, and the view of its rows; the same on host
// and device. Private to formats/.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constexpr std::int64_t aligned_longest = 1024;  // slots of a lane

// Lengths of lanes among which the one with the fewest slots is taken; the same one several times if a user set it.
using LaneLengths = std::array<std::int64_t, 5>;
LaneLengths lane_lengths(const FormatParams& params, std::int64_t nonzeros);

// What must be known of the lengths of rows: how many rows have each length below the longest of the lanes, and how
// many lanes the longer rows take with each length of lanes.
struct RowCounts {
  std::vector<std::int64_t> with_length;
  std::array<std::int64_t, 5> lanes_of_long_rows{};
};

// Light rows in the order of descending length, from number `first` on: row `first` + i begins at slot
// offset + i % each * length of lane `lane` + i / each.
struct LightRows {
  std::int64_t first, lane;
  std::int32_t each, offset, length;
};

struct LanePlan {
  std::int64_t length = 0, lanes = 0;  // slots of a lane; lanes, those without entries included
  std::int64_t heavy_rows = 0, heavy_lanes = 0, empty_rows = 0;
  std::vector<LightRows> light;  // in the order of `first`
};

// Rows of at least `length` entries get their own lanes. The others are packed whole, the longest first, each into the
// first lane with room. The returned object keeps the plan.
Admission plan_lanes(const RowCounts& counts, const LaneLengths& lengths, std::int64_t rows,
                     std::int64_t nonzeros, const FormatParams& params, std::size_t value_bytes);

// Where slots lie: slot k of lane l at k * lanes + l. Padding repeats row and column of the entry before it in its
// lane; lanes without entries have row -1.
template <class T>
struct LaneView {
  std::int64_t lanes, height, empty_count;
  const std::int32_t *row_of_slot, *col;
  const T* values;
  const std::int32_t* empty;

  PROTEAN_HOST_DEVICE std::int64_t slots() const { return lanes * height; }
  // A position for each slot, in which the row lies that begins there, and for each row without entries.
  PROTEAN_HOST_DEVICE std::int64_t positions() const { return slots() + empty_count; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const {
    if (p >= slots()) return empty[p - slots()];
    const std::int64_t before = p >= lanes ? p - lanes : p - 1;  // a heavy row goes on in the next lane
    return before >= 0 && row_of_slot[before] == row_of_slot[p] ? -1 : row_of_slot[p];
  }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    if (p >= slots()) return;
    const std::int32_t r = row_of_slot[p];
    for (std::int64_t at = p;;) {
      f(col[at], at);
      std::int64_t next = at + lanes;
      if (next >= slots() && (next = at % lanes + 1) == lanes) return;
      if (row_of_slot[next] != r || col[next] <= col[at]) return;
      at = next;
    }
  }
};

}  // namespace protean::formats

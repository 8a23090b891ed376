// What the host and the device side of brc have in common. Private to formats/.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

struct BrcRule {
  std::int64_t B1, B2;  // rows and columns of a block
  std::int64_t units(std::int64_t rows) const { return (rows + B1 - 1) / B1; }
  // Blocks of a row block whose longest row has that many entries.
  PROTEAN_HOST_DEVICE std::int64_t blocks(std::int64_t longest) const {
    return longest <= B2 ? 1 : (longest + B2 - 1) / B2;
  }
};
// B2 = 0: as many columns as make 8192 full blocks, at least 16.
inline BrcRule brc_rule(const SparsityPattern& pattern, const FormatParams& params) {
  BrcRule rule{params.integer("B1"), params.integer("B2")};
  if (rule.B2 == 0) rule.B2 = std::max<std::int64_t>(16, pattern.nonzeros / (8192 * rule.B1) + 1);
  return rule;
}

struct BrcSizes {
  std::int64_t slots = 0, blocks = 0;
};
inline std::size_t brc_bytes(const BrcRule& rule, const BrcSizes& sizes, std::int64_t rows,
                             std::size_t value_bytes) {
  const std::int64_t units = rule.units(rows);
  return static_cast<std::size_t>(sizes.slots) * (value_bytes + 4) +
         static_cast<std::size_t>(8 * (units + 1) + 8 * (sizes.blocks + 1) + 4 * sizes.blocks +
                                  4 * units * rule.B1);
}
Admission admit_brc(const BrcRule& rule, const BrcSizes& sizes, const SparsityPattern& pattern,
                    const FormatParams& params, std::size_t value_bytes);

// A view of the rows in the sense of row_view.hpp. The blocks of a row block lie one after another, so slot k of a row
// is the same number of slots after the beginning of its row block, whatever its block.
template <class T>
struct BrcView {
  const T* values;
  const std::int32_t* col;
  const std::int64_t* unit_ptr;
  const std::int32_t* lane_row;
  std::int64_t rows, B1;

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const {
    return lane_row[p] < 0 ? -1 - std::int64_t{lane_row[p]} : lane_row[p];
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_slots(std::int64_t p, F&& f) const {
    const std::int64_t u = p / B1;
    for (std::int64_t place = unit_ptr[u] + p % B1; place < unit_ptr[u + 1]; place += B1)
      if (!f(place)) return;
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    if (lane_row[p] < 0) return;
    std::int32_t last = -1;
    for_slots(p, [&](std::int64_t place) {
      if (col[place] <= last) return false;  // padding
      last = col[place];
      f(last, place);
      return true;
    });
  }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  // Writes all slots of a lane: the entries k to end, then padding.
  PROTEAN_HOST_DEVICE void fill(std::int64_t p, std::int64_t k, std::int64_t end,
                                const std::int32_t* from_col, const T* from_values, std::int32_t* to_col,
                                T* to_values) const {
    std::int32_t last = 0;
    for_slots(p, [&](std::int64_t place) {
      if (k < end) last = from_col[k];
      to_col[place] = last;
      to_values[place] = k < end ? from_values[k] : T(0);
      ++k;
      return true;
    });
  }
};

}  // namespace protean::formats

// The rows of hyb on the host (row_view.hpp). Private to formats/.
#pragma once
#include <algorithm>
#include <cstdint>

namespace protean::formats {

// Columns and values of the ELLPACK part, and after them those of the coordinates.
template <class T>
struct HybView {
  std::int64_t rows, slots, tail;  // slots of each row, coordinates
  const std::int32_t *col, *coo_row, *empty, *empty_end;
  const T* values;

  std::int64_t positions() const { return rows; }
  std::int64_t row(std::int64_t p) const { return p; }
  std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  template <class F>
  void for_entries(std::int64_t p, F&& f) const {
    const auto r = static_cast<std::int32_t>(p);
    if (std::binary_search(empty, empty_end, r)) return;
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      const std::int64_t at = slot * rows + p;
      if (slot > 0 && col[at] == col[at - rows]) return;  // padding repeats a column
      f(col[at], at);
    }
    for (std::int64_t k = std::lower_bound(coo_row, coo_row + tail, r) - coo_row; k < tail && coo_row[k] == r;
         ++k)
      f(col[slots * rows + k], slots * rows + k);
  }
};

}  // namespace protean::formats

// Rows in the order of their lengths, on the host. Private to formats/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/csr.hpp"

namespace protean::formats {

// Sorts rows first .. first + count - 1 by descending length; rows of equal length keep their order.
inline void sort_window(const SparsityPattern& pattern, std::int64_t first, std::int64_t count,
                        std::int32_t* order, std::vector<std::int64_t>& scratch) {
  std::int64_t longest = 0;
  for (std::int64_t r = first; r < first + count; ++r) longest = std::max(longest, pattern.row_length(r));
  if (longest > 4 * count) {
    for (std::int64_t i = 0; i < count; ++i) order[i] = static_cast<std::int32_t>(first + i);
    std::stable_sort(order, order + count,
                     [&](auto a, auto b) { return pattern.row_length(a) > pattern.row_length(b); });
    return;
  }
  scratch.assign(static_cast<std::size_t>(longest) + 2, 0);
  for (std::int64_t r = first; r < first + count; ++r) ++scratch[longest - pattern.row_length(r) + 1];
  for (std::int64_t i = 1; i <= longest; ++i) scratch[i] += scratch[i - 1];
  for (std::int64_t r = first; r < first + count; ++r)
    order[scratch[longest - pattern.row_length(r)]++] = static_cast<std::int32_t>(r);
}

}  // namespace protean::formats

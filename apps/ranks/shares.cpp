#include "apps/ranks/shares.hpp"

#include <algorithm>

namespace protean::apps::ranks {

int part_of_row(std::int64_t before, std::int64_t entries, int parts) noexcept {
  if (entries == 0) return 0;
  __extension__ using Wide = __int128;
  const auto part = static_cast<int>(static_cast<Wide>(before) * parts / entries);
  return std::min(part, parts - 1);  // rows without entries at the end
}

std::vector<std::int64_t> first_rows(const RowPointers& row_ptr, std::int64_t rows, int parts) {
  std::vector<std::int64_t> first{0};
  for (int part = 1; part < parts; ++part) {
    std::int64_t low = first.back(), high = rows;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (part_of_row(row_ptr[middle], row_ptr[rows], parts) < part)
        low = middle + 1;
      else
        high = middle;
    }
    first.push_back(low);
  }
  first.push_back(rows);
  return first;
}

}  // namespace protean::apps::ranks

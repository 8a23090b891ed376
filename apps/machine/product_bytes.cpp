#include "apps/machine/product_bytes.hpp"

#include <vector>

namespace protean::apps {

double effective_bytes(std::int64_t rows, std::int64_t nonzeros, double value_bytes) {
  return (2 * value_bytes + 4) * static_cast<double>(nonzeros) +
         (value_bytes + 4) * static_cast<double>(rows);
}
double worst_bytes(std::int64_t rows, std::int64_t nonzeros) {
  return 128.0 * (3.0 * static_cast<double>(nonzeros) + 2.0 * static_cast<double>(rows));
}
double minimum_bytes(std::int64_t rows, std::int64_t nonzeros, double value_bytes) {
  return (value_bytes + 4) * static_cast<double>(nonzeros) +
         (2 * value_bytes + 4) * static_cast<double>(rows);
}
double caching_bytes(std::int64_t rows, std::int64_t nonzeros, std::int64_t lines_of_x, double value_bytes) {
  return (value_bytes + 4) * static_cast<double>(nonzeros + rows) + 128.0 * static_cast<double>(lines_of_x);
}

std::int64_t count_lines(const SparsityPattern& pattern, std::int64_t value_bytes) {
  constexpr std::int64_t block_rows = 128;
  const std::int64_t line = 128 / value_bytes;
  std::vector<std::int64_t> last(static_cast<std::size_t>(pattern.cols / line + 1), -1);
  std::int64_t lines = 0;
  for (std::int64_t row = 0; row < pattern.rows; ++row)
    for (const std::int32_t col : pattern.row(row)) {
      std::int64_t& seen = last[static_cast<std::size_t>(col / line)];
      if (seen == row / block_rows) continue;
      seen = row / block_rows;
      ++lines;
    }
  return lines;
}

}  // namespace protean::apps

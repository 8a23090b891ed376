#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/transfer.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean {
namespace {

// The first rows of up to 32 blocks whose 32 rows are compared.
constexpr std::int64_t compared_blocks = 32, compared_rows = 32;
std::int64_t distance_of_blocks(std::int64_t rows) {
  return std::max<std::int64_t>(rows / compared_blocks, compared_rows);
}

// length(i): entries of row i. It is asked for the rows of each block in ascending order.
template <class Length>
double row_changes_by(std::int64_t rows, const Length& length) {
  std::int64_t changes = 0, looked_at = 0;
  for (std::int64_t begin = 0; begin < rows; begin += distance_of_blocks(rows)) {
    std::int64_t before = length(begin);
    for (std::int64_t i = begin + 1; i < std::min(begin + compared_rows, rows); ++i) {
      const std::int64_t here = length(i);
      ++looked_at, changes += here != before;
      before = here;
    }
  }
  return looked_at > 0 ? static_cast<double>(changes) / static_cast<double>(looked_at) : -1;
}

}  // namespace

double row_changes(const SparsityPattern& pattern) {
  if (pattern.space != Space::host || pattern.rows < 2) return -1;
  return row_changes_by(pattern.rows, [&](std::int64_t i) { return pattern.row_length(i); });
}

double row_changes(const Context& context, const SparsityPattern& pattern) {
  if (pattern.space == Space::host || pattern.rows < 2) return row_changes(pattern);
  std::vector<std::int32_t> rows;
  for (std::int64_t begin = 0; begin < pattern.rows; begin += distance_of_blocks(pattern.rows))
    for (std::int64_t i = begin; i < std::min(begin + compared_rows, pattern.rows); ++i)
      rows.push_back(static_cast<std::int32_t>(i));
  detail::RowsRead read;
  detail::read_rows(context, pattern, rows, read);
  std::size_t next = 0;
  return row_changes_by(pattern.rows, [&](std::int64_t) {
    ++next;
    return read.begin[next] - read.begin[next - 1];
  });
}

}  // namespace protean

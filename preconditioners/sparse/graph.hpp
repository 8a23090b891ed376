// Patterns of sparse matrices that the host makes. Private to preconditioners/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/context.hpp"
#include "core/parallel.hpp"

namespace protean::detail {

// The columns of rows, as in a CSR matrix.
struct Graph {
  std::vector<std::int64_t> ptr = {0};
  std::vector<std::int32_t> col;
  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(ptr.size()) - 1; }
  std::int64_t size() const noexcept { return ptr.back(); }
  std::span<const std::int32_t> row(std::int64_t i) const noexcept {
    return {
        col.data() + ptr[static_cast<std::size_t>(i)],
        static_cast<std::size_t>(ptr[static_cast<std::size_t>(i) + 1] - ptr[static_cast<std::size_t>(i)])};
  }
  std::size_t bytes() const noexcept { return ptr.size() * 8 + col.size() * 4; }
  bool operator==(const Graph&) const = default;
};

// A graph whose rows several threads append: body(rows, col, size) appends the columns of these rows to col, one row
// after another, and writes their numbers to size[0 .. rows.size() - 1]. `work`: what decides on the number of threads.
template <class Body>
Graph collect_rows(const Context& context, std::int64_t n, std::int64_t work, Body body) {
  Graph made;
  made.ptr.assign(static_cast<std::size_t>(n) + 1, 0);
  const int parts = useful_parts(context, work);
  std::vector<std::vector<std::int32_t>> col(static_cast<std::size_t>(parts));
  parallel(parts, [&](int part, int count) {
    const Range rows = even_range(n, part, count);
    body(rows, col[static_cast<std::size_t>(part)], made.ptr.data() + rows.begin + 1);
  });
  for (std::size_t i = 1; i < made.ptr.size(); ++i) made.ptr[i] += made.ptr[i - 1];
  made.col.resize(static_cast<std::size_t>(made.ptr.back()));
  parallel(parts, [&](int part, int count) {
    const std::vector<std::int32_t>& mine = col[static_cast<std::size_t>(part)];
    std::copy(mine.begin(), mine.end(),
              made.col.data() + made.ptr[static_cast<std::size_t>(even_range(n, part, count).begin)]);
  });
  return made;
}

}  // namespace protean::detail

// Other patterns with the same numbers of rows, columns and entries as the pattern of a matrix, which only a look at
// them can distinguish from it.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/csr.hpp"
#include "support/battery.hpp"

namespace protean::test {

struct OtherPattern {
  std::string what;
  CsrMatrix<double> matrix;
};

// Empty if there is no other one.
inline std::vector<OtherPattern> other_patterns(const CsrMatrix<double>& csr) {
  std::vector<OtherPattern> found;
  const SparsityPattern& p = csr.pattern;
  const auto rows_of = [&] {
    std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(p.rows));
    for (std::int64_t r = 0; r < p.rows; ++r)
      rows[static_cast<std::size_t>(r)].assign(p.row(r).begin(), p.row(r).end());
    return rows;
  };
  const auto add = [&](std::string what, const std::vector<std::vector<std::int32_t>>& rows) {
    CsrBuilder<double> made(test_context(), p.rows, p.cols, p.nonzeros, p.row_ptr.p64 != nullptr);
    std::int64_t k = 0;
    for (std::int64_t r = 0; r < p.rows; ++r) {
      for (const std::int32_t c : rows[static_cast<std::size_t>(r)])
        made.col()[k] = c, made.values()[k] = csr.values[k], ++k;
      made.set_row_ptr(r + 1, k);
    }
    found.push_back({std::move(what), made.freeze()});
  };
  const auto free_column = [&](const std::vector<std::int32_t>& row) {
    for (std::int32_t c = static_cast<std::int32_t>(p.cols) - 1; c >= 0; --c)
      if (std::find(row.begin(), row.end(), c) == row.end()) return c;
    return std::int32_t{-1};
  };
  auto rows = rows_of();
  for (auto& row : rows)
    if (const std::int32_t c = free_column(row); c >= 0 && !row.empty()) {
      row.front() = c;
      std::sort(row.begin(), row.end());
      add("an entry in another column", rows);
      break;
    }
  rows = rows_of();
  for (auto& row : rows)
    if (!row.empty()) {
      const auto to = std::find_if(rows.rbegin(), rows.rend(), [&](const auto& other) {
        return &other != &row && free_column(other) >= 0;
      });
      if (to == rows.rend()) continue;
      row.pop_back();
      to->push_back(free_column(*to));
      std::sort(to->begin(), to->end());
      add("an entry in another row", rows);
      break;
    }
  rows = rows_of();
  for (auto& row : rows)
    if (row.size() > 1) {
      std::swap(row.front(), row.back());
      add("a row in another order", rows);
      break;
    }
  return found;
}

}  // namespace protean::test

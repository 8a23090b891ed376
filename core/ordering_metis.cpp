// Nested dissection by METIS.
#include <fmt/format.h>
#include <metis.h>

#include <algorithm>
#include <limits>
#include <new>

#include "core/adjacency.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"

namespace protean {

std::vector<std::int32_t> nested_dissection(const Context& context, const SparsityPattern& pattern) {
  if (pattern.rows != pattern.cols)
    throw ShapeMismatch(fmt::format("the pattern is {} x {}; nested dissection orders square ones",
                                    pattern.rows, pattern.cols));
  const std::int64_t n = pattern.rows;
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  if (n == 0) return order;
  const detail::Adjacency graph(context, pattern, false);
  std::vector<idx_t> begin{0}, neighbour, row;
  begin.reserve(static_cast<std::size_t>(n) + 1);
  for (std::int64_t i = 0; i < n; ++i) {
    row.clear();
    graph.neighbours(static_cast<std::int32_t>(i), [&](std::int32_t j) {
      if (j != i) row.push_back(j);
    });
    if (!graph.symmetric()) {
      std::sort(row.begin(), row.end());
      row.erase(std::unique(row.begin(), row.end()), row.end());
    }
    if (neighbour.size() + row.size() > static_cast<std::size_t>(std::numeric_limits<idx_t>::max()))
      throw BadMatrix(fmt::format(
          "this METIS counts entries in {} bits, and the graph has more; take order rcm", 8 * sizeof(idx_t)));
    neighbour.insert(neighbour.end(), row.begin(), row.end());
    begin.push_back(static_cast<idx_t>(neighbour.size()));
  }
  std::vector<idx_t> place(static_cast<std::size_t>(n)), row_at(static_cast<std::size_t>(n));
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_NUMBERING] = 0, options[METIS_OPTION_SEED] = 1;
  idx_t rows = static_cast<idx_t>(n);
  // Without an edge METIS has nothing to do, and some versions of it fail.
  if (neighbour.empty()) {
    for (std::int64_t i = 0; i < n; ++i) order[i] = static_cast<std::int32_t>(i);
    return order;
  }
  const int status =
      METIS_NodeND(&rows, begin.data(), neighbour.data(), nullptr, options, row_at.data(), place.data());
  if (status == METIS_ERROR_MEMORY)
    throw OutOfMemory("METIS has not enough memory for this graph; take order rcm", 0);
  if (status != METIS_OK)
    throw BadMatrix(fmt::format("METIS ended with error {} on this graph; take order rcm", status));
  for (std::int64_t k = 0; k < n; ++k) order[k] = static_cast<std::int32_t>(row_at[k]);
  return order;
}

}  // namespace protean

// Nested dissection and parts by METIS.
#include <fmt/format.h>
#include <metis.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "core/adjacency.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"
#include "core/partition.hpp"

namespace protean {
namespace {

// The graph as METIS reads it: the neighbours of row i are neighbour[begin[i]] .. neighbour[begin[i + 1] - 1].
struct Graph {
  std::vector<idx_t> begin{0}, neighbour;
};

// instead: what to do if METIS fails.
Graph graph_of(const Context& context, const SparsityPattern& pattern, std::string_view instead) {
  const std::int64_t n = pattern.rows;
  const detail::Adjacency graph(context, pattern, false);
  Graph made;
  std::vector<idx_t> row;
  made.begin.reserve(static_cast<std::size_t>(n) + 1);
  for (std::int64_t i = 0; i < n; ++i) {
    row.clear();
    graph.neighbours(static_cast<std::int32_t>(i), [&](std::int32_t j) {
      if (j != i) row.push_back(j);
    });
    if (!graph.symmetric()) {
      std::sort(row.begin(), row.end());
      row.erase(std::unique(row.begin(), row.end()), row.end());
    }
    if (made.neighbour.size() + row.size() > static_cast<std::size_t>(std::numeric_limits<idx_t>::max()))
      throw BadMatrix(fmt::format("this METIS counts entries in {} bits, and the graph has more; {}",
                                  8 * sizeof(idx_t), instead));
    made.neighbour.insert(made.neighbour.end(), row.begin(), row.end());
    made.begin.push_back(static_cast<idx_t>(made.neighbour.size()));
  }
  return made;
}

void require_done(int status, std::string_view instead) {
  if (status == METIS_ERROR_MEMORY)
    throw OutOfMemory(fmt::format("METIS has not enough memory for this graph; {}", instead), 0);
  if (status != METIS_OK)
    throw BadMatrix(fmt::format("METIS ended with error {} on this graph; {}", status, instead));
}

}  // namespace

std::vector<std::int32_t> nested_dissection(const Context& context, const SparsityPattern& pattern) {
  if (pattern.rows != pattern.cols)
    throw ShapeMismatch(fmt::format("the pattern is {} x {}; nested dissection orders square ones",
                                    pattern.rows, pattern.cols));
  constexpr std::string_view instead = "take order rcm";
  const std::int64_t n = pattern.rows;
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  if (n == 0) return order;
  Graph graph = graph_of(context, pattern, instead);
  std::vector<idx_t> place(static_cast<std::size_t>(n)), row_at(static_cast<std::size_t>(n));
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_NUMBERING] = 0, options[METIS_OPTION_SEED] = 1;
  idx_t rows = static_cast<idx_t>(n);
  // Without an edge METIS has nothing to do, and some versions of it fail.
  if (graph.neighbour.empty()) {
    for (std::int64_t i = 0; i < n; ++i) order[i] = static_cast<std::int32_t>(i);
    return order;
  }
  require_done(METIS_NodeND(&rows, graph.begin.data(), graph.neighbour.data(), nullptr, options,
                            row_at.data(), place.data()),
               instead);
  for (std::int64_t k = 0; k < n; ++k) order[k] = static_cast<std::int32_t>(row_at[k]);
  return order;
}

std::vector<std::int32_t> detail::metis_parts(const Context& context, const SparsityPattern& pattern,
                                              std::int64_t parts, std::string_view instead) {
  require_square(pattern, "metis");
  const std::int64_t n = pattern.rows;
  std::vector<std::int32_t> part(static_cast<std::size_t>(n), 0);
  if (n == 0 || parts <= 1) return part;
  Graph graph = graph_of(context, pattern, instead);
  // Rows that are not coupled may lie in any part, and some versions of METIS fail without an edge.
  if (graph.neighbour.empty()) {
    for (std::int64_t i = 0; i < n; ++i) part[i] = static_cast<std::int32_t>(i * parts / n);
    return part;
  }
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_NUMBERING] = 0, options[METIS_OPTION_SEED] = 1;
  idx_t rows = static_cast<idx_t>(n), balance = 1, wanted = static_cast<idx_t>(std::min(parts, n)), cut = 0;
  std::vector<idx_t> found(static_cast<std::size_t>(n));
  require_done(METIS_PartGraphKway(&rows, &balance, graph.begin.data(), graph.neighbour.data(), nullptr,
                                   nullptr, nullptr, &wanted, nullptr, nullptr, options, &cut, found.data()),
               instead);
  for (std::int64_t i = 0; i < n; ++i) part[i] = static_cast<std::int32_t>(found[i]);
  return part;
}

}  // namespace protean

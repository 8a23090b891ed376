#include "benchmarks/peers/ordering.hpp"

#if defined(PROTEAN_HAVE_BOOST_GRAPH)
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/cuthill_mckee_ordering.hpp>
#include <boost/graph/properties.hpp>

namespace protean::bench {

bool have_boost_rcm() { return true; }

std::vector<std::int32_t> boost_rcm(const SparsityPattern& pattern) {
  using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                                   boost::no_property, std::int32_t, std::int64_t>;
  const std::int64_t n = pattern.rows;
  std::vector<std::pair<std::int32_t, std::int32_t>> edges;
  edges.reserve(static_cast<std::size_t>(pattern.nonzeros));
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t k = pattern.row_ptr[row]; k < pattern.row_ptr[row + 1]; ++k)
      if (pattern.col[k] != row) edges.emplace_back(static_cast<std::int32_t>(row), pattern.col[k]);
  const Graph graph(boost::edges_are_sorted, edges.begin(), edges.end(), static_cast<std::int32_t>(n));
  const auto index = get(boost::vertex_index, graph);
  std::vector<boost::default_color_type> colors(static_cast<std::size_t>(n));
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  // The library numbers from the back: written in reverse it is reverse Cuthill-McKee.
  boost::cuthill_mckee_ordering(graph, order.rbegin(),
                                boost::make_iterator_property_map(colors.begin(), index),
                                boost::make_out_degree_map(graph));
  return order;
}

}  // namespace protean::bench
#else
namespace protean::bench {

bool have_boost_rcm() { return false; }
std::vector<std::int32_t> boost_rcm(const SparsityPattern&) { return {}; }

}  // namespace protean::bench
#endif

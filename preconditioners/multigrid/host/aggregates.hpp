// Graphs of strong couplings, and their aggregates. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <vector>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "preconditioners/sparse/graph.hpp"

namespace protean::detail {

// Nodes are groups of consecutive rows: node I has the rows first[I] .. first[I + 1] - 1. Nodes I and J are joined if
// the Frobenius norm of block (I, J) or (J, I) is larger than strength times the root of the product of the norms of
// blocks (I, I) and (J, J). No node is joined with itself. Columns are ascending.
template <class T>
Graph strong_couplings(const Context& context, const CsrMatrix<T>& csr,
                       const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& node_of,
                       double strength);

// Steele, Lea and Flood, OOPSLA 2014, doi:10.1145/2660193.2660195: the mixing function of SplitMix64.
PROTEAN_HOST_DEVICE inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
// The state of a node, its priority and its number in one number: the largest one wins.
inline constexpr std::uint64_t root_node = std::uint64_t{3} << 62, undecided_node = std::uint64_t{1} << 62,
                               node_states = root_node;
PROTEAN_HOST_DEVICE inline std::uint64_t node_key(std::uint64_t state, std::int64_t i) {
  const std::uint64_t priority = mixed(static_cast<std::uint64_t>(i)) >> 34;
  return state | priority << 32 | static_cast<std::uint64_t>(i);
}

struct Aggregates {
  std::int64_t count = 0;
  std::vector<std::int32_t> of;  // of each node; -1: it is joined with none, and belongs to no aggregate
};
// Aggregates around the nodes of a maximal set of which no two are at a distance of 2 or less (Bell, Dalton and Olson,
// SIAM J. Sci. Comput. 34 (2012) C123): such a node with its neighbours, and each node at distance 2 with the aggregate
// that most of its neighbours belong to. Priorities are a fixed function of the number of a node, so the result is the
// same for any number of threads. The graph is symmetric.
Aggregates aggregate(const Context& context, const Graph& graph);

}  // namespace protean::detail

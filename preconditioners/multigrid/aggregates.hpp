// Graphs of strong couplings, and their aggregates. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "core/parallel.hpp"

namespace protean::detail {

// The columns of rows, as those of a CSR matrix.
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

// Nodes are groups of rows that follow each other: node I has the rows first[I] .. first[I + 1] - 1.
// Nodes I and J are joined where the Frobenius norm of block (I, J) or (J, I) is larger than strength times the root of
// the product of the norms of blocks (I, I) and (J, J). No node is joined with itself. Columns are ascending.
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

#include "preconditioners/multigrid/host/aggregates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace protean::detail {
namespace {

// a and its mirrored one.
Graph symmetric_union(const Context& context, const Graph& a) {
  const std::int64_t n = a.rows();
  Graph mirrored;
  mirrored.ptr.assign(a.ptr.size(), 0);
  for (const std::int32_t j : a.col) ++mirrored.ptr[static_cast<std::size_t>(j) + 1];
  for (std::size_t i = 1; i < mirrored.ptr.size(); ++i) mirrored.ptr[i] += mirrored.ptr[i - 1];
  mirrored.col.resize(a.col.size());
  std::vector<std::int64_t> next(mirrored.ptr.begin(), mirrored.ptr.end() - 1);
  for (std::int64_t i = 0; i < n; ++i)
    for (const std::int32_t j : a.row(i))
      mirrored.col[static_cast<std::size_t>(next[static_cast<std::size_t>(j)]++)] =
          static_cast<std::int32_t>(i);
  if (mirrored == a) return mirrored;
  return collect_rows(
      context, n, a.size(), [&](Range rows, std::vector<std::int32_t>& col, std::int64_t* size) {
        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
          const std::size_t before = col.size();
          const auto one = a.row(i), other = mirrored.row(i);
          std::set_union(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(col));
          size[i - rows.begin] = static_cast<std::int64_t>(col.size() - before);
        }
      });
}

// Those of the nodes for which keep(i), in their order.
template <class Keep>
std::vector<std::int32_t> filtered(const Context& context, const std::vector<std::int32_t>& nodes,
                                   Keep keep) {
  const auto size = static_cast<std::int64_t>(nodes.size());
  const int parts = useful_parts(context, size);
  std::vector<std::vector<std::int32_t>> kept(static_cast<std::size_t>(parts));
  parallel(parts, [&](int part, int count) {
    const Range mine = even_range(size, part, count);
    for (std::int64_t k = mine.begin; k < mine.end; ++k)
      if (const std::int32_t i = nodes[static_cast<std::size_t>(k)]; keep(i))
        kept[static_cast<std::size_t>(part)].push_back(i);
  });
  for (std::size_t part = 1; part < kept.size(); ++part)
    kept[0].insert(kept[0].end(), kept[part].begin(), kept[part].end());
  return std::move(kept[0]);
}

template <class F>
void for_each_of(const Context& context, const std::vector<std::int32_t>& nodes, F f) {
  const auto size = static_cast<std::int64_t>(nodes.size());
  parallel(useful_parts(context, size), [&](int part, int parts) {
    const Range mine = even_range(size, part, parts);
    for (std::int64_t k = mine.begin; k < mine.end; ++k) f(nodes[static_cast<std::size_t>(k)]);
  });
}

// The keys of all nodes, of which some have become roots; the others are 0.
std::vector<std::uint64_t> roots_of(const Context& context, const Graph& graph) {
  const std::int64_t n = graph.rows();
  std::vector<std::uint64_t> key(static_cast<std::size_t>(n)), nearby(key.size());
  std::vector<std::int32_t> open, relays;  // undecided nodes; those and their neighbours
  for (std::int64_t i = 0; i < n; ++i)
    if (!graph.row(i).empty()) {
      key[static_cast<std::size_t>(i)] = node_key(undecided_node, i);
      open.push_back(static_cast<std::int32_t>(i));
    }
  relays = open;
  const auto at = [](const auto& numbers, std::int32_t i) { return numbers[static_cast<std::size_t>(i)]; };
  std::vector<std::uint64_t> decided(key.size());
  while (!open.empty()) {
    for_each_of(context, relays, [&](std::int32_t i) {
      std::uint64_t best = at(key, i);
      for (const std::int32_t j : graph.row(i)) best = std::max(best, at(key, j));
      nearby[static_cast<std::size_t>(i)] = best;
    });
    for_each_of(context, open, [&](std::int32_t i) {
      std::uint64_t best = at(nearby, i);
      for (const std::int32_t j : graph.row(i)) best = std::max(best, at(nearby, j));
      const std::uint64_t own = at(key, i);
      decided[static_cast<std::size_t>(i)] = best == own                         ? own | root_node
                                             : (best & node_states) == root_node ? 0
                                                                                 : own;
    });
    for_each_of(context, open, [&](std::int32_t i) { key[static_cast<std::size_t>(i)] = at(decided, i); });
    const auto is_open = [&](std::int32_t i) { return (at(key, i) & node_states) == undecided_node; };
    open = filtered(context, open, is_open);
    relays = filtered(context, relays, [&](std::int32_t i) {
      const auto neighbours = graph.row(i);
      return is_open(i) || std::any_of(neighbours.begin(), neighbours.end(), is_open);
    });
  }
  return key;
}

}  // namespace

template <class T>
Graph strong_couplings(const Context& context, const CsrMatrix<T>& csr,
                       const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& node_of,
                       double strength) {
  const auto nodes = static_cast<std::int64_t>(first.size()) - 1;
  const auto start = [&](std::int64_t node) { return std::int64_t{first[static_cast<std::size_t>(node)]}; };
  // The squares of the norms of the diagonal blocks.
  std::vector<double> own(static_cast<std::size_t>(nodes));
  const int parts = useful_parts(context, csr.nonzeros());
  // Divided by the largest entry, so that squares do not overflow, and the squares of other large entries do not
  // underflow.
  std::vector<double> largest(static_cast<std::size_t>(parts));
  parallel(parts, [&](int part, int count) {
    const Range mine = even_range(csr.nonzeros(), part, count);
    T found = 0;
    for (std::int64_t p = mine.begin; p < mine.end; ++p) found = std::max(found, std::abs(csr.values[p]));
    largest[static_cast<std::size_t>(part)] = static_cast<double>(found);
  });
  const double unit = std::max(*std::max_element(largest.begin(), largest.end()), 1e-300);
  const auto node_at = [&](std::int64_t p) { return node_of[static_cast<std::size_t>(csr.pattern.col[p])]; };
  const auto square = [&](std::int64_t p) {
    const double a = static_cast<double>(csr.values[p]) / unit;
    return a * a;
  };
  parallel(parts, [&](int part, int count) {
    const Range mine = even_range(nodes, part, count);
    for (std::int64_t node = mine.begin; node < mine.end; ++node) {
      double sum = 0;
      for (std::int64_t i = start(node); i < start(node + 1); ++i)
        for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
          if (node_at(p) == node) sum += square(p);
      own[static_cast<std::size_t>(node)] = std::sqrt(sum);
    }
  });
  const Graph strong = collect_rows(
      context, nodes, csr.nonzeros(), [&](Range rows, std::vector<std::int32_t>& col, std::int64_t* size) {
        std::vector<double> sum(static_cast<std::size_t>(nodes), 0);
        std::vector<std::int32_t> found;
        for (std::int64_t node = rows.begin; node < rows.end; ++node) {
          found.clear();
          for (std::int64_t i = start(node); i < start(node + 1); ++i)
            for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p) {
              const std::int32_t other = node_at(p);
              const double a = square(p);
              if (other == node || a == 0) continue;
              double& of_other = sum[static_cast<std::size_t>(other)];
              if (of_other == 0) found.push_back(other);
              of_other += a;
            }
          std::sort(found.begin(), found.end());
          const std::size_t before = col.size();
          const double limit = strength * strength * own[static_cast<std::size_t>(node)];
          for (const std::int32_t other : found) {
            double& of_other = sum[static_cast<std::size_t>(other)];
            if (of_other > limit * own[static_cast<std::size_t>(other)]) col.push_back(other);
            of_other = 0;
          }
          size[node - rows.begin] = static_cast<std::int64_t>(col.size() - before);
        }
      });
  return symmetric_union(context, strong);
}
template Graph strong_couplings<float>(const Context&, const CsrMatrix<float>&,
                                       const std::vector<std::int32_t>&, const std::vector<std::int32_t>&,
                                       double);
template Graph strong_couplings<double>(const Context&, const CsrMatrix<double>&,
                                        const std::vector<std::int32_t>&, const std::vector<std::int32_t>&,
                                        double);

Aggregates aggregate(const Context& context, const Graph& graph) {
  const std::int64_t n = graph.rows();
  const std::vector<std::uint64_t> key = roots_of(context, graph);
  Aggregates made;
  std::vector<std::int32_t> near(static_cast<std::size_t>(n), -1);  // of roots and their neighbours
  for (std::int64_t i = 0; i < n; ++i)
    if (key[static_cast<std::size_t>(i)] != 0)
      near[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(made.count++);
  made.of = near;
  const int parts = useful_parts(context, graph.size());
  parallel(parts, [&](int part, int count) {
    const Range mine = even_range(n, part, count);
    for (std::int64_t i = mine.begin; i < mine.end; ++i)
      // Two roots have no common neighbour.
      for (const std::int32_t j : graph.row(i))
        if (key[static_cast<std::size_t>(j)] != 0)
          made.of[static_cast<std::size_t>(i)] = near[static_cast<std::size_t>(j)];
  });
  near = made.of;
  parallel(parts, [&](int part, int count) {
    const Range mine = even_range(n, part, count);
    std::vector<std::int32_t> around;
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
      if (near[static_cast<std::size_t>(i)] >= 0) continue;
      around.clear();
      for (const std::int32_t j : graph.row(i))
        if (near[static_cast<std::size_t>(j)] >= 0) around.push_back(near[static_cast<std::size_t>(j)]);
      std::sort(around.begin(), around.end());
      std::size_t most = 0;
      for (std::size_t k = 0; k < around.size();) {
        std::size_t end = k;
        while (end < around.size() && around[end] == around[k]) ++end;
        if (end - k > most) most = end - k, made.of[static_cast<std::size_t>(i)] = around[k];
        k = end;
      }
    }
  });
  return made;
}

}  // namespace protean::detail

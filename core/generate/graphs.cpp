// Matrices with randomly placed entries, and bands with random values.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "core/generate/row_fill.hpp"

namespace protean::generate_detail {
namespace {

struct Edge {
  std::int64_t a, b;
};

// The neighbours of each node in ascending order, each once, without the node itself. Those of node r are the
// length[r] entries of `list` from start[r] on.
struct Neighbours {
  std::vector<std::int64_t> start;
  std::vector<std::int32_t> length, list;
};

// edge(e) depends on the number e alone, so the neighbours do not depend on which thread computed them.
// Threads add edges in any order; sorting makes the order unique, and an edge that occurs twice is kept once.
template <class EdgeAt>
Neighbours neighbours(const ContextPtr& context, std::string_view kind, std::int64_t nodes,
                      std::int64_t edges, const EdgeAt& edge) {
  detail::require_memory(static_cast<std::size_t>(edges) * 8 + static_cast<std::size_t>(nodes) * 12,
                         fmt::format("{}: a graph of {} nodes and {} edges", kind, nodes, edges));
  Neighbours g;
  g.start.assign(static_cast<std::size_t>(nodes) + 1, 0);
  g.length.assign(static_cast<std::size_t>(nodes), 0);
  const auto each = [&](auto&& visit) {
    parallel(useful_parts(*context, edges), [&](int part, int parts) {
      const Range range = even_range(edges, part, parts);
      for (std::int64_t e = range.begin; e < range.end; ++e) {
        const Edge found = edge(e);
        if (found.a != found.b) visit(found);
      }
    });
  };
  const auto next = [&](std::int64_t node) {
    return std::atomic_ref<std::int32_t>(g.length[node]).fetch_add(1, std::memory_order_relaxed);
  };
  each([&](Edge e) { next(e.a), next(e.b); });
  for (std::int64_t r = 0; r < nodes; ++r) g.start[r + 1] = g.start[r] + g.length[r];
  g.list.resize(static_cast<std::size_t>(g.start[nodes]));
  std::fill(g.length.begin(), g.length.end(), 0);
  each([&](Edge e) {
    g.list[g.start[e.a] + next(e.a)] = static_cast<std::int32_t>(e.b);
    g.list[g.start[e.b] + next(e.b)] = static_cast<std::int32_t>(e.a);
  });
  parallel(useful_parts(*context, edges), [&](int part, int parts) {
    const Range range = even_range(nodes, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const auto begin = g.list.begin() + g.start[r], end = g.list.begin() + g.start[r + 1];
      std::sort(begin, end);
      g.length[r] = static_cast<std::int32_t>(std::unique(begin, end) - begin);
    }
  });
  return g;
}

// Entries off the diagonal are weight(row, column). The diagonal is shift plus the sum of their absolute
// values, added from left to right.
template <class Weight>
CsrMatrix<double> dominant_matrix(const RowTarget& target, std::string_view kind, std::int64_t nodes,
                                  const Neighbours& g, double shift, const Weight& weight) {
  return fill_rows(
      target, kind, nodes, [&](std::int64_t row) -> std::int64_t { return g.length[row] + 1; },
      [&](std::int64_t row, std::int32_t* col, double* value) {
        const std::int32_t* list = g.list.data() + g.start[row];
        const std::int32_t length = g.length[row];
        double sum = 0;
        double* diagonal = nullptr;
        for (std::int32_t k = 0; k < length; ++k) {
          if (!diagonal && list[k] > row) *col++ = static_cast<std::int32_t>(row), diagonal = value++;
          *col++ = list[k], *value = weight(row, list[k]), sum += std::abs(*value++);
        }
        if (!diagonal) *col = static_cast<std::int32_t>(row), diagonal = value;
        *diagonal = shift + sum;
      });
}

std::uint64_t seed_of(const GeneratorParams& p) { return static_cast<std::uint64_t>(p.find("seed")->second); }

}  // namespace

CsrMatrix<double> graph_laplacian(const RowTarget& target, const GeneratorParams& p) {
  const auto n = static_cast<std::int64_t>(p.find("n")->second);
  const double degree = p.find("degree")->second, exponent = p.find("exponent")->second;
  const std::uint64_t seed = seed_of(p);
  // Chung and Lu: node k of n is an end of an edge with probability proportional to (k / n)^(-1 / (exponent -
  // 1)), whose distribution function is inverted in closed form. An odd multiplier without a common factor
  // scatters the hubs over the rows.
  const double power = 1 / (1 - 1 / (exponent - 1));
  std::int64_t stride =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(0.6180339887498949 * static_cast<double>(n)));
  while (std::gcd(stride, n) != 1) ++stride;
  const auto end_of = [=](std::uint64_t e, std::uint64_t which) {
    const double u = uniform(mix(seed, e, which));
    const auto rank = std::min(n - 1, static_cast<std::int64_t>(std::pow(u, power) * static_cast<double>(n)));
    return rank * stride % n;
  };
  const auto edges = static_cast<std::int64_t>(std::llround(static_cast<double>(n) * degree / 2));
  const Neighbours g = neighbours(target.context, "graph-laplacian", n, edges, [=](std::int64_t e) {
    const auto number = static_cast<std::uint64_t>(e);
    return Edge{end_of(number, 0), end_of(number, 1)};
  });
  return dominant_matrix(target, "graph-laplacian", n, g, p.find("shift")->second,
                         [](std::int64_t, std::int64_t) { return -1.0; });
}

CsrMatrix<double> random_spd(const RowTarget& target, const GeneratorParams& p) {
  const auto n = static_cast<std::int64_t>(p.find("n")->second);
  const std::uint64_t seed = seed_of(p);
  const auto edges =
      static_cast<std::int64_t>(std::llround(static_cast<double>(n) * p.find("degree")->second / 2));
  const Neighbours g = neighbours(target.context, "random-spd", n, edges, [=](std::int64_t e) {
    const auto number = static_cast<std::uint64_t>(e);
    const auto pick = [=](std::uint64_t which) {
      return static_cast<std::int64_t>(uniform(mix(seed, number, which)) * static_cast<double>(n));
    };
    return Edge{pick(0), pick(1)};
  });
  return dominant_matrix(target, "random-spd", n, g, p.find("shift")->second,
                         [=](std::int64_t r, std::int64_t c) {
                           const auto low = static_cast<std::uint64_t>(std::min(r, c)),
                                      high = static_cast<std::uint64_t>(std::max(r, c));
                           return 2 * uniform(mix(~seed, low, high)) - 1;
                         });
}

CsrMatrix<double> banded(const RowTarget& target, const GeneratorParams& p) {
  const auto n = static_cast<std::int64_t>(p.find("n")->second);
  const auto lower = static_cast<std::int64_t>(p.find("lower")->second);
  const auto upper = static_cast<std::int64_t>(p.find("upper")->second);
  const std::uint64_t seed = seed_of(p);
  const auto first = [=](std::int64_t row) { return std::max<std::int64_t>(0, row - lower); };
  const auto last = [=](std::int64_t row) { return std::min(n - 1, row + upper); };
  return fill_rows(
      target, "banded", n, [=](std::int64_t row) { return last(row) - first(row) + 1; },
      [=](std::int64_t row, std::int32_t* col, double* value) {
        double sum = 0;
        double* diagonal = nullptr;
        for (std::int64_t c = first(row); c <= last(row); ++c, ++value) {
          *col++ = static_cast<std::int32_t>(c);
          if (c == row) {
            diagonal = value;
          } else {
            *value =
                2 * uniform(mix(seed, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(c))) - 1;
            sum += std::abs(*value);
          }
        }
        *diagonal = 1 + sum;
      });
}

}  // namespace protean::generate_detail

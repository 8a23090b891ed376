#include "preconditioners/multigrid/host/aggregation_structure.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace protean::detail {

void orthogonalise(const Context& context, const Nodes& nodes, Structure& made) {
  const std::int64_t count = made.aggregates.count, vectors = nodes.vectors;
  // The nodes of each aggregate.
  std::vector<std::int64_t> ptr(at(count) + 1, 0);
  for (const std::int32_t a : made.aggregates.of)
    if (a >= 0) ++ptr[at(a) + 1];
  std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
  std::vector<std::int32_t> members(at(ptr.back()));
  std::vector<std::int64_t> next(ptr.begin(), ptr.end() - 1);
  for (std::int64_t node = 0; node < nodes.count(); ++node)
    if (const std::int32_t a = made.aggregates.of[at(node)]; a >= 0)
      members[at(next[at(a)]++)] = static_cast<std::int32_t>(node);
  // Q and R of each aggregate: first with all columns, then the columns that are kept are put together.
  std::vector<std::int32_t> rank(at(count));
  std::vector<double> Q(at(nodes.rows() * vectors)), R(at(count * vectors * vectors));
  for_rows(context, count, nodes.rows() * vectors, [&](std::int64_t a) {
    const auto each_row = [&](auto f) {
      for (std::int64_t m = ptr[at(a)]; m < ptr[at(a + 1)]; ++m) {
        const std::int64_t node = members[at(m)];
        for (std::int64_t i = nodes.first[at(node)]; i < nodes.first[at(node + 1)]; ++i) f(i);
      }
    };
    double* const r = R.data() + a * vectors * vectors;
    std::int32_t kept = 0;
    for (std::int64_t k = 0; k < vectors; ++k) {
      double before = 0;
      each_row([&](std::int64_t i) {
        const double value = nodes.values[at(i * vectors + k)];
        Q[at(i * vectors + kept)] = value, before += value * value;
      });
      for (int pass = 0; pass < 2; ++pass)
        for (std::int32_t q = 0; q < kept; ++q) {
          double dot = 0;
          each_row([&](std::int64_t i) { dot += Q[at(i * vectors + q)] * Q[at(i * vectors + kept)]; });
          each_row([&](std::int64_t i) { Q[at(i * vectors + kept)] -= dot * Q[at(i * vectors + q)]; });
          r[q * vectors + k] += dot;
        }
      double after = 0;
      each_row([&](std::int64_t i) { after += Q[at(i * vectors + kept)] * Q[at(i * vectors + kept)]; });
      if (!(after > 1e-20 * before)) continue;  // it depends on the columns before
      const double norm = std::sqrt(after);
      each_row([&](std::int64_t i) { Q[at(i * vectors + kept)] /= norm; });
      r[kept * vectors + k] = norm;
      ++kept;
    }
    rank[at(a)] = kept;
  });
  Nodes& coarse = made.coarse;
  coarse.vectors = vectors;
  coarse.first.reserve(at(count) + 1);
  for (const std::int32_t one : rank) coarse.first.push_back(coarse.first.back() + one);
  coarse.number_rows();
  coarse.values.resize(at(coarse.rows() * vectors));
  for_rows(context, count, coarse.rows() * vectors, [&](std::int64_t a) {
    std::copy_n(R.data() + a * vectors * vectors, rank[at(a)] * vectors,
                coarse.values.data() + coarse.first[at(a)] * vectors);
  });
  made.tentative_ptr.assign(at(nodes.rows()) + 1, 0);
  for (std::int64_t i = 0; i < nodes.rows(); ++i) {
    const std::int32_t a = made.aggregates.of[at(nodes.of[at(i)])];
    made.tentative_ptr[at(i + 1)] = made.tentative_ptr[at(i)] + (a >= 0 ? rank[at(a)] : 0);
  }
  made.tentative.resize(at(made.tentative_ptr.back()));
  for_rows(context, nodes.rows(), nodes.rows() * vectors, [&](std::int64_t i) {
    const std::int64_t begin = made.tentative_ptr[at(i)];
    std::copy_n(Q.data() + i * vectors, made.tentative_ptr[at(i + 1)] - begin, made.tentative.data() + begin);
  });
}

Graph prolongator_pattern(const Context& context, const Nodes& nodes, const Structure& made) {
  return collect_rows(context, nodes.rows(), made.strong.size(),
                      [&](Range rows, std::vector<std::int32_t>& col, std::int64_t* size) {
                        std::vector<std::int32_t> near;
                        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
                          const std::int32_t node = nodes.of[at(i)];
                          if (i == rows.begin || nodes.of[at(i - 1)] != node) {
                            near.clear();
                            const auto add = [&](std::int32_t one) {
                              if (const std::int32_t a = made.aggregates.of[at(one)]; a >= 0)
                                near.push_back(a);
                            };
                            add(node);
                            for (const std::int32_t other : made.strong.row(node)) add(other);
                            std::sort(near.begin(), near.end());
                            near.erase(std::unique(near.begin(), near.end()), near.end());
                          }
                          const std::size_t before = col.size();
                          for (const std::int32_t a : near)
                            for (std::int32_t c = made.coarse.first[at(a)]; c < made.coarse.first[at(a + 1)];
                                 ++c)
                              col.push_back(c);
                          size[i - rows.begin] = static_cast<std::int64_t>(col.size() - before);
                        }
                      });
}

}  // namespace protean::detail

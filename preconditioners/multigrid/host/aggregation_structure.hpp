// What smoothed aggregation keeps of a level: its nodes, aggregates and patterns, and the tentative prolongator
// (aggregation.cpp has the method). Private to preconditioners/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "core/parallel.hpp"
#include "preconditioners/multigrid/host/aggregates.hpp"
#include "preconditioners/multigrid/level_structure.hpp"

namespace protean::detail {

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// The rows of nodes, and vectors at these rows: vector k of row i is values[i vectors + k].
struct Nodes {
  std::vector<std::int32_t> first = {0};  // first row of each node, and the number of rows
  std::vector<std::int32_t> of;           // of each row
  std::int64_t vectors = 0;
  std::vector<double> values;
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(first.size()) - 1; }
  std::int64_t rows() const noexcept { return first.back(); }
  void number_rows() {
    of.resize(at(rows()));
    for (std::int64_t node = 0; node < count(); ++node)
      std::fill(of.begin() + first[at(node)], of.begin() + first[at(node + 1)],
                static_cast<std::int32_t>(node));
  }
  std::size_t bytes() const noexcept { return 4 * (first.size() + of.size()) + 8 * values.size(); }
};

// What depends on the values of a level only through its strong couplings.
struct Structure final : LevelStructure {
  Graph strong;
  Aggregates aggregates;
  Nodes coarse;
  std::vector<double> tentative;  // row i: the coarse columns of its aggregate, from place tentative_ptr[i]
  std::vector<std::int64_t> tentative_ptr;
  std::shared_ptr<const Graph> P, AP, coarse_pattern;
  std::size_t bytes(Shared matrices) const noexcept override {
    const bool shared = matrices.host_matrices;
    return strong.bytes() + 4 * aggregates.of.size() + coarse.bytes() +
           8 * (tentative.size() + tentative_ptr.size()) + AP->bytes() + (shared ? 0 : P->bytes()) +
           (shared && format == "csr" ? 0 : coarse_pattern->bytes());
  }
};

template <class Body>
void for_rows(const Context& context, std::int64_t rows, std::int64_t work, Body body) {
  parallel(useful_parts(context, work), [&](int part, int parts) {
    const Range mine = even_range(rows, part, parts);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) body(i);
  });
}

// The sum of term(i) over chunks of fixed size, chunk after chunk: the same bits for any threads.
template <class Term>
double fixed_sum(const Context& context, std::int64_t size, Term term) {
  constexpr std::int64_t chunk = 4096;
  std::vector<double> sums(at((size + chunk - 1) / chunk), 0);
  for_rows(context, static_cast<std::int64_t>(sums.size()), size, [&](std::int64_t c) {
    double sum = 0;
    for (std::int64_t i = c * chunk; i < std::min(size, (c + 1) * chunk); ++i) sum += term(i);
    sums[at(c)] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// The tentative prolongator and the vectors of the coarse level, of the aggregates.
void orthogonalise(const Context& context, const Nodes& nodes, Structure& made);
// Row i of P has the coarse columns of the aggregates of its node and of all nodes that are coupled with it.
Graph prolongator_pattern(const Context& context, const Nodes& nodes, const Structure& made);

}  // namespace protean::detail

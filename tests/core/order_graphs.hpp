// Graphs whose orders are compared.
#pragma once
#include <algorithm>
#include <numeric>
#include <random>

#include "core/generate/generate.hpp"
#include "support/battery.hpp"
#include "support/space.hpp"

namespace protean::test {

inline CsrMatrix<double> shuffled(const CsrMatrix<double>& matrix, unsigned seed) {
  std::vector<std::int32_t> place(static_cast<std::size_t>(matrix.rows()));
  std::iota(place.begin(), place.end(), 0);
  std::shuffle(place.begin(), place.end(), std::mt19937(seed));
  std::vector<Triplet<double>> triplets;
  for (std::int64_t i = 0; i < matrix.rows(); ++i)
    for (const std::int32_t j : matrix.pattern.row(i)) triplets.push_back({place[i], place[j], 1});
  return csr_from_triplets<double>(test_context(), matrix.rows(), matrix.cols(), triplets);
}

inline void add_edge(std::vector<Triplet<double>>& triplets, std::int32_t i, std::int32_t j) {
  triplets.push_back({i, j, 1});
  if (i != j) triplets.push_back({j, i, 1});
}

inline CsrMatrix<double> graph_of(std::int64_t n, const std::vector<Triplet<double>>& triplets) {
  return csr_from_triplets<double>(test_context(), n, n, triplets);
}

// Every row is a neighbour of `centre`.
inline CsrMatrix<double> star(std::int32_t n, std::int32_t centre) {
  std::vector<Triplet<double>> triplets;
  for (std::int32_t i = 0; i < n; ++i)
    if (i != centre) add_edge(triplets, centre, i);
  return graph_of(n, triplets);
}

// Each new row has two neighbours among those before, mostly ones with many.
inline CsrMatrix<double> power_law(std::int32_t n) {
  std::mt19937 random(5);
  std::vector<std::int32_t> ends{0};
  std::vector<Triplet<double>> triplets;
  for (std::int32_t i = 1; i < n; ++i)
    for (int k = 0; k < 2; ++k) {
      const std::int32_t j = ends[random() % ends.size()];
      if (j == i) continue;
      add_edge(triplets, i, j);
      ends.push_back(i), ends.push_back(j);
    }
  return graph_of(n, triplets);
}

inline CsrMatrix<double> pairs(std::int32_t count) {
  std::vector<Triplet<double>> triplets;
  for (std::int32_t k = 0; k < count; ++k) add_edge(triplets, 3 * k, 3 * (count - 1 - k) + 1);
  return graph_of(3 * count, triplets);
}

inline CsrMatrix<double> path(std::int64_t n) {
  return shuffled(generate(test_context(), "banded", {{"n", n}, {"lower", 1}, {"upper", 1}}), 11);
}

// Edges between rows that count from `first`.
using Edges = std::vector<Triplet<double>>;

inline void add_path(Edges& edges, std::int32_t first, std::int32_t n) {
  for (std::int32_t i = 1; i < n; ++i) add_edge(edges, first + i - 1, first + i);
}

inline void add_star(Edges& edges, std::int32_t first, std::int32_t n) {
  for (std::int32_t i = 1; i < n; ++i) add_edge(edges, first, first + i);
}

inline void add_grid(Edges& edges, std::int32_t first, std::int32_t a, std::int32_t b) {
  for (std::int32_t i = 0; i < a; ++i)
    for (std::int32_t j = 0; j < b; ++j) {
      if (i > 0) add_edge(edges, first + i * b + j, first + (i - 1) * b + j);
      if (j > 0) add_edge(edges, first + i * b + j, first + i * b + j - 1);
    }
}

// The same graph `copies` times side by side.
inline CsrMatrix<double> repeated(const CsrMatrix<double>& a, std::int32_t copies) {
  Edges edges;
  for (std::int32_t c = 0; c < copies; ++c)
    for (std::int32_t i = 0; i < a.rows(); ++i)
      for (const std::int32_t j : a.pattern.row(i)) {
        const auto first = static_cast<std::int32_t>(c * a.rows());
        edges.push_back({first + i, first + j, 1});
      }
  return graph_of(copies * a.rows(), edges);
}

struct Graph {
  std::string name;
  CsrMatrix<double> matrix;
};

// Graphs of many connected parts, each in the numbering in which it is made and in a random one.
inline std::vector<Graph> graphs_of_parts() {
  std::vector<Graph> graphs;
  const auto add = [&](const std::string& name, const CsrMatrix<double>& a) {
    graphs.push_back({name, a});
    graphs.push_back({name + ", shuffled", shuffled(a, 17)});
  };
  add("equal meshes", repeated(generate(test_context(), "poisson-2d", {{"n", 12}}), 150));
  add("equal bands",
      repeated(generate(test_context(), "banded", {{"n", 200}, {"lower", 3}, {"upper", 3}}), 40));
  add("pairs", pairs(5000));
  Edges edges;
  std::int32_t at = 0;
  for (std::int32_t k = 1; k < 60; ++k) {  // from pairs to paths of 178 rows, and everything between
    add_path(edges, at, 3 * k), at += 3 * k + 1;
    add_star(edges, at, 2 * k), at += 2 * k;
    add_grid(edges, at, k, 4), at += 4 * k + k % 3;
  }
  add("paths, stars and grids", graph_of(at + 5, edges));
  edges.clear();
  for (std::int32_t k = 0; k < 40; ++k) add_grid(edges, 500 * k + 7 * k % 90, 15, 20);
  add("meshes between thousands of rows without neighbours", graph_of(20000, edges));
  edges.clear();
  add_grid(edges, 300, 120, 100);
  for (std::int32_t k = 0; k < 800; ++k) add_path(edges, 12300 + 6 * k, 1 + k % 5);
  add("a giant and dust", graph_of(17200, edges));
  edges.clear();  // the first one of the parts that are placed together is large
  add_path(edges, 0, 2), add_grid(edges, 2, 120, 100);
  for (std::int32_t k = 0; k < 100; ++k) add_path(edges, 12002 + 3 * k, 3);
  add("a pair, a giant and paths", graph_of(12302, edges));
  std::mt19937 random(3);  // below and above the threshold of a giant part
  for (const std::int32_t many : {5000, 9000, 11000, 16000}) {
    edges.clear();
    for (std::int32_t e = 0; e < many; ++e)
      add_edge(edges, static_cast<std::int32_t>(random() % 20000),
               static_cast<std::int32_t>(random() % 20000));
    add("random, " + std::to_string(many) + " edges", graph_of(20000, edges));
  }
  return graphs;
}

}  // namespace protean::test

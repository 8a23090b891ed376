// Symmetric systems whose values float rounds.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/csr.hpp"
#include "support/battery.hpp"

namespace protean::test {

// -div k grad on a grid of n x n points with two fixed sides and a lognormal k: values that float rounds. `across`
// makes it a matrix that is not symmetric.
inline CsrMatrix<double> diffusion(int n, double across = 0, double spread = 1) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, spread);
  std::vector<Triplet<double>> list;
  std::vector<double> diagonal(static_cast<std::size_t>(n * n), 0);
  const auto at = [&](int i, int j) { return i * n + j; };
  const auto link = [&](int one, int other) {
    const double k = std::exp(normal(random));
    list.push_back({one, other, -k - across}), list.push_back({other, one, -k + across});
    diagonal[static_cast<std::size_t>(one)] += k, diagonal[static_cast<std::size_t>(other)] += k;
  };
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      if (i + 1 < n) link(at(i, j), at(i + 1, j));
      if (j + 1 < n) link(at(i, j), at(i, j + 1));
      if (i == 0 || j == 0) diagonal[static_cast<std::size_t>(at(i, j))] += 1.1;
    }
  for (int i = 0; i < n * n; ++i) list.push_back({i, i, diagonal[static_cast<std::size_t>(i)]});
  return csr_from_triplets<double>(test_context(), n * n, n * n, list);
}

// A chain with random links, fixed by almost nothing: float's rounding makes it indefinite, or another matrix.
inline CsrMatrix<double> barely_definite(int n, double fixed) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(0.3, 1.7);
  std::vector<Triplet<double>> list;
  std::vector<double> diagonal(static_cast<std::size_t>(n), fixed);
  for (int i = 0; i + 1 < n; ++i) {
    const double k = uniform(random);
    list.push_back({i, i + 1, -k}), list.push_back({i + 1, i, -k});
    diagonal[static_cast<std::size_t>(i)] += k, diagonal[static_cast<std::size_t>(i) + 1] += k;
  }
  for (int i = 0; i < n; ++i) list.push_back({i, i, diagonal[static_cast<std::size_t>(i)]});
  return csr_from_triplets<double>(test_context(), n, n, list);
}

}  // namespace protean::test

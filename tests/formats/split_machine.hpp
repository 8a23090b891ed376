// Matrices whose rows are divided.
#pragma once
#include <algorithm>

#include "support/battery.hpp"
#include "support/space.hpp"

namespace protean::test {

inline CsrMatrix<double> tridiagonal(std::int32_t n) {
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i)
    for (std::int32_t j = std::max(0, i - 1); j <= std::min(n - 1, i + 1); ++j)
      entries.push_back({i, j, i == j ? 2.0 + 0.25 * (i % 5) : -1.0});
  return csr_from_triplets<double>(test_context(), n, n, entries);
}

}  // namespace protean::test

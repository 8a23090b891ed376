// Repeated entries whose sum shows in which order they were added.
#pragma once
#include <cstdint>
#include <vector>

#include "core/csr.hpp"

namespace protean::test {

// One row whose entries lie in columns 1, 0, 1, 0 ... Those of each column are large, -large, 1, large, -large,
// 2 ... Added in this order, each large number takes away what was there before, so the sum is the last entry.
// In the other order 1 - large + large is 0.
inline std::vector<Triplet<double>> entries_whose_sum_shows_their_order(int triples_of_a_column) {
  constexpr double large = 0x1p60;
  std::vector<Triplet<double>> entries;
  for (int triple = 1; triple <= triples_of_a_column; ++triple)
    for (const double value : {large, -large, static_cast<double>(triple)})
      for (const std::int32_t col : {1, 0}) entries.push_back({0, col, value});
  return entries;
}
constexpr int numbers_of_triples[] = {1, 2, 3, 5, 6, 40};  // rows of 6, 12, 18, 30, 36 and 240 entries

}  // namespace protean::test

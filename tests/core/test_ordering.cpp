#include "core/ordering.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/generate/generate.hpp"
#include "support/battery.hpp"

namespace protean::test {
namespace {

bool is_permutation_of(const std::vector<std::int32_t>& order, std::int64_t n) {
  std::vector<std::int32_t> sorted = order, all(static_cast<std::size_t>(n));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  return sorted == all;
}

CsrMatrix<double> shuffled(const CsrMatrix<double>& matrix, unsigned seed) {
  std::vector<std::int32_t> place(static_cast<std::size_t>(matrix.rows()));
  std::iota(place.begin(), place.end(), 0);
  std::shuffle(place.begin(), place.end(), std::mt19937(seed));
  std::vector<Triplet<double>> triplets;
  for (std::int64_t i = 0; i < matrix.rows(); ++i)
    for (const std::int32_t j : matrix.pattern.row(i)) triplets.push_back({place[i], place[j], 1});
  return csr_from_triplets<double>(test_context(), matrix.rows(), matrix.cols(), triplets);
}

TEST(ReverseCuthillMcKee, KnowingTheSymmetryChangesNothing) {
  const auto a = generate(test_context(), "graph-laplacian", {{"n", 3000}});
  EXPECT_EQ(reverse_cuthill_mckee(a.pattern, true), reverse_cuthill_mckee(a.pattern));
}

TEST(ReverseCuthillMcKee, FindsTheBandOfAShuffledOne) {
  const CsrMatrix<double> band = generate(test_context(), "banded", {{"n", 500}, {"lower", 3}, {"upper", 3}});
  const CsrMatrix<double> matrix = shuffled(band, 7);
  std::vector<std::int32_t> as_it_is(500);
  std::iota(as_it_is.begin(), as_it_is.end(), 0);
  EXPECT_GT(bandwidth_of(matrix.pattern, as_it_is), 300);
  const auto order = reverse_cuthill_mckee(matrix.pattern);
  EXPECT_TRUE(is_permutation_of(order, 500));
  EXPECT_LE(bandwidth_of(matrix.pattern, order), 6) << "levels of a band of 3 are at most twice as wide";
}

TEST(ReverseCuthillMcKee, OfAPathIsThePath) {
  // 3 - 0 - 4 - 1 - 2: tridiagonal in the order of the path, and unsymmetric entries say the same.
  for (const bool both : {true, false}) {
    std::vector<Triplet<double>> triplets;
    const std::int32_t path[] = {3, 0, 4, 1, 2};
    for (int k = 0; k < 5; ++k) {
      triplets.push_back({path[k], path[k], 1});
      if (k == 0) continue;
      triplets.push_back({path[k], path[k - 1], 1});
      if (both) triplets.push_back({path[k - 1], path[k], 1});
    }
    const auto matrix = csr_from_triplets<double>(test_context(), 5, 5, triplets);
    EXPECT_EQ(bandwidth_of(matrix.pattern, reverse_cuthill_mckee(matrix.pattern)), 1);
  }
}

// One entry without a mirror makes a pattern unsymmetric, whichever row it is in. Then the neighbours of a
// row include those of the transpose. Without them a search from another row does not reach the same rows.
TEST(ReverseCuthillMcKee, OneEntryWithoutMirrorInAnyRowIsSeen) {
  for (std::int32_t without = 0; without < 6; ++without) {
    SCOPED_TRACE("row " + std::to_string(without));
    // `centre` is a neighbour of every row, and all rows but `without` are neighbours of it.
    const std::int32_t centre = without == 1 ? 2 : 1;
    std::vector<Triplet<double>> triplets;
    for (std::int32_t i = 0; i < 6; ++i) {
      triplets.push_back({i, i, 1});
      if (i == centre) continue;
      triplets.push_back({i, centre, 1});
      if (i != without) triplets.push_back({centre, i, 1});
    }
    const auto matrix = csr_from_triplets<double>(test_context(), 6, 6, triplets);
    std::int64_t bandwidth = -1;
    const auto order = reverse_cuthill_mckee(matrix.pattern, false, &bandwidth);
    EXPECT_TRUE(is_permutation_of(order, 6));
    EXPECT_EQ(bandwidth, bandwidth_of(matrix.pattern, order));
  }
}

TEST(ReverseCuthillMcKee, OrdersTheWholeBattery) {
  for (const BatteryMatrix& entry : battery()) {
    const SparsityPattern& pattern = battery_matrix(entry.name).pattern;
    if (pattern.rows != pattern.cols) {
      EXPECT_THROW((void)reverse_cuthill_mckee(pattern), ShapeMismatch) << entry.name;
      continue;
    }
    std::int64_t bandwidth = -1;
    const auto order = reverse_cuthill_mckee(pattern, false, &bandwidth);
    EXPECT_TRUE(is_permutation_of(order, pattern.rows)) << entry.name;
    EXPECT_EQ(bandwidth, bandwidth_of(pattern, order)) << entry.name;
  }
}

}  // namespace
}  // namespace protean::test

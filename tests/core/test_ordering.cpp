#include "core/ordering.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/locality.hpp"
#include "core/permutation.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

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
  EXPECT_EQ(reverse_cuthill_mckee(*test_context(), a.pattern, true),
            reverse_cuthill_mckee(*test_context(), a.pattern));
}

TEST(ReverseCuthillMcKee, FindsTheBandOfAShuffledOne) {
  const CsrMatrix<double> band = generate(test_context(), "banded", {{"n", 500}, {"lower", 3}, {"upper", 3}});
  const CsrMatrix<double> matrix = shuffled(band, 7);
  std::vector<std::int32_t> as_it_is(500);
  std::iota(as_it_is.begin(), as_it_is.end(), 0);
  EXPECT_GT(bandwidth_of(matrix.pattern, as_it_is), 300);
  const auto order = reverse_cuthill_mckee(*test_context(), matrix.pattern);
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
    EXPECT_EQ(bandwidth_of(matrix.pattern, reverse_cuthill_mckee(*test_context(), matrix.pattern)), 1);
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
    const auto order = reverse_cuthill_mckee(*test_context(), matrix.pattern, false, &bandwidth);
    EXPECT_TRUE(is_permutation_of(order, 6));
    EXPECT_EQ(bandwidth, bandwidth_of(matrix.pattern, order));
  }
}

TEST(ReverseCuthillMcKee, OrdersTheWholeBattery) {
  for (const BatteryMatrix& entry : battery()) {
    const SparsityPattern& pattern = battery_matrix(entry.name).pattern;
    if (pattern.rows != pattern.cols) {
      EXPECT_THROW((void)reverse_cuthill_mckee(*test_context(), pattern), ShapeMismatch) << entry.name;
      continue;
    }
    std::int64_t bandwidth = -1;
    const auto order = reverse_cuthill_mckee(*test_context(), pattern, false, &bandwidth);
    EXPECT_TRUE(is_permutation_of(order, pattern.rows)) << entry.name;
    EXPECT_EQ(bandwidth, bandwidth_of(pattern, order)) << entry.name;
  }
}

// The threads share the levels of a large graph and must agree with one thread.
TEST(ReverseCuthillMcKee, DoesNotDependOnTheThreads) {
  for (const bool symmetric : {true, false}) {
    auto a = shuffled(generate(test_context(), "poisson-3d", {{"n", 40}}), 3);
    if (!symmetric) {  // without the entries (i, j), i > j, of even i
      std::vector<Triplet<double>> some;
      for (std::int32_t i = 0; i < a.rows(); ++i)
        for (const std::int32_t j : a.pattern.row(i))
          if (i % 2 > 0 || i <= j) some.push_back({i, j, 1});
      a = csr_from_triplets<double>(test_context(), a.rows(), a.cols(), some);
    }
    EXPECT_EQ(pattern_is_symmetric(*test_context(), a.pattern), symmetric);
    const auto one = reverse_cuthill_mckee(*Context::host(1), a.pattern);
    EXPECT_TRUE(is_permutation_of(one, a.rows()));
    for (const int threads : {2, 3, 8}) {
      std::int64_t bandwidth = 0;
      EXPECT_EQ(reverse_cuthill_mckee(*Context::host(threads), a.pattern, false, &bandwidth), one) << threads;
      EXPECT_EQ(bandwidth, bandwidth_of(a.pattern, one));
    }
    EXPECT_LT(bandwidth_of(a.pattern, one), 3 * 40 * 40);
  }
}

// Levels of a thousand rows and more whose rows have many parents.
TEST(ReverseCuthillMcKee, DoesNotDependOnTheThreadsWhereRowsHaveManyParents) {
  const auto a = generate(test_context(), "random-spd", {{"n", 20000}});
  const auto one = reverse_cuthill_mckee(*Context::host(1), a.pattern);
  for (const int threads : {2, 5})
    for (int run = 0; run < 5; ++run)
      EXPECT_EQ(reverse_cuthill_mckee(*Context::host(threads), a.pattern), one) << threads;
}

TEST(ReverseCuthillMcKee, OfALongShuffledPathIsThePath) {
  const auto path =
      shuffled(generate(test_context(), "banded", {{"n", 5000}, {"lower", 1}, {"upper", 1}}), 11);
  EXPECT_EQ(bandwidth_of(path.pattern, reverse_cuthill_mckee(*test_context(), path.pattern)), 1);
}

TEST(ReverseCuthillMcKee, OrdersPartsStarsAndEmptyRows) {
  // a star of 0 .. 4 around 2, a pair 5 - 7, and rows 6, 8 without entries
  std::vector<Triplet<double>> triplets;
  for (const std::int32_t leaf : {0, 1, 3, 4})
    triplets.push_back({2, leaf, 1}), triplets.push_back({leaf, 2, 1});
  triplets.push_back({5, 7, 1}), triplets.push_back({7, 5, 1});
  const auto a = csr_from_triplets<double>(test_context(), 9, 9, triplets);
  const auto order = reverse_cuthill_mckee(*test_context(), a.pattern);
  EXPECT_TRUE(is_permutation_of(order, 9));
  EXPECT_EQ(bandwidth_of(a.pattern, order), 3) << "the star, with its middle as the second row";
}

TEST(PatternIsSymmetric, FindsOneEntryWithoutMirror) {
  const auto a = generate(test_context(), "graph-laplacian", {{"n", 3000}});
  EXPECT_TRUE(pattern_is_symmetric(*test_context(), a.pattern));
  std::vector<Triplet<double>> fewer;
  bool left_out = false;
  for (std::int32_t i = 0; i < a.rows(); ++i)
    for (const std::int32_t j : a.pattern.row(i)) {
      if (!left_out && i > 1000 && j < i) {
        left_out = true;
        continue;
      }
      fewer.push_back({i, j, 1});
    }
  const auto b = csr_from_triplets<double>(test_context(), a.rows(), a.cols(), fewer);
  ASSERT_TRUE(left_out);
  EXPECT_FALSE(pattern_is_symmetric(*test_context(), b.pattern));
}

TEST(Orders, AreOrdersOfTheWholeBatteryForAnyThreads) {
  for (const BatteryMatrix& entry : battery()) {
    const SparsityPattern& pattern = battery_matrix(entry.name).pattern;
    for (const OrderingEntry& ordering : orderings()) {
      SCOPED_TRACE(std::string(entry.name) + ", " + std::string(ordering.id));
      if (pattern.rows != pattern.cols) {
        EXPECT_THROW((void)make_order(ordering.id, *test_context(), pattern), ShapeMismatch);
        continue;
      }
      if (!ordering.unavailable.empty()) {
        EXPECT_THROW((void)make_order(ordering.id, *test_context(), pattern), NotAvailable);
        continue;
      }
      const auto order = make_order(ordering.id, *Context::host(1), pattern);
      EXPECT_TRUE(is_permutation_of(order, pattern.rows));
      EXPECT_EQ(make_order(ordering.id, *Context::host(3), pattern), order);
    }
  }
}

TEST(Orders, UnknownOnesAreRefusedWithTheNearestName) {
  const auto a = generate(test_context(), "banded", {{"n", 5}});
  try {
    (void)make_order("rmc", *test_context(), a.pattern);
    FAIL();
  } catch (const BadArgument& error) {
    EXPECT_NE(std::string(error.what()).find("rcm"), std::string::npos) << error.what();
  }
}

// rows of length 1, 3, 2, 3, 1
TEST(SortByLength, PutsLongRowsFirstWithinWindows) {
  std::vector<Triplet<double>> triplets;
  const std::int32_t length[] = {1, 3, 2, 3, 1};
  for (std::int32_t i = 0; i < 5; ++i)
    for (std::int32_t j = 0; j < length[i]; ++j) triplets.push_back({i, j, 1});
  const auto a = csr_from_triplets<double>(test_context(), 5, 5, triplets);
  EXPECT_EQ(sort_by_length(*test_context(), a.pattern), (std::vector<std::int32_t>{1, 3, 2, 0, 4}));
  EXPECT_EQ(sort_by_length(*test_context(), a.pattern, 2), (std::vector<std::int32_t>{1, 0, 3, 2, 4}));
  EXPECT_THROW((void)sort_by_length(*test_context(), a.pattern, -1), BadArgument);
}

// Rows k, k + 50, k + 100 .. have the same columns.
TEST(ClusterRows, BringsRowsWithTheSameColumnsTogether) {
  std::vector<Triplet<double>> triplets;
  for (std::int32_t i = 0; i < 500; ++i)
    for (std::int32_t j = 0; j < 10; ++j) triplets.push_back({i, i % 50 * 10 + j, 1});
  const auto a = csr_from_triplets<double>(test_context(), 500, 500, triplets);
  const auto order = cluster_rows(*test_context(), a.pattern);
  ASSERT_TRUE(is_permutation_of(order, 500));
  for (std::size_t k = 0; k < 500; ++k)
    EXPECT_EQ(order[k], static_cast<std::int32_t>(k / 10 + k % 10 * 50))
        << "ten rows of each kind, by number";
}

TEST(Locality, CountsLinesBandwidthAndProfile) {
  // rows 0 .. 3: columns {0, 20}, {1}, {}, {0, 3}; 24 x 24
  const std::vector<Triplet<double>> triplets{{0, 0, 1}, {0, 20, 1}, {1, 1, 1}, {3, 0, 1}, {3, 3, 1}};
  const auto a = csr_from_triplets<double>(test_context(), 24, 24, triplets);
  const Locality found = locality(*test_context(), a.pattern);
  EXPECT_EQ(found.bandwidth, 20);
  EXPECT_EQ(found.profile, 3);
  EXPECT_EQ(found.lines, 2) << "columns 0 to 7 and 16 to 23";
}

TEST(Locality, OfAnOrderIsThatOfThePermutedMatrix) {
  const auto a = shuffled(generate(test_context(), "poisson-2d", {{"n", 60}}), 5);
  const Permutation p(test_context(), reverse_cuthill_mckee(*test_context(), a.pattern));
  const Locality there = locality(*test_context(), a.pattern, p.order(), p.place());
  const PermutedMatrix<double> b(test_context(), a, p);
  const Locality here = locality(*Context::host(1), b.matrix().pattern);
  EXPECT_EQ(there.bandwidth, here.bandwidth);
  EXPECT_EQ(there.profile, here.profile);
  EXPECT_EQ(there.lines, here.lines);
  EXPECT_EQ(here.bandwidth, bandwidth_of(a.pattern, {p.order().begin(), p.order().end()}));
  EXPECT_LT(3 * there.lines, locality(*test_context(), a.pattern).lines);
}

TEST(ForecastOrder, TellsMeshesInAnyNumberingFromRandomGraphs) {
  const auto mesh = generate(test_context(), "poisson-3d", {{"n", 40}});
  EXPECT_LT(forecast_order(shuffled(mesh, 5).pattern, 8).product_ratio, 0.7);
  EXPECT_GT(forecast_order(mesh.pattern, 8).product_ratio, 0.9) << "it is in a good order already";
  // Every row has entries at 8 random columns: nothing can be near.
  std::vector<Triplet<double>> triplets;
  std::mt19937 random(9);
  const std::int32_t n = 64000;
  for (std::int32_t i = 0; i < n; ++i) {
    triplets.push_back({i, i, 1});
    for (int k = 0; k < 4; ++k) {
      const auto j = static_cast<std::int32_t>(random() % n);
      triplets.push_back({i, j, 1}), triplets.push_back({j, i, 1});
    }
  }
  const auto graph = csr_from_triplets<double>(test_context(), n, n, triplets);
  EXPECT_GT(forecast_order(graph.pattern, 8).product_ratio, 0.9);
  EXPECT_EQ(forecast_order(csr_from_triplets<double>(test_context(), 0, 0, {}).pattern, 8).product_ratio, 1);
}

TEST(PermutationOfVectors, GoesThereAndBack) {
  const Permutation p(test_context(), {2, 0, 3, 1});
  const std::vector<double> x{10, 11, 12, 13};
  std::vector<double> y(4), z(4);
  p.apply<double>({x.data(), 4}, {y.data(), 4});
  EXPECT_EQ(y, (std::vector<double>{12, 10, 13, 11}));
  p.apply_inverse<double>({y.data(), 4}, {z.data(), 4});
  EXPECT_EQ(z, x);
  EXPECT_THROW(p.apply<double>({x.data(), 3}, {y.data(), 4}), ShapeMismatch);
  EXPECT_THROW(Permutation(test_context(), {0, 0}), BadArgument);
  EXPECT_THROW(Permutation(test_context(), {0, 2}), BadArgument);
  EXPECT_THROW(Permutation(test_context(), {-1, 0}), BadArgument);
}

TEST(PermutationOfMatrices, MovesEveryEntryAndNewValues) {
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    const CsrMatrix<double>& a = battery_matrix(entry.name);
    const std::int64_t n = a.rows();
    if (n != a.cols()) {
      EXPECT_THROW(PermutedMatrix<double>(test_context(), a, Permutation(test_context(), {})), ShapeMismatch);
      continue;
    }
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(13));
    const Permutation p(test_context(), order);
    PermutedMatrix<double> permuted(test_context(), a, p);
    const auto expected = [&](double factor) {
      std::vector<Triplet<double>> triplets;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = a.pattern.row_ptr[i]; k < a.pattern.row_ptr[i + 1]; ++k)
          triplets.push_back({p.place()[i], p.place()[a.pattern.col[k]], factor * a.values[k]});
      return csr_from_triplets<double>(test_context(), n, n, triplets, Duplicates::refuse);
    };
    EXPECT_TRUE(identical(permuted.matrix(), expected(1)));
    const CsrMatrix<double> before = permuted.matrix();
    std::vector<double> values(static_cast<std::size_t>(a.nonzeros()));
    for (const double factor : {2.0, 4.0, 8.0}) {
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = factor * a.values[k];
      CsrMatrix<double> changed = a;
      changed.values = values.data();
      permuted.update_values(changed);
      EXPECT_TRUE(identical(permuted.matrix(), expected(factor)));
    }
    EXPECT_TRUE(identical(before, expected(1))) << "a handle of the values before";
  }
}

// P A P^T of a matrix in device memory is that of the host to the last bit, and new values find their places.
template <class T>
void expect_permuted_as_on_the_host(const ContextPtr& device, const CsrMatrix<T>& a, unsigned seed) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(a.rows()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  PermutedMatrix<T> here(test_context(), a, Permutation(test_context(), order)),
      there(test_context(), upload(device, a), Permutation(device, order)),
      copied(test_context(), a, Permutation(device, order));
  EXPECT_EQ(there.matrix().pattern.space, Space::device);
  EXPECT_TRUE(identical(download(test_context(), *device, there.matrix()), here.matrix()));
  EXPECT_TRUE(identical(download(test_context(), *device, copied.matrix()), here.matrix()));
  std::vector<T> values(static_cast<std::size_t>(a.nonzeros()));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<T>(k) + 1;
  CsrMatrix<T> changed = a;
  changed.values = values.data();
  here.update_values(changed), there.update_values(upload(device, changed));
  EXPECT_TRUE(identical(download(test_context(), *device, there.matrix()), here.matrix()));
}

class PermutationOnADevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    device_ =
        GetParam() == std::string_view("simulated") ? fake_device_context() : test_context(Space::device);
    if (!device_) GTEST_SKIP() << no_device;
  }
  ContextPtr device_;
};
TEST_P(PermutationOnADevice, IsThatOfTheHost) {
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    const CsrMatrix<double>& a = battery_matrix(entry.name);
    if (a.rows() != a.cols()) continue;
    expect_permuted_as_on_the_host(device_, a, 13);
    const CsrMatrix<float> single = convert_values<float>(test_context(), a);
    expect_permuted_as_on_the_host(device_, single, 14);
    // 64-bit row pointers
    CsrBuilder<double> wide(test_context(), a.rows(), a.cols(), a.nonzeros(), true);
    for (std::int64_t i = 0; i < a.rows(); ++i) wide.set_row_ptr(i + 1, a.pattern.row_ptr[i + 1]);
    std::copy_n(a.pattern.col, a.nonzeros(), wide.col());
    std::copy_n(a.values, a.nonzeros(), wide.values());
    expect_permuted_as_on_the_host(device_, wide.freeze(), 15);
  }
}
TEST_P(PermutationOnADevice, OfTheHostIsRefused) {
  const CsrMatrix<double> there = upload(device_, battery_matrix(battery().front().name));
  std::vector<std::int32_t> order(static_cast<std::size_t>(there.rows()));
  std::iota(order.begin(), order.end(), 0);
  EXPECT_THROW(PermutedMatrix<double>(test_context(), there, Permutation(test_context(), order)), WrongSpace);
  EXPECT_THROW(PermutedMatrix<double>(device_, there, Permutation(device_, order)), WrongSpace);
}
INSTANTIATE_TEST_SUITE_P(Devices, PermutationOnADevice, testing::Values("simulated", "device"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace protean::test

#include "core/ordering.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "core/allocation_hook.hpp"
#include "core/background.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/locality.hpp"
#include "core/permutation.hpp"
#include "core/transfer.hpp"
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

// Its arrays of columns and values are null, and no address may be computed from them.
TEST(PermutedMatrix, OfRowsWithoutEntries) {
  constexpr std::int64_t n = 40;
  const std::vector<std::int32_t> row_ptr(n + 1, 0);
  CsrMatrix<double> a;
  a.pattern.rows = a.pattern.cols = n;
  a.pattern.row_ptr.p32 = row_ptr.data();
  std::vector<std::int32_t> order(n);
  for (std::int64_t i = 0; i < n; ++i)
    order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(n - 1 - i);
  const PermutedMatrix<double> b(test_context(), a, Permutation(test_context(), order));
  EXPECT_EQ(b.matrix().rows(), n);
  EXPECT_EQ(b.matrix().nonzeros(), 0);
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
    // A handle keeps the values that it was made with, however often new ones come.
    std::vector<std::pair<double, CsrMatrix<double>>> handles = {{1, before}};
    for (const double factor : {2.0, 4.0, 8.0, 16.0, 32.0}) {
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = factor * a.values[k];
      CsrMatrix<double> changed = a;
      changed.values = values.data();
      permuted.update_values(changed);
      EXPECT_TRUE(identical(permuted.matrix(), expected(factor)));
      if (factor != 8) handles.emplace_back(factor, permuted.matrix());
    }
    for (const auto& [factor, handle] : handles) EXPECT_TRUE(identical(handle, expected(factor))) << factor;
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

// Orders that are found in the memory of a device.
class OrderOnADevice : public testing::Test {
 protected:
  void SetUp() override {
    device_ = test_context(Space::device);
    if (!device_) GTEST_SKIP() << no_device;
  }
  FoundOrder found(const CsrMatrix<double>& a) const {
    return find_order("rcm", device_, upload(device_, a).pattern);
  }
  static std::vector<std::int32_t> of_host(const CsrMatrix<double>& a) {
    return reverse_cuthill_mckee(*test_context(), a.pattern);
  }
  // The device finds it itself, and it is that of the host to the last row.
  void expect_found(const CsrMatrix<double>& a) const {
    const FoundOrder there = found(a);
    EXPECT_TRUE(there.on_device) << there.handed_over;
    expect_order(there, of_host(a));
  }
  void expect_handed_over(const CsrMatrix<double>& a, std::string_view why) const {
    const FoundOrder there = found(a);
    EXPECT_FALSE(there.on_device);
    EXPECT_NE(there.handed_over.find(why), std::string::npos) << there.handed_over;
    expect_order(there, of_host(a));
  }
  void expect_order(const FoundOrder& found, const std::vector<std::int32_t>& order) const {
    const Permutation& p = found.permutation;
    ASSERT_EQ(p.size(), static_cast<std::int64_t>(order.size()));
    EXPECT_EQ(std::vector<std::int32_t>(p.order().begin(), p.order().end()), order);
    const Permutation inverse = p.inverse();
    EXPECT_EQ(std::vector<std::int32_t>(p.place().begin(), p.place().end()),
              std::vector<std::int32_t>(inverse.order().begin(), inverse.order().end()));
    for (std::size_t k = 0; k < order.size(); ++k) ASSERT_EQ(p.place()[order[k]], k);
    // In the memory of the device, too.
    std::vector<double> rows(order.size());
    std::iota(rows.begin(), rows.end(), 0.0);
    const Placed<double> from(device_, rows);
    Placed<double> to(device_, rows), back(device_, std::vector<double>(rows.size()));
    p.apply<double>(from.read(), to.view()), p.apply_inverse<double>(to.read(), back.view());
    const std::vector<double> moved = to.fetch();
    EXPECT_TRUE(std::equal(moved.begin(), moved.end(), order.begin(), order.end()));
    EXPECT_EQ(back.fetch(), rows);
  }
  ContextPtr device_;
};

void add_edge(std::vector<Triplet<double>>& triplets, std::int32_t i, std::int32_t j) {
  triplets.push_back({i, j, 1});
  if (i != j) triplets.push_back({j, i, 1});
}
CsrMatrix<double> graph_of(std::int64_t n, const std::vector<Triplet<double>>& triplets) {
  return csr_from_triplets<double>(test_context(), n, n, triplets);
}
// Every row is a neighbour of `centre`.
CsrMatrix<double> star(std::int32_t n, std::int32_t centre) {
  std::vector<Triplet<double>> triplets;
  for (std::int32_t i = 0; i < n; ++i)
    if (i != centre) add_edge(triplets, centre, i);
  return graph_of(n, triplets);
}
// Each new row has two neighbours among those before, mostly ones with many.
CsrMatrix<double> power_law(std::int32_t n) {
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
CsrMatrix<double> pairs(std::int32_t count) {
  std::vector<Triplet<double>> triplets;
  for (std::int32_t k = 0; k < count; ++k) add_edge(triplets, 3 * k, 3 * (count - 1 - k) + 1);
  return graph_of(3 * count, triplets);
}
CsrMatrix<double> path(std::int64_t n) {
  return shuffled(generate(test_context(), "banded", {{"n", n}, {"lower", 1}, {"upper", 1}}), 11);
}

// Edges between rows that count from `first`.
using Edges = std::vector<Triplet<double>>;
void add_path(Edges& edges, std::int32_t first, std::int32_t n) {
  for (std::int32_t i = 1; i < n; ++i) add_edge(edges, first + i - 1, first + i);
}
void add_star(Edges& edges, std::int32_t first, std::int32_t n) {
  for (std::int32_t i = 1; i < n; ++i) add_edge(edges, first, first + i);
}
void add_grid(Edges& edges, std::int32_t first, std::int32_t a, std::int32_t b) {
  for (std::int32_t i = 0; i < a; ++i)
    for (std::int32_t j = 0; j < b; ++j) {
      if (i > 0) add_edge(edges, first + i * b + j, first + (i - 1) * b + j);
      if (j > 0) add_edge(edges, first + i * b + j, first + i * b + j - 1);
    }
}
// The same graph `copies` times beside each other.
CsrMatrix<double> repeated(const CsrMatrix<double>& a, std::int32_t copies) {
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
std::vector<Graph> graphs_of_parts() {
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

// Parts are placed one after another, each as if it were alone, by the number of the first row.
std::vector<std::int32_t> part_by_part(const CsrMatrix<double>& a) {
  const auto n = static_cast<std::int32_t>(a.rows());
  std::vector<std::int32_t> order, local(static_cast<std::size_t>(n), -1);
  std::vector<bool> seen(static_cast<std::size_t>(n));
  for (std::int32_t first = 0; first < n; ++first) {
    if (seen[first]) continue;
    std::vector<std::int32_t> rows{first};
    seen[first] = true;
    for (std::size_t k = 0; k < rows.size(); ++k)
      for (const std::int32_t j : a.pattern.row(rows[k]))
        if (!seen[j]) seen[j] = true, rows.push_back(j);
    std::sort(rows.begin(), rows.end());  // so that equal degrees keep their order
    for (std::size_t k = 0; k < rows.size(); ++k) local[rows[k]] = static_cast<std::int32_t>(k);
    Edges edges;
    for (const std::int32_t i : rows)
      for (const std::int32_t j : a.pattern.row(i)) edges.push_back({local[i], local[j], 1});
    const auto part = graph_of(static_cast<std::int64_t>(rows.size()), edges);
    const auto its_order = reverse_cuthill_mckee(*Context::host(1), part.pattern);
    for (auto k = its_order.rbegin(); k != its_order.rend(); ++k) order.push_back(rows[*k]);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// The order as core/ordering_rcm.cpp defines it, for a symmetric pattern: each part from the row of least degree in the
// last level of a search from its first row; children of a row by degree, equal ones by number; all of it reversed.
std::vector<std::int32_t> by_definition(const SparsityPattern& pattern) {
  std::vector<int> found_by(static_cast<std::size_t>(pattern.rows), 0);
  const auto before = [&](std::int32_t i, std::int32_t j) {
    return std::pair(pattern.row_length(i), i) < std::pair(pattern.row_length(j), j);
  };
  // The rows of a part in the order of a search, and where its last level begins.
  const auto search = [&](std::int32_t start, int number) {
    std::vector<std::int32_t> queue = {start};
    found_by[start] = number;
    std::size_t last = 0;
    for (std::size_t first = 0, end = 1; first < end; first = end, end = queue.size()) {
      last = first;
      for (std::size_t k = first; k < end; ++k) {
        const std::size_t children = queue.size();
        for (const std::int32_t j : pattern.row(queue[k]))
          if (found_by[j] != number) found_by[j] = number, queue.push_back(j);
        std::sort(queue.begin() + static_cast<std::ptrdiff_t>(children), queue.end(), before);
      }
    }
    return std::pair(queue, last);
  };
  std::vector<std::int32_t> order;
  for (std::int32_t i = 0; i < pattern.rows; ++i) {
    if (found_by[i] != 0) continue;
    const auto [rows, last] = search(i, 1);
    const std::int32_t far =
        *std::min_element(rows.begin() + static_cast<std::ptrdiff_t>(last), rows.end(), before);
    const auto placed = search(far, 2).first;
    order.insert(order.end(), placed.begin(), placed.end());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

TEST(ReverseCuthillMcKee, IsThatOfItsDefinition) {
  std::vector<CsrMatrix<double>> graphs = {
      power_law(300), power_law(9000), generate(test_context(), "graph-laplacian", {{"n", 700}}),
      shuffled(generate(test_context(), "poisson-2d", {{"n", 30}}), 5), star(40, 17)};
  for (const Graph& graph : graphs_of_parts()) graphs.push_back(graph.matrix);
  for (std::size_t k = 0; k < graphs.size(); ++k)
    for (const int threads : {1, 3})
      EXPECT_EQ(reverse_cuthill_mckee(*Context::host(threads), graphs[k].pattern),
                by_definition(graphs[k].pattern))
          << "graph " << k << ", " << threads << " threads";
}

TEST(ReverseCuthillMcKee, PlacesEachPartAsIfItWereAlone) {
  for (const Graph& graph : graphs_of_parts()) {
    SCOPED_TRACE(graph.name);
    const auto expected = part_by_part(graph.matrix);
    for (const int threads : {1, 2, 3, 8}) {
      std::int64_t bandwidth = -1;
      const auto order =
          reverse_cuthill_mckee(*Context::host(threads), graph.matrix.pattern, false, &bandwidth);
      EXPECT_EQ(order, expected) << threads << " threads";
      EXPECT_EQ(bandwidth, bandwidth_of(graph.matrix.pattern, order)) << threads << " threads";
    }
  }
}

// The forecast of levels: right for equal balls, and seldom too low.
TEST(ForecastOrder, ForetellsTheLevelsOfASearch) {
  Edges several;
  add_path(several, 0, 3000);
  add_grid(several, 3000, 60, 60);
  const std::pair<CsrMatrix<double>, std::pair<double, double>> graphs[] = {
      {path(20000), {0.95, 1.1}},
      {shuffled(generate(test_context(), "poisson-2d", {{"n", 150}}), 5), {0.7, 2.5}},
      {shuffled(generate(test_context(), "poisson-3d", {{"n", 40}}), 5), {0.7, 3}},
      {shuffled(generate(test_context(), "banded", {{"n", 20000}, {"lower", 10}, {"upper", 10}}), 5),
       {0.9, 1.6}},
      {shuffled(graph_of(6600, several), 5), {0.7, 6}},
      {generate(test_context(), "random-spd", {{"n", 20000}}), {0.7, 4}},
      {pairs(3000), {1, 3}},
      {repeated(generate(test_context(), "poisson-2d", {{"n", 10}}), 100), {0.7, 3}},
  };
  for (const auto& [a, factors] : graphs) {
    const auto order = reverse_cuthill_mckee(*test_context(), a.pattern);
    std::vector<int> level(order.size(), -1);
    int deepest = 0;
    for (auto k = order.rbegin(); k != order.rend(); ++k) {  // a part begins with its start
      if (level[*k] < 0) level[*k] = 0;
      for (const std::int32_t j : a.pattern.row(*k))
        if (level[j] < 0) level[j] = level[*k] + 1;
      deepest = std::max(deepest, level[*k]);
    }
    const double levels = forecast_order(a.pattern, 8).levels;
    EXPECT_GE(levels, factors.first * (deepest + 1)) << a.rows() << " rows";
    EXPECT_LE(levels, factors.second * (deepest + 1)) << a.rows() << " rows";
  }
}

// A pattern in device memory gives the same forecast; where an order would pay the levels are those of a deep search,
// so that parts of up to deep_rows rows are known.
TEST(ForecastOrder, OfAPatternOnADeviceIsThatOfTheHostWithADeepSearch) {
  const auto small_parts = repeated(generate(test_context(), "poisson-2d", {{"n", 60}}), 30),
             mesh = generate(test_context(), "poisson-3d", {{"n", 40}}),
             random = generate(test_context(), "random-spd", {{"n", 20000}});
  for (const ContextPtr& device : {fake_device_context(), test_context(Space::device)}) {
    if (!device) continue;  // no GPU: the simulated device was tried
    for (const CsrMatrix<double>& a : {shuffled(mesh, 5), mesh, random, shuffled(small_parts, 5)}) {
      const OrderForecast here = forecast_order(a.pattern, 8),
                          there = forecast_order(*device, upload(device, a).pattern, 8);
      EXPECT_EQ(there.lines_now, here.lines_now);
      EXPECT_EQ(there.lines_reached, here.lines_reached);
      EXPECT_EQ(there.product_ratio, here.product_ratio);
      if (here.product_ratio > 0.97) { EXPECT_EQ(there.levels, here.levels); }
    }
    const CsrMatrix<double> a = shuffled(small_parts, 5);
    const double levels = forecast_order(*device, upload(device, a).pattern, 8).levels;
    EXPECT_GE(levels, 119) << "from corner to corner of 60 x 60 points";
    EXPECT_LE(levels, 2 * 119 + 1);
    EXPECT_GT(forecast_order(a.pattern, 8).levels, 400) << "as if one part had all rows";
  }
}

TEST(ReadRows, GathersTheColumnsOfAnyRows) {
  for (const ContextPtr& context : {test_context(), fake_device_context(), test_context(Space::device)}) {
    if (!context) continue;  // no GPU
    for (const BatteryMatrix& one : battery()) {
      SCOPED_TRACE(one.name);
      const SparsityPattern& pattern = one.matrix.pattern;
      const CsrMatrix<double> there =
          context->space() == Space::device ? upload(context, one.matrix) : one.matrix;
      std::vector<std::int32_t> rows;
      // Of few rows a GPU reads the columns in one launch.
      std::mt19937 bits(3);
      for (int k = 0; k < (one.name == "power_law_500" ? 5000 : 50) && pattern.rows > 0; ++k)
        rows.push_back(static_cast<std::int32_t>(bits() % static_cast<std::uint64_t>(pattern.rows)));
      detail::RowsRead read{{7, 8, 9}, {1}};
      detail::read_rows(*context, there.pattern, rows, read);
      ASSERT_EQ(read.begin.size(), rows.size() + 1);
      EXPECT_EQ(read.begin.front(), 0);
      EXPECT_EQ(read.begin.back(), std::ssize(read.columns));
      for (std::size_t k = 0; k < rows.size(); ++k) {
        const auto expected = pattern.row(rows[k]);
        ASSERT_EQ(read.begin[k + 1] - read.begin[k], std::ssize(expected));
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), read.columns.begin() + read.begin[k]));
      }
    }
  }
}

// Without the entries (i, j), i > j, of even i the parts are the same.
TEST(ReverseCuthillMcKee, DoesNotDependOnTheThreadsWhereAnUnsymmetricPatternHasManyParts) {
  for (const Graph& graph : graphs_of_parts()) {
    SCOPED_TRACE(graph.name);
    std::vector<Triplet<double>> some;
    for (std::int32_t i = 0; i < graph.matrix.rows(); ++i)
      for (const std::int32_t j : graph.matrix.pattern.row(i))
        if (i % 2 > 0 || i <= j) some.push_back({i, j, 1});
    const auto a = graph_of(graph.matrix.rows(), some);
    const auto one = reverse_cuthill_mckee(*Context::host(1), a.pattern);
    EXPECT_TRUE(is_permutation_of(one, a.rows()));
    for (const int threads : {2, 5}) {
      std::int64_t bandwidth = -1;
      EXPECT_EQ(reverse_cuthill_mckee(*Context::host(threads), a.pattern, false, &bandwidth), one) << threads;
      EXPECT_EQ(bandwidth, bandwidth_of(a.pattern, one)) << threads;
    }
  }
}

// Cancelled while threads search parts of their own, and while all share one.
TEST(ReverseCuthillMcKee, EndsWhenItIsCancelled) {
  Edges edges;
  for (std::int32_t k = 0; k < 2000; ++k) add_path(edges, 300 * k, 300);
  for (const CsrMatrix<double>& a : {graph_of(600000, edges), path(600000)}) {
    const ContextPtr context = Context::host(3);
    std::atomic<bool> cancel{false}, began{false};
    bool cancelled = false;
    std::thread worker([&] {
      const BackgroundWork work(context, cancel, 2);
      began = true;
      try {
        for (;;) (void)reverse_cuthill_mckee(*context, a.pattern, true);
      } catch (const Cancelled&) { cancelled = true; }
    });
    while (!began) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancel = true;
    worker.join();
    EXPECT_TRUE(cancelled);
  }
}

TEST_F(OrderOnADevice, IsThatOfTheHostOnTheWholeBattery) {
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    const CsrMatrix<double>& a = battery_matrix(entry.name);
    if (a.rows() != a.cols()) {
      EXPECT_THROW((void)found(a), ShapeMismatch);
      continue;
    }
    const FoundOrder there = found(a);
    expect_order(there, of_host(a));
    EXPECT_EQ(there.on_device, there.handed_over.empty());
    if (!pattern_is_symmetric(*test_context(), a.pattern)) { EXPECT_FALSE(there.on_device); }
  }
}

TEST_F(OrderOnADevice, IsThatOfTheHostForMeshes) {
  expect_found(shuffled(generate(test_context(), "poisson-2d", {{"n", 150}}), 5));
  expect_found(shuffled(generate(test_context(), "poisson-3d", {{"n", 40}}), 3));
  expect_found(generate(test_context(), "poisson-3d", {{"n", 30}}));
  expect_found(shuffled(generate(test_context(), "banded", {{"n", 3000}, {"lower", 20}, {"upper", 20}}), 7));
}

TEST_F(OrderOnADevice, IsThatOfTheHostForGraphs) {
  expect_found(generate(test_context(), "random-spd", {{"n", 20000}}));
  expect_found(generate(test_context(), "graph-laplacian", {{"n", 3000}}));
  expect_found(power_law(20000));
}

TEST_F(OrderOnADevice, IsThatOfTheHostForLongRowsPartsAndRowsWithoutNeighbours) {
  expect_found(graph_of(0, {}));
  expect_found(graph_of(1, {{0, 0, 1}}));
  expect_found(graph_of(300, {}));
  for (const std::int32_t n : {2, 31, 32, 33, 34, 65, 4097}) expect_found(star(n, n / 2));
  expect_found(pairs(64));
  expect_found(pairs(65));
  std::vector<Triplet<double>> dense;
  for (std::int32_t i = 0; i < 300; ++i)
    for (std::int32_t j = i; j < 300; ++j) add_edge(dense, i, j);
  expect_found(graph_of(300, dense));
  // A mesh, of which a few rows have no neighbours, with one row that is a neighbour of all others.
  const auto mesh = shuffled(generate(test_context(), "poisson-2d", {{"n", 60}}), 9);
  const auto alone = [](std::int32_t i) { return i % 97 == 0; };
  std::vector<Triplet<double>> triplets;
  for (std::int32_t i = 0; i < 3600; ++i) {
    for (const std::int32_t j : mesh.pattern.row(i))
      if (i == j || (!alone(i) && !alone(j))) triplets.push_back({i, j, 1});
    if (!alone(i) && i != 2000) add_edge(triplets, 2000, i);
  }
  expect_found(graph_of(3600, triplets));
}

TEST_F(OrderOnADevice, IsThatOfTheHostForManySmallGraphs) {
  int on_device = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto n = static_cast<std::int32_t>(50 + random() % 400);
    const auto edges = random() % (2 * n);
    std::vector<Triplet<double>> triplets;
    for (unsigned e = 0; e < edges; ++e)
      add_edge(triplets, static_cast<std::int32_t>(random() % n), static_cast<std::int32_t>(random() % n));
    const CsrMatrix<double> a = graph_of(n, triplets);
    const FoundOrder there = found(a);
    expect_order(there, of_host(a));
    if (there.on_device) ++on_device;
  }
  EXPECT_GT(on_device, 90);
}

TEST_F(OrderOnADevice, IsThatOfTheHostForGraphsOfManyParts) {
  for (const Graph& graph : graphs_of_parts()) {
    SCOPED_TRACE(graph.name);
    expect_found(graph.matrix);
  }
}

// More than can be searched one after another in the time that the levels of one part take.
TEST_F(OrderOnADevice, IsThatOfTheHostForHundredsOfThousandsOfParts) {
  expect_found(pairs(400000));
  expect_found(shuffled(repeated(generate(test_context(), "poisson-2d", {{"n", 8}}), 8000), 4));
  expect_found(graph_of(500000, {{0, 499999, 1}, {499999, 0, 1}}));
}

// Rows of more than 32 entries, whose children are sorted in memory, in many parts.
TEST_F(OrderOnADevice, IsThatOfTheHostForManyPartsWithLongRows) {
  Edges edges;
  for (std::int32_t k = 0; k < 200; ++k) {
    const std::int32_t first = 130 * k;
    add_star(edges, first, 40 + k % 60);
    add_path(edges, first, 125);
    for (std::int32_t i = 0; i < 40; ++i) add_edge(edges, first + 60, first + 61 + i);
  }
  expect_found(graph_of(26000, edges));
  expect_found(shuffled(graph_of(26000, edges), 6));
}

// One part is deep: the levels are as many as it has, whatever the others are.
TEST_F(OrderOnADevice, IsThatOfTheHostWhereOnePartIsDeep) {
  Edges edges;
  add_path(edges, 0, 1500);
  for (std::int32_t k = 0; k < 300; ++k) add_grid(edges, 1500 + 60 * k, 6, 10);
  expect_found(graph_of(19500, edges));
  expect_found(shuffled(graph_of(19500, edges), 8));
}

TEST_F(OrderOnADevice, OfManyPartsIsTheSameInEveryRun) {
  for (const Graph& graph : graphs_of_parts()) {
    SCOPED_TRACE(graph.name);
    const CsrMatrix<double> a = upload(device_, graph.matrix);
    const Permutation one = find_order("rcm", device_, a.pattern).permutation;
    for (int run = 0; run < 3; ++run) {
      const Permutation next = find_order("rcm", device_, a.pattern).permutation;
      EXPECT_TRUE(std::equal(one.order().begin(), one.order().end(), next.order().begin()));
    }
  }
}

TEST_F(OrderOnADevice, OfManyPartsTakesTheMemoryThatIsDocumented) {
  for (const Graph& graph : graphs_of_parts()) {
    SCOPED_TRACE(graph.name);
    const CsrMatrix<double> a = upload(device_, graph.matrix);
    device_->synchronize();
    static std::atomic<std::int64_t> bytes;
    bytes = 0;
    detail::allocation_hook = [](Space space, std::size_t size) {
      if (space == Space::device) bytes += static_cast<std::int64_t>(size);
    };
    EXPECT_TRUE(find_order("rcm", device_, a.pattern).on_device);
    detail::allocation_hook = nullptr;
    std::int64_t parts = 0;  // of two rows and more, at most
    for (std::int64_t i = 0; i < a.rows(); ++i) parts += graph.matrix.pattern.row_length(i) > 1 ? 1 : 0;
    EXPECT_LE(bytes, (16 + 8 + 8) * a.rows() + 16 * parts / 2 + 100000);
  }
}

TEST_F(OrderOnADevice, OfAShuffledPathIsThePath) {
  const auto a = path(3000);
  expect_found(a);
  const Permutation p = found(a).permutation;
  EXPECT_EQ(bandwidth_of(a.pattern, {p.order().begin(), p.order().end()}), 1);
}

TEST_F(OrderOnADevice, TakesRowPointersOf64Bits) {
  const auto a = shuffled(generate(test_context(), "poisson-3d", {{"n", 12}}), 2);
  CsrBuilder<double> wide(test_context(), a.rows(), a.cols(), a.nonzeros(), true);
  for (std::int64_t i = 0; i < a.rows(); ++i) wide.set_row_ptr(i + 1, a.pattern.row_ptr[i + 1]);
  std::copy_n(a.pattern.col, a.nonzeros(), wide.col());
  std::copy_n(a.values, a.nonzeros(), wide.values());
  expect_found(wide.freeze());
}

TEST_F(OrderOnADevice, IsTheSameInEveryRun) {
  const CsrMatrix<double> a =
      upload(device_, shuffled(generate(test_context(), "poisson-3d", {{"n", 40}}), 8));
  const Permutation one = find_order("rcm", device_, a.pattern).permutation;
  for (int run = 0; run < 5; ++run) {
    const FoundOrder next = find_order("rcm", device_, a.pattern);
    EXPECT_TRUE(next.on_device);
    EXPECT_TRUE(std::equal(one.order().begin(), one.order().end(), next.permutation.order().begin()));
  }
}

TEST_F(OrderOnADevice, IsHandedOverToTheHostBeyondTheLimits) {
  expect_handed_over(star(4098, 7), "a row has 4097 entries, more than 4096");
  expect_handed_over(path(5000), "a search has more than 4096 levels");
  expect_handed_over(path(400000), "the first 512 levels of a search have");
  expect_handed_over(graph_of(3, {{0, 1, 1}, {1, 2, 1}, {2, 1, 1}}), "not symmetric");
  const std::vector<std::int32_t> row_ptr{0, 2, 4}, col{1, 0, 0, 1};
  const std::vector<double> values(4, 1.0);
  expect_handed_over(csr_view<double>(2, 2, row_ptr.data(), col.data(), values.data()), "not ascending");
  const FoundOrder length =
      find_order("length", device_, upload(device_, battery_matrix(battery().front().name)).pattern);
  EXPECT_FALSE(length.on_device);
  EXPECT_NE(length.handed_over.find("length"), std::string::npos);
}

TEST_F(OrderOnADevice, IsRefusedBeyondTheLimitsWhereTheHostShallNotFindIt) {
  const auto a = upload(device_, path(5000)), b = upload(device_, path(3000));
  EXPECT_THROW((void)find_order("rcm", device_, a.pattern, nullptr, false), NotAvailable);
  EXPECT_TRUE(find_order("rcm", device_, b.pattern, nullptr, false).on_device);
}

TEST_F(OrderOnADevice, LeavesNoMemoryWhereAnAllocationFails) {
  const CsrMatrix<double> a =
      upload(device_, shuffled(generate(test_context(), "poisson-2d", {{"n", 50}}), 8));
  static std::atomic<int> left;
  static std::atomic<std::int64_t> bytes;
  const auto hook = [](Space space, std::size_t size) {
    if (space == Space::device && left-- == 0) throw OutOfMemory("a test", size);
    if (space == Space::device) bytes += static_cast<std::int64_t>(size);
  };
  int failed = 0;
  for (bool found = false; !found && failed < 100; ++failed) {
    left = failed, bytes = 0;
    detail::allocation_hook = hook;
    try {
      found = find_order("rcm", device_, a.pattern).on_device;
      EXPECT_TRUE(found);
      EXPECT_LE(bytes, 25 * a.rows() + 40000) << "more workspace than the documentation says";
    } catch (const OutOfMemory&) {}
    detail::allocation_hook = nullptr;
    device_->synchronize();
  }
  EXPECT_GT(failed, 6);
  EXPECT_LT(failed, 100);
  EXPECT_TRUE(find_order("rcm", device_, a.pattern).on_device);
}

// In background work, on its own stream; and the search itself sees that it is to end.
TEST_F(OrderOnADevice, IsFoundInBackgroundWorkAndEndsWhenItIsCancelled) {
  const auto here = path(3000);  // a long search: thousands of levels
  const CsrMatrix<double> a = upload(device_, here);
  device_->synchronize();
  static std::atomic<int> allocations;
  std::atomic<int> before_search{0};
  std::atomic<bool> cancel{false}, again{false}, ended{false};
  bool cancelled = false;
  std::vector<std::int32_t> beside;
  std::thread worker([&] {
    try {
      allocations = 0;
      detail::allocation_hook = [](Space space, std::size_t) {
        if (space == Space::device) ++allocations;
      };
      const BackgroundWork work(device_, cancel);
      const int first = allocations;
      const FoundOrder found = find_order("rcm", device_, a.pattern);
      EXPECT_TRUE(found.on_device) << found.handed_over;
      before_search = allocations - first - 2;  // order and place come after the search
      beside.assign(found.permutation.order().begin(), found.permutation.order().end());
      allocations = 0;
      again = true;
      (void)find_order("rcm", device_, a.pattern);
      ADD_FAILURE() << "it was not cancelled";
    } catch (const Cancelled&) { cancelled = true; } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    ended = true;
  });
  std::thread canceller([&] {
    while (!ended && (!again || allocations < before_search)) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cancel = true;
  });
  worker.join(), canceller.join();
  detail::allocation_hook = nullptr;
  EXPECT_EQ(beside, of_host(here));
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(allocations, before_search) << "the search did not see that it was to end";
  EXPECT_TRUE(find_order("rcm", device_, a.pattern).on_device);
}

// find_order() of contexts that find no order on a device: the host, and a simulated device.
TEST(FindOrder, IsThatOfTheHostInEverySpace) {
  const ContextPtr simulated = fake_device_context();
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    const CsrMatrix<double>& a = battery_matrix(entry.name);
    if (a.rows() != a.cols()) continue;
    const auto order = make_order("rcm", *test_context(), a.pattern);
    const FoundOrder here = find_order("rcm", test_context(), a.pattern);
    const FoundOrder there = find_order("rcm", simulated, upload(simulated, a).pattern);
    const FoundOrder copied = find_order("rcm", simulated, upload(simulated, a).pattern, &a.pattern);
    for (const FoundOrder* one : {&here, &there, &copied}) {
      const auto p = one->permutation.order();
      EXPECT_EQ(std::vector<std::int32_t>(p.begin(), p.end()), order);
      EXPECT_FALSE(one->on_device);
    }
    EXPECT_TRUE(here.handed_over.empty());
    EXPECT_FALSE(there.handed_over.empty());
    EXPECT_EQ(there.permutation.context(), simulated);
  }
}

TEST(FindOrder, RefusesWhatItCannotOrder) {
  const auto a = generate(test_context(), "banded", {{"n", 5}});
  EXPECT_THROW((void)find_order("rmc", test_context(), a.pattern), BadArgument);
  EXPECT_THROW((void)find_order("rcm", fake_device_context(), a.pattern), WrongSpace);
  const auto wide = csr_from_triplets<double>(test_context(), 2, 3, {});
  EXPECT_THROW((void)find_order("rcm", test_context(), wide.pattern), ShapeMismatch);
}

TEST(PermutationOfArraysOfADevice, IsCopiedToTheHostWhenItIsAskedFor) {
  const ContextPtr device = fake_device_context();
  const std::vector<std::int32_t> order{2, 0, 3, 1}, place{1, 3, 0, 2};
  const auto there = [&](const std::vector<std::int32_t>& items) {
    Buffer<std::int32_t> buffer(device, static_cast<std::int64_t>(items.size()));
    detail::copy_bytes(*device, buffer.data(), Space::device, items.data(), Space::host, buffer.bytes());
    return buffer;
  };
  const auto all = [](std::span<const std::int32_t> items) {
    return std::vector<std::int32_t>(items.begin(), items.end());
  };
  const Permutation p(device, there(order), there(place));
  EXPECT_EQ(p.size(), 4);
  const Permutation q = p;
  EXPECT_EQ(all(q.place()), place);
  EXPECT_EQ(all(p.order()), order);
  EXPECT_EQ(all(p.inverse().order()), place);
  EXPECT_EQ(all(p.after(Permutation(device, there(order), there(place))).order()),
            (std::vector<std::int32_t>{3, 2, 1, 0}));
  const Placed<double> from(device, {10, 11, 12, 13});
  Placed<double> to(device, {0, 0, 0, 0});
  Permutation(device, there(order), there(place)).apply<double>(from.read(), to.view());
  EXPECT_EQ(to.fetch(), (std::vector<double>{12, 10, 13, 11}));
  EXPECT_THROW(Permutation(device, there(order), there({0})), ShapeMismatch);
  EXPECT_THROW(Permutation(test_context(), Buffer<std::int32_t>(test_context(), 0),
                           Buffer<std::int32_t>(test_context(), 0)),
               WrongSpace);
}

}  // namespace
}  // namespace protean::test

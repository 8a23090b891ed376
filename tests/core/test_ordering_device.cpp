// Reverse Cuthill-McKee on a device finds the order of the host.
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
#include "core/permutation.hpp"
#include "order_graphs.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

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
  // The device finds the order itself, and it is the order of the host to the last row.
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

// One part is deep: the number of levels is its number, whatever the others are.
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

}  // namespace
}  // namespace protean::test

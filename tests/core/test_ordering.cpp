#include "core/ordering.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "order_graphs.hpp"
#include "support/battery.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

bool is_permutation_of(const std::vector<std::int32_t>& order, std::int64_t n) {
  std::vector<std::int32_t> sorted = order, all(static_cast<std::size_t>(n));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  return sorted == all;
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

// One entry without a mirror makes a pattern unsymmetric, whichever row it is in. Then the neighbours of a row include
// its neighbours in the transpose. Without them a search from another row does not reach the same rows.
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
  // The rows of a part in the order of a search, and the beginning of its last level.
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

// Cancelled while threads search separate parts, and while all share one.
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

}  // namespace
}  // namespace protean::test

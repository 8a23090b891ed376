// What an order gains: the cache lines that x takes, and the forecast of them.
#include "core/ordering.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/generate/generate.hpp"
#include "core/locality.hpp"
#include "core/permutation.hpp"
#include "core/transfer.hpp"
#include "order_graphs.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

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

// A pattern in device memory gives the same forecast; if an order would pay, the levels are the levels of a deep
// search, so that parts of up to deep_rows rows are known.
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

}  // namespace
}  // namespace protean::test

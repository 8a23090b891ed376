// The options of adell-plus: the tuner on made-up times, and matrices on host and device. All options of columns and
// unroll give the same bits, so what a tuner measures changes no result.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/tuning/option_sweep.hpp"
#include "formats/engines/tuning/timed_products.hpp"
#include "gtest/gtest.h"
#include "operators/tuning.hpp"
#include "solvers/solver.hpp"
#include "support/battery.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using formats::OptionSweep;

// The options that a sweep tried, in order, when product i takes seconds[i].
std::vector<int> tried(OptionSweep& sweep, const std::vector<double>& seconds) {
  std::vector<int> options;
  for (const double one : seconds) {
    EXPECT_FALSE(sweep.done());
    options.push_back(sweep.next());
    sweep.measured(one);
  }
  return options;
}

TEST(OptionSweep, TriesAllInTurnAndKeepsTheLeastTime) {
  OptionSweep sweep(3, 2, 2);
  EXPECT_EQ(sweep.best(), 2);
  EXPECT_EQ(sweep.products(), 9);
  // The first round is not counted: option 0 would win with its 1.
  EXPECT_EQ(tried(sweep, {1, 9, 9, 7, 6, 8, 9, 9, 5}), (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_TRUE(sweep.done());
  EXPECT_EQ(sweep.best(), 2);
  EXPECT_EQ(sweep.next(), 2);
  EXPECT_EQ(sweep.measurements(), 9);
  sweep.measured(0);
  EXPECT_EQ(sweep.measurements(), 9) << "a time after the end counts";
}

TEST(OptionSweep, OneDisturbedProductDecidesNothing) {
  OptionSweep sweep(2, 3, 0);
  tried(sweep, {5, 5, 4, 3, 4, 300, 4, 3});
  EXPECT_EQ(sweep.best(), 1);
}

TEST(OptionSweep, EqualTimesKeepTheFirstOption) {
  OptionSweep sweep(3, 1, 2);
  tried(sweep, {1, 1, 1, 2, 2, 2});
  EXPECT_EQ(sweep.best(), 0);
}

TEST(OptionSweep, OneOptionIsNotTried) {
  const OptionSweep sweep(1, 3, 2);
  EXPECT_TRUE(sweep.done());
  EXPECT_EQ(sweep.products(), 0);
  EXPECT_EQ(sweep.next(), 2);
}

TEST(TimedProducts, AProductThatThrowsIsNotMeasuredAndBlocksNothing) {
  formats::TimedProducts products(OptionSweep(2, 1, 1));
  EXPECT_THROW(products.run([](int) { throw BadArgument("no"); }), BadArgument);
  EXPECT_EQ(products.measurements(), 0);
  for (int i = 0; i < 4; ++i) products.run([&](int option) { EXPECT_EQ(option, i % 2); });
  EXPECT_TRUE(products.done());
}

TEST(TimedProducts, AProductWithinAProductUsesTheBestSoFar) {
  formats::TimedProducts products(OptionSweep(2, 1, 1));
  products.run([&](int outer) {
    EXPECT_EQ(outer, 0);
    products.run([](int inner) { EXPECT_EQ(inner, 1); });
  });
  EXPECT_EQ(products.measurements(), 1);
}

// Values whose sums are rounded, so that another order of the sums has other bits.
template <class T>
std::vector<T> rounded(std::int64_t size, unsigned seed) {
  std::mt19937 numbers(seed);
  std::uniform_real_distribution<double> between(-1, 1);
  std::vector<T> x(static_cast<std::size_t>(size));
  for (T& one : x) one = static_cast<T>(between(numbers));
  return x;
}
template <class T>
CsrMatrix<T> with_values(const CsrMatrix<double>& pattern, unsigned seed) {
  const std::vector<T> values = rounded<T>(pattern.nonzeros(), seed);
  CsrBuilder<T> builder(test_context(), pattern.rows(), pattern.cols(), pattern.nonzeros());
  for (std::int64_t r = 0; r <= pattern.rows(); ++r) builder.set_row_ptr(r, pattern.pattern.row_ptr[r]);
  std::copy_n(pattern.pattern.col, pattern.nonzeros(), builder.col());
  std::copy(values.begin(), values.end(), builder.values());
  return builder.freeze();
}

// Rows of up to 300 entries, runs and lone entries, empty rows, an odd number of rows, a row of several units.
CsrMatrix<double> mixed() {
  constexpr std::int32_t rows = 4301, cols = 3000;
  std::mt19937 numbers(11);
  std::vector<Triplet<double>> list;
  for (std::int32_t r = 0; r < rows; ++r) {
    std::set<std::int32_t> in_row;
    const int wanted = r % 97 == 5 ? 300 : r % 11 == 0 ? 0 : static_cast<int>(numbers() % 12);
    const std::int32_t base = static_cast<std::int32_t>(numbers() % cols);
    for (int k = 0; k < wanted; ++k)
      in_row.insert(r % 3 == 0 ? (base + k) % cols : static_cast<std::int32_t>(numbers() % cols));
    if (r == 4100)
      for (std::int32_t c = 0; c < cols; ++c) in_row.insert(c);
    if (r == rows - 1) in_row = {0, 1, cols - 2, cols - 1};
    for (const std::int32_t c : in_row) list.push_back({r, c, 1.0});
  }
  return csr_from_triplets<double>(test_context(), rows, cols, list);
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> adell_plus(const ContextPtr& context, const CsrMatrix<T>& csr,
                                               FormatParams params = {}) {
  params.set("max_fill", "1000000");
  return make_matrix(find_format("adell-plus"), placed(context, csr), context, params);
}
template <class T>
Tuning tuning_of(const AssembledMatrix<T>& A) {
  return dynamic_cast<const HasTuning&>(A).tuning();
}
std::string choice(const Tuning& tuning, std::string_view option) {
  for (const Tuning::Choice& one : tuning.choices)
    if (one.option == option) return one.value + " by " + std::string(one.by);
  return "none";
}

const char* const blockings[] = {"1x1", "1x2", "2x1"};

class LaneOptions : public testing::TestWithParam<Space> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam());
    if (!context_) GTEST_SKIP() << no_device;
  }
  template <class T>
  std::vector<T> product(const AssembledMatrix<T>& A, T alpha, const std::vector<T>& x, T beta,
                         const std::vector<T>& y0) const {
    const Placed<T> there(context_, x);
    Placed<T> y(context_, y0);
    A.apply(alpha, there.read(), beta, y.view());
    return y.fetch();
  }

  template <class T>
  void same_bits() const {
    const CsrMatrix<T> csr = with_values<T>(mixed(), 3);
    const std::vector<T> x = rounded<T>(csr.cols(), 4), y0 = rounded<T>(csr.rows(), 5);
    std::vector<std::vector<T>> of_blocking;
    for (const char* W : {"2", "8", "32"})
      for (const char* blocking : blockings) {
        std::vector<T> first;
        for (const char* columns : {"raw", "delta16", "auto"})
          for (const char* unroll : {"1", "2", "4"}) {
            const auto A = adell_plus(
                context_, csr, {{"W", W}, {"blocking", blocking}, {"columns", columns}, {"unroll", unroll}});
            const std::vector<T> y = product(*A, T(-0.7), x, T(1.3), y0);
            if (first.empty()) first = y;
            EXPECT_EQ(y, first) << W << " " << blocking << " " << columns << " " << unroll;
            EXPECT_TRUE(product_is_right(csr, T(-0.7), x, T(1.3), y0, y));
          }
        of_blocking.push_back(first);
      }
    // Otherwise the comparison above could see nothing.
    EXPECT_NE(of_blocking[0], of_blocking[1]);
    EXPECT_NE(of_blocking[0], of_blocking[2]);
  }

  ContextPtr context_;
};

TEST_P(LaneOptions, OfColumnsAndUnrollGiveTheSameBits) {
  same_bits<double>();
  same_bits<float>();
}

TEST_P(LaneOptions, OfTheLayoutAreThoseWithTheFewestBytes) {
  const ContextPtr host = test_context();
  const std::pair<const char*, CsrMatrix<double>> matrices[] = {
      {"1x1", generate(host, "poisson-3d", {{"n", 12}})},
      {"1x2", clspmv_c()},
      {"2x1", generate(host, "banded", {{"n", 3000}, {"lower", 10}, {"upper", 10}})},
      {nullptr, t8()},
      {nullptr, mixed()},
      {nullptr, generate(host, "elasticity-3d", {{"n", 6}})},
      {nullptr, generate(host, "banded", {{"n", 500}, {"lower", 0}, {"upper", 0}})}};
  const FormatEntry& format = find_format("adell-plus");
  std::set<std::string> found;
  for (const auto& [expected, csr] : matrices)
    for (const std::size_t value_bytes : {4u, 8u}) {
      const CsrMatrix<double> source = placed(context_, csr);
      const auto bytes = [&](const char* blocking, const char* columns) {
        return admit(format, *context_, source.pattern,
                     {{"blocking", blocking}, {"columns", columns}, {"max_fill", "1000000"}}, value_bytes)
            .bytes;
      };
      std::size_t least = bytes("1x1", "raw");
      for (const char* blocking : blockings)
        for (const char* columns : {"raw", "delta16"}) {
          least = std::min(least, bytes(blocking, columns));
          EXPECT_EQ(bytes(blocking, "auto"), std::min(bytes(blocking, "raw"), bytes(blocking, "delta16")));
        }
      EXPECT_EQ(bytes("auto", "auto"), least);
      if (value_bytes == 4) continue;
      const auto A = adell_plus(context_, csr);
      EXPECT_EQ(A->bytes(), least);
      const Tuning tuning = tuning_of(*A);
      if (expected) { EXPECT_EQ(choice(tuning, "blocking"), std::string(expected) + " by bytes"); }
      const std::string columns = choice(tuning, "columns");
      EXPECT_TRUE(columns == "raw by bytes" || columns == "delta16 by bytes") << columns;
      found.insert(choice(tuning, "blocking")), found.insert(columns);
    }
  EXPECT_EQ(found.size(), 5u) << "each layout is chosen for one of the matrices";
}

TEST_P(LaneOptions, AreRefusedWhereKeysOfBlocksDoNotFit) {
  constexpr std::int32_t most = 1 << 29;
  for (const std::int32_t cols : {most, most + 1}) {
    const auto csr = csr_from_triplets<double>(
        test_context(), 3, cols,
        std::vector<Triplet<double>>{
            {0, 0, 1.0}, {0, cols - 2, 2.0}, {0, cols - 1, 3.0}, {2, cols - 1, 4.0}});
    for (const char* blocking : {"auto", "1x1", "1x2", "2x1"}) {
      const bool refused = cols > most && std::string_view(blocking).find('2') != std::string_view::npos;
      try {
        const auto A = adell_plus(context_, csr, {{"W", "2"}, {"blocking", blocking}});
        EXPECT_FALSE(refused) << blocking;
        EXPECT_TRUE(identical(fetched(context_, A->to_csr()), csr)) << blocking << " " << cols;
      } catch (const FormatRefused& error) {
        EXPECT_TRUE(refused) << error.what();
        EXPECT_NE(error.reason().find("set blocking to 1x1 or auto"), std::string::npos) << error.reason();
      }
    }
  }
}

TEST_P(LaneOptions, AreTriedInTheFirstProductsAndRecorded) {
  const CsrMatrix<double> csr = with_values<double>(mixed(), 3);
  const std::vector<double> x = rounded<double>(csr.cols(), 4), y0 = rounded<double>(csr.rows(), 5);
  const auto A = adell_plus(context_, csr);
  const bool device = GetParam() == Space::device;
  const std::vector<double> first = product(*A, 1.0, x, 0.0, y0);
  for (int products = 1; products < 12; ++products) {
    EXPECT_FALSE(tuning_of(*A).settled) << products;
    EXPECT_EQ(A->recording().allowed, !device);
    EXPECT_EQ(product(*A, 1.0, x, 0.0, y0), first) << products;
  }
  // A device reads the time of the last trial in the product that follows.
  if (device) { EXPECT_EQ(product(*A, 1.0, x, 0.0, y0), first); }
  const Tuning tuning = tuning_of(*A);
  EXPECT_TRUE(tuning.settled);
  EXPECT_TRUE(A->recording().allowed);
  EXPECT_EQ(tuning.measurements, 12);
  const std::string unroll = choice(tuning, "unroll");
  EXPECT_TRUE(unroll == "1 by time" || unroll == "2 by time" || unroll == "4 by time") << unroll;
  const std::uint64_t version = A->recording().version;
  EXPECT_EQ(product(*A, 1.0, x, 0.0, y0), first);
  EXPECT_EQ(A->recording().version, version);
  EXPECT_EQ(tuning_of(*A).choices, tuning.choices);
}

TEST_P(LaneOptions, ThatAreAskedForAreNotTried) {
  const CsrMatrix<double> csr = with_values<double>(t8(), 3);
  const auto A = adell_plus(context_, csr, {{"blocking", "2x1"}, {"columns", "raw"}, {"unroll", "2"}});
  EXPECT_TRUE(A->recording().allowed);
  product(*A, 1.0, rounded<double>(8, 1), 0.0, rounded<double>(8, 2));
  const Tuning tuning = tuning_of(*A);
  EXPECT_TRUE(tuning.settled);
  EXPECT_EQ(tuning.measurements, 0);
  EXPECT_EQ(tuning.choices,
            (std::vector<Tuning::Choice>{
                {"blocking", "2x1", "asked"}, {"columns", "raw", "asked"}, {"unroll", "2", "asked"}}));
}

TEST(LaneOptionsInDeterministicMode, AreNotTried) {
  for (const bool device : {false, true}) {
    if (device && Context::device_count() == 0) continue;
    const ContextPtr context =
        device ? Context::device(0, {.deterministic = true}) : Context::host(2, {.deterministic = true});
    const CsrMatrix<double> csr = with_values<double>(t8(), 3);
    const auto A = adell_plus(context, csr);
    EXPECT_TRUE(A->recording().allowed);
    const Placed<double> x(context, rounded<double>(8, 1));
    Placed<double> y(context, rounded<double>(8, 2));
    A->apply(x.read(), y.view());
    EXPECT_EQ(tuning_of(*A).measurements, 0);
    // The product of deterministic mode on a host has no such loop.
    EXPECT_EQ(choice(tuning_of(*A), "unroll"), device ? "1 by fixed" : "none");
  }
}

// Whatever a matrix has done before, it gives the bits of a new one with one fixed option.
TEST_P(LaneOptions, DoNotDependOnWhatWasComputedBefore) {
  const CsrMatrix<double> pattern = mixed();
  std::mt19937 numbers(17);
  for (const char* blocking : {"auto", "1x1", "1x2", "2x1"}) {
    SCOPED_TRACE(blocking);
    CsrMatrix<double> csr = with_values<double>(pattern, 1);
    const auto A = adell_plus(context_, csr, {{"blocking", blocking}});
    for (int step = 0; step < 40; ++step) {
      const unsigned seed = static_cast<unsigned>(numbers());
      switch (numbers() % 5) {
        case 0:
          csr = with_values<double>(pattern, seed);
          A->update_values(placed(context_, csr));
          break;
        case 1:
          EXPECT_TRUE(identical(fetched(context_, A->to_csr()), csr));
          break;
        case 2: {
          std::vector<double> expected(static_cast<std::size_t>(std::min(csr.rows(), csr.cols())));
          extract_diagonal(*test_context(), csr, expected.data());
          Placed<double> found(context_, std::vector<double>(expected.size(), -1.0));
          A->diagonal(found.view());
          EXPECT_EQ(found.fetch(), expected);
          break;
        }
        default: {
          const std::vector<double> x = rounded<double>(csr.cols(), seed),
                                    y0 = rounded<double>(csr.rows(), seed + 1);
          const double beta = seed % 2 == 0 ? 0.0 : 0.3;
          const auto fresh = adell_plus(context_, csr, {{"blocking", blocking}, {"unroll", "1"}});
          EXPECT_EQ(product(*A, -1.1, x, beta, y0), product(*fresh, -1.1, x, beta, y0)) << "step " << step;
        }
      }
    }
    EXPECT_TRUE(tuning_of(*A).settled);
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, LaneOptions, testing::Values(Space::host, Space::device),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

TEST(LaneOptionsOfThreads, AreTriedByOneAtATime) {
  const CsrMatrix<double> csr = with_values<double>(mixed(), 3);
  const std::vector<double> x = rounded<double>(csr.cols(), 4);
  const auto A = adell_plus(test_context(), csr);
  const auto reference = adell_plus(test_context(), csr, {{"unroll", "2"}});
  std::vector<double> expected(static_cast<std::size_t>(csr.rows()));
  reference->apply({x.data(), csr.cols()}, {expected.data(), csr.rows()});
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      std::vector<double> y(static_cast<std::size_t>(csr.rows()));
      for (int i = 0; i < 20; ++i) {
        A->apply({x.data(), csr.cols()}, {y.data(), csr.rows()});
        wrong[t] += y != expected;
        wrong[t] += tuning_of(*A).measurements > 12;
      }
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
  EXPECT_TRUE(tuning_of(*A).settled);
}

TEST(LaneOptionsOnADevice, ASolveGoesOnThroughTheTrialsAndIsRecordedThen) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  const CsrMatrix<double> csr = upload(context, generate(test_context(), "poisson-3d", {{"n", 30}}));
  Vector<double> b(context, csr.rows()), x(context, csr.rows());
  fill<double>(*context, 1.0, b);
  std::vector<double> solutions[2];
  std::int64_t iterations[2];
  for (const bool tuned : {false, true}) {
    FormatParams params;
    if (!tuned) params.set("unroll", "1");
    const auto A = make_matrix(find_format("adell-plus"), csr, context, params);
    fill<double>(*context, 0.0, x);
    SolverOptions options;
    options.stopping.relative_tolerance = 1e-10;
    options.device_steps = "graph";
    const SolveReport report = make_solver<double>("cg", options)->solve(*A, b, x);
    EXPECT_TRUE(report.converged());
    EXPECT_TRUE(A->recording().allowed);
    EXPECT_GE(report.graphs_recorded, 1);
    EXPECT_EQ(tuning_of(*A).measurements, tuned ? 12 : 0);
    iterations[tuned] = report.iterations;
    solutions[tuned].resize(static_cast<std::size_t>(csr.rows()));
    copy<double>(*context, x.view(), {solutions[tuned].data(), csr.rows()});
  }
  EXPECT_EQ(iterations[1], iterations[0]);
  EXPECT_EQ(solutions[1], solutions[0]) << "the products of all trials have the same bits";
}

}  // namespace
}  // namespace protean::test

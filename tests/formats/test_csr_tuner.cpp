// Reguly and Giles' rule and run-time tuner for CSR on a GPU, on made-up and recorded times: no GPU needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

#include "formats/row/csr_tuner.hpp"

namespace protean::formats {
namespace {

std::int64_t blocks(const CsrLaunch& l, std::int64_t rows) {
  const std::int64_t per = std::int64_t{l.block} / l.coop * l.repeat;
  return (rows + per - 1) / per;
}

TEST(CsrFixedRule, IsThatOfThePaper) {
  // coop is the smallest power of two above the square root of the mean row length, at most a warp.
  const struct {
    std::int64_t rows, nonzeros;
    int coop;
  } cases[] = {{1270432, 8814880, 4},  // atmosmodd, sqrt(6.9) = 2.6
               {1505785, 27130349, 8}, {62451, 4007383, 16},  {81920, 327680, 4},  // shallow_water1: above 2
               {1000005, 3105536, 2},  {72000, 28715634, 32}, {1000, 100, 1},     {10, 10000000, 32}};
  for (const auto& c : cases) {
    const CsrLaunch launch = fixed_rule(c.rows, c.nonzeros);
    EXPECT_EQ(launch.block, 128);
    EXPECT_EQ(launch.coop, c.coop) << c.rows;
    if (launch.repeat > 1) { EXPECT_GE(blocks(launch, c.rows), 1500) << c.rows; }
    CsrLaunch more = launch;
    ++more.repeat;
    EXPECT_LT(blocks(more, c.rows), 1500) << "repeat is the largest there is for " << c.rows;
  }
  EXPECT_EQ(fixed_rule(0, 0), (CsrLaunch{1, 1, 128}));
}

// The launches tried, in order, when a product takes seconds(launch).
std::vector<CsrLaunch> tried(CsrTuner& tuner, const std::function<double(const CsrLaunch&)>& seconds) {
  std::vector<CsrLaunch> all;
  while (!tuner.done()) {
    if (all.size() > 100) throw std::runtime_error("the tuner does not end");
    all.push_back(tuner.next());
    tuner.measured(seconds(tuner.next()));
  }
  EXPECT_EQ(tuner.measurements(), static_cast<int>(all.size()));
  EXPECT_EQ(tuner.next(), tuner.best());
  return all;
}

// The times of these launches in the order of the paper's steps, and what must have been tried then.
void expect_steps(const CsrLaunch& start, std::size_t value_bytes, const std::vector<double>& recorded,
                  const std::vector<CsrLaunch>& steps, const CsrLaunch& best) {
  CsrTuner tuner(start, value_bytes);
  ASSERT_EQ(recorded.size(), steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    ASSERT_FALSE(tuner.done()) << "after " << i;
    EXPECT_EQ(tuner.next(), steps[i]) << "step " << i << ": coop " << tuner.next().coop << " repeat "
                                      << tuner.next().repeat << " block " << tuner.next().block;
    tuner.measured(recorded[i]);
  }
  EXPECT_TRUE(tuner.done());
  EXPECT_EQ(tuner.best(), best);
}

TEST(CsrTuner, HalvingRepeatHelpsAndIsGoneOnWith) {
  expect_steps({4, 8, 128}, 8, {100, 90, 85, 86, 84, 88},
               {{4, 8, 128}, {4, 4, 128}, {4, 2, 128}, {4, 1, 128}, {4, 2, 160}, {4, 2, 192}}, {4, 2, 160});
}

TEST(CsrTuner, HalvingRepeatHurtsAndItIsDoubled) {
  expect_steps({4, 8, 128}, 8, {100, 120, 95, 90, 99, 97, 80, 70},
               {{4, 8, 128},
                {4, 4, 128},
                {4, 16, 128},
                {4, 32, 128},
                {4, 64, 128},
                {4, 32, 160},
                {4, 32, 96},
                {4, 32, 64}},
               {4, 32, 64});
}

TEST(CsrTuner, ASmallChangeLeadsToCoop) {
  // Doubling coop pays twice. Blocks of 192 are kept; wider ones do not pay, a narrower one does once.
  expect_steps({4, 8, 128}, 8, {100, 98, 80, 70, 75, 71, 69, 72},
               {{4, 8, 128},
                {4, 4, 128},
                {8, 4, 192},
                {16, 4, 192},
                {32, 4, 192},
                {16, 4, 224},
                {16, 4, 160},
                {16, 4, 128}},
               {16, 4, 160});
  // Doubling does not pay, halving does.
  expect_steps({4, 8, 128}, 8, {100, 101, 130, 90, 95, 91, 96},
               {{4, 8, 128}, {4, 4, 128}, {8, 8, 192}, {2, 8, 192}, {1, 8, 192}, {2, 8, 224}, {2, 8, 160}},
               {2, 8, 192});
}

TEST(CsrTuner, ExactlyFivePercentIsNoNotableChange) {
  CsrTuner tuner({4, 8, 128}, 8);
  tuner.measured(100);
  tuner.measured(105);
  EXPECT_EQ(tuner.next(), (CsrLaunch{8, 8, 192}));
}

TEST(CsrTuner, RepeatOfOneCannotBeHalved) {
  CsrTuner tuner({32, 1, 128}, 8);
  tuner.measured(1.0);
  EXPECT_EQ(tuner.next(), (CsrLaunch{16, 1, 192})) << "nor coop of a warp doubled";
}

TEST(CsrTuner, StaysWithinItsLimits) {
  for (const std::size_t value_bytes : {std::size_t{4}, std::size_t{8}})
    for (const int wanted : {32, 1024}) {
      CsrTuner tuner({1, 1, 128}, value_bytes);
      // A block is faster the nearer it is to `wanted` threads, and the fewer threads a row has.
      for (const CsrLaunch& launch : tried(tuner, [&](const CsrLaunch& l) {
             return 1000 + std::abs(l.block - wanted) + 1e-3 * l.coop;
           })) {
        EXPECT_GE(launch.coop, 1);
        EXPECT_LE(launch.coop, 32);
        EXPECT_GE(launch.repeat, 1);
        EXPECT_LE(launch.block, 512);
        EXPECT_GE(launch.block, value_bytes == 4 ? 96 : 64);
      }
      EXPECT_EQ(tuner.best().block, wanted > 512 ? 512 : value_bytes == 4 ? 96 : 64);
    }
}

// Times of a smooth model that has a best launch. The tuner ends, and never with a worse launch than its
// first.
TEST(CsrTuner, EndsSoonAndNeverWorseThanTheRule) {
  for (int coop = 0; coop <= 5; ++coop)
    for (int repeat = 0; repeat <= 6; ++repeat)
      for (int block = 64; block <= 512; block += 64) {
        const auto seconds = [&](const CsrLaunch& l) {
          return 1 + 0.2 * std::pow(std::log2(l.coop) - coop, 2) +
                 0.05 * std::pow(std::log2(l.repeat) - repeat, 2) + 1e-6 * std::pow(l.block - block, 2);
        };
        const CsrLaunch start{8, 8, 128};
        CsrTuner tuner(start, 8);
        EXPECT_LE(tried(tuner, seconds).size(), 25U);
        EXPECT_LE(seconds(tuner.best()), seconds(start));
      }
}

TEST(CsrSweep, TriesAllThreadsARowInAllBlocksAndKeepsTheFastest) {
  const auto searched = [](const CsrLaunch& fastest) {
    CsrSweep sweep;
    std::vector<CsrLaunch> tried;
    while (!sweep.done()) {
      tried.push_back(sweep.next());
      // Loading a kernel takes long, and its first product is not counted. But were it fast, it would not count either.
      const bool load = tried.size() <= 6;
      sweep.measured(load                      ? (tried.size() == 3 ? 0.5 : 1000)
                     : sweep.next() == fastest ? 1
                                               : 2 + tried.size());
    }
    EXPECT_EQ(sweep.measurements(), 30);
    EXPECT_EQ(sweep.next(), sweep.best());
    for (int coop = 1; coop <= 32; coop *= 2)
      for (int block : {64, 128, 256, 512})
        EXPECT_EQ(std::count(tried.begin(), tried.end(), (CsrLaunch{coop, 1, block})), block == 64 ? 2 : 1);
    sweep.measured(0.1);
    return sweep.best();
  };
  for (const CsrLaunch& fastest : {CsrLaunch{1, 1, 64}, CsrLaunch{8, 1, 256}, CsrLaunch{32, 1, 512}})
    EXPECT_EQ(searched(fastest), fastest) << "another matrix, another launch";
}

TEST(CsrLaunch, BlocksThatCoverAllRows) {
  EXPECT_EQ(blocks_of_launch({1, 1, 128}, 128), 1);
  EXPECT_EQ(blocks_of_launch({1, 1, 128}, 129), 2);
  EXPECT_EQ(blocks_of_launch({32, 1, 128}, 129), 33) << "ceil(rows T / block)";
  EXPECT_EQ(blocks_of_launch({32, 4, 128}, 129), 9);
  EXPECT_EQ(blocks_of_launch({8, 1, 64}, 0), 0);
}

}  // namespace
}  // namespace protean::formats

// The forecast of remaining iterations, on made-up residuals and on recorded solves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "operators/policy/forecast.hpp"
#include "traces.hpp"

namespace protean::test {
namespace {

constexpr std::int64_t no_limit = 1'000'000'000;

ResidualForecast fed(std::int64_t iterations, double (*residual)(std::int64_t)) {
  ResidualForecast forecast;
  for (std::int64_t k = 0; k <= iterations; ++k) forecast.add(k, residual(k));
  return forecast;
}

TEST(ResidualForecast, KnowsNothingAtFirst) {
  ResidualForecast forecast;
  EXPECT_FALSE(forecast.remaining(1e-8, no_limit).known);
  for (std::int64_t k = 0; k < 8; ++k) {
    forecast.add(k, std::pow(0.5, k));
    const Forecast now = forecast.remaining(1e-8, no_limit);
    EXPECT_FALSE(now.known) << "after iteration " << k;
    EXPECT_EQ(now.low, 0);
    EXPECT_TRUE(std::isinf(now.high));
  }
}

TEST(ResidualForecast, IsExactForAGeometricSequence) {
  const auto forecast =
      fed(100, [](std::int64_t k) { return std::pow(10.0, -0.02 * static_cast<double>(k)); });
  const Forecast now = forecast.remaining(1e-8, no_limit);  // 400 iterations in all
  ASSERT_TRUE(now.known);
  EXPECT_NEAR(now.likely, 300, 1e-6);
  EXPECT_NEAR(now.low, 150, 1e-6);
  EXPECT_NEAR(now.high, 1200, 1e-5);
}

TEST(ResidualForecast, WigglesAndOutliersDoNotMoveIt) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 0.8);
  ResidualForecast forecast;
  for (std::int64_t k = 0; k <= 400; ++k) {
    double log10 = -0.01 * static_cast<double>(k) + 0.3 * noise(random);
    if (k % 57 == 0) log10 += 5;  // a spike, as BiCGStab has them
    forecast.add(k, std::pow(10.0, log10));
  }
  const Forecast now = forecast.remaining(1e-8, no_limit);
  ASSERT_TRUE(now.known);
  EXPECT_GT(now.likely, 260);
  EXPECT_LT(now.likely, 540);
  EXPECT_LT(now.low, 400);
  EXPECT_GT(now.high, 400);
}

TEST(ResidualForecast, APlateauIsUnknown) {
  const auto forecast = fed(200, [](std::int64_t) { return 0.5; });
  const Forecast now = forecast.remaining(1e-8, no_limit);
  EXPECT_FALSE(now.known);
  EXPECT_TRUE(std::isinf(now.high));
  EXPECT_EQ(now.likely, 0);
}

TEST(ResidualForecast, AResidualThatGrowsIsUnknown) {
  const auto forecast = fed(200, [](std::int64_t k) { return std::pow(1.01, k); });
  EXPECT_FALSE(forecast.remaining(1e-8, no_limit).known);
}

TEST(ResidualForecast, AGoalOfZeroIsNeverReached) {
  const auto forecast = fed(50, [](std::int64_t k) { return std::pow(0.9, k); });
  EXPECT_FALSE(forecast.remaining(0, no_limit).known);
}

TEST(ResidualForecast, NothingRemainsBelowTheGoal) {
  const auto forecast = fed(50, [](std::int64_t k) { return std::pow(0.5, k); });
  const Forecast now = forecast.remaining(1e-8, no_limit);
  EXPECT_TRUE(now.known);
  EXPECT_EQ(now.high, 0);
}

TEST(ResidualForecast, ItLooksAtTheEndOfTheRunNotAtItsBeginning) {
  // Fast for 20 iterations, then slow: 0.001 per iteration.
  const auto forecast = fed(400, [](std::int64_t k) {
    const auto x = static_cast<double>(k);
    return std::pow(10.0, -0.2 * std::min(x, 20.0) - 0.001 * std::max(x - 20, 0.0));
  });
  const Forecast now = forecast.remaining(1e-6, no_limit);  // 4.38 have been done, 1.62 to go
  ASSERT_TRUE(now.known);
  EXPECT_NEAR(now.likely, 1620, 20);
}

TEST(ResidualForecast, NeverMoreThanTheIterationsAllowed) {
  const auto forecast = fed(100, [](std::int64_t k) { return std::pow(0.999, k); });
  const Forecast now = forecast.remaining(1e-12, 150);
  EXPECT_LE(now.low, 50);
  EXPECT_LE(now.likely, 50);
  EXPECT_LE(now.high, 50);
}

// `low` is half of the smallest estimate, and never more than one and a half times what has been done.
TEST(ResidualForecast, TheLowForecastOfALongSolveIsThatOfWhatHasBeenDone) {
  for (const std::int64_t done : {40, 100, 1000}) {
    ResidualForecast forecast;
    for (std::int64_t k = 0; k <= done; ++k) forecast.add(k, std::pow(0.9999, k));
    EXPECT_NEAR(forecast.remaining(1e-12, no_limit).low, 1.5 * static_cast<double>(done), 1e-9);
    // A goal so near that half of what remains is less: 50 iterations remain.
    const double near = std::pow(0.9999, done + 50);
    EXPECT_NEAR(forecast.remaining(near, no_limit).low, 25, 1e-6);
  }
  // A solve that began at a later iteration has done less.
  ResidualForecast later;
  for (std::int64_t k = 500; k <= 600; ++k) later.add(k, std::pow(0.9999, k));
  EXPECT_NEAR(later.remaining(1e-12, no_limit).low, 150, 1e-9);
}

// Long runs keep means of several iterations; the last ones may not fill one yet, and count all the same.
TEST(ResidualForecast, OfALongRunTheLastIterationCounts) {
  for (const std::int64_t last : {3001, 3002, 6001, 6002, 6003}) {
    ResidualForecast forecast;
    for (std::int64_t k = 0; k <= last; ++k) forecast.add(k, k == last ? 1e-9 : std::pow(0.9999, k));
    const Forecast now = forecast.remaining(1e-8, no_limit);
    EXPECT_TRUE(now.known) << last;
    EXPECT_EQ(now.high, 0) << last;
  }
}

TEST(ResidualForecast, ResidualsThatAreNoNumbersArePassedOver) {
  ResidualForecast forecast;
  for (std::int64_t k = 0; k <= 100; ++k)
    forecast.add(k, k % 3 == 1 ? std::numeric_limits<double>::quiet_NaN()
                               : (k % 3 == 2 ? 0 : std::pow(10.0, -0.02 * static_cast<double>(k))));
  const Forecast now = forecast.remaining(1e-8, no_limit);
  ASSERT_TRUE(now.known);
  EXPECT_NEAR(now.likely, 300, 10);
}

TEST(ResidualForecast, LongRunsAreThinnedOutWithoutChangingTheAnswer) {
  const auto forecast =
      fed(100'000, [](std::int64_t k) { return std::pow(10.0, -1e-4 * static_cast<double>(k)); });
  const Forecast now = forecast.remaining(1e-20, no_limit);  // 200'000 in all
  ASSERT_TRUE(now.known);
  EXPECT_NEAR(now.likely, 100'000, 1000);
}

// The error of the forecast at a fraction of recorded solves (each trace to several goals).
struct Trust {
  int runs = 0, known = 0, low_too_high = 0, high_too_low = 0;
  std::vector<double> ratio;  // likely / truth, if known
  double quantile(double q) {
    std::sort(ratio.begin(), ratio.end());
    return ratio[static_cast<std::size_t>(q * static_cast<double>(ratio.size() - 1))];
  }
};

Trust trust_at(double share) {
  Trust trust;
  for (const Trace& trace : read_traces())
    for (const double goal : {1e-4, 1e-6, 1e-8, 1e-10, 1e-12}) {
      const std::int64_t end = trace.reaches(goal);
      if (end < 40) continue;
      const auto at = std::max<std::int64_t>(10, static_cast<std::int64_t>(share * static_cast<double>(end)));
      ResidualForecast forecast;
      for (std::int64_t k = 0; k <= at; ++k) forecast.add(k, trace.residual[static_cast<std::size_t>(k)]);
      const Forecast now = forecast.remaining(goal, no_limit);
      const auto truth = static_cast<double>(end - at);
      ++trust.runs;
      if (now.low > truth) ++trust.low_too_high;
      if (!now.known) continue;
      ++trust.known;
      if (now.high < truth) ++trust.high_too_low;
      trust.ratio.push_back(now.likely / truth);
    }
  return trust;
}

// After a tenth of the iterations, many solves have shown only their fast beginning. The forecast is then too
// small, for the middle 80 % of the solves by at most a factor of five. `low` holds in every solve.
TEST(ResidualForecast, RecordedSolvesAtTenPercent) {
  Trust trust = trust_at(0.1);
  ASSERT_GE(trust.runs, 70);
  EXPECT_EQ(trust.low_too_high, 0);
  EXPECT_LE(trust.high_too_low, trust.runs / 4);
  EXPECT_GE(trust.known, trust.runs * 9 / 10);
  EXPECT_GT(trust.quantile(0.1), 0.2);
  EXPECT_LT(trust.quantile(0.9), 4);
}

TEST(ResidualForecast, RecordedSolvesAtAQuarter) {
  Trust trust = trust_at(0.25);
  EXPECT_EQ(trust.low_too_high, 0);
  EXPECT_EQ(trust.high_too_low, 0);
  EXPECT_GT(trust.quantile(0.1), 0.33);
  EXPECT_LT(trust.quantile(0.9), 3);
  EXPECT_GT(trust.quantile(0.5), 0.7);
  EXPECT_LT(trust.quantile(0.5), 1.4);
}

// After half of the iterations `low` is too high in one of seven solves, by at most a factor of 1.5.
TEST(ResidualForecast, RecordedSolvesAtHalf) {
  Trust trust = trust_at(0.5);
  EXPECT_LE(trust.low_too_high, trust.runs / 7);
  EXPECT_EQ(trust.high_too_low, 0);
  EXPECT_GT(trust.quantile(0.1), 0.5);
  EXPECT_LT(trust.quantile(0.9), 4);
  EXPECT_GT(trust.quantile(0.5), 0.8);
  EXPECT_LT(trust.quantile(0.5), 1.3);
}

// Near the end superlinear convergence can make even `low` too high, in one of five solves. This is why the
// policy limits changes on the forecast by a second bound.
TEST(ResidualForecast, RecordedSolvesAtThreeQuarters) {
  Trust trust = trust_at(0.75);
  EXPECT_LE(trust.low_too_high, trust.runs / 5);
  EXPECT_EQ(trust.high_too_low, 0);
  EXPECT_GT(trust.quantile(0.1), 0.5);
  EXPECT_LT(trust.quantile(0.9), 5);
}

// A residual that falls slowly promises thousands of iterations; the low forecast does not believe more than
// half as many again as have been seen.
TEST(ResidualForecast, TheLowOneIsBoundedByHowLongTheSolveHasLasted) {
  ResidualForecast forecast;
  for (std::int64_t k = 0; k <= 40; ++k) forecast.add(k, std::pow(0.999, static_cast<double>(k)));
  const Forecast now = forecast.remaining(1e-8, 1'000'000);
  ASSERT_TRUE(now.known);
  EXPECT_GT(now.likely, 10000);
  EXPECT_LE(now.low, 60);
}

}  // namespace
}  // namespace protean::test

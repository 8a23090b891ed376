// Small rules of the forecast.
#include <gtest/gtest.h>

#include <cmath>

#include "operators/policy/forecast.hpp"

namespace protean::test {
namespace {

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

// What the tests of operations on several vectors share.
#pragma once
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "support/multi.hpp"

namespace protean::test {

inline constexpr MultiShape interleaved{VectorLayout::interleaved, 0};

class MultiBlas1 : public testing::TestWithParam<Space> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam());
    if (!context_) GTEST_SKIP() << no_device;
  }
  ContextPtr context_;
};

// Sizes around the chunks of sums (1024 rows), and widths around the widths of registers.
inline const std::vector<std::int64_t> sizes = {0, 1, 2, 77, 1023, 1024, 1025, 5000};

inline const std::vector<std::int64_t> widths = {1, 2, 3, 4, 8, 12, 17};

// Vector `dead` does not run.
template <class T>
std::vector<T> all_but(std::int64_t w, std::int64_t dead) {
  std::vector<T> running(static_cast<std::size_t>(w), T(1));
  if (dead < w) running[static_cast<std::size_t>(dead)] = 0;
  return running;
}

template <class T>
testing::AssertionResult near(T found, long double expected, long double magnitude, std::int64_t n) {
  const long double bound =
      2 * static_cast<long double>(n + 4) * std::numeric_limits<T>::epsilon() * magnitude;
  if (std::fabs(static_cast<long double>(found) - expected) <= bound) return testing::AssertionSuccess();
  return testing::AssertionFailure() << found << " instead of " << static_cast<double>(expected);
}

}  // namespace protean::test

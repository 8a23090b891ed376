// Vectors that look random: the same numbers in every space, wherever a vector begins.
#include "solvers/hashed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

template <class T>
void expect_hashed(const ContextPtr& context, std::uint64_t first, std::int64_t n) {
  Placed<T> v(context, std::vector<T>(static_cast<std::size_t>(n) + 2, std::numeric_limits<T>::quiet_NaN()));
  detail::fill_hashed<T>(*context, first, VectorView<T>{v.data() + 1, n, context->space()});
  const std::vector<T> got = v.fetch();
  EXPECT_TRUE(std::isnan(got.front()));
  EXPECT_TRUE(std::isnan(got.back()));
  for (std::int64_t i = 0; i < n; ++i)
    ASSERT_EQ(got[static_cast<std::size_t>(i) + 1],
              static_cast<T>(detail::hashed(first + static_cast<std::uint64_t>(i))))
        << i << " of " << n << " from " << first;
}

void expect_hashed_everywhere(const ContextPtr& context) {
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{3} << 40})
    for (const std::int64_t n : {0, 1, 63, 64, 1025, 100000}) {
      expect_hashed<double>(context, first, n);
      expect_hashed<float>(context, first, n);
    }
}

TEST(Hashed, IsTheSameOnEveryNumberOfThreads) {
  for (const int threads : {1, 2, 5}) expect_hashed_everywhere(Context::host(threads));
}

TEST(Hashed, IsTheSameOnASimulatedDevice) { expect_hashed_everywhere(fake_device_context()); }

TEST(Hashed, IsTheSameOnAGpu) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  expect_hashed_everywhere(context);
}

}  // namespace
}  // namespace protean::test

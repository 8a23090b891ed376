// Contexts: how many threads one may have.
#include "core/context.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.hpp"

namespace protean::test {
namespace {

TEST(Context, NumbersOfThreadsBelowZeroAreRefused) {
  for (const int threads : {-1, 1025, std::numeric_limits<int>::max()})
    EXPECT_THROW((void)Context::host(threads), BadArgument) << threads;
  EXPECT_EQ(Context::host(1024)->threads(), 1024);
  EXPECT_EQ(Context::host(3)->threads(), 3);
  EXPECT_GE(Context::host(0)->threads(), 1);
}

}  // namespace
}  // namespace protean::test

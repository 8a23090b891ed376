// The system that the command solves, and the error of its solution.
#include "apps/problem/system.hpp"

#include "gtest/gtest.h"
#include "support/battery.hpp"

namespace protean::test {
namespace {

TEST(RelativeError, IsRelativeToTheKnownSolution) {
  Vector<double> x(test_context(), 2), exact(test_context(), 2);
  exact[0] = 30, exact[1] = 40, x[0] = 30, x[1] = 45;
  EXPECT_DOUBLE_EQ(apps::relative_error(x, exact), 5.0 / 50);
  exact[0] = exact[1] = 0, x[0] = 3, x[1] = 4;
  EXPECT_DOUBLE_EQ(apps::relative_error(x, exact), 5) << "of a solution that is 0 the error itself";
}

}  // namespace
}  // namespace protean::test

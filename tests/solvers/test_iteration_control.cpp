// When a solve ends: the goal of the recurrence, and how it follows the true residual.
#include "solvers/iteration_control.hpp"

#include <gtest/gtest.h>

namespace protean::test {
namespace {

// b - A x is 1.5 times the residual of the recurrence, which must fall that much below the tolerance, and a tenth more.
TEST(IterationControl, AimsAsMuchLowerAsTheTruthIsHigher) {
  detail::IterationControl control({.relative_tolerance = 1e-3}, 10, 10);
  EXPECT_DOUBLE_EQ(control.goal(), 1e-2);
  control.aim_lower(8e-3, 12e-3);
  EXPECT_DOUBLE_EQ(control.goal(), 0.9 * 8e-3 * (1e-2 / 12e-3));
  control.restart(5, 3);
  EXPECT_DOUBLE_EQ(control.goal(), 1e-2);
}

}  // namespace
}  // namespace protean::test

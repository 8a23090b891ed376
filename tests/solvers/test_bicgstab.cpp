// bicgstab: breakdowns and divergence are named.
#include "gtest/gtest.h"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

TEST(BiCgStab, BreakdownsAreNamed) {
  // r0 . A r0 = 0 for a skew-symmetric matrix.
  Dense skew(2);
  skew(0, 1) = 1, skew(1, 0) = -1;
  const std::vector<double> b = {1, 0};
  std::vector<double> x(2, 0.0);
  auto report = make_solver<double>("bicgstab")->solve(DenseOperator<double>(skew), view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::breakdown);
  EXPECT_NE(report.detail.find("r0 . A M^-1 p = 0"), std::string::npos) << report.detail;
  // A s is orthogonal to s, so omega = 0: A = [1 1; -1 0], b = e1 give v = (1, -1), alpha = 1, s = (0, 1) and
  // t = (1, 0).
  Dense turn(2);
  turn(0, 0) = 1, turn(0, 1) = 1, turn(1, 0) = -1;
  x = {0, 0};
  report = make_solver<double>("bicgstab")->solve(DenseOperator<double>(turn), view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::breakdown);
  EXPECT_NE(report.detail.find("omega = 0"), std::string::npos) << report.detail;
  EXPECT_EQ(report.true_residual, 1) << "x must be the result of the half step";
}

TEST(BiCgStab, DivergenceIsNamed) {
  // Nearly skew-symmetric: the residuals grow far above ||b|| before the method breaks down.
  const std::int64_t n = 40;
  Dense A(n);
  for (std::int64_t i = 0; i < n; ++i) {
    A(i, i) = 1e-3L;
    if (i > 0) A(i, i - 1) = -1, A(i - 1, i) = 1;
  }
  const auto b = right_hand_side<double>(n);
  std::vector<double> x(b.size(), 0.0);
  const auto report = make_solver<double>("bicgstab", {.stopping = {.divergence = 10}})
                          ->solve(DenseOperator<double>(A), view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::divergence) << to_string(report.reason) << " " << report.iterations;
  EXPECT_GT(report.recurrence_relative, 10);
  EXPECT_NE(report.advice.find("Take method gmres, whose residuals do not grow"), std::string::npos)
      << report.advice;
}

}  // namespace
}  // namespace protean::test

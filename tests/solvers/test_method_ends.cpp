// How a solve ends, tested for each method: limits, stops, numbers that are not finite, wrong recurrences.
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "gtest/gtest.h"
#include "solvers/contract.hpp"
#include "solvers/methods_of_contract.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

TEST_P(Methods, WithoutIterationsTheTrueResidualIsReported) {
  const DenseOperator<double> A(matrix());
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 1.0);
  const auto before = x;
  const auto report = make({.max_iterations = 0})->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::max_iterations);
  EXPECT_EQ(report.iterations, 0);
  EXPECT_EQ(x, before);
  EXPECT_NEAR(report.true_residual, static_cast<double>(residual_norm(A.matrix(), b, x)), 1e-12);
  EXPECT_EQ(report.initial_residual, report.true_residual);
}

TEST_P(Methods, IterationLimit) {
  const DenseOperator<double> A(matrix());
  const auto b = right_hand_side<double>(81);
  for (std::int64_t limit : {1, 2, 5}) {
    std::vector<double> x(81, 0.0);
    History history;
    const auto report = make({.max_iterations = limit}, 3)->solve(A, view(b), view(x), nullptr, &history);
    EXPECT_EQ(report.reason, StopReason::max_iterations);
    EXPECT_EQ(report.iterations, limit);
    ASSERT_EQ(history.seen.size(), static_cast<std::size_t>(limit) + 1);
    for (std::int64_t k = 0; k <= limit; ++k) EXPECT_EQ(history.seen[k].iteration, k);
    EXPECT_EQ(history.seen[0].residual, report.initial_residual);
    EXPECT_NEAR(report.true_residual, static_cast<double>(residual_norm(A.matrix(), b, x)), 1e-12);
    EXPECT_NEAR(report.true_residual, report.recurrence_residual, 1e-12) << "x must be the current iterate";
  }
}

TEST_P(Methods, InterruptedGivesTheCurrentIterate) {
  const DenseOperator<double> A(matrix());
  const auto b = right_hand_side<double>(81);
  for (std::int64_t at : {0, 1, 4}) {
    std::vector<double> x(81, 0.0);
    History history;
    history.then = [&](const IterationInfo& info) { return info.iteration < at; };
    const auto report = make()->solve(A, view(b), view(x), nullptr, &history);
    EXPECT_EQ(report.reason, StopReason::interrupted);
    EXPECT_EQ(report.iterations, at);
    EXPECT_NEAR(residual_norm(A.matrix(), b, x), report.recurrence_residual, 1e-12);
    EXPECT_NEAR(report.true_residual, report.recurrence_residual, 1e-12);
    // The residuals of idr grow at times.
    if (at > 0 && !is("idr")) { EXPECT_LT(report.true_residual, report.initial_residual); }
  }
}

// One product takes longer than the limit, so the result does not depend on the speed of the machine.
TEST_P(Methods, TimeLimit) {
  DenseOperator<double> A(matrix());
  A.after = [](std::int64_t product, VectorView<double>) {
    if (product == 5) std::this_thread::sleep_for(std::chrono::milliseconds(350));
  };
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  const auto report = make({.relative_tolerance = 1e-14, .max_seconds = 0.3})->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::time_limit);
  EXPECT_GE(report.seconds, 0.3);
  if (A.products() >= 5) { EXPECT_GT(report.iterations, 0) << "the machine itself paused before"; }
}

TEST_P(Methods, AbsoluteToleranceAndBaselines) {
  const DenseOperator<double> A(matrix());
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  auto report = make({.relative_tolerance = 0, .absolute_tolerance = 1e-5})->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::absolute_tolerance);
  EXPECT_LE(report.true_residual, 1e-5);
  EXPECT_GT(report.true_residual, 1e-9) << "the solve should have ended earlier";
  // The guess is so far away that the tolerance, relative to the initial residual, allows a residual above
  // 1e-4 ||b||.
  std::vector<double> far(81, 1e6);
  report = make({.relative_tolerance = 1e-6, .baseline = Baseline::initial_residual})
               ->solve(A, view(b), view(far));
  EXPECT_EQ(report.reason, StopReason::relative_tolerance);
  EXPECT_LE(report.true_residual, 1e-6 * report.initial_residual);
  EXPECT_NEAR(report.true_relative, report.true_residual / report.initial_residual, 1e-15);
  EXPECT_GT(report.true_residual, 1e-4 * report.rhs_norm);
}

TEST_P(Methods, NotFiniteInput) {
  const DenseOperator<double> A(matrix());
  const auto b = right_hand_side<double>(81);
  for (double bad : {nan, infinity}) {
    auto c = b;
    std::vector<double> x(81, 0.0);
    c[17] = bad;
    const auto report = make()->solve(A, view(c), view(x));
    EXPECT_EQ(report.reason, StopReason::not_finite);
    EXPECT_EQ(report.iterations, 0);
    EXPECT_FALSE(report.detail.empty());
    std::vector<double> guess(81, 0.0);
    guess[80] = bad;
    EXPECT_THROW((void)make()->solve(A, view(b), view(guess)), BadArgument);
  }
  Dense broken = matrix();
  broken(3, 3) = nan;
  std::vector<double> x(81, 0.0);
  EXPECT_EQ(make()->solve(DenseOperator<double>(broken), view(b), view(x)).reason, StopReason::not_finite);
}

TEST_P(Methods, NotFiniteOnTheWay) {
  DenseOperator<double> A(matrix());
  A.after = [](std::int64_t product, VectorView<double> y) {
    if (product == 6) y[5] = nan;
  };
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  const auto report = make()->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::not_finite);
  EXPECT_GT(report.iterations, 0);
  EXPECT_LE(report.iterations, 6);
  // These methods have not used the bad product in x, so x is a good iterate.
  if (is("cg") || is("fcg") || is("gmres") || is("fgmres")) {
    EXPECT_LT(report.true_residual, report.initial_residual);
  }
}

TEST_P(Methods, TheTrueResidualIsComputed) {
  // Products are right until the recurrence has converged, then wrong by a known amount. Only the computation
  // of b - A x finds that.
  DenseOperator<double> A(matrix());
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  const auto right = make()->solve(A, view(b), view(x));
  const std::int64_t products = A.products();
  DenseOperator<double> wrong(matrix());
  wrong.after = [=](std::int64_t product, VectorView<double> y) {
    if (product >= products) y[0] += 1;
  };
  std::fill(x.begin(), x.end(), 0.0);
  const auto report = make({.max_iterations = right.iterations})->solve(wrong, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::max_iterations);
  EXPECT_NEAR(report.true_residual, 1, 1e-6);
  EXPECT_LE(report.recurrence_relative, 1e-8);
}

TEST_P(Methods, AWrongRecurrenceIsRestartedFromTheTrueResidual) {
  // One product is slightly wrong, which does not show in the recurrence.
  DenseOperator<double> A(matrix());
  A.after = [](std::int64_t product, VectorView<double> y) {
    if (product == 4)
      for (std::int64_t i = 0; i < y.size; ++i) y[i] *= 1 + 1e-3 * static_cast<double>(i % 3);
  };
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  const auto report = make({}, 60)->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::relative_tolerance) << to_string(report.reason) << report.detail;
  EXPECT_GE(report.restarts, 1);
  EXPECT_LE(residual_norm(A.matrix(), b, x), 1.01e-8 * report.rhs_norm);
}

TEST_P(Methods, AnUnreachableToleranceIsStagnationNotSuccess) {
  const DenseOperator<double> A(matrix());
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  const auto report =
      make({.relative_tolerance = 1e-18, .max_iterations = 5000}, 200)->solve(A, view(b), view(x));
  EXPECT_FALSE(report.converged());
  EXPECT_TRUE(report.reason == StopReason::stagnation || report.reason == StopReason::breakdown)
      << to_string(report.reason) << " after " << report.iterations;
  EXPECT_FALSE(report.detail.empty());
  EXPECT_LT(report.true_relative, 1e-13);
}

TEST_P(Methods, NoiseThatNeverEndsIsStagnation) {
  // Each product has a random error, which limits the residual that can be reached.
  DenseOperator<double> A(matrix());
  unsigned state = 1;
  A.after = [&](std::int64_t, VectorView<double> y) {
    for (std::int64_t i = 0; i < y.size; ++i) {
      state = state * 1664525u + 1013904223u;
      y[i] += 1e-3 * (static_cast<double>(state >> 16) / 65536 - 0.5);
    }
  };
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  const auto report =
      make({.max_iterations = 100000, .stagnation_window = 40}, 10)->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::stagnation) << to_string(report.reason);
  EXPECT_FALSE(report.detail.empty());
  EXPECT_LT(report.iterations, 5000);
  EXPECT_GT(report.true_residual, 1e-4);
}

}  // namespace
}  // namespace protean::test

// How a solve in one kernel on the device ends: as the graph does, at the same iteration and for the same reason.
#include <limits>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "solvers/resident_solves.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST_F(Resident, StopsAtTheIterationLimitWithThatIterate) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 100}});
  for (const std::int64_t limit : {1, 2, 15, 16, 17, 33, 47, 48, 49, 111, 112, 113, 150}) {
    Asked asked;
    asked.stopping.max_iterations = limit;
    const Outcome<double> one = solve(csr, asked);
    asked.steps = "graph";
    const Outcome<double> graph = solve(csr, asked);
    EXPECT_EQ(one.report.reason, StopReason::max_iterations) << limit;
    EXPECT_EQ(one.report.iterations, limit);
    EXPECT_EQ(one.history.size(), static_cast<std::size_t>(limit) + 1);
    EXPECT_NEAR(one.report.true_residual, graph.report.true_residual, 1e-6 * graph.report.true_residual)
        << limit;
    EXPECT_NEAR(one.report.true_residual, one.report.recurrence_residual, 1e-8 * one.report.rhs_norm);
  }
}

TEST_F(Resident, AnAnnouncedStopIsNotPassed) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 100}});
  for (const std::int64_t stop : {1, 7, 16, 40}) {
    Watcher watcher(stop, true);
    const Outcome<double> outcome = solve<double>(csr, {}, nullptr, &watcher);
    EXPECT_EQ(outcome.report.reason, StopReason::interrupted);
    EXPECT_EQ(outcome.report.iterations, stop);
    EXPECT_NEAR(outcome.report.true_residual, outcome.report.recurrence_residual,
                1e-8 * outcome.report.rhs_norm);
  }
}

// An interruption that was not announced is found some steps later; x and report are of the last of them.
TEST_F(Resident, InterruptedReportsTheIterateItHas) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 300}});
  for (const std::int64_t last : {0, 5, 16, 60}) {
    Watcher watcher(last);
    const Outcome<double> outcome = solve<double>(csr, {}, nullptr, &watcher);
    EXPECT_EQ(outcome.report.reason, StopReason::interrupted);
    EXPECT_GE(outcome.report.iterations, last);
    EXPECT_LE(outcome.report.iterations, 8 * last + 112);
    EXPECT_NEAR(outcome.report.true_residual, outcome.report.recurrence_residual,
                1e-8 * outcome.report.rhs_norm);
  }
}

TEST_F(Resident, TheTimeLimitEndsIt) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 50}});
  Asked asked;
  asked.stopping.max_seconds = 1e-12;
  EXPECT_EQ(solve(csr, asked).report.reason, StopReason::time_limit);
}

TEST_F(Resident, NamesNumericalTroubleAsTheGraphDoes) {
  const auto agree = [](const CsrMatrix<double>& csr, Asked asked, StopReason expected,
                        const std::vector<double>* b = nullptr) {
    const Outcome<double> one = solve(csr, asked, b);
    asked.steps = "graph";
    const Outcome<double> graph = solve(csr, asked, b);
    EXPECT_EQ(one.report.reason, expected) << to_string(one.report.reason) << " " << one.report.detail;
    EXPECT_EQ(graph.report.reason, expected) << to_string(graph.report.reason);
    EXPECT_EQ(one.report.iterations, graph.report.iterations);
  };
  const auto diagonal = [](std::vector<double> d) {
    std::vector<Triplet<double>> entries;
    for (std::size_t i = 0; i < d.size(); ++i)
      entries.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(i), d[i]});
    const auto n = static_cast<std::int64_t>(d.size());
    return csr_from_triplets<double>(test_context(), n, n, entries);
  };
  const std::vector<double> heavy = {1, 4, 1};
  agree(diagonal({1, -2, 3}), {.jacobi = false}, StopReason::indefinite_operator);
  agree(diagonal({1, -1, 3}), {.jacobi = false}, StopReason::indefinite_operator);
  agree(diagonal({1, -2, 3}), {.jacobi = true}, StopReason::indefinite_preconditioner, &heavy);
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 40}});
  std::vector<double> b(1600, 1.0);
  b[7] = nan;
  agree(csr, {}, StopReason::not_finite, &b);
  b.assign(1600, 0.0);
  agree(csr, {}, StopReason::zero_right_hand_side, &b);
  // The initial residual is finite, the first product is not.
  b.assign(1600, 1.0);
  auto spoiled = generate(test_context(), "poisson-2d", {{"n", 40}});
  std::vector<double> values(spoiled.values, spoiled.values + spoiled.nonzeros());
  for (double& value : values) value *= 1e200;
  spoiled.values = values.data(), spoiled.values_owner = nullptr;
  agree(spoiled, {.jacobi = false}, StopReason::not_finite, &(b = std::vector<double>(1600, 1e150)));
  // b - A x0 is small enough already: not one step.
  Asked easy;
  easy.stopping.absolute_tolerance = 1e300;
  b.assign(1600, 1.0);
  agree(csr, easy, StopReason::absolute_tolerance, &b);
  Asked window;
  window.stopping.stagnation_window = 1;
  const auto large = generate(test_context(), "poisson-2d", {{"n", 200}});
  EXPECT_EQ(solve(large, window).report.reason, StopReason::stagnation);
  window.steps = "graph";
  EXPECT_EQ(solve(large, window).report.reason, StopReason::stagnation);
}

TEST_F(Resident, ToleranceBeyondRoundingIsNotCalledConverged) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 30}});
  Asked asked;
  asked.stopping.relative_tolerance = 1e-18;
  const Outcome<double> outcome = solve(csr, asked);
  EXPECT_FALSE(outcome.report.converged());
  EXPECT_GT(outcome.report.true_relative, 1e-18);
  // The true residual needs more than the recurrence says: the solve goes on from where it was.
  asked.stopping.relative_tolerance = 3e-15;
  const Outcome<double> tight = solve(csr, asked);
  asked.steps = "graph";
  EXPECT_EQ(tight.report.converged(), solve(csr, asked).report.converged());
}

}  // namespace
}  // namespace protean::test

// The rule by which method auto changes in the middle of a solve, with given ends and residuals.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "systems/grown.hpp"
#include "systems/method_rule.hpp"

namespace protean::test {
namespace {

using detail::MethodEnd;
using detail::MethodRule;
using detail::NextMethod;
using detail::SlowCycles;

std::string after(const MethodEnd& end) {
  const auto next = MethodRule().after(end);
  return next ? std::string(next->method) : "";
}

TEST(MethodRule, NamesAMethodThatCanDoIt) {
  using enum StopReason;
  struct Line {
    const char* from;
    StopReason reason;
    const char *symmetric, *unsymmetric;
  };
  for (const Line& line : {Line{"cg", indefinite_operator, "minres", "gmres"},
                           {"cg", negative_definite, "minres", "gmres"},
                           {"cg", divergence, "minres", "gmres"},
                           {"cg", breakdown, "minres", "gmres"},
                           {"cg", stagnation, "", "gmres"},
                           {"cg", indefinite_preconditioner, "gmres", "gmres"},
                           {"minres", indefinite_preconditioner, "gmres", "gmres"},
                           {"minres", negative_definite, "gmres", "gmres"},
                           {"minres", breakdown, "gmres", "gmres"},
                           {"minres", stagnation, "", "gmres"},
                           {"gmres", stagnation, "idr", "idr"},
                           {"idr", stagnation, "gmres", "gmres"},
                           {"idr", divergence, "gmres", "gmres"},
                           {"idr", breakdown, "gmres", "gmres"}}) {
    SCOPED_TRACE(std::string(line.from) + " " + std::string(to_string(line.reason)));
    EXPECT_EQ(after({.method = line.from, .reason = line.reason, .symmetric = true}), line.symmetric);
    EXPECT_EQ(after({.method = line.from, .reason = line.reason, .symmetric = false}), line.unsymmetric);
  }
}

TEST(MethodRule, LimitsAndLostSystemsEndTheSolve) {
  using enum StopReason;
  for (const char* method : {"cg", "minres", "gmres", "idr"})
    for (const StopReason reason :
         {max_iterations, time_limit, interrupted, not_finite, underflow, inconsistent, relative_tolerance})
      for (const bool symmetric : {true, false})
        EXPECT_EQ(after({.method = method, .reason = reason, .symmetric = symmetric}), "")
            << method << " " << to_string(reason);
}

// Rounding stops every method; what the bumps of idr have lost another one may find.
TEST(MethodRule, RoundingIsNotTriedAgain) {
  EXPECT_EQ(after({.method = "gmres", .reason = StopReason::stagnation, .rounding = true}), "");
  EXPECT_EQ(after({.method = "idr", .reason = StopReason::stagnation, .rounding = true}), "gmres");
}

TEST(MethodRule, ANullSpaceIsForSymmetricMethods) {
  EXPECT_EQ(after({.method = "cg",
                   .reason = StopReason::indefinite_operator,
                   .symmetric = true,
                   .symmetric_only = true}),
            "minres");
  EXPECT_EQ(
      after({.method = "minres", .reason = StopReason::breakdown, .symmetric = true, .symmetric_only = true}),
      "");
  EXPECT_EQ(after({.method = "cg", .reason = StopReason::breakdown, .symmetric_only = true}), "");
}

TEST(MethodRule, AReasonSaysHowAndWhy) {
  const auto next =
      MethodRule().after({.method = "cg", .reason = StopReason::indefinite_operator, .symmetric = true});
  ASSERT_TRUE(next);
  EXPECT_EQ(
      next->reason,
      "cg ended with indefinite-operator; minres takes a symmetric matrix with eigenvalues of both signs");
}

// gmres comes again with longer cycles alone, and nothing comes a third time.
TEST(MethodRule, EndsAfterAFewChanges) {
  MethodRule rule;
  MethodEnd end{.method = "gmres", .restart = 30, .longest = 120};
  auto next = rule.after(end);
  ASSERT_TRUE(next && next->method == "idr");
  rule.note(end, *next);
  end.method = "idr", end.reason = StopReason::breakdown;
  const MethodRule before = rule;
  next = rule.after(end);
  ASSERT_TRUE(next && next->method == "gmres");
  EXPECT_EQ(next->restart, 120);
  EXPECT_TRUE(has(next->reason, "cycles of 120")) << next->reason;
  end.longest = 30;
  EXPECT_FALSE(before.after(end)) << "the same cycles again";
  rule.note(end, *next);
  end.method = "gmres", end.reason = StopReason::stagnation, end.longest = 120;
  EXPECT_FALSE(rule.after(end)) << "idr again";
}

TEST(MethodRule, ChangesThreeTimesAtMost) {
  MethodRule rule;
  int changes = 0;
  std::string method = "cg";
  const std::vector<StopReason> ends{StopReason::indefinite_operator, StopReason::breakdown,
                                     StopReason::stagnation, StopReason::breakdown};
  for (const StopReason reason : ends) {
    const MethodEnd end{.method = method, .reason = reason, .symmetric = true, .restart = 30, .longest = 200};
    const auto next = rule.after(end);
    if (!next) break;
    rule.note(end, *next);
    method = next->method, ++changes;
  }
  EXPECT_EQ(method, "idr");
  EXPECT_EQ(changes, 3);
}

// The iteration at which gmres is given up; 0: never.
std::int64_t given_up(const std::function<double(double)>& residual, std::int64_t most = 10000,
                      std::int64_t restart = 30) {
  SlowCycles cycles(1e-8, most, restart);
  for (std::int64_t k = 0; k <= most; ++k) {
    const double now = residual(static_cast<double>(k));
    if (now <= 1e-8) return 0;
    if (cycles.add(k, now)) {
      EXPECT_EQ(k % restart, 0);
      EXPECT_FALSE(cycles.reason().empty());
      return k;
    }
  }
  return 0;
}

TEST(SlowCycles, AreGivenUp) {
  EXPECT_EQ(given_up([](double) { return 1.0; }), 1020);
  EXPECT_EQ(given_up([](double k) { return 1e-3 + std::exp(-k / 30); }), 1020);
  EXPECT_EQ(given_up([](double k) { return std::pow(10, -k / 10000); }), 1020)
      << "a digit in 10,000 iterations";
  EXPECT_EQ(given_up([](double) { return 1.0; }, 200), 120) << "four cycles";
}

TEST(SlowCycles, ThatLeadToTheGoalGoOn) {
  for (const double needed : {100.0, 1000.0, 9000.0})
    EXPECT_EQ(given_up([&](double k) { return std::pow(10, -8 * k / needed); }), 0) << needed;
  // A plateau in the middle.
  EXPECT_EQ(given_up([](double k) {
              return std::pow(10, -8 * (std::min(k, 600.0) + std::max(k - 900, 0.0)) / 3000);
            }),
            0);
}

}  // namespace
}  // namespace protean::test

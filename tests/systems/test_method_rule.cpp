// The rule by which method auto changes in the middle of a solve, with given ends and residuals.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "solvers/solver.hpp"
#include "systems/grown.hpp"
#include "systems/method_rule.hpp"

namespace protean::test {
namespace {

using detail::MethodEnd;
using detail::MethodRule;
using detail::NextMethod;
using detail::SlowProgress;

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
  for (const Line& line : {Line{"cg", indefinite_operator, "minres", "bicgstab"},
                           {"cg", negative_definite, "minres", "bicgstab"},
                           {"cg", divergence, "minres", "bicgstab"},
                           {"cg", breakdown, "minres", "bicgstab"},
                           {"cg", stagnation, "", "bicgstab"},
                           {"cg", indefinite_preconditioner, "gmres", "bicgstab"},
                           {"minres", indefinite_preconditioner, "gmres", "bicgstab"},
                           {"minres", negative_definite, "gmres", "bicgstab"},
                           {"minres", breakdown, "gmres", "bicgstab"},
                           {"minres", stagnation, "", "bicgstab"},
                           {"bicgstab", stagnation, "idr", "idr"},
                           {"bicgstab", divergence, "idr", "idr"},
                           {"bicgstab", breakdown, "idr", "idr"},
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
  for (const char* method : {"cg", "minres", "bicgstab", "gmres", "idr"})
    for (const StopReason reason :
         {max_iterations, time_limit, interrupted, not_finite, underflow, inconsistent, relative_tolerance})
      for (const bool symmetric : {true, false})
        EXPECT_EQ(after({.method = method, .reason = reason, .symmetric = symmetric}), "")
            << method << " " << to_string(reason);
}

// Rounding stops every method; what the bumps of bicgstab and idr have lost another one may find.
TEST(MethodRule, RoundingIsNotTriedAgain) {
  EXPECT_EQ(after({.method = "gmres", .reason = StopReason::stagnation, .rounding = true}), "");
  EXPECT_EQ(after({.method = "bicgstab", .reason = StopReason::stagnation, .rounding = true}), "idr");
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

// After two methods with short recurrences the cycles are as long as there is memory for.
TEST(MethodRule, UnsymmetricSystemsEndWithLongCycles) {
  MethodRule rule;
  MethodEnd end{.method = "bicgstab", .reason = StopReason::breakdown, .restart = 30, .longest = 120};
  auto next = rule.after(end);
  ASSERT_TRUE(next && next->method == "idr");
  rule.note(end, *next);
  end.method = "idr", end.reason = StopReason::divergence;
  next = rule.after(end);
  ASSERT_TRUE(next && next->method == "gmres");
  EXPECT_EQ(next->restart, 120);
  EXPECT_TRUE(has(next->reason, "with cycles of 120")) << next->reason;
  rule.note(end, *next);
  end.method = "gmres", end.reason = StopReason::stagnation;
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

// The iteration at which the method is given up; 0: never.
std::int64_t given_up(std::string_view method, const std::function<double(double)>& residual,
                      std::int64_t most = 10000) {
  const SlowProgress::Looks looks = detail::looks_of(method, 30).value();
  SlowProgress progress(1e-8, most, looks);
  for (std::int64_t k = 0; k <= most; ++k) {
    const double now = residual(static_cast<double>(k));
    if (now <= 1e-8) return 0;
    if (progress.add(k, now)) {
      EXPECT_EQ(k % looks.every, 0);
      EXPECT_EQ(has(progress.reason(), "in cycles of 30 iterations"), looks.cycles) << progress.reason();
      return k;
    }
  }
  return 0;
}

TEST(SlowProgress, OfGmresInCyclesIsGivenUp) {
  EXPECT_EQ(given_up("gmres", [](double) { return 1.0; }), 1020);
  EXPECT_EQ(given_up("gmres", [](double k) { return 1e-3 + std::exp(-k / 30); }), 1020);
  EXPECT_EQ(given_up("gmres", [](double k) { return std::pow(10, -k / 10000); }), 1020)
      << "a digit in 10,000 iterations";
  EXPECT_EQ(given_up(
                "gmres", [](double) { return 1.0; }, 200),
            120)
      << "four cycles";
}

// Its plateaus may end, and its residuals go up and down.
TEST(SlowProgress, OfBicgstabIsGivenUpLater) {
  const auto bumpy = [](double k) { return std::pow(10, 1.5 * std::sin(12.9898 * k)); };
  EXPECT_EQ(given_up("bicgstab", bumpy), 3000);
  EXPECT_EQ(given_up("idr", bumpy), 5000);
  EXPECT_EQ(given_up("bicgstab", [&](double k) { return bumpy(k) * std::pow(10, -k / 10000); }), 3000);
  EXPECT_EQ(given_up("bicgstab", bumpy, 1000), 400) << "four looks";
  for (const double needed : {100.0, 1000.0, 9000.0})
    EXPECT_EQ(given_up("bicgstab", [&](double k) { return bumpy(k) * std::pow(10, -8 * k / needed); }), 0)
        << needed;
  EXPECT_EQ(
      given_up("bicgstab", [&](double k) { return bumpy(k) * std::pow(10, -std::max(k - 2500, 0.0) / 30); }),
      0)
      << "a plateau of 2,500 iterations";
}

TEST(SlowProgress, IsAskedOfMethodsThatAutoTakes) {
  for (const SolverEntry& entry : solvers()) {
    const bool asked = entry.id == "cg" || entry.id == "minres" || entry.id == "bicgstab" ||
                       entry.id == "gmres" || entry.id == "idr";
    EXPECT_EQ(detail::looks_of(entry.id, 30).has_value(), asked) << entry.id;
  }
}

TEST(SlowProgress, ThatLeadsToTheGoalGoesOn) {
  for (const double needed : {100.0, 1000.0, 9000.0})
    EXPECT_EQ(given_up("gmres", [&](double k) { return std::pow(10, -8 * k / needed); }), 0) << needed;
  // A plateau in the middle.
  EXPECT_EQ(given_up("gmres",
                     [](double k) {
                       return std::pow(10, -8 * (std::min(k, 600.0) + std::max(k - 900, 0.0)) / 3000);
                     }),
            0);
}

}  // namespace
}  // namespace protean::test

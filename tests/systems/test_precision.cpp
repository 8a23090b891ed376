// Values that go to float, and back, while a solve runs: by a schedule, and by the policy if it may. Which of them it
// takes is a matter of time, which no test here depends on; that nothing wrong is called converged is not.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/rounded_systems.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

SchedulePoint to(std::string format, const char* values, double at) {
  SchedulePoint point{.at = at, .overlapped = false, .format = std::move(format)};
  point.to.params = {{"values", values}};
  return point;
}

SolveSettings by_cg(double tolerance = 1e-10) {
  SolveSettings s;
  s.method = "cg", s.preconditioner = "jacobi", s.format = "csr";
  s.solver.stopping.relative_tolerance = tolerance, s.solver.stopping.max_iterations = 5000;
  s.context = test_context();
  return s;
}

struct Solved {
  SolveResult result;
  std::vector<double> x;
};
Solved solved(LinearSystem<double>& system, const CsrMatrix<double>& csr) {
  const std::vector<double> b = sample_vector<double>(csr.rows(), 9);
  const ContextPtr& context = system.settings().context;
  const Placed<double> right(context, b);
  Placed<double> x(context, std::vector<double>(b.size(), 0.0));
  Solved one;
  one.result = system.solve(right.read(), x.view());
  one.x = x.fetch();
  EXPECT_TRUE(one.result.converged()) << one.result.report.detail;
  EXPECT_LE(relative_residual_of(csr, b, one.x), 1.01 * system.settings().solver.stopping.relative_tolerance);
  return one;
}

class Precision : public testing::TestWithParam<Space> {
 protected:
  void SetUp() override {
    if (!context_) GTEST_SKIP() << no_device;
  }
  SolveSettings by_cg(double tolerance = 1e-10) const {
    SolveSettings s = test::by_cg(tolerance);
    s.context = context_;
    if (!on_host_) s.solver.device_steps = "graph";  // steps in one kernel keep the matrix as it was
    return s;
  }
  LinearSystem<double> system(const CsrMatrix<double>& csr, const SolveSettings& s) const {
    return LinearSystem<double>(placed(context_, csr), s);
  }
  const bool on_host_ = GetParam() == Space::host;
  const ContextPtr context_ = test_context(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Spaces, Precision, testing::Values(Space::host, Space::device),
                         [](const auto& one) { return one.param == Space::host ? "host" : "device"; });

TEST_P(Precision, GoesToFloatAndBackByAScheduleWithoutARestart) {
  const CsrMatrix<double> csr = diffusion(40);
  LinearSystem<double> plain = system(csr, by_cg());
  const Solved in_double = solved(plain, csr);
  for (const char* format : {"sell-packed", "csr", "hdi"}) {
    SCOPED_TRACE(format);
    if (!on_host_ && format == std::string_view("csr")) continue;  // which has values in float on a host only
    SolveSettings s = by_cg();
    s.schedule = {to(format, "float", 20)};
    LinearSystem<double> stays = system(csr, s);
    const Solved one = solved(stays, csr);
    ASSERT_EQ(one.result.switches.size(), 1u);
    EXPECT_EQ(one.result.switches[0].from_values, "double");
    EXPECT_EQ(one.result.switches[0].to_values, "float (rounded)");
    EXPECT_EQ(one.result.values, "float (rounded)");
    EXPECT_TRUE(contains(one.result.values_reason, "change of format")) << one.result.values_reason;
    ASSERT_FALSE(one.result.events.empty());
    EXPECT_EQ(one.result.events[0].to, std::string(format) + " in float");
    EXPECT_GE(one.result.report.corrections, 5);
    EXPECT_EQ(one.result.report.restarts, 0);
    EXPECT_LE(static_cast<double>(one.result.report.iterations),
              1.4 * static_cast<double>(in_double.result.report.iterations));
    // The way back replaces the residual of the rounded matrix at once.
    s.schedule.push_back(to(format, "double", 60));
    LinearSystem<double> goes_back = system(csr, s);
    const Solved other = solved(goes_back, csr);
    ASSERT_EQ(other.result.switches.size(), 2u);
    EXPECT_EQ(other.result.switches[1].from_values, "float (rounded)");
    EXPECT_EQ(other.result.switches[1].to_values, "double");
    EXPECT_EQ(other.result.values, "double");
    EXPECT_EQ(other.result.report.restarts, 0);
    EXPECT_GE(other.result.report.corrections, 1);
    EXPECT_LT(other.result.report.corrections, one.result.report.corrections);
  }
}

// The observer is told of each iteration what its products were with.
TEST(PrecisionBySchedule, IsShownToTheObserver) {
  struct Seen final : SolveObserver {
    std::vector<bool> rounded;
    std::int64_t corrections = 0;
    double largest_jump = 0;
    bool on_iteration(const IterationInfo& info) override {
      rounded.push_back(info.rounded);
      corrections = info.corrections, largest_jump = std::max(largest_jump, info.jump);
      return true;
    }
  } seen;
  const CsrMatrix<double> csr = diffusion(30);
  SolveSettings s = by_cg();
  s.schedule = {to("sell-packed", "float", 20), to("sell-packed", "double", 60)};
  s.observer = &seen;
  LinearSystem<double> system(csr, s);
  const Solved one = solved(system, csr);
  ASSERT_GT(seen.rounded.size(), 80u);
  for (std::size_t k = 0; k < seen.rounded.size(); ++k) EXPECT_EQ(seen.rounded[k], k > 20 && k <= 60) << k;
  EXPECT_EQ(seen.corrections, one.result.report.corrections);
  EXPECT_GT(seen.largest_jump, 1e-8);
  EXPECT_LT(seen.largest_jump, 1e-2);
}

TEST(PrecisionBySchedule, WorksInEveryMethod) {
  for (const auto& [method, across] : {std::pair{"fcg", 0.0},
                                       {"minres", 0.0},
                                       {"bicgstab", 0.2},
                                       {"bicgstab2", 0.2},
                                       {"idr", 0.2},
                                       {"gmres", 0.2},
                                       {"fgmres", 0.2}}) {
    SCOPED_TRACE(method);
    const CsrMatrix<double> csr = diffusion(30, across);
    SolveSettings s = by_cg();
    s.method = method;
    s.schedule = {to("sell-packed", "float", 10), to("dia", "double", 40)};
    LinearSystem<double> system(csr, s);
    const Solved one = solved(system, csr);
    EXPECT_GE(one.result.switches.size(), 1u);
  }
}

TEST(PrecisionBySchedule, RefusesAValueThatFloatCannotHold) {
  CsrMatrix<double> csr = deep_copy(test_context(), diffusion(20));
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(csr.values)[k] *= 1e45;
  SolveSettings s = by_cg();
  s.schedule = {to("sell-packed", "float", 5)};
  LinearSystem<double> system(csr, s);
  const Solved one = solved(system, csr);
  EXPECT_EQ(one.result.values, "double");
  ASSERT_EQ(one.result.failed_switches.size(), 1u);
  EXPECT_TRUE(contains(one.result.failed_switches[0].why, "row 0, column 0"))
      << one.result.failed_switches[0].why;
}

// Random symmetric systems that are definite, or that rounding makes indefinite: conditions of 1 to 1e14, rows scaled,
// values below and above float's range. What is called converged has the tolerance by b - A x in long double, up to
// the rounding of b - A x in double.
TEST(PrecisionBySchedule, NeverCallsConvergedWhatIsNot) {
  std::mt19937 random(11);
  const auto uniform = [&](double from, double to_) {
    return std::uniform_real_distribution<double>(from, to_)(random);
  };
  int in_float = 0, refused = 0, converged = 0, left = 0, failed = 0;
  for (int number = 0; number < 10000; ++number) {
    SCOPED_TRACE(number);
    const int n = static_cast<int>(uniform(10, 90));
    const double condition = uniform(0, 14), scaling = number % 3 == 0 ? uniform(0, number % 2 ? 8 : 80) : 0;
    std::vector<double> scale(static_cast<std::size_t>(n)), diagonal(scale.size(), 0.0);
    for (double& one : scale) one = std::pow(10, uniform(-scaling / 2, scaling / 2));
    std::vector<Triplet<double>> list;
    const auto link = [&](int i, int j, double k) {
      const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
      list.push_back({i, j, -k * scale[a] * scale[b]}), list.push_back({j, i, -k * scale[a] * scale[b]});
      diagonal[a] += k, diagonal[b] += k;
    };
    for (int i = 0; i + 1 < n; ++i) link(i, i + 1, std::pow(10, uniform(-condition / 3, 0)));
    for (int i = 0; i + 5 < n; i += 3) link(i, i + 5, uniform(0.1, 1));
    for (int i = 0; i < n; ++i) {
      const auto a = static_cast<std::size_t>(i);
      list.push_back({i, i, (diagonal[a] + std::pow(10, -condition)) * scale[a] * scale[a]});
    }
    const CsrMatrix<double> csr = csr_from_triplets<double>(test_context(), n, n, list);
    SolveSettings s = by_cg(std::pow(10, uniform(-12, -3)));
    s.solver.stopping.max_iterations = 2000;
    s.preconditioner = number % 4 == 0 ? "none" : "jacobi";
    constexpr const char* formats[] = {"csr", "sell-packed", "hdi"};
    s.schedule = {to(formats[number % 3], "float", uniform(0, 8))};
    if (number % 2) s.schedule.push_back(to(formats[number % 3], "double", uniform(9, 40)));
    const std::vector<double> b = sample_vector<double>(n, 7);
    std::vector<double> x(b.size(), 0.0);
    const SolveResult result = solve<double>(csr, b, x, s);
    in_float += !result.switches.empty(), refused += !result.failed_switches.empty();
    left += !result.report.left_rounding.empty(), failed += !result.converged();
    if (!result.converged()) continue;
    ++converged;
    double norm = 0, rounding = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double own = b[static_cast<std::size_t>(i)];
      double sum = std::abs(own);
      for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
        sum += std::abs(csr.values[k] * x[static_cast<std::size_t>(csr.pattern.col[k])]);
      norm += own * own, rounding += sum * sum;
    }
    constexpr double terms = 8, eps = std::numeric_limits<double>::epsilon();
    EXPECT_LE(residual_of(csr, b, x),
              s.solver.stopping.relative_tolerance * std::sqrt(norm) + terms * eps * std::sqrt(rounding))
        << result.values << ", condition 1e" << condition << ", scaling 1e" << scaling;
  }
  // The numbers say that the test sees what it is about.
  EXPECT_GT(in_float, 6000);
  EXPECT_GT(refused, 300);
  EXPECT_GT(converged, 4000);
  EXPECT_GT(failed, 100);
  EXPECT_GT(left, 20);
}

// The policy may: whether it does is a matter of time. The answer is right in any case, and the record says what it
// thought of.
TEST_P(Precision, OfAutoSolvesByTheMatrixThatWasGiven) {
  const CsrMatrix<double> csr = diffusion(60);
  SolveSettings s = by_cg();
  s.policy = "auto", s.precision = "auto";
  // The survey is made at once, and a change may cost whatever it costs.
  s.policy_options.worst_factor = 1e6, s.policy_options.forecast_factor = 1e6;
  LinearSystem<double> changing = system(csr, s), plain = system(csr, by_cg());
  for (int solve = 0; solve < 3; ++solve) {
    const Solved one = solved(changing, csr), other = solved(plain, csr);
    bool offered = false;
    for (const CandidateRecord& candidate : one.result.candidates)
      offered = offered || contains(candidate.format, " in float");
    if (on_host_) { EXPECT_TRUE(offered); }
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < one.x.size(); ++i)
      difference = std::max(difference, std::abs(one.x[i] - other.x[i])),
      norm = std::max(norm, std::abs(one.x[i]));
    EXPECT_LE(difference, 1e-6 * norm);
    if (one.result.values == "float (rounded)") { EXPECT_GE(one.result.report.corrections, 1); }
  }
}

TEST(PrecisionAuto, SaysWhyASolveDoesNotRound) {
  const CsrMatrix<double> csr = diffusion(60), across = diffusion(60, 0.1);
  const auto refusal = [](const CsrMatrix<double>& A, SolveSettings s) {
    s.policy = "auto", s.precision = "auto";
    s.policy_options.worst_factor = 1e6, s.policy_options.forecast_factor = 1e6;
    LinearSystem<double> system(A, s);
    const Solved one = solved(system, A);
    EXPECT_EQ(one.result.values, "double");
    for (const DecisionRecord& decision : one.result.decisions)
      if (decision.why.reason == Reason::rounding_refused) return decision.reason;
    return std::string("none");
  };
  SolveSettings s = by_cg();
  s.method = "gmres", s.preconditioner = "ilu0";
  s.solver.stopping.relative_tolerance = 1e-12;
  EXPECT_TRUE(contains(refusal(across, s), "method gmres has no reliable updates"));
  s = by_cg();
  s.context = Context::host(2, {.deterministic = true});
  EXPECT_TRUE(contains(refusal(csr, s), "deterministic mode"));
}

TEST(PrecisionAuto, IsRefusedWithoutAPolicy) {
  const auto error = [](SolveSettings s) {
    s.precision = "auto";
    try {
      check(s);
    } catch (const BadArgument& refused) { return std::string(refused.what()); }
    return std::string();
  };
  EXPECT_EQ(error({}), "") << "format auto has one";
  EXPECT_EQ(error({.format = "csr", .policy = "auto"}), "");
  for (const SolveSettings& s :
       {SolveSettings{.format = "csr"}, SolveSettings{.policy = "none"},
        SolveSettings{.expected_iterations = 100}, SolveSettings{.schedule = {to("csr", "float", 3)}}})
    EXPECT_TRUE(contains(error(s), "take policy auto")) << error(s);
  SolveSettings wrong;
  wrong.precision = "float";
  EXPECT_THROW(check(wrong), BadArgument);
}

// What a solve has put into float, a solve that did not ask for it does not find there, and new values are never
// refused for it.
TEST(PrecisionOfAKeptSystem, GoesBackToDoubleIfItMust) {
  const CsrMatrix<double> csr = diffusion(30);
  SolveSettings scheduled = by_cg();
  scheduled.schedule = {to("sell-packed", "float", 5)};
  CsrMatrix<double> large = deep_copy(test_context(), csr);
  for (std::int64_t k = 0; k < large.nonzeros(); ++k) const_cast<double*>(large.values)[k] *= 1e45;
  for (const bool new_values : {false, true}) {
    LinearSystem<double> system(csr, scheduled);
    EXPECT_EQ(solved(system, csr).result.values, "float (rounded)");
    EXPECT_EQ(solved(system, csr).result.values, "float (rounded)")
        << "as formats, it stays for the next solve";
    if (new_values) {
      system.update_values(large);
      const Solved one = solved(system, large);
      EXPECT_EQ(one.result.values, "double");
      EXPECT_EQ(one.result.report.corrections, 0);
      LinearSystem<double> fresh(large, by_cg());
      const Solved other = solved(fresh, large);
      for (std::size_t i = 0; i < one.x.size(); ++i)
        EXPECT_NEAR(one.x[i], other.x[i], 1e-7 * std::abs(other.x[i]) + 1e-52) << i;
    } else {
      SolveSettings plain = by_cg();
      plain.format = "auto", plain.policy = "none";
      system.set(plain);
      const Solved one = solved(system, csr);
      EXPECT_EQ(one.result.values, "double");
      EXPECT_EQ(one.result.report.corrections, 0);
    }
  }
}

}  // namespace
}  // namespace protean::test

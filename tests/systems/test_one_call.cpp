// solve() and multi_solve() of protean.hpp: one system in one call.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/selectors/selector.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/one_call.hpp"

namespace protean::test {
namespace {

TEST(OneCall, SolvesByNames) {
  Solving one;
  SolveResult result = one({.preconditioner = "jacobi", .expected_iterations = assumed_iterations});
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  EXPECT_EQ(result.format, make_matrix("auto", one.csr, test_context())->name());
  EXPECT_EQ(result.kernel, "native");
  EXPECT_GT(result.convert_seconds, 0);
  const std::int64_t jacobi = result.report.iterations;

  result = one({.preconditioner = "ssor", .preconditioning = {.omega = 1.5}});
  const std::int64_t ssor = result.report.iterations;
  EXPECT_LT(ssor, jacobi);
  EXPECT_GT(result.setup_seconds, 0);
  EXPECT_NE(one({.preconditioner = "ssor", .preconditioning = {.omega = 0.5}}).report.iterations, ssor);
  result = one({.method = "bicgstab",
                .solver = {.stopping = {.relative_tolerance = 1e-4}},
                .preconditioner = "none",
                .format = "sell-c-sigma",
                .parameters = {{"C", "4"}}});
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-4);
  EXPECT_GT(one.residual(), 1e-9) << "the tolerance was given";
  EXPECT_EQ(result.format, "sell-c-sigma");

  result = one({.solver = {.stopping = {.max_iterations = 3}}});
  EXPECT_FALSE(result.converged());
  EXPECT_EQ(result.report.reason, StopReason::max_iterations);
}

TEST(OneCall, SolvesInSinglePrecision) {
  const auto csr = convert_values<float>(test_context(), generate(test_context(), "poisson-2d", {{"n", 30}}));
  Vector<float> b(test_context(), csr.rows()), x(test_context(), csr.rows());
  for (std::int64_t i = 0; i < b.size(); ++i) b[i] = 1, x[i] = 0;
  const auto result = solve(csr, b, x, {.solver = {.stopping = {.relative_tolerance = 1e-5}}});
  EXPECT_TRUE(result.converged());
  EXPECT_LE(result.report.true_relative, 1e-5);
  EXPECT_NEAR(x[0], x[csr.rows() - 1], 1e-2 * x[0]) << "symmetric about the middle";
}

TEST(OneCall, AScheduleIsCarriedOut) {
  Solving one;
  struct Watch final : SolveObserver {
    std::int64_t last = -1;
    bool on_iteration(const IterationInfo& info) override {
      last = info.iteration;
      return true;
    }
  } watch;
  const SolveResult result =
      one({.format = "csr",
           .schedule = {{.at = 5, .to = {&find_format("ell")}, .overlapped = false},
                        {.at = 9, .to = {&find_format("sell-c-sigma"), {{"C", "4"}}}, .overlapped = false},
                        {.at = 1e6, .to = {&find_format("coo")}}},
           .observer = &watch});
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  ASSERT_EQ(result.switches.size(), 2u);
  EXPECT_EQ(result.switches[0].to, "ell");
  EXPECT_EQ(result.switches[0].iteration, 5);
  EXPECT_EQ(result.switches[1].to, "sell-c-sigma");
  EXPECT_EQ(result.format, "sell-c-sigma");
  ASSERT_EQ(result.events.size(), 3u);
  EXPECT_EQ(result.events[2].action, ScheduleEvent::Action::not_reached);
  EXPECT_EQ(watch.last, result.report.iterations);
}

// The format of a point by its name, with parameters of its own; what is wrong is said before the solve.
TEST(OneCall, AScheduleNamesItsFormats) {
  Solving one;
  const SolveResult result = one({.format = "csr",
                                  .schedule = {{.at = 3, .overlapped = false, .format = "ell"},
                                               {.at = 6,
                                                .to = {.params = {{"C", "8"}}, .order = "rcm"},
                                                .overlapped = false,
                                                .format = "sell-c-sigma"}}});
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  ASSERT_EQ(result.switches.size(), 2u);
  EXPECT_EQ(result.switches[0].to, "ell");
  EXPECT_EQ(result.switches[1].to, "sell-c-sigma");
  EXPECT_EQ(result.switches[1].to_order, "rcm");
  EXPECT_EQ(result.switches[1].parameters.integer("C"), 8);

  const auto refusal = [&](SchedulePoint point) {
    return message_of<BadArgument>([&] { one({.format = "csr", .schedule = {std::move(point)}}); });
  };
  EXPECT_TRUE(has(refusal({.at = 3, .format = "elll"}), "Did you mean"))
      << refusal({.at = 3, .format = "elll"});
  EXPECT_TRUE(has(refusal({.at = 3, .to = {&find_format("csr")}, .format = "ell"}), "name one"));
  EXPECT_TRUE(has(refusal({.at = 3, .to = {.params = {{"nothing", "1"}}}, .format = "ell"}), "nothing"));
}

// A change that failed is named with the kernel that was asked for.
TEST(OneCall, AChangeThatFailedNamesItsKernel) {
  Solving one;
  const SolveResult result =
      one({.format = "csr",
           .schedule = {{.at = 3, .to = {&find_format("ell"), {}, "nobody"}, .overlapped = false}}});
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.format, "csr");
  ASSERT_FALSE(result.events.empty());
  EXPECT_EQ(result.events.back().action, ScheduleEvent::Action::failed);
  EXPECT_EQ(result.events.back().to, "ell/nobody");
}

// A table that promises a tenth of the product's time makes the policy change the format.
TEST(OneCall, ThePolicyChangesTheFormat) {
  Solving one;
  MachineTable table;
  table.matrices = {{"promise",
                     Space::host,
                     one.csr.rows(),
                     one.csr.nonzeros(),
                     {{"csr", one.csr.bytes(), 1e-3, 0}, {"ell", one.csr.bytes(), 1e-4, 1e-4}}}};
  SolveSettings settings{.policy = "auto", .machine = &table};
  // One thread, and no build beside the solve: with more threads than a busy machine has processors, a measured product
  // is mostly waiting, and may take that for the time of a format.
  settings.context = Context::host(1), settings.overlapped = false;
  // The largest allowance, because a pause of the machine during the solve counts as time spent.
  settings.preconditioner = "none", settings.policy_options.worst_factor = 10;
  const SolveResult result = one(settings);
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  ASSERT_FALSE(result.switches.empty());
  EXPECT_EQ(result.switches[0].from, "csr");
  EXPECT_EQ(result.switches[0].to, "ell");
  EXPECT_FALSE(result.decisions.empty());
  bool known = false;
  for (const CandidateRecord& one_of : result.candidates) known = known || one_of.format == "ell";
  EXPECT_TRUE(known);

  // Named, the first format is that one; a table that promises nothing leaves it.
  table.matrices[0].formats = {{"csr", one.csr.bytes(), 1e-3, 0}};
  settings.format = "sell-c-sigma";
  const SolveResult stayed = one(settings);
  EXPECT_TRUE(stayed.converged());
  EXPECT_TRUE(stayed.switches.empty());
  EXPECT_EQ(stayed.format, "sell-c-sigma");
}

// The observer of the caller sees each iteration and may end the solve, with a policy and without.
TEST(OneCall, AnObserverIsCalledInAnyCase) {
  Solving one;
  struct Watch final : SolveObserver {
    std::int64_t calls = 0, last = -1, end_at = -1;
    bool on_iteration(const IterationInfo& info) override {
      ++calls, last = info.iteration;
      return info.iteration != end_at;
    }
  };
  for (const char* policy : {"by-format", "auto"}) {
    SCOPED_TRACE(policy);
    Watch watch;
    SolveResult result = one({.policy = policy, .observer = &watch});
    EXPECT_TRUE(result.converged());
    EXPECT_EQ(watch.calls, result.report.iterations + 1);
    EXPECT_EQ(watch.last, result.report.iterations);
    watch.end_at = 7;
    result = one({.policy = policy, .observer = &watch});
    EXPECT_EQ(result.report.reason, StopReason::interrupted);
    EXPECT_EQ(result.report.iterations, 7);
  }
}

// The numbers of the policy are checked before any work, by solve() and by AutoSwitcher itself.
TEST(OneCall, APolicyOutOfRangeIsRefused) {
  Solving one;
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    (void)one({.format = "scr", .policy = "auto", .policy_options = {.worst_factor = -1}});
                  }),
                  "worst_factor is -1"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)one({.policy_options = {.worst_factor = 2}}); }),
                  "worst_factor is for a policy, and the solve has none: leave it at 1.05"));
  Matrix<double> A(one.csr, make_matrix("csr", one.csr, test_context()));
  const CostModel model(Space::host);
  AutoSwitchOptions options;
  options.policy.payback = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    const AutoSwitcher<double> switcher(
                        A, model, [&] { return survey_formats(A, model); }, options);
                  }),
                  "payback is nan"));
}

TEST(OneCall, RefusesBadNamesBeforeAnyWork) {
  Solving one;
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)one({.method = "cgs"}); }), "'cgs'"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)one({.preconditioner = "jacobie"}); }),
                  "Did you mean 'jacobi'?"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)one({.format = "scr"}); }), "'scr'"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    (void)one({.policy = "auto", .schedule = {{.at = 5, .to = {&find_format("ell")}}}});
                  }),
                  "exclude each other"));
  std::vector<double> x(one.b.size() - 1);
  EXPECT_THROW((void)solve(one.csr, {one.b.data(), one.n}, {x.data(), one.n - 1}), ShapeMismatch);
}

// multi_solve(): each column is the column of solve(), in the format asked for, or in one that takes several vectors at
// once.
TEST(MultiSolve, ColumnsAreThoseOfOneCallEach) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 50}});
  const std::int64_t n = csr.rows(), k = 5;
  std::vector<double> B, X(static_cast<std::size_t>(n * k), 0.0);
  for (unsigned j = 0; j < k; ++j) {
    const auto column = sample_vector<double>(n, j + 1);
    B.insert(B.end(), column.begin(), column.end());
  }
  for (const char* format : {"auto", "csr", "sell-packed", "csr5"})
    for (const char* preconditioner : {"jacobi", "ic0"}) {
      SCOPED_TRACE(std::string(format) + ", " + preconditioner);
      const SolveSettings settings{.preconditioner = preconditioner, .format = format};
      std::fill(X.begin(), X.end(), 0.0);
      const MultiSolveResult all = multi_solve(csr, {B.data(), n, k, n}, {X.data(), n, k, n}, settings);
      EXPECT_TRUE(all.converged());
      EXPECT_EQ(all.report.product == "in one pass", all.format != "csr5") << all.report.product;
      EXPECT_EQ(all.report.preconditioner == "diagonal", std::string(preconditioner) == "jacobi");
      for (std::int64_t j = 0; j < k; ++j) {
        std::vector<double> x(static_cast<std::size_t>(n), 0.0);
        const SolveResult one = solve(csr, {B.data() + j * n, n}, {x.data(), n}, settings);
        EXPECT_LE(
            std::abs(one.report.iterations - all.report.columns[static_cast<std::size_t>(j)].iterations), 1);
        double difference = 0, size = 0;
        for (std::int64_t i = 0; i < n; ++i)
          difference = std::max(
              difference, std::abs(x[static_cast<std::size_t>(i)] - X[static_cast<std::size_t>(i + j * n)])),
          size = std::max(size, std::abs(x[static_cast<std::size_t>(i)]));
        EXPECT_LE(difference, 1e-6 * size);
      }
    }
}

// The rule of each column and the options of the preconditioner reach the solve.
TEST(MultiSolve, RulesAndPreconditioningTakeEffect) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 50}});
  const std::int64_t n = csr.rows(), k = 3;
  const auto column = sample_vector<double>(n, 1);
  std::vector<double> B, X(static_cast<std::size_t>(n * k), 0.0);
  for (int j = 0; j < k; ++j) B.insert(B.end(), column.begin(), column.end());
  std::vector<StoppingRule> rules(static_cast<std::size_t>(k));
  rules[1].relative_tolerance = 1e-2, rules[2].max_iterations = 3;
  const MultiSolveResult all = multi_solve(csr, {B.data(), n, k, n}, {X.data(), n, k, n},
                                           {.preconditioner = "jacobi", .context = test_context()}, rules);
  const auto& columns = all.report.columns;
  EXPECT_LE(columns[0].true_relative, 1e-8);
  EXPECT_GT(columns[0].iterations, 30);
  EXPECT_EQ(columns[1].reason, StopReason::relative_tolerance);
  EXPECT_GT(columns[1].true_relative, 1e-4);
  EXPECT_EQ(columns[2].reason, StopReason::max_iterations);
  EXPECT_EQ(columns[2].iterations, 3);
  const auto iterations_with = [&](double omega) {
    std::fill(X.begin(), X.end(), 0.0);
    const SolveSettings settings{
        .preconditioner = "ssor", .preconditioning = {.omega = omega}, .context = test_context()};
    return multi_solve(csr, {B.data(), n, k, n}, {X.data(), n, k, n}, settings).report.iterations;
  };
  EXPECT_GT(iterations_with(0.1), iterations_with(1) + 10);
}

TEST(MultiSolve, SettingsForOneRightHandSideAreRefused) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 5}});
  std::vector<double> B(50, 1.0), X(50, 0.0);
  const auto refused = [&](const SolveSettings& settings) {
    return message_of<BadArgument>([&] {
      (void)multi_solve(csr, {B.data(), 25, 2, 25}, {X.data(), 25, 2, 25}, settings);
    });
  };
  class Observer final : public SolveObserver {
    bool on_iteration(const IterationInfo&) override { return true; }
  } observer;
  EXPECT_TRUE(has(refused({.observer = &observer}), "observer of the settings is for one right-hand side"));
  EXPECT_TRUE(has(refused({.method = "cg", .preconditioner = "ilu0"}), "symmetric"));
  EXPECT_EQ(X, std::vector<double>(50, 0.0));
}

}  // namespace
}  // namespace protean::test

// What a solve with several right-hand sides has: each method with a policy, a schedule, a null space, and the
// automatic preconditioner, on a host through a LinearSystem and on a simulated device through its parts.
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/cost_model.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/options.hpp"
#include "solvers/steering_observer.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "systems/changing_solves.hpp"
#include "systems/linear_system.hpp"
#include "systems/system_matrix.hpp"

namespace protean::test {
namespace {

constexpr std::int64_t columns_of_features = 3;

// The Laplacian of a grid without a boundary: its null space are the constants.
CsrMatrix<double> free_grid(std::int32_t side) {
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < side; ++i)
    for (std::int32_t j = 0; j < side; ++j) {
      const std::int32_t at = i * side + j;
      for (const std::int32_t next : {i + 1 < side ? at + side : -1, j + 1 < side ? at + 1 : -1}) {
        if (next < 0) continue;
        entries.push_back({at, next, -1}), entries.push_back({next, at, -1});
        entries.push_back({at, at, 1}), entries.push_back({next, next, 1});
      }
    }
  return csr_from_triplets<double>(test_context(), side * side, side * side, entries);
}

struct ColumnsFeature {
  const char* name;
  bool singular = false;  // its matrix
  std::function<void(SolveSettings&)> ask;
};

SchedulePoint point_at_5() {
  SchedulePoint point;
  point.at = 5, point.format = "sell-packed", point.overlapped = false;
  return point;
}

std::vector<ColumnsFeature> columns_features() {
  return {{"policy", false, [](SolveSettings& s) { s.policy = "auto"; }},
          {"schedule", false, [](SolveSettings& s) { s.schedule = {point_at_5()}; }},
          {"null space", true, [](SolveSettings& s) { s.solver.null_space = "constant"; }},
          {"preconditioner auto", false, [](SolveSettings& s) { s.preconditioner = "auto"; }}};
}

struct FeatureSystem {
  CsrMatrix<double> csr;
  Columns<double> b = sample_columns<double>(csr.rows(), columns_of_features, 4);

  explicit FeatureSystem(bool singular)
      : csr(singular ? free_grid(20) : generate(test_context(), "poisson-2d", {{"n", 20}})) {
    for (std::vector<double>& column : b) {
      double mean = 0;
      for (const double value : column) mean += value / static_cast<double>(column.size());
      for (double& value : column) value -= singular ? mean : 0;
    }
  }
  // Each column is solved; of the singular matrix by the x of smallest norm.
  void expect_solved(const Columns<double>& x, bool singular) const {
    for (std::size_t j = 0; j < b.size(); ++j) {
      double size = 0, sum = 0, most = 0;
      for (const double value : b[j]) size += value * value;
      for (const double value : x[j]) sum += value, most = std::max(most, std::abs(value));
      EXPECT_LE(residual_of(csr, b[j], x[j]), 1.1e-8 * std::sqrt(size)) << "column " << j;
      EXPECT_GT(most, 0);
      if (singular) { EXPECT_LE(std::abs(sum), 1e-10 * most * static_cast<double>(x[j].size())); }
    }
  }
};

class ColumnsFeatures : public ChangingSolves {};

TEST_F(ColumnsFeatures, EachMethodHasThemOnAHost) {
  offer_nothing();  // so that preconditioner auto stays with jacobi, whatever the times are
  for (const SolverEntry& method : solvers())
    for (const ColumnsFeature& feature : columns_features()) {
      SCOPED_TRACE(std::string(method.id) + ", " + feature.name);
      const FeatureSystem of(feature.singular);
      SolveSettings settings{.method = std::string(method.id),
                             .preconditioner = "none",
                             .format = "csr",
                             .context = test_context()};
      feature.ask(settings);
      const std::int64_t n = of.csr.rows();
      PlacedColumns<double> B(settings.context, of.b, n, {VectorLayout::columns, 0}),
          X(settings.context,
            Columns<double>(of.b.size(), std::vector<double>(static_cast<std::size_t>(n), 0.0)), n,
            {VectorLayout::columns, 0});
      if (feature.singular && !method.symmetric) {
        EXPECT_THROW(LinearSystem<double>(of.csr, settings), BadArgument);
        continue;
      }
      LinearSystem<double> system(of.csr, settings);
      for (int solve = 0; solve < 2; ++solve) {
        if (solve == 1) system.set(settings);
        const MultiSolveResult result = system.multi_solve(B.read(), X.view());
        EXPECT_TRUE(result.converged());
        of.expect_solved(X.fetch(), feature.singular);
        EXPECT_EQ(result.policy, settings.policy == "auto");
        if (!settings.schedule.empty()) { ASSERT_EQ(result.events.size(), 1U); }
        if (!settings.schedule.empty() && solve == 0) {
          ASSERT_EQ(result.switches.size(), 1U);
          EXPECT_EQ(result.switches[0].iteration, 5);
          EXPECT_EQ(result.format, "sell-packed");
        }
        if (settings.preconditioner == "auto") {
          EXPECT_EQ(result.preconditioner, "jacobi");
          EXPECT_FALSE(result.preconditioner_reason.empty());
        }
      }
    }
}

TEST_F(ColumnsFeatures, EachMethodHasThemOnASimulatedDevice) {
  for (const SolverEntry& method : solvers())
    for (const ColumnsFeature& feature : columns_features()) {
      SCOPED_TRACE(std::string(method.id) + ", " + feature.name);
      if (feature.singular && !method.symmetric) continue;
      const FeatureSystem of(feature.singular);
      SolveSettings asked;
      feature.ask(asked);
      const ContextPtr context = fake_device_context({.steps_ahead = 3});
      const CsrMatrix<double> there = upload(context, of.csr);
      Matrix<double> A(there, make_matrix(fake_format("csr"), there, context));
      std::unique_ptr<Preconditioner<double>> M;
      if (asked.preconditioner == "auto" && std::string_view(feature.name).starts_with("precond")) {
        M = make_preconditioner<double>("auto", A);
        M->ensure(A);
      }
      std::unique_ptr<SolveObserver> steering;
      if (!asked.schedule.empty()) {
        SchedulePoint point = point_at_5();
        point.format.clear(), point.to.entry = &fake_format("sell-packed");
        steering = std::make_unique<FormatSchedule<double>>(A, std::vector<SchedulePoint>{point});
      }
      AutoSwitcher<double>* policy = nullptr;
      if (asked.policy == "auto") {
        AutoSwitchOptions options = switch_options(*context, {}, {});
        options.goal = 1, options.columns = columns_of_features;
        auto made = std::make_unique<AutoSwitcher<double>>(
            A, CostModel(Space::device),
            [&A] {
              std::vector<SwitchTarget> targets(2);
              targets[0].spec.entry = &fake_format("csr"),
              targets[1].spec.entry = &fake_format("sell-packed");
              for (SwitchTarget& target : targets)
                target.bytes = A.source().bytes(),
                target.several_bandwidth = several_bandwidth(*target.spec.entry, "", Space::device),
                target.one_pass = target.several_bandwidth > 0;
              return targets;
            },
            options);
        policy = made.get(), steering = std::move(made);
      }
      std::unique_ptr<detail::SlowestColumn> slowest;
      if (policy)
        slowest = std::make_unique<detail::SlowestColumn>(
            *policy, nullptr, std::vector<StoppingRule>(columns_of_features),
            [policy](std::int64_t running) { policy->columns_left(running); });
      else if (steering)
        slowest = std::make_unique<detail::SlowestColumn>(*steering, nullptr);
      const std::int64_t n = of.csr.rows();
      PlacedColumns<double> B(context, of.b, n, {VectorLayout::columns, 0}),
          X(context, Columns<double>(of.b.size(), std::vector<double>(static_cast<std::size_t>(n), 0.0)), n,
            {VectorLayout::columns, 0});
      MultiSolver<double> solver(method.id, options_read_by(method.id, asked.solver));
      EXPECT_TRUE(solver.solve(A, B.read(), X.view(), M.get(), slowest.get()).converged());
      of.expect_solved(X.fetch(), feature.singular);
      if (policy) policy->finish();
      if (!asked.schedule.empty()) {
        ASSERT_EQ(A.history().size(), 1U);
        EXPECT_EQ(A.history()[0].iteration, 5);
      }
    }
}

// Format auto begins in csr for several right-hand sides, too, and a policy decides.
TEST(ColumnsPolicy, DecidesWhereTheFormatIsAuto) {
  const auto csr = generate(test_context(), "poisson-3d", {{"n", 24}});
  const std::int64_t n = csr.rows();
  const Columns<double> b = sample_columns<double>(n, 4, 1);
  LinearSystem<double> system(csr, {.method = "cg", .preconditioner = "none", .context = test_context()});
  const auto solve = [&](std::span<const StoppingRule> rules = {}) {
    PlacedColumns<double> B(test_context(), b, n, {VectorLayout::columns, 0}),
        X(test_context(), Columns<double>(b.size(), std::vector<double>(static_cast<std::size_t>(n), 0.0)), n,
          {VectorLayout::columns, 0});
    MultiSolveResult result = system.multi_solve(B.read(), X.view(), nullptr, rules);
    EXPECT_TRUE(result.converged());
    const Columns<double> x = X.fetch();
    for (std::size_t j = 0; j < b.size(); ++j) {
      double size = 0;
      for (const double value : b[j]) size += value * value;
      EXPECT_LE(residual_of(csr, b[j], x[j]), 1.1e-8 * std::sqrt(size));
    }
    return result;
  };
  MultiSolveResult first = solve();
  EXPECT_TRUE(first.policy);
  EXPECT_NE(first.format_reason.find("csr, from which a policy changes"), std::string::npos);
  // Until it has looked. What it knows then serves the next solves, of one column, too.
  for (int k = 0; k < 20 && first.decisions.empty(); ++k) first = solve();
  ASSERT_FALSE(first.decisions.empty());
  EXPECT_FALSE(first.candidates.empty());
  for (const DecisionRecord& one : first.decisions) EXPECT_LE(one.iteration, first.report.iterations);
  std::vector<double> x(static_cast<std::size_t>(n), 0.0);
  const SolveResult single = system.solve(b[0], x);
  EXPECT_TRUE(single.converged());
  EXPECT_FALSE(single.candidates.empty());
  // A format without a product of several vectors is left before the solve, and the policy goes on with what it knows.
  ASSERT_TRUE(system.matrix().adaptive());
  ASSERT_TRUE(system.matrix().adaptive()->switch_to({.entry = &find_format("dia")}, 0));
  const MultiSolveResult after = solve();
  EXPECT_TRUE(after.report.product.starts_with("in one pass")) << after.report.product;
  EXPECT_EQ(after.candidates.size(), single.candidates.size());
  for (const SwitchRecord& one : after.switches) EXPECT_NE(one.from, "dia");
}

}  // namespace
}  // namespace protean::test

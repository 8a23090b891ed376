// Schedules of solves with several right-hand sides: formats and orders change in the middle of the solve.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/steering_observer.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "systems/grown.hpp"
#include "systems/linear_system.hpp"

namespace protean::test {
namespace {

using Action = ScheduleEvent::Action;

constexpr const char* methods[] = {"cg", "fcg", "minres", "bicgstab", "bicgstab2", "idr", "gmres", "fgmres"};

Columns<double> some_columns(std::int64_t n, unsigned k) {
  Columns<double> b;
  for (unsigned j = 0; j < k; ++j) b.push_back(sample_vector<double>(n, j + 1));
  return b;
}

SchedulePoint at_iteration(double at, std::string format, std::string order = {}) {
  SchedulePoint point;
  point.at = at, point.format = std::move(format), point.to.order = std::move(order),
  point.overlapped = false;
  return point;
}

struct Solved {
  MultiSolveResult result;
  Columns<double> x;
};
Solved solve_columns(const CsrMatrix<double>& csr, const Columns<double>& b, const SolveSettings& settings,
                     MultiSolveObserver* observer = nullptr, std::span<const StoppingRule> rules = {}) {
  const std::int64_t n = csr.rows();
  const ContextPtr context = test_context();
  PlacedColumns<double> B(context, b, n, {VectorLayout::columns, 0}),
      X(context, Columns<double>(b.size(), std::vector<double>(static_cast<std::size_t>(n), 0.0)), n,
        {VectorLayout::columns, 0});
  LinearSystem<double> system(csr, settings);
  Solved solved;
  solved.result = system.multi_solve(B.read(), X.view(), observer, rules);
  solved.x = X.fetch();
  return solved;
}

class Iterations final : public MultiSolveObserver {
 public:
  bool on_iteration(const MultiIterationInfo& info) override {
    seen.push_back(info.iteration);
    return info.iteration < end;
  }
  std::int64_t end = 1 << 30;
  std::vector<std::int64_t> seen;
};

// Each method takes as many iterations as without the changes, within rounding, and the changes come at the points that
// were asked for.
TEST(ColumnsSchedule, AllMethodsChangeFormatAndOrderAtTheIteration) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  const Columns<double> b = some_columns(csr.rows(), 5);
  for (const char* method : methods)
    for (const char* preconditioner : {"none", "jacobi", "ic0"}) {
      SCOPED_TRACE(std::string(method) + ", " + preconditioner);
      SolveSettings settings{
          .method = method, .preconditioner = preconditioner, .format = "csr", .context = test_context()};
      const Solved plain = solve_columns(csr, b, settings);
      settings.schedule = {at_iteration(3, "sell-packed"), at_iteration(5, "csr", "rcm"),
                           at_iteration(8, "csr5", "none")};
      const Solved changed = solve_columns(csr, b, settings);
      ASSERT_EQ(changed.result.switches.size(), 3U);
      ASSERT_EQ(changed.result.events.size(), 3U);
      for (const auto& [place, at, to] :
           {std::tuple{0U, 3, "sell-packed"}, {1U, 5, "csr"}, {2U, 8, "csr5"}}) {
        EXPECT_EQ(changed.result.switches[place].iteration, at);
        EXPECT_EQ(changed.result.switches[place].to, to);
        EXPECT_EQ(changed.result.events[place].action, Action::switched);
        EXPECT_EQ(changed.result.events[place].iteration, at);
      }
      EXPECT_EQ(changed.result.format, "csr5");
      EXPECT_NE(changed.result.report.product.find("in one pass; then column by column"), std::string::npos)
          << changed.result.report.product;
      const bool amplifies =
          std::string_view(method).starts_with("bicg") || std::string_view(method) == "idr";
      for (std::size_t j = 0; j < b.size(); ++j) {
        const SolveReport &one = changed.result.report.columns[j], &before = plain.result.report.columns[j];
        EXPECT_TRUE(one.converged()) << one.detail;
        EXPECT_LE(std::abs(one.iterations - before.iterations), amplifies ? 5 + before.iterations / 2 : 1);
        EXPECT_LE(relative_residual_of(csr, b[j], changed.x[j]), 1.1e-8);
      }
    }
}

TEST(ColumnsSchedule, EventsHaveTheResidualOfTheColumnThatHasFurthestToGo) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  const Columns<double> b = some_columns(csr.rows(), 3);
  SchedulePoint point;
  point.trigger = ScheduleTrigger::residual, point.at = 1e-4, point.format = "sell-packed";
  point.overlapped = false;
  std::vector<StoppingRule> rules(3);
  rules[1].max_iterations = 2;  // it ends far above the residual of the point, and does not hold it up
  rules[2].relative_tolerance = 1e-1;
  const Solved solved = solve_columns(csr, b,
                                      {.method = "cg",
                                       .preconditioner = "none",
                                       .format = "csr",
                                       .schedule = {point},
                                       .context = test_context()},
                                      nullptr, rules);
  ASSERT_EQ(solved.result.events.size(), 1U);
  const ScheduleEvent& event = solved.result.events[0];
  EXPECT_EQ(event.action, Action::switched);
  EXPECT_LE(event.relative_residual, 1e-4);
  EXPECT_GT(event.relative_residual, 1e-6);
  EXPECT_EQ(solved.result.report.columns[1].reason, StopReason::max_iterations);
  EXPECT_TRUE(solved.result.report.columns[0].converged());
}

TEST(ColumnsSchedule, PointsThatAreNotReachedAreToldAndTheObserverEndsTheSolve) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  const Columns<double> b = some_columns(csr.rows(), 2);
  Iterations observer;
  observer.end = 6;
  const Solved solved =
      solve_columns(csr, b,
                    {.method = "cg",
                     .preconditioner = "none",
                     .format = "csr",
                     .schedule = {at_iteration(4, "sell-packed"), at_iteration(1000, "csr")},
                     .context = test_context()},
                    &observer);
  ASSERT_EQ(solved.result.events.size(), 2U);
  EXPECT_EQ(solved.result.events[0].action, Action::switched);
  EXPECT_EQ(solved.result.events[1].action, Action::not_reached);
  EXPECT_EQ(observer.seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  for (const SolveReport& one : solved.result.report.columns) EXPECT_EQ(one.reason, StopReason::interrupted);
}

// On a device that runs ahead a point comes at its iteration, too, and iterations are not computed beyond it before.
TEST(ColumnsSchedule, PointsAreExactOnADeviceThatRunsAhead) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 16}});
  const std::int64_t n = csr.rows();
  const Columns<double> b = some_columns(n, 5);
  for (const char* method : methods)
    for (const int ahead : {0, 5, 9, -1}) {
      SCOPED_TRACE(std::string(method) + ", " + std::to_string(ahead) + " ahead");
      // -1: a GPU, if there is one.
      const ContextPtr context =
          ahead < 0 ? test_context(Space::device) : fake_device_context({.steps_ahead = ahead});
      if (!context) continue;
      const auto format = [&](std::string_view id) {
        return context->simulated() ? &fake_format(id) : &find_format(id);
      };
      const CsrMatrix<double> there = upload(context, csr);
      Matrix<double> A(there, make_matrix(*format("csr"), there, context));
      std::vector<SchedulePoint> points{at_iteration(1, {}), at_iteration(7, {}), at_iteration(8, {})};
      points[0].to.entry = points[2].to.entry = format("ell"), points[1].to.entry = format("csr");
      FormatSchedule<double> schedule(A, points);
      detail::SlowestColumn slowest(schedule, nullptr);
      PlacedColumns<double> B(context, b, n, {VectorLayout::columns, 0}),
          X(context, Columns<double>(b.size(), std::vector<double>(static_cast<std::size_t>(n), 0.0)), n,
            {VectorLayout::columns, 0});
      MultiSolver<double> solver(method);
      const MultiSolveReport report = solver.solve(A, B.read(), X.view(), nullptr, &slowest);
      schedule.finish();
      EXPECT_TRUE(report.converged());
      ASSERT_EQ(schedule.events().size(), 3U);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(schedule.events()[i].action, Action::switched) << schedule.events()[i].reason;
        EXPECT_EQ(static_cast<double>(schedule.events()[i].iteration), points[i].at);
      }
      const Columns<double> x = X.fetch();
      for (std::size_t j = 0; j < b.size(); ++j) EXPECT_LE(relative_residual_of(csr, b[j], x[j]), 1.1e-8);
    }
}

// A solve that goes on with a new preconditioner numbers its iterations on, for the schedule, too.
TEST(ColumnsSchedule, GoesOnWhereAnOldPreconditionerBreaksDown) {
  Grown grid;
  SolveSettings settings{.method = "cg", .preconditioner = "amg", .format = "csr", .context = test_context()};
  settings.preconditioning.refresh = Refresh::never;
  // From the first solve on, which ends before the third point: a first change of format in the second one would make a
  // new preconditioner.
  const std::vector<std::int64_t> at{2, 4, 13, 14};
  for (const std::int64_t i : at)
    settings.schedule.push_back(at_iteration(i, i == 4 || i == 14 ? "csr" : "sell-packed"));
  LinearSystem<double> system(grid.csr, settings);
  EXPECT_TRUE(grid.solve_columns(system, 3).converged());
  system.update_values(grid.grown);
  const MultiSolveResult result = grid.solve_columns(system, 3);
  EXPECT_TRUE(result.converged());
  ASSERT_EQ(result.events.size(), at.size());
  ASSERT_EQ(result.switches.size(), at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    EXPECT_EQ(result.events[i].action, Action::switched) << result.events[i].reason;
    EXPECT_EQ(result.events[i].iteration, at[i]);
    EXPECT_EQ(result.switches[i].iteration, result.events[i].iteration);
    EXPECT_GT(result.events[i].relative_residual, 0);
  }
  const Columns<double> b = grid.right_hand_sides(3);
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_EQ(result.report.columns[j].restarts, 1) << "the old preconditioner broke down";
    EXPECT_LE(relative_residual_of(grid.grown, b[j], grid.solutions[j]), 1.01e-8);
  }
}

// Random schedules of formats and orders, of random numbers of columns.
TEST(ColumnsSchedule, RandomSequences) {
  std::mt19937 random(7);
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 15}});
  constexpr const char* formats[] = {"csr", "sell-packed", "csr5", "ell"};
  constexpr const char* orders[] = {"", "", "none", "rcm"};
  for (int round = 0; round < 60; ++round) {
    const Columns<double> b = some_columns(csr.rows(), 1 + random() % 9);
    SolveSettings settings{.method = methods[random() % std::size(methods)],
                           .preconditioner = random() % 2 ? "jacobi" : "none",
                           .format = formats[random() % 2],
                           .order = random() % 3 ? "none" : "rcm",
                           .context = test_context()};
    std::string trace = settings.method.name() + " of " + std::to_string(b.size());
    for (unsigned i = random() % 6; i > 0; --i) {
      settings.schedule.push_back(
          at_iteration(random() % 20, formats[random() % std::size(formats)], orders[random() % 4]));
      settings.schedule.back().overlapped = random() % 3 == 0;
      trace += ", " + settings.schedule.back().format + " at " + std::to_string(settings.schedule.back().at);
    }
    SCOPED_TRACE(trace);
    const Solved solved = solve_columns(csr, b, settings);
    EXPECT_TRUE(solved.result.converged());
    for (std::size_t j = 0; j < b.size(); ++j)
      EXPECT_LE(relative_residual_of(csr, b[j], solved.x[j]), 1.1e-8);
    // A build next to the solve may be cancelled: the solve ended, or another point came.
    for (const ScheduleEvent& event : solved.result.events)
      if (event.action == Action::failed) {
        EXPECT_NE(event.reason.find(": cancelled: "), std::string::npos) << event.reason;
      }
  }
}

}  // namespace
}  // namespace protean::test

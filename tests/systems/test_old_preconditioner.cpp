// A kept system whose preconditioner grows old in the middle of a solve, and what its columns teach it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "interfaces/c/protean.h"
#include "preconditioners/callback_preconditioner.hpp"
#include "support/fake_device.hpp"
#include "systems/grown.hpp"
#include "systems/seconds.hpp"

namespace protean::test {
namespace {

SolveSettings with_old_amg(std::int64_t max_iterations = 10000) {
  SolveSettings settings{.method = "cg", .preconditioner = "amg", .format = "csr", .context = test_context()};
  settings.preconditioning.refresh = Refresh::never;
  settings.solver.stopping.max_iterations = max_iterations;
  return settings;
}

struct Seen final : SolveObserver {
  bool on_iteration(const IterationInfo& info) override {
    infos.push_back(info);
    return info.iteration != stop_at;
  }
  std::vector<IterationInfo> infos;
  std::int64_t stop_at = -1;
};

// A system whose preconditioner of the first values breaks down in the next solve.
struct Aged {
  explicit Aged(const SolveSettings& settings, const std::function<void(SolveSettings&)>& then = {})
      : system(grid.csr, settings) {
    EXPECT_TRUE(grid.solve(system).converged());
    SolveSettings next = settings;
    if (then) then(next), system.set(next);
    system.update_values(grid.grown);
  }
  Grown grid;
  LinearSystem<double> system;
};

// The iterations at which the old one breaks down, and of the whole solve.
struct Course {
  std::int64_t breakdown = 0, all = 0;
};
Course course_of_an_aged_solve() {
  Course course;
  Aged one(with_old_amg());
  Seen seen;
  const SolveResult result = one.grid.solve(one.system, &seen);
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.report.restarts, 1);
  for (const IterationInfo& info : seen.infos)
    if (info.restarts == 0) course.breakdown = std::max(course.breakdown, info.iteration);
  course.all = result.report.iterations;
  EXPECT_GT(course.breakdown, 2);
  EXPECT_GT(course.all, course.breakdown + 2);
  return course;
}

TEST(OldPreconditioner, OneSolveHasOneLimitOfIterationsAndOneNumbering) {
  const Course course = course_of_an_aged_solve();
  for (const std::int64_t most : {course.breakdown - 1, course.breakdown, course.breakdown + 2, course.all}) {
    SCOPED_TRACE("max_iterations " + std::to_string(most));
    Aged one(with_old_amg(), [&](SolveSettings& s) { s.solver.stopping.max_iterations = most; });
    Seen seen;
    const SolveResult result = one.grid.solve(one.system, &seen);
    const bool enough = most == course.all;
    EXPECT_EQ(result.report.reason, enough ? StopReason::relative_tolerance : StopReason::max_iterations);
    EXPECT_EQ(result.report.iterations, most);
    EXPECT_TRUE(enough || has(result.report.detail, std::to_string(most) + " iterations"))
        << result.report.detail;
    EXPECT_EQ(result.report.advice.empty(), enough);
    ASSERT_EQ(std::ssize(seen.infos), most + 1);
    for (std::int64_t i = 0; i <= most; ++i) {
      const IterationInfo& info = seen.infos[static_cast<std::size_t>(i)];
      EXPECT_EQ(info.iteration, i);
      EXPECT_EQ(info.restarts, i > course.breakdown ? 1 : 0);
      EXPECT_GE(info.seconds, seen.infos[static_cast<std::size_t>(std::max<std::int64_t>(i - 1, 0))].seconds);
      EXPECT_DOUBLE_EQ(info.relative_residual * result.report.rhs_norm, info.residual);
    }
    // The next one is set up again, whatever ended this one.
    const SolveResult again = one.grid.solve(one.system);
    EXPECT_EQ(again.report.restarts, 0);
    EXPECT_LT(again.report.iterations, course.all);
  }
}

TEST(OldPreconditioner, OneSolveHasOneInitialResidualAndOneBaseline) {
  constexpr double guess = 1e3;  // so that the initial residual is not ||b||
  for (const Baseline baseline : {Baseline::rhs, Baseline::initial_residual})
    for (const bool aged : {true, false}) {
      SolveSettings settings = with_old_amg();
      settings.solver.stopping.baseline = baseline;
      settings.solver.stopping.relative_tolerance = 1e-6;
      Grown grid;
      LinearSystem<double> system(aged ? grid.csr : grid.grown, settings);
      if (aged) {
        ASSERT_TRUE(grid.solve(system).converged());
        system.update_values(grid.grown);
      }
      Seen seen;
      const SolveResult result = grid.solve(system, &seen, guess);
      ASSERT_TRUE(result.converged()) << result.report.detail;
      EXPECT_EQ(result.report.restarts, aged ? 1 : 0);
      std::vector<double> r(grid.b.size());
      double squares = 0;
      for (std::int64_t i = 0; i < grid.n; ++i) {
        double sum = grid.b[static_cast<std::size_t>(i)];
        for (std::int64_t k = grid.grown.pattern.row_ptr[i]; k < grid.grown.pattern.row_ptr[i + 1]; ++k)
          sum -= grid.grown.values[k] * guess;
        squares += sum * sum;
      }
      EXPECT_NEAR(result.report.initial_residual, std::sqrt(squares), 1e-8 * std::sqrt(squares));
      EXPECT_DOUBLE_EQ(seen.infos.front().residual, result.report.initial_residual);
      const double of = baseline == Baseline::rhs ? result.report.rhs_norm : result.report.initial_residual;
      EXPECT_EQ(result.report.reason, StopReason::relative_tolerance);
      EXPECT_LE(result.report.true_residual, 1e-6 * of);
      EXPECT_GT(result.report.true_residual, 1e-10 * of)
          << "it aimed at a smaller residual than was asked for";
      EXPECT_DOUBLE_EQ(result.report.true_relative, result.report.true_residual / of);
      EXPECT_DOUBLE_EQ(seen.infos.back().relative_residual, seen.infos.back().residual / of);
    }
}

// The preconditioner of the first values takes longer than the whole solve may, and breaks down.
TEST(OldPreconditioner, OneSolveHasOneLimitOfSeconds) {
  constexpr double most = 0.3;  // more than a busy machine takes until the first application
  Grown grid(12);
  SolveSettings settings = with_old_amg();
  LinearSystem<double> system(grid.csr, settings);
  const void* of = nullptr;  // the values that it was set up for
  system.solver().set_preconditioner(
      [&](const LinearOperator<double>& A) -> std::unique_ptr<Preconditioner<double>> {
        return std::make_unique<CallbackPreconditioner<double>>(
            A.context(), A.shape(),
            [&, n = A.rows()](const double* r, double* z, CUstream_st*) {
              const bool old = of != system.matrix().given().values;
              if (old) std::this_thread::sleep_for(std::chrono::duration<double>(2 * most));
              for (std::int64_t i = 0; i < n; ++i) z[i] = old ? -r[i] : r[i];
            },
            [&](const LinearOperator<double>&, bool) { of = system.matrix().given().values; },
            CallbackOptions{"of the caller", true});
      });
  ASSERT_TRUE(grid.solve(system).converged());
  settings.solver.stopping.max_seconds = most;
  system.set(settings);
  system.update_values(grid.grown);
  const SolveResult result = grid.solve(system);
  EXPECT_EQ(result.report.reason, StopReason::time_limit) << result.report.detail;
  EXPECT_TRUE(has(result.report.detail, "of older values")) << result.report.detail;
  EXPECT_GE(result.report.seconds, most);
  // The one after it has a new one at once.
  settings.solver.stopping.max_seconds = std::numeric_limits<double>::infinity();
  system.set(settings);
  EXPECT_TRUE(grid.solve(system).converged());
}

TEST(OldPreconditioner, OneSolveHasTheEventsOfAllOfIt) {
  const Course course = course_of_an_aged_solve();
  // One point before the breakdown, one after it, and one that is not reached.
  const auto at = [](std::int64_t iteration, const char* format) {
    SchedulePoint point;
    point.at = static_cast<double>(iteration), point.to.entry = &find_format(format);
    point.overlapped = false;
    return point;
  };
  std::vector<ScheduleEvent> told;
  SolveSettings settings = with_old_amg();
  settings.schedule = {at(2, "ell"), at(course.breakdown + 2, "coo"), at(course.all + 100, "csr")};
  settings.on_event = [&](const ScheduleEvent& event) { told.push_back(event); };
  Aged one(settings);
  told.clear();
  Seen seen;
  const SolveResult result = one.grid.solve(one.system, &seen);
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(std::ssize(seen.infos), result.report.iterations + 1);
  ASSERT_EQ(result.events.size(), 3u);
  EXPECT_EQ(result.events[0].action, ScheduleEvent::Action::switched);
  EXPECT_EQ(result.events[0].iteration, 2);
  EXPECT_EQ(result.events[1].action, ScheduleEvent::Action::switched);
  EXPECT_EQ(result.events[1].iteration, course.breakdown + 2);
  EXPECT_EQ(result.events[2].action, ScheduleEvent::Action::not_reached);
  EXPECT_EQ(told.size(), 2u);
  ASSERT_EQ(result.switches.size(), 2u);
  EXPECT_EQ(result.switches[1].iteration, course.breakdown + 2);
  EXPECT_EQ(result.format, "coo");
}

TEST(OldPreconditioner, APolicyDecidesInBothParts) {
  const Course course = course_of_an_aged_solve();
  SolveSettings settings = with_old_amg();
  settings.policy = "auto";
  Aged one(settings);
  Seen seen;
  const SolveResult result = one.grid.solve(one.system, &seen);
  EXPECT_TRUE(result.converged());
  EXPECT_TRUE(result.policy);
  ASSERT_EQ(std::ssize(seen.infos), course.all + 1);
  for (std::int64_t i = 0; i <= course.all; ++i)
    EXPECT_EQ(seen.infos[static_cast<std::size_t>(i)].iteration, i);
  EXPECT_EQ(result.report.restarts, 1);
  for (const DecisionRecord& decision : result.decisions)
    EXPECT_LE(decision.iteration, result.report.iterations);
  for (std::size_t i = 1; i < result.decisions.size(); ++i)
    EXPECT_GE(result.decisions[i].iteration, result.decisions[i - 1].iteration);
  EXPECT_EQ(result.report.iterations, course.all);
}

TEST(OldPreconditioner, IsOldByValuesThatCameInTheMiddleOfTheSolve) {
  struct Changing final : SolveObserver {
    std::function<void()> call;
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 2) call();
      return true;
    }
  } changing;
  Grown grid;
  LinearSystem<double> system(grid.csr, with_old_amg());
  changing.call = [&] { system.matrix().update_values(grid.grown); };
  const SolveResult result = grid.solve(system, &changing);
  EXPECT_TRUE(result.converged()) << result.report.detail;
  EXPECT_EQ(result.report.restarts, 2) << "the one of the new values, and the one of the preconditioner";
  EXPECT_LE(residual_of(grid.grown, grid.b, grid.x), 1.01e-8 * result.report.rhs_norm);
}

// Who ends a solve in the iteration in which it breaks down has ended it.
TEST(OldPreconditioner, AnObserverThatStopsAtTheBreakdownHasStopped) {
  const Course course = course_of_an_aged_solve();
  Aged one(with_old_amg());
  Seen seen;
  seen.stop_at = course.breakdown;
  const SolveResult result = one.grid.solve(one.system, &seen);
  EXPECT_FALSE(result.converged());
  EXPECT_EQ(result.report.iterations, course.breakdown);
  EXPECT_EQ(seen.infos.back().iteration, course.breakdown);
  seen = {}, seen.stop_at = course.breakdown + 1;
  Aged other(with_old_amg());
  EXPECT_EQ(other.grid.solve(other.system, &seen).report.reason, StopReason::interrupted);
  EXPECT_EQ(seen.infos.back().iteration, course.breakdown + 1);
}

struct SeenColumns final : MultiSolveObserver {
  bool on_iteration(const MultiIterationInfo& info) override {
    iterations.push_back(info.iteration), running.push_back(info.running);
    residuals.emplace_back(info.residuals.begin(), info.residuals.end());
    return true;
  }
  std::vector<std::int64_t> iterations, running;
  std::vector<std::vector<double>> residuals;
};

TEST(KeptColumns, AnOldPreconditionerIsRenewedAsForOneRightHandSide) {
  for (const Refresh refresh : {Refresh::every, Refresh::when_slower, Refresh::never}) {
    SCOPED_TRACE(std::string(to_string(refresh)));
    SolveSettings settings = with_old_amg(25);
    settings.preconditioning.refresh = refresh;
    Grown grid;
    LinearSystem<double> system(grid.csr, settings), fresh(grid.grown, settings);
    EXPECT_TRUE(grid.solve_columns(system, 3).converged());
    system.update_values(grid.grown);
    const std::int64_t good = grid.solve_columns(fresh, 3).report.iterations;
    for (int k = 0; k < 4; ++k) {
      const MultiSolveResult result = grid.solve_columns(system, 3);
      const bool renewed = k == 0 && refresh != Refresh::every;
      const Columns<double> b = grid.right_hand_sides(3);
      for (std::size_t j = 0; j < 3; ++j) {
        const SolveReport& column = result.report.columns[j];
        EXPECT_TRUE(column.converged()) << k << ", column " << j << ": " << column.detail;
        EXPECT_EQ(column.restarts, renewed ? 1 : 0);
        EXPECT_LE(residual_of(grid.grown, b[j], grid.solutions[j]), 1.01e-8 * column.rhs_norm);
      }
      EXPECT_TRUE(renewed ? result.setup_seconds > 0 : result.report.iterations == good) << k;
    }
  }
}

TEST(KeptColumns, OneSolveHasOneLimitOfIterationsAndOneNumbering) {
  for (const std::int64_t most : {6, 12, 25}) {
    SCOPED_TRACE("max_iterations " + std::to_string(most));
    Aged one(with_old_amg(), [&](SolveSettings& s) { s.solver.stopping.max_iterations = most; });
    SeenColumns seen;
    const MultiSolveResult result = one.grid.solve_columns(one.system, 3, &seen);
    EXPECT_EQ(result.converged(), most == 25);
    EXPECT_LE(result.report.iterations, most);
    for (const SolveReport& column : result.report.columns) {
      EXPECT_LE(column.iterations, most);
      EXPECT_TRUE(column.converged() || column.reason == StopReason::max_iterations)
          << to_string(column.reason);
    }
    for (std::size_t i = 0; i < seen.iterations.size(); ++i) {
      EXPECT_EQ(seen.iterations[i], static_cast<std::int64_t>(i));
      EXPECT_EQ(seen.residuals[i].size(), 3u);
    }
    EXPECT_EQ(seen.residuals.front()[1], result.report.columns[1].initial_residual);
    EXPECT_LE(seen.iterations.back(), most + 1);
    EXPECT_TRUE(one.grid.solve_columns(one.system, 3).converged() || most == 6);
  }
}

// Each column has its own tolerance in both parts, and columns that have ended stay as they are.
TEST(KeptColumns, ColumnsKeepTheirRulesAndTheirResults) {
  Aged one(with_old_amg());
  std::vector<StoppingRule> rules(4);
  rules[1].absolute_tolerance = 1e6;  // ends with its guess
  rules[2].relative_tolerance = 1e-4, rules[2].baseline = Baseline::initial_residual;
  rules[3].max_iterations = 1;
  const MultiSolveResult result = one.grid.solve_columns(one.system, 4, nullptr, rules);
  const auto& columns = result.report.columns;
  const Columns<double> b = one.grid.right_hand_sides(4);
  EXPECT_EQ(columns[0].reason, StopReason::relative_tolerance);
  EXPECT_EQ(columns[1].reason, StopReason::absolute_tolerance);
  EXPECT_EQ(columns[2].reason, StopReason::relative_tolerance);
  EXPECT_EQ(columns[3].reason, StopReason::max_iterations) << to_string(columns[3].reason);
  EXPECT_EQ(columns[3].iterations, 1);
  EXPECT_EQ(columns[1].restarts, 0);
  EXPECT_LE(columns[2].true_relative, 1e-4);
  EXPECT_GT(columns[2].true_relative, 1e-8);
  for (std::size_t j = 0; j < 4; ++j)
    EXPECT_NEAR(residual_of(one.grid.grown, b[j], one.grid.solutions[j]), columns[j].true_residual,
                1e-10 * columns[j].rhs_norm);
}

TEST(KeptColumns, TeachPreconditionerAuto) {
  Stopwatch::other_clock = products;
  Grown grid(50);
  LinearSystem<double> system(grid.csr,
                              {.preconditioner = "auto", .format = "csr", .context = test_context()});
  system.set_up(3);
  counted_matrix = &system.A();
  std::vector<std::string> used;
  for (int k = 0; k < 40; ++k) {
    const MultiSolveResult result = grid.solve_columns(system, 3);
    ASSERT_TRUE(result.converged());
    used.push_back(result.preconditioner);
  }
  Stopwatch::other_clock = nullptr, counted_matrix = nullptr;
  EXPECT_EQ(used.front(), "jacobi");
  EXPECT_EQ(used.back(), "ic0");
}

TEST(KeptColumns, HaveTheNullSpaceOfTheSystem) {
  const CsrMatrix<double> singular =
      with_zero_row_sums(generate(test_context(), "poisson-2d", {{"n", 12.0}}));
  Grown grid(12);
  grid.csr = singular;
  double mean = 0;
  for (const double v : grid.b) mean += v / static_cast<double>(grid.n);
  for (double& v : grid.b) v -= mean;
  for (const ContextPtr& context : {test_context(), fake_device_context(), test_context(Space::device)}) {
    if (!context) continue;
    const Placed<double> constant(
        context, std::vector<double>(grid.b.size(), 1 / std::sqrt(static_cast<double>(grid.n))));
    const VectorBlock<const double> N{constant.read().data, grid.n, grid.n, 1, context->space()};
    for (const char* order : {"none", "rcm"}) {
      if (context->simulated() && std::string(order) != "none") continue;
      SCOPED_TRACE(std::string(to_string(context->space())) + ", order " + order);
      SolveSettings settings{.method = "cg", .preconditioner = "jacobi", .order = order, .context = context};
      // The simulated device has its own formats.
      std::optional<LinearSystem<double>> made;
      if (context->simulated())
        made.emplace(std::shared_ptr<LinearOperator<double>>(
                         make_matrix(fake_format("csr"), placed(context, grid.csr), context)),
                     settings);
      else
        made.emplace(grid.csr, settings);
      LinearSystem<double>& system = *made;
      const Placed<double> b(context, grid.b);
      for (const bool before : {false, true}) {  // before the first solve of columns, and after it
        if (before) system.solver().set_null_space(N);
        PlacedColumns<double> B(context, {grid.b, grid.b}, grid.n, columns_shape),
            X(context, Columns<double>(2, std::vector<double>(grid.b.size(), 0.5)), grid.n, columns_shape);
        const MultiSolveResult result = system.multi_solve(B.read(), X.view());
        EXPECT_TRUE(result.converged());
        for (const std::vector<double>& x : X.fetch()) {
          double sum = 0;
          for (const double v : x) sum += v;
          EXPECT_EQ(std::abs(sum) < 1e-10, before) << sum;
        }
      }
      system.set(settings);
      PlacedColumns<double> B(context, {grid.b, std::vector<double>(grid.b.size(), 1.0)}, grid.n,
                              columns_shape),
          X(context, Columns<double>(2, std::vector<double>(grid.b.size(), 0.5)), grid.n, columns_shape);
      const MultiSolveResult result = system.multi_solve(B.read(), X.view());
      EXPECT_TRUE(result.report.columns[0].converged());
      EXPECT_EQ(result.report.columns[1].reason, StopReason::inconsistent);
      // A method that it is not for is refused, also in the next call.
      settings.method = "gmres";
      for (int k = 0; k < 2; ++k)
        EXPECT_TRUE(has(message_of<BadArgument>([&] { system.set(settings); }), "null space"));
      EXPECT_EQ(system.settings().method, "cg");
      system.solver().set_null_space({});
      system.set(settings);
      for (int k = 0; k < 2; ++k)
        EXPECT_THROW(system.solver().set_null_space(N), BadArgument) << "the method is gmres";
    }
  }
}

// The entrance of C inherits all of it.
TEST(KeptColumns, ThroughC) {
  const Grown grid;
  const std::vector<std::int32_t> row_ptr = [&] {
    std::vector<std::int32_t> begins;
    for (std::int64_t r = 0; r <= grid.n; ++r)
      begins.push_back(static_cast<std::int32_t>(grid.csr.pattern.row_ptr[r]));
    return begins;
  }();
  protean_context* context = nullptr;
  protean_matrix* A = nullptr;
  protean_solver* solver = nullptr;
  ASSERT_EQ(protean_context_host(2, &context), PROTEAN_OK);
  ASSERT_EQ(protean_matrix_csr(context, grid.n, grid.n, grid.csr.nonzeros(), row_ptr.data(),
                               grid.csr.pattern.col, grid.csr.values, 0, &A),
            PROTEAN_OK);
  ASSERT_EQ(protean_solver_create("cg", "amg", &solver), PROTEAN_OK);
  ASSERT_EQ(protean_solver_set_text(solver, "refresh", "never"), PROTEAN_OK);
  ASSERT_EQ(protean_solver_set(solver, "max_iterations", 25), PROTEAN_OK);
  std::vector<double> B(grid.b), X(2 * grid.b.size(), 0.0);
  B.insert(B.end(), grid.b.rbegin(), grid.b.rend());
  for (int k = 0; k < 3; ++k) {
    X.assign(X.size(), 0.0);
    EXPECT_EQ(protean_solve_multi(solver, A, 2, B.data(), grid.n, X.data(), grid.n), PROTEAN_OK)
        << k << ": " << protean_last_error();
    EXPECT_LE(protean_solver_iterations(solver), 25);
    if (k > 0) continue;
    ASSERT_EQ(protean_matrix_update_values(A, grid.grown.values), PROTEAN_OK);
  }
  // This matrix has no null space; what matters is who says so, and that the solver is usable afterwards.
  ASSERT_EQ(protean_solver_set_text(solver, "null_space", "constant"), PROTEAN_OK);
  EXPECT_EQ(protean_solve_multi(solver, A, 2, B.data(), grid.n, X.data(), grid.n), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(has(protean_last_error(), "is not in the null space of A")) << protean_last_error();
  ASSERT_EQ(protean_solver_set_text(solver, "null_space", "none"), PROTEAN_OK);
  EXPECT_EQ(protean_solve_multi(solver, A, 2, B.data(), grid.n, X.data(), grid.n), PROTEAN_OK);
  protean_solver_free(solver), protean_matrix_free(A), protean_context_free(context);
}

}  // namespace
}  // namespace protean::test

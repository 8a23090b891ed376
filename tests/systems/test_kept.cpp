// A kept system whose preconditioner grows old in the middle of a solve, whose columns teach it, whose settings are
// refused, and whose own observer calls it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/callback_preconditioner.hpp"
#include "protean.h"
#include "protean.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "systems/seconds.hpp"

namespace protean::test {
namespace {

constexpr MultiShape columns_shape{VectorLayout::columns, 0};

template <class Error>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) { return error.what(); }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// A grid, and values of its pattern with which the smoothers of an amg of the first ones are not positive definite.
struct Grown {
  explicit Grown(std::int32_t points = 40) {
    std::vector<Triplet<double>> first, then;
    for (std::int32_t i = 0; i < points; ++i)
      for (std::int32_t j = 0; j < points; ++j) {
        const std::int32_t at = i * points + j;
        const auto add = [&](std::int32_t to, double before, double after) {
          first.push_back({at, to, before}), then.push_back({at, to, after});
        };
        if (i > 0) add(at - points, -1, -1e3);
        if (j > 0) add(at - 1, -1, -1);
        add(at, 4.01, 2002.01 + 1e3 * ((i * 7 + j * 3) % 11));
        if (j + 1 < points) add(at + 1, -1, -1);
        if (i + 1 < points) add(at + points, -1, -1e3);
      }
    n = std::int64_t{points} * points;
    csr = csr_from_triplets<double>(test_context(), n, n, first);
    grown = csr_from_triplets<double>(test_context(), n, n, then);
    for (std::int64_t i = 0; i < n; ++i) b.push_back(std::sin(static_cast<double>(i + 1)));
  }
  SolveResult solve(LinearSystem<double>& system, SolveObserver* observer = nullptr, double guess = 0) {
    x.assign(b.size(), guess);
    return system.solve({b.data(), n}, {x.data(), n}, observer);
  }
  // Of so many right-hand sides.
  MultiSolveResult solve_columns(LinearSystem<double>& system, std::int64_t count,
                                 MultiSolveObserver* observer = nullptr,
                                 std::span<const StoppingRule> rules = {}) {
    const Columns<double> from = right_hand_sides(count);
    const ContextPtr& context = system.matrix().context();
    PlacedColumns<double> B(context, from, n, columns_shape),
        X(context, Columns<double>(from.size(), std::vector<double>(b.size(), 0.0)), n, columns_shape);
    MultiSolveResult result = system.multi_solve(B.read(), X.view(), observer, rules);
    solutions = X.fetch();
    return result;
  }
  Columns<double> right_hand_sides(std::int64_t count) const {
    Columns<double> from = sample_columns<double>(n, count, 1);
    from[0] = b;
    return from;
  }
  std::int64_t n = 0;
  CsrMatrix<double> csr, grown;
  std::vector<double> b, x;
  Columns<double> solutions;
};

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
    // The next one is set up anew, whatever ended this one.
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
  constexpr double most = 0.02;
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
  // The one after it has a new one at once. (It may take longer than that on a slow machine.)
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
  settings.policy = true;
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

// By this clock an iteration of the solve takes as long as its products, and a setup nothing.
const LinearOperator<double>* counted_matrix = nullptr;
double products() { return counted_matrix ? static_cast<double>(counted_matrix->products()) : 0; }

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
  const CsrMatrix<double> regular = generate(test_context(), "poisson-2d", {{"n", 12.0}});
  std::vector<Triplet<double>> entries;
  for (std::int64_t r = 0; r < regular.rows(); ++r) {
    double sum = 0;
    for (std::int64_t k = regular.pattern.row_ptr[r]; k < regular.pattern.row_ptr[r + 1]; ++k)
      if (regular.pattern.col[k] != r) {
        entries.push_back({static_cast<std::int32_t>(r), regular.pattern.col[k], regular.values[k]});
        sum -= regular.values[k];
      }
    entries.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(r), sum});
  }
  Grown grid(12);
  grid.csr = csr_from_triplets<double>(test_context(), grid.n, grid.n, entries);
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
      SolveSettings settings{.preconditioner = "jacobi", .order = order, .context = context};
      // The simulated device has formats of its own.
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

TEST(KeptSettings, ThatAreRefusedChangeNothing) {
  Grown grid(20);
  const SolveSettings good{
      .method = "cg", .preconditioner = "jacobi", .format = "ell", .order = "rcm", .context = test_context()};
  LinearSystem<double> system(grid.csr, good);
  const SolveResult before = grid.solve(system);
  const std::vector<double> x = grid.x;
  const ContextPtr other = Context::host(test_context()->threads() + 1);
  const std::pair<const char*, std::function<void(SolveSettings&)>> refused[] = {
      {"method", [](SolveSettings& s) { s.method = "cgg"; }},
      {"option", [](SolveSettings& s) { s.solver.directions = 7; }},
      {"preconditioner", [](SolveSettings& s) { s.preconditioner = "jakobi"; }},
      {"its option", [](SolveSettings& s) { s.preconditioning.fill = 3; }},
      {"format", [](SolveSettings& s) { s.format = "elll"; }},
      {"parameter",
       [](SolveSettings& s) {
         s.parameters = {{"nothing", "1"}};
       }},
      {"kernel", [](SolveSettings& s) { s.kernel = "nativ"; }},
      {"parameter of auto",
       [](SolveSettings& s) {
         s.format = "auto", s.parameters = {{"C", "4"}};
       }},
      {"order", [](SolveSettings& s) { s.order = "rmc"; }},
      {"policy and schedule",
       [](SolveSettings& s) { s.policy = true, s.schedule = {{.at = 1, .to = {&find_format("csr")}}}; }},
      {"context", [&](SolveSettings& s) { s.context = other; }},
      {"check_arrays", [](SolveSettings& s) { s.check_arrays = false; }},
  };
  for (const auto& [what, spoil] : refused) {
    SolveSettings bad = good;
    bad.method = "gmres", bad.preconditioner = "ilu0", bad.format = "csr", bad.order = "none";
    spoil(bad);
    std::string first;
    for (int k = 0; k < 2; ++k) {
      const std::string said = message_of<Error>([&] { system.set(bad); });
      EXPECT_TRUE(k == 0 || said == first) << what;
      first = said;
    }
    EXPECT_EQ(system.settings().method, "cg") << what;
    EXPECT_EQ(system.settings().format, "ell") << what;
    const SolveResult after = grid.solve(system);
    EXPECT_EQ(after.format, "ell") << what;
    EXPECT_EQ(after.order, "rcm") << what;
    EXPECT_EQ(after.preconditioner, "jacobi") << what;
    EXPECT_EQ(after.report.iterations, before.report.iterations) << what;
    EXPECT_EQ(after.convert_seconds, 0) << what << ": the matrix was made again";
    EXPECT_EQ(grid.x, x) << what;
  }
  // A context that is left out, or is like that of the matrix, is that.
  SolveSettings same = good;
  same.context = nullptr, same.method = "minres";
  system.set(same);
  EXPECT_EQ(system.settings().context, test_context());
  same.context = Context::host(test_context()->threads());
  system.set(same);
  EXPECT_TRUE(grid.solve(system).converged());
}

TEST(KeptSettings, ElementsAndOperatorsHaveTheirOwnContext) {
  Grown grid(5);
  const std::shared_ptr<LinearOperator<double>> A = make_matrix("csr", grid.csr, test_context());
  const ContextPtr other = Context::host(test_context()->threads() + 1);
  EXPECT_TRUE(has(message_of<BadArgument>([&] { LinearSystem<double> system(A, {.context = other}); }),
                  "which stays"));
  LinearSystem<double> system(A, {.context = test_context()});
  EXPECT_THROW(system.set({.context = other}), BadArgument);
  EXPECT_TRUE(grid.solve(system).converged());
}

// A schedule has left the format, or the order, that is named: who names it again gets it.
TEST(KeptSettings, AFormatOrAnOrderNamedAgainIsMadeAgain) {
  Grown grid(20);
  SolveSettings settings{.format = "ell", .context = test_context()};
  SchedulePoint point;
  point.at = 1, point.to.entry = &find_format("coo"), point.to.order = "rcm", point.overlapped = false;
  settings.schedule = {point};
  LinearSystem<double> system(grid.csr, settings);
  const SolveResult left = grid.solve(system);
  EXPECT_EQ(left.format, "coo");
  EXPECT_EQ(left.order, "rcm");
  settings.schedule.clear();
  system.set(settings);
  SolveResult result = grid.solve(system);
  EXPECT_EQ(result.format, "ell");
  EXPECT_EQ(result.order, "none");
  EXPECT_TRUE(result.switches.empty());
  // Once it is there, another call makes nothing again.
  system.set(settings);
  EXPECT_EQ(grid.solve(system).convert_seconds, 0);
  // The order alone, of a format that nobody named.
  settings.format = "auto", settings.schedule = {point};
  system.set(settings);
  EXPECT_EQ(grid.solve(system).order, "rcm");
  settings.schedule.clear(), settings.expected_iterations = 10;
  system.set(settings);
  result = grid.solve(system);
  EXPECT_EQ(result.order, "none");
  EXPECT_EQ(result.format, "coo") << "the format that it had is kept in the other order";
  // A policy knows better: what it has found stays.
  settings.format = "ell", settings.expected_iterations = 0, settings.policy = true;
  system.set(settings);
  ASSERT_EQ(grid.solve(system).format, "ell");
  ASSERT_TRUE(system.matrix().adaptive()->switch_to({.entry = &find_format("csr")}, 0, "the test"));
  settings.solver.stopping.relative_tolerance = 1e-6;
  system.set(settings);
  system.set_up();
  EXPECT_EQ(system.matrix().format(), "csr");
  settings.policy = false;
  system.set(settings);
  EXPECT_EQ(grid.solve(system).format, "ell");
}

// A band whose rows are shuffled: format dia takes it in order rcm only. Nobody named dia.
TEST(KeptSettings, AnOrderInWhichTheFormatOfASolveIsNotPossibleHasAnotherFormat) {
  constexpr std::int32_t n = 900;
  std::vector<Triplet<double>> entries;
  std::vector<std::int32_t> place(n);
  std::iota(place.begin(), place.end(), 0);
  std::mt19937 random(3);
  for (std::size_t i = n - 1; i > 0; --i) std::swap(place[i], place[random() % (i + 1)]);
  for (std::int32_t i = 0; i < n; ++i)
    for (std::int32_t j = std::max(0, i - 1); j < std::min(n, i + 2); ++j)
      entries.push_back(
          {place[static_cast<std::size_t>(i)], place[static_cast<std::size_t>(j)], i == j ? 2.5 : -1.0});
  Grown grid(30);
  grid.csr = csr_from_triplets<double>(test_context(), n, n, entries);
  SolveSettings settings{.order = "rcm", .context = test_context()};
  settings.schedule = {{.at = 1, .to = {&find_format("dia")}, .overlapped = false}};
  LinearSystem<double> system(grid.csr, settings);
  const SolveResult taken = grid.solve(system);
  ASSERT_EQ(taken.format, "dia") << (taken.failed_switches.empty() ? "" : taken.failed_switches[0].why);
  ASSERT_EQ(taken.order, "rcm");
  settings.schedule.clear(), settings.order = "none";
  system.set(settings);
  for (int k = 0; k < 2; ++k) {
    const SolveResult result = grid.solve(system);
    EXPECT_TRUE(result.converged());
    EXPECT_EQ(result.order, "none");
    EXPECT_EQ(result.format, "csr");
    EXPECT_TRUE(has(result.format_reason, "dia, which the matrix had before, is not possible in order none"))
        << result.format_reason;
  }
  // Who names it is told.
  settings.format = "dia";
  system.set(settings);
  for (int k = 0; k < 2; ++k) EXPECT_THROW((void)grid.solve(system), FormatRefused);
  settings.order = "rcm";
  system.set(settings);
  EXPECT_EQ(grid.solve(system).format, "dia");
}

TEST(KeptSettings, AnotherMethodBeginsPreconditionerAutoAnew) {
  Stopwatch::other_clock = products;
  // Couplings of both signs, so that amg is no candidate.
  std::vector<Triplet<double>> entries;
  constexpr std::int32_t side = 40;
  for (std::int32_t i = 0; i < side; ++i)
    for (std::int32_t j = 0; j < side; ++j) {
      const std::int32_t at = i * side + j;
      if (i > 0) entries.push_back({at, at - side, 1}), entries.push_back({at - side, at, 1});
      if (j > 0) entries.push_back({at, at - 1, -1}), entries.push_back({at - 1, at, -1});
      entries.push_back({at, at, 4.001});
    }
  Grown grid(side);
  grid.csr = csr_from_triplets<double>(test_context(), grid.n, grid.n, entries);
  SolveSettings settings{.method = "bicgstab",
                         .preconditioner = "auto",
                         .preconditioning = {.solves = 1000},
                         .format = "csr",
                         .context = test_context()};
  LinearSystem<double> system(grid.csr, settings);
  system.set_up();
  counted_matrix = &system.A();
  std::string used;
  for (int k = 0; k < 6; ++k) used = grid.solve(system).preconditioner;
  EXPECT_EQ(used, "ilu0") << "the test shows nothing";
  settings.method = "cg";
  system.set(settings);
  for (int k = 0; k < 6; ++k) {
    const SolveResult result = grid.solve(system);
    EXPECT_TRUE(result.converged()) << result.report.detail;
    EXPECT_NE(result.preconditioner, "ilu0");
    EXPECT_TRUE(k > 0 || result.preconditioner == "jacobi");
  }
  Stopwatch::other_clock = nullptr, counted_matrix = nullptr;
}

// Which candidate type auto tries, and when, depends on time. What it is told wrongly it says at once.
TEST(KeptSettings, PreconditionerAutoRefusesWrongNodesInTheFirstSolve) {
  Grown grid(20);
  MultiVector<double> shorter(test_context(), 7, 1);
  fill<double>(*test_context(), 1.0, VectorView<double>{shorter.data(), 7});
  for (const bool unknowns : {true, false}) {
    SolveSettings settings{.preconditioner = "auto", .format = "csr", .context = test_context()};
    if (unknowns)
      settings.preconditioning.unknowns = 3;
    else
      settings.preconditioning.near_null_space = &shorter;
    LinearSystem<double> system(grid.csr, settings);
    for (int k = 0; k < 3; ++k) EXPECT_THROW((void)grid.solve(system), ShapeMismatch) << k;
    settings.preconditioning = {};
    system.set(settings);
    EXPECT_TRUE(grid.solve(system).converged());
  }
}

// It says that it has entries, and then it has none.
class WithoutEntries final : public LinearOperator<double>,
                             public HasDiagonal<double>,
                             public HasRows<double> {
 public:
  explicit WithoutEntries(const CsrMatrix<double>& csr)
      : LinearOperator<double>(test_context(), {csr.rows(), csr.cols()}),
        matrix_(make_matrix("csr", csr, test_context())) {}
  std::string_view name() const noexcept override { return "without-entries"; }
  void diagonal(VectorView<double> d) const override { matrix_->abilities().diagonal->diagonal(d); }
  CsrMatrix<double> rows_as_csr() const override { throw NotAvailable("there are no entries"); }

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    matrix_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> matrix_;
};

TEST(KeptSettings, PreconditionerAutoIsJacobiWhereEntriesCannotBeHad) {
  Grown grid(20);
  LinearSystem<double> system(std::make_shared<WithoutEntries>(grid.csr),
                              {.preconditioner = "auto",
                               .preconditioning = {.solves = 1000000},
                               .context = test_context(),
                               .expected_iterations = 500});
  for (int k = 0; k < 2; ++k) {
    const SolveResult result = grid.solve(system);
    EXPECT_TRUE(result.converged());
    EXPECT_EQ(result.preconditioner, "jacobi");
  }
}

TEST(KeptSystem, CallsOfItsOwnObserverAreRefusedAndTheSolveGoesOn) {
  Grown grid(20);
  SolveSettings settings{.preconditioner = "jacobi", .format = "csr", .context = test_context()};
  LinearSystem<double> system(grid.csr, settings);
  const SolveResult undisturbed = grid.solve(system);
  const std::vector<double> x = grid.x;
  std::vector<double> y(grid.b.size(), 0.0);
  SolveSettings other = settings;
  other.method = "gmres", other.preconditioner = "ilu0";
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"set()", [&] { system.set(other); }},
      {"set()", [&] { system.solver().set(other); }},
      {"set_preconditioner()", [&] { system.solver().set_preconditioner({}); }},
      {"set_null_space()", [&] { system.solver().set_null_space({}); }},
      {"set_up()", [&] { system.set_up(); }},
      {"update_values()", [&] { system.update_values(grid.grown); }},
      {"update_values()", [&] { system.update_values(grid.grown.values); }},
      {"update_values()", [&] { system.update_values(std::span<const ElementGroup<double>>()); }},
      {"solve()",
       [&] {
         (void)system.solve({grid.b.data(), grid.n}, {y.data(), grid.n});
       }},
      {"multi_solve()",
       [&] {
         (void)system.multi_solve({grid.b.data(), grid.n, 1, grid.n}, {y.data(), grid.n, 1, grid.n});
       }},
  };
  struct Calling final : SolveObserver, MultiSolveObserver {
    const std::function<void()>* call = nullptr;
    std::string said;
    bool on_iteration(const IterationInfo& info) override { return make(info.iteration); }
    bool on_iteration(const MultiIterationInfo& info) override { return make(info.iteration); }
    bool make(std::int64_t iteration) {
      if (iteration == 3) said = message_of<BadArgument>(*call);
      return true;
    }
  };
  for (const auto& [name, call] : calls) {
    Calling observer;
    observer.call = &call;
    const SolveResult result = grid.solve(system, &observer);
    EXPECT_TRUE(has(observer.said, std::string(name) + " was called while the system solves"))
        << name << ": " << observer.said;
    EXPECT_EQ(result.report.iterations, undisturbed.report.iterations) << name;
    EXPECT_EQ(grid.x, x) << name;
    observer.said.clear();
    EXPECT_TRUE(grid.solve_columns(system, 2, &observer).converged());
    EXPECT_TRUE(has(observer.said, name)) << observer.said;
    EXPECT_EQ(y, std::vector<double>(y.size(), 0.0)) << name;
  }
  // An observer that throws ends its solve, and nothing else.
  struct Throwing final : SolveObserver {
    bool on_iteration(const IterationInfo&) override { throw std::runtime_error("enough"); }
  } throwing;
  EXPECT_THROW((void)grid.solve(system, &throwing), std::runtime_error);
  system.set(settings);
  EXPECT_EQ(grid.solve(system).report.iterations, undisturbed.report.iterations);
  // New values between two iterations are for the matrix.
  struct Changing final : SolveObserver {
    std::function<void()> call;
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 3) call();
      return true;
    }
  } changing;
  changing.call = [&] { system.matrix().update_values(grid.grown); };
  const SolveResult changed = grid.solve(system, &changing);
  EXPECT_TRUE(changed.converged());
  EXPECT_EQ(changed.report.restarts, 1);
  EXPECT_LE(residual_of(grid.grown, grid.b, grid.x), 1.01e-8 * changed.report.rhs_norm);
}

}  // namespace
}  // namespace protean::test

// What an observer of a solve with several right-hand sides sees, and when it is called.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/multi_solves.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

void observer_ends_all(const ContextPtr& context_, const std::string& method) {
  struct Watcher final : MultiSolveObserver {
    bool on_iteration(const MultiIterationInfo& info) override {
      EXPECT_EQ(std::ssize(info.residuals), 4);
      EXPECT_GE(info.iteration, last);
      if (calls++ == 0) { EXPECT_EQ(info.iteration, 0); }
      last = info.iteration, running = info.running;
      latest.assign(info.residuals.begin(), info.residuals.end());
      for (std::size_t j = 0; j < 4; ++j) EXPECT_EQ(info.relative_residuals[j] > 0, j != 2);
      return info.iteration < 10;
    }
    std::int64_t calls = 0, last = 0, running = 0;
    std::vector<double> latest;
  } watcher;
  const auto csr = system_of<double>("poisson-2d", 30);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  auto b = sample_columns<double>(csr.rows(), 4, 1);
  b[2].assign(b[2].size(), 0.0);
  MultiSolver<double> solver(method);
  const auto solved = solve_all<double>(solver, context_, *A, b, zeros<double>(csr.rows(), 4), by_columns,
                                        nullptr, {}, &watcher);
  EXPECT_EQ(watcher.running, 3);
  EXPECT_EQ(watcher.latest[2], 0);
  for (const std::size_t j : {0u, 1u, 3u}) {
    const SolveReport& column = solved.report.columns[j];
    EXPECT_EQ(column.reason, StopReason::interrupted);
    // A GPU may be two batches ahead.
    EXPECT_GE(column.iterations, 10);
    EXPECT_LE(column.iterations, context_->space() == Space::host ? 10 : 40);
    EXPECT_NEAR(column.true_residual, residual_of(csr, b[j], solved.x[j]), 1e-12 * column.rhs_norm);
    EXPECT_LT(column.true_residual, column.initial_residual);
  }
}
TEST_P(MultiSolve, TheObserverSeesAllColumnsAndEndsThem) { observer_ends_all(context_, "cg"); }
TEST_P(MultiSolve, TheObserverOfGmresSeesAllColumnsAndEndsThem) { observer_ends_all(context_, "gmres"); }

// The residuals of single solves, one list for each column.
std::vector<std::vector<double>> histories(const LinearOperator<double>& A, const Columns<double>& b,
                                           const Columns<double>& x0, const std::string& method,
                                           std::span<const StoppingRule> rules) {
  std::vector<std::vector<double>> all;
  for (std::size_t j = 0; j < b.size(); ++j) {
    History history;
    auto x = x0[j];
    SolverOptions options;
    options.stopping = rules[j];
    (void)make_solver<double>(method, options_read_by(method, options))
        ->solve(A, view(b[j]), view(x), nullptr, &history);
    all.emplace_back();
    for (const IterationInfo& info : history.seen) all.back().push_back(info.residual);
  }
  return all;
}

// Columns of very different norms that end one after another, so that the lanes of the others change.
TEST(MultiSolvers, TheObserverIsToldTheResidualsOfEachColumn) {
  struct Watcher final : MultiSolveObserver {
    bool on_iteration(const MultiIterationInfo& info) override {
      residuals.emplace_back(info.residuals.begin(), info.residuals.end());
      relative.emplace_back(info.relative_residuals.begin(), info.relative_residuals.end());
      return true;
    }
    std::vector<std::vector<double>> residuals, relative;
  };
  const auto csr = system_of<double>("poisson-2d", 16);
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  constexpr std::int64_t k = 9;
  auto b = sample_columns<double>(csr.rows(), k, 1);
  std::vector<StoppingRule> rules(k);
  for (std::size_t j = 0; j < k; ++j) {
    for (double& v : b[j]) v *= std::pow(10.0, static_cast<double>(j));
    rules[j].relative_tolerance = std::pow(10.0, -1 - static_cast<double>((j * 5) % k));
  }
  for (const char* method : {"cg", "gmres"}) {
    Watcher watcher;
    MultiSolver<double> solver(method);
    const auto x0 = zeros<double>(csr.rows(), k);
    const auto solved =
        solve_all<double>(solver, test_context(), *A, b, x0, by_columns, nullptr, rules, &watcher);
    EXPECT_TRUE(solved.report.converged());
    const auto single = histories(*A, b, x0, method, rules);
    ASSERT_EQ(std::ssize(watcher.residuals), solved.report.iterations + 1);
    for (std::size_t i = 0; i < watcher.residuals.size(); ++i)
      for (std::size_t j = 0; j < k; ++j) {
        const double expected = single[j][std::min(i, single[j].size() - 1)];
        ASSERT_NEAR(watcher.residuals[i][j], expected, 1e-6 * expected)
            << method << " " << i << ", column " << j;
        const double norm = solved.report.columns[j].rhs_norm;
        ASSERT_NEAR(watcher.relative[i][j], expected / norm, 1e-6 * expected / norm);
      }
  }
}

// From far away the recurrence falls much lower than b - A x.
TEST(MultiSolvers, RelativeResidualsAreThoseOfTheReport) {
  const auto csr = system_of<double>("poisson-2d", 12);
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  const auto b = sample_columns<double>(csr.rows(), 3, 1);
  auto far = sample_columns<double>(csr.rows(), 3, 2);
  for (auto& column : far)
    for (double& value : column) value *= 1e10;
  for (const std::string_view method : multi_methods())
    for (const Baseline baseline : {Baseline::rhs, Baseline::initial_residual}) {
      SolverOptions options;
      options.stopping.baseline = baseline, options.stopping.max_iterations = 25;
      options.stopping.relative_tolerance = 1e-30, options.stopping.divergence = 1e30;
      MultiSolver<double> solver(method, options_read_by(method, options));
      const auto solved = solve_all<double>(solver, test_context(), *A, b, far, by_columns);
      for (const SolveReport& column : solved.report.columns) {
        const double norm = baseline == Baseline::rhs ? column.rhs_norm : column.initial_residual;
        EXPECT_DOUBLE_EQ(column.true_relative, column.true_residual / norm) << method;
        EXPECT_DOUBLE_EQ(column.recurrence_relative, column.recurrence_residual / norm) << method;
        EXPECT_NE(column.true_residual, column.recurrence_residual) << "the test needs two numbers";
      }
    }
}

// A device computes no step beyond the next stop of any observer of columns before it has called it there.
TEST(MultiSolvers, AnObserverIsCalledAtItsStops) {
  struct Stopping final : MultiSolveObserver {
    explicit Stopping(bool its) : stops(its) {}
    bool on_iteration(const MultiIterationInfo& info) override {
      seen.push_back(info.iteration);
      EXPECT_EQ(std::ssize(info.runs), 3);
      EXPECT_EQ(std::count(info.runs.begin(), info.runs.end(), 1), info.running);
      // The second one is allowed two steps. A column that ends does so after the call of its last step.
      EXPECT_EQ(info.runs[1], seen.size() > 4 ? 0 : info.runs[1]) << info.iteration;
      return true;
    }
    std::int64_t next_stop() const noexcept override {
      if (!stops) return std::numeric_limits<std::int64_t>::max();
      return seen.back() < 5 ? 5 : 13;
    }
    const bool stops;
    std::vector<std::int64_t> seen;
  };
  const auto csr = system_of<double>("poisson-2d", 16);
  const ContextPtr context = fake_device_context({.steps_ahead = 9});
  const auto A = make_matrix(fake_format("csr"), placed(context, csr), context);
  const auto b = sample_columns<double>(csr.rows(), 3, 1);
  std::vector<StoppingRule> rules(3);
  rules[1].max_iterations = 2;
  for (const bool stops : {false, true}) {
    Stopping observer(stops);
    MultiSolver<double> solver;
    (void)solve_all<double>(solver, context, *A, b, zeros<double>(csr.rows(), 3), by_columns, nullptr, rules,
                            &observer);
    for (const std::int64_t at : {5, 13})
      EXPECT_EQ(std::count(observer.seen.begin(), observer.seen.end(), at), stops ? 1 : 0) << at;
    EXPECT_GT(observer.seen.back(), 13);
  }
}

}  // namespace
}  // namespace protean::test

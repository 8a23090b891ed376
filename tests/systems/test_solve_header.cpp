// A program with <protean/solve.hpp> and the standard library alone.
#include <protean/solve.hpp>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace {

// 2 x_i - x_(i-1) - x_(i+1), with `shift` on the diagonal. The arrays are the program's.
struct Line {
  explicit Line(int n, double shift = 0) : row_ptr{0} {
    for (int i = 0; i < n; ++i) {
      if (i > 0) col.push_back(i - 1), values.push_back(-1);
      col.push_back(i), values.push_back(2 + shift);
      if (i < n - 1) col.push_back(i + 1), values.push_back(-1);
      row_ptr.push_back(static_cast<int>(col.size()));
    }
  }
  int rows() const { return static_cast<int>(row_ptr.size()) - 1; }
  protean::CsrMatrix<double> csr() const { return protean::csr_view(rows(), rows(), row_ptr, col, values); }
  // ||b - A x|| / ||b||
  double residual(const double* b, const double* x) const {
    double squares = 0, norm = 0;
    for (int i = 0; i < rows(); ++i) {
      double r = b[i];
      for (int k = row_ptr[static_cast<std::size_t>(i)]; k < row_ptr[static_cast<std::size_t>(i) + 1]; ++k)
        r -= values[static_cast<std::size_t>(k)] * x[col[static_cast<std::size_t>(k)]];
      squares += r * r, norm += b[i] * b[i];
    }
    return std::sqrt(squares / norm);
  }
  std::vector<int> row_ptr, col;
  std::vector<double> values;
};

protean::LinearSystem<double> system_of(const Line& line) {
  protean::LinearSystem<double> made(line.csr(), {.method = "cg", .preconditioner = "jacobi"});
  made.set_up();
  return made;
}

TEST(SolveHeader, IsEnoughForOneCall) {
  const Line line(200);
  const std::vector<double> b(200, 1.0);
  std::vector<double> x(200, 0.0);
  protean::SolveSettings settings{.method = "cg", .preconditioner = "ic0"};
  settings.solver.stopping.relative_tolerance = 1e-10;
  settings.preconditioning.zero_diagonal = protean::ZeroDiagonal::error;
  settings.policy = "auto", settings.policy_options.worst_factor = 1.1;
  const protean::SolveResult done = protean::solve(line.csr(), b, x, settings);
  EXPECT_TRUE(done.converged()) << protean::to_string(done.report.reason) << done.report.advice;
  EXPECT_LE(line.residual(b.data(), x.data()), 1e-9);
  EXPECT_EQ(done.preconditioner, "ic0");
  for (const protean::SwitchRecord& one : done.switches) EXPECT_NE(one.from, one.to);
  for (const protean::DecisionRecord& one : done.decisions) EXPECT_FALSE(one.reason.empty());
}

TEST(SolveHeader, IsEnoughForSystemsInAVector) {
  std::vector<Line> lines;
  std::vector<protean::LinearSystem<double>> systems;
  for (const int n : {50, 300, 120}) lines.emplace_back(n, 1.0 / n);
  for (const Line& line : lines) systems.push_back(system_of(line));
  for (std::size_t k = 0; k < systems.size(); ++k) {
    const std::vector<double> b(static_cast<std::size_t>(lines[k].rows()), 1.0);
    std::vector<double> x(b.size(), 0.0);
    for (int step = 0; step < 2; ++step) {
      EXPECT_TRUE(systems[k].solve(b, x).converged());
      EXPECT_LE(lines[k].residual(b.data(), x.data()), 2e-8);
      for (double& value : lines[k].values) value *= 2;
      systems[k].update_values(lines[k].values);
    }
  }
  std::ostringstream text;
  text << systems.front();
  EXPECT_NE(text.str().find("50 x 50"), std::string::npos) << text.str();
  const protean::LinearSystem<double> moved = std::move(systems.front());
  EXPECT_EQ(moved.settings().method, "cg");
}

TEST(SolveHeader, IsEnoughForSeveralRightHandSides) {
  const Line line(100, 0.1);
  constexpr int k = 3;
  std::vector<double> B(100 * k, 1.0), X(100 * k, 0.0);
  B[7] = 5;
  const protean::MultiSolveResult done =
      protean::multi_solve(line.csr(), {B.data(), 100, k, 100}, {X.data(), 100, k, 100}, {.method = "cg"});
  EXPECT_TRUE(done.converged());
  ASSERT_EQ(done.report.columns.size(), std::size_t{k});
  for (int j = 0; j < k; ++j) EXPECT_LE(line.residual(&B[100 * j], &X[100 * j]), 2e-8);
}

TEST(SolveHeader, IsEnoughForAnObserverAndForErrors) {
  struct Ends final : protean::SolveObserver {
    bool on_iteration(const protean::IterationInfo& info) override { return info.iteration < 3; }
  } observer;
  const Line line(500);
  const std::vector<double> b(500, 1.0), few(499, 1.0);
  std::vector<double> x(500, 0.0);
  const auto done = protean::solve(line.csr(), b, x,
                                   {.method = "cg",
                                    .preconditioner = "none",
                                    .context = protean::Context::host(1),
                                    .observer = &observer});
  EXPECT_EQ(done.report.reason, protean::StopReason::interrupted);
  EXPECT_EQ(done.report.iterations, 3);
  EXPECT_THROW(protean::solve(line.csr(), few, x), protean::ShapeMismatch);
  try {
    (void)protean::solve(line.csr(), b, x, {.method = "gc"});
    ADD_FAILURE() << "there is no method gc";
  } catch (const protean::Error& error) {
    EXPECT_NE(std::string(error.what()).find("cg"), std::string::npos);
  }
}

}  // namespace

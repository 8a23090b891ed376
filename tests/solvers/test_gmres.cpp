// gmres and fgmres: smallest residuals, restarts, breakdowns, and bases that stay orthogonal.
#include <algorithm>
#include <cmath>
#include <utility>

#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/contract.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "solvers/textbook.hpp"

namespace protean::test {
namespace {

TEST(FGmres, FollowsTheTextbookWithAVaryingPreconditioner) {
  const Dense A = convection_2d(8, 3);
  const auto b = right_hand_side<double>(A.n);
  std::vector<Real> norms;
  for (const Column& x : flexible_gmres(A, wide(b), 20, alternating))
    norms.push_back(length(residual(A, wide(b), x)));
  for (const char* how : {"cgs2", "mgs"}) {
    VaryingPreconditioner M(A.n, alternating);
    const Solved fgmres =
        solve("fgmres", A, b,
              {.stopping = {.relative_tolerance = 1e-9}, .restart = 64, .orthogonalization = how}, &M);
    expect_history(fgmres.history, norms, 1e-10);
    EXPECT_TRUE(fgmres.report.converged()) << fgmres.report.detail;
    EXPECT_EQ(fgmres.report.restarts, 0) << "x must be made of the vectors that were preconditioned";
    M.reset();
    const Solved gmres =
        solve("gmres", A, b,
              {.stopping = {.relative_tolerance = 1e-9, .max_iterations = 3 * fgmres.report.iterations},
               .restart = 64,
               .orthogonalization = how},
              &M);
    EXPECT_FALSE(gmres.report.converged())
        << gmres.report.iterations << " beside " << fgmres.report.iterations;
  }
}

// The largest |v_i . v_j| of the first `steps` vectors of the basis.
double lost_orthogonality(const std::string& orthogonalization, const std::string& method,
                          std::int64_t columns) {
  constexpr std::int64_t n = 40, steps = 18;
  std::vector<Real> d(n);
  for (std::int64_t i = 0; i < n; ++i)
    d[static_cast<std::size_t>(i)] = std::pow(10.0L, -static_cast<Real>(i) / 4);
  const Recording A(rotated(d));
  const SolverOptions options{.stopping = {.relative_tolerance = 0, .max_iterations = steps},
                              .restart = 60,
                              .orthogonalization = orthogonalization};
  std::vector<double> b = right_hand_side<double>(n), x;
  for (std::int64_t j = 1; j < columns; ++j) b.insert(b.end(), b.begin(), b.begin() + n);
  x.assign(b.size(), 0.0);
  if (columns == 0)
    (void)make_solver<double>(method, options)->solve(A, view(std::as_const(b)), view(x));
  else
    (void)MultiSolver<double>(method, options)
        .solve(A, MultiVectorView<const double>{b.data(), n, columns, n},
               MultiVectorView<double>{x.data(), n, columns, n});
  // First the products with x0, of each column.
  const std::int64_t together = std::max<std::int64_t>(columns, 1);
  double largest = 0;
  for (std::int64_t i = 0; i < steps; ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      const auto at = [&](std::int64_t step) {
        return wide(A.inputs[static_cast<std::size_t>(together * (1 + step))]);
      };
      largest = std::max(largest, static_cast<double>(std::abs(dot_of(at(i), at(j)))));
    }
  return largest;
}

// The basis of an ill-conditioned matrix is orthogonal to rounding with cgs2, and not with mgs.
TEST(Gmres, OrthogonalizesInTheWayThatIsAskedFor) {
  for (const char* method : {"gmres", "fgmres"}) {
    EXPECT_LT(lost_orthogonality("cgs2", method, 0), 1e-14) << method;
    EXPECT_GT(lost_orthogonality("mgs", method, 0), 1e-13) << method;
    EXPECT_LT(lost_orthogonality("mgs", method, 0), 1e-3) << method;
  }
  for (const std::int64_t columns : {1, 3}) {
    EXPECT_LT(lost_orthogonality("cgs2", "gmres", columns), 1e-14) << columns;
    EXPECT_GT(lost_orthogonality("mgs", "gmres", columns), 1e-13) << columns;
    EXPECT_LT(lost_orthogonality("mgs", "gmres", columns), 1e-3) << columns;
  }
}

TEST(FGmres, IsGmresWithAFixedPreconditioner) {
  const Dense matrix = convection_2d(9, 3);
  const DenseOperator<double> A(matrix);
  const auto b = right_hand_side<double>(matrix.n);
  const auto jacobi = make_preconditioner<double>("jacobi", A);
  jacobi->ensure(A);
  for (const Preconditioner<double>* M : {static_cast<const Preconditioner<double>*>(nullptr),
                                          static_cast<const Preconditioner<double>*>(jacobi.get())}) {
    const Solved one = solve("gmres", matrix, b, {.restart = 7}, M),
                 two = solve("fgmres", matrix, b, {.restart = 7}, M);
    EXPECT_EQ(one.report.iterations, two.report.iterations);
    EXPECT_EQ(one.report.restarts, two.report.restarts);
    for (std::size_t i = 0; i < one.x.size(); ++i) EXPECT_NEAR(one.x[i], two.x[i], 1e-12);
  }
}

TEST(Gmres, EveryRestartLength) {
  const Dense matrix = convection_2d(4, 3);
  const DenseOperator<double> A(matrix);
  const auto b = right_hand_side<double>(16);
  for (const char* how : {"cgs2", "mgs"}) {
    std::int64_t full = 0;
    for (std::int64_t m = 17; m >= 1; --m) {
      std::vector<double> x(16, 0.0);
      const auto report =
          make_solver<double>("gmres", {.restart = m, .orthogonalization = how})->solve(A, view(b), view(x));
      SCOPED_TRACE(std::string(how) + " restart " + std::to_string(m));
      expect_solution(matrix, b, x, report, 1e-8);
      if (m == 17) full = report.iterations;
      EXPECT_GE(report.iterations, full) << "with restarts it needs no fewer steps";
      // One restart for each complete cycle but the last, and no others.
      EXPECT_EQ(report.restarts, (report.iterations - 1) / m);
    }
    EXPECT_LE(full, 16);
  }
}

TEST(Gmres, EstimateIsTheTrueResidualAtEveryStepAndRestart) {
  const Dense matrix = convection_2d(6, 5);
  const DenseOperator<double> A(matrix);
  const auto b = right_hand_side<double>(36);
  History all;
  std::vector<double> y(36, 0.0);
  make_solver<double>("gmres", {.restart = 7})->solve(A, view(b), view(y), nullptr, &all);
  for (std::size_t k = 1; k < all.seen.size(); ++k) {
    EXPECT_LE(all.seen[k].residual, all.seen[k - 1].residual * (1 + 1e-12))
        << "the residual must not grow, not even at a restart";
    std::vector<double> x(36, 0.0);
    const auto report =
        make_solver<double>("gmres",
                            {.stopping = {.max_iterations = static_cast<std::int64_t>(k)}, .restart = 7})
            ->solve(A, view(b), view(x));
    EXPECT_NEAR(residual_norm(matrix, b, x), all.seen[k].residual, 1e-13);
    EXPECT_NEAR(report.true_residual, all.seen[k].residual, 1e-13);
  }
}

TEST(Gmres, SmallestResidualOfItsSpace) {
  // One step: min ||b - a A b|| by hand.
  Dense A(2);
  A(0, 0) = 1, A(0, 1) = 1, A(1, 1) = 1;
  const std::vector<double> b = {1, 1};  // A b = (2, 1), a = 3/5, residual (-1/5, 2/5)
  std::vector<double> x(2, 0.0);
  make_solver<double>("gmres", {.stopping = {.max_iterations = 1}})
      ->solve(DenseOperator<double>(A), view(b), view(x));
  EXPECT_NEAR(x[0], 0.6, 1e-15);
  EXPECT_NEAR(x[1], 0.6, 1e-15);
}

TEST(Gmres, HappyBreakdownIsTheSolution) {
  // b lies in an invariant subspace of dimension 2.
  const DenseOperator<double> A(rotated({2, 2, 2, 5, 5, 5, 5, 5}));
  const auto b = right_hand_side<double>(8);
  for (const char* how : {"cgs2", "mgs"}) {
    std::vector<double> x(8, 0.0);
    const auto report =
        make_solver<double>("gmres", {.stopping = {.relative_tolerance = 1e-14}, .orthogonalization = how})
            ->solve(A, view(b), view(x));
    EXPECT_TRUE(report.converged()) << to_string(report.reason) << report.detail;
    EXPECT_EQ(report.iterations, 2);
  }
}

TEST(Gmres, CyclicShiftStagnatesUntilTheLastStep) {
  const std::int64_t n = 10;
  Dense A(n);
  for (std::int64_t i = 0; i < n; ++i) A((i + 1) % n, i) = 1;
  std::vector<double> b(10, 0.0), x(10, 0.0);
  b[0] = 1;
  // Full GMRES makes no progress in n - 1 steps and finds the solution in step n.
  const DenseOperator<double> op(A);
  auto report = make_solver<double>("gmres", {.restart = 10})->solve(op, view(b), view(x));
  EXPECT_TRUE(report.converged());
  EXPECT_EQ(report.iterations, 10);
  // With shorter cycles it never makes progress, and the stagnation window ends the solve.
  std::fill(x.begin(), x.end(), 0.0);
  report = make_solver<double>("gmres", {.stopping = {.stagnation_window = 25}, .restart = 5})
               ->solve(op, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::stagnation);
  EXPECT_EQ(report.iterations, 25);
  EXPECT_NEAR(report.true_residual, 1, 1e-14);
}

// Rounding decides whether the second cycle breaks down or makes no progress.
TEST(Gmres, SingularAndInconsistentIsABreakdownOrStagnates) {
  const DenseOperator<double> A(diagonal_matrix({1, 2, 0}));
  const std::vector<double> b = {1, 1, 1};
  std::vector<double> x(3, 0.0);
  const auto report = make_solver<double>("gmres")->solve(A, view(b), view(x));
  EXPECT_TRUE(report.reason == StopReason::breakdown || report.reason == StopReason::stagnation)
      << to_string(report.reason);
  EXPECT_NEAR(report.true_residual, 1, 1e-10) << "the consistent part is solved";
}

TEST(Gmres, SingularButConsistentIsSolved) {
  const DenseOperator<double> A(diagonal_matrix({1, 2, 0}));
  const std::vector<double> b = {1, 1, 0};
  std::vector<double> x(3, 0.0);
  const auto report = make_solver<double>("gmres")->solve(A, view(b), view(x));
  EXPECT_TRUE(report.converged());
  EXPECT_NEAR(x[0] + 2 * x[1], 2, 1e-12);
}

}  // namespace
}  // namespace protean::test

#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

TEST(Cg, AsManyStepsAsDistinctEigenvalues) {
  for (int distinct : {1, 2, 3, 5}) {
    std::vector<long double> d;
    for (int i = 0; i < 40; ++i) d.push_back(1 + 2 * (i % distinct));
    const DenseOperator<double> A(rotated(d));
    const auto b = right_hand_side<double>(40);
    std::vector<double> x(40, 0.0);
    const auto report = make_solver<double>("cg")->solve(A, view(b), view(x));
    EXPECT_EQ(report.reason, StopReason::relative_tolerance);
    EXPECT_EQ(report.iterations, distinct);
    EXPECT_EQ(report.restarts, 0);
  }
}

TEST(Cg, JacobiOnADiagonalMatrixNeedsOneStep) {
  std::vector<long double> d;
  for (int i = 0; i < 30; ++i) d.push_back(std::pow(10.0L, i % 8));
  const DenseOperator<double> A(diagonal_matrix(d));
  const auto b = right_hand_side<double>(30);
  std::vector<double> x(30, 0.0);
  const auto M = make_preconditioner<double>("jacobi", A);
  M->ensure(A);
  const auto report = make_solver<double>("cg")->solve(A, view(b), view(x), M.get());
  EXPECT_TRUE(report.converged());
  EXPECT_EQ(report.iterations, 1);
}

TEST(Cg, NegativeEigenvalueIsNamed) {
  for (int threads : {1, 2}) {
    const DenseOperator<double> A(rotated({1, 2, 3, -4, 5, 6}), Context::host(threads));
    const auto b = right_hand_side<double>(6);
    std::vector<double> x(6, 0.0);
    const auto report = make_solver<double>("cg")->solve(A, view(b), view(x));
    EXPECT_EQ(report.reason, StopReason::indefinite_operator);
    EXPECT_NE(report.detail.find("p . A p = -"), std::string::npos) << report.detail;
    // x is the last iterate before the negative curvature, and the report describes it.
    EXPECT_NEAR(report.true_residual, static_cast<double>(residual_norm(A.matrix(), b, x)), 1e-13);
  }
}

TEST(Cg, ZeroCurvatureIsNamed) {
  const DenseOperator<double> A(diagonal_matrix({0, 1, 1}));
  const std::vector<double> b = {1, 0, 0};
  std::vector<double> x(3, 0.0);
  const auto report = make_solver<double>("cg")->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::indefinite_operator);
  EXPECT_EQ(x, (std::vector<double>{0, 0, 0}));
}

TEST(Cg, NegativeDiagonalMakesJacobiIndefinite) {
  const DenseOperator<double> A(diagonal_matrix({1, -2, 3}));
  const std::vector<double> b = {0, 1, 0};
  std::vector<double> x(3, 0.0);
  const auto M = make_preconditioner<double>("jacobi", A);
  M->ensure(A);
  const auto report = make_solver<double>("cg")->solve(A, view(b), view(x), M.get());
  EXPECT_EQ(report.reason, StopReason::indefinite_preconditioner);
  EXPECT_EQ(report.iterations, 0);
}

}  // namespace
}  // namespace protean::test

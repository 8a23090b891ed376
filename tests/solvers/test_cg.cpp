#include <string>
#include <utility>
#include <vector>

#include "core/simulated_device.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/given_matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/rounded_systems.hpp"
#include "support/space.hpp"

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

// Products with values that were rounded to float; the matrix that was given is next to them.
class Rounded final : public LinearOperator<double>,
                      public HasDiagonal<double>,
                      public HasGivenMatrix<double> {
 public:
  Rounded(const ContextPtr& context, const CsrMatrix<double>& csr)
      : LinearOperator<double>(context, Shape{csr.rows(), csr.cols()}), given_(matrix(context, csr)) {
    CsrMatrix<double> rounded = deep_copy(test_context(), csr);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
      const_cast<double*>(rounded.values)[k] = static_cast<double>(static_cast<float>(csr.values[k]));
    rounded_ = matrix(context, rounded);
  }
  std::string_view name() const noexcept override { return "rounded"; }
  Recording recording() const noexcept override { return rounded_->recording(); }
  void diagonal(VectorView<double> d) const override { given_->diagonal(d); }
  const LinearOperator<double>* given_matrix() const override { return given_.get(); }
  void leave_rounding(std::string why) const override { ADD_FAILURE() << why; }

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    rounded_->apply(alpha, x, beta, y);
  }

 private:
  static std::unique_ptr<AssembledMatrix<double>> matrix(const ContextPtr& context,
                                                         const CsrMatrix<double>& csr) {
    return make_matrix(context->simulated() ? fake_format("csr") : find_format("csr"), placed(context, csr),
                       context);
  }
  std::unique_ptr<AssembledMatrix<double>> given_, rounded_;
};

// b - A x replaces the residual of products with rounded values, and the direction is kept: also on a device, which has
// done steps ahead by then. They come first, and the observer sees each.
TEST(Cg, RoundedValuesCostNoRestartOnADevice) {
  const CsrMatrix<double> csr = diffusion(40);
  const auto b = sample_vector<double>(csr.rows(), 9);
  struct Seen final : SolveObserver {
    std::int64_t last = -1;
    bool on_iteration(const IterationInfo& info) override {
      EXPECT_EQ(info.iteration, last + 1);
      last = info.iteration;
      return true;
    }
  };
  const auto solve = [&](const ContextPtr& context, const char* preconditioner) {
    const Rounded A(context, csr);
    const auto M = make_preconditioner<double>(preconditioner, A);
    if (M) M->ensure(A);
    const Placed<double> right(context, b);
    Placed<double> x(context, std::vector<double>(b.size(), 0.0));
    SolverOptions options;
    options.stopping.relative_tolerance = 1e-10;
    Seen seen;
    const SolveReport report =
        make_solver<double>("cg", options)->solve(A, right.read(), x.view(), M.get(), &seen);
    EXPECT_TRUE(report.converged()) << report.detail;
    EXPECT_EQ(seen.last, report.iterations);
    EXPECT_LE(relative_residual_of(csr, b, x.fetch()), 1.01e-10);
    EXPECT_EQ(report.restarts, 0);
    EXPECT_GE(report.corrections, 5);
    return report.iterations;
  };
  std::vector<ContextPtr> places;
  for (const int ahead : {0, 1, 6, 15})
    places.push_back(fake_device_context({.steps_ahead = ahead, .steps_after_end = 3}));
  if (const ContextPtr gpu = test_context(Space::device)) places.push_back(gpu);
  for (const char* preconditioner : {"none", "jacobi", "chebyshev"}) {
    SCOPED_TRACE(preconditioner);
    const auto on_host = static_cast<double>(solve(test_context(), preconditioner));
    for (const ContextPtr& context : places) {
      SCOPED_TRACE(context->simulated() ? std::to_string(context->simulated()->steps_ahead()) + " ahead"
                                        : "GPU");
      EXPECT_LE(static_cast<double>(solve(context, preconditioner)), 1.2 * on_host + 5);
    }
  }
}

}  // namespace
}  // namespace protean::test

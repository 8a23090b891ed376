// The tests of scalars that end a solve or let it go on, each at the place where a missing or misplaced test gives a
// wrong answer.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "preconditioners/callback_preconditioner.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// M^-1 is the diagonal given, which need not be positive.
class DiagonalPreconditioner final : public Preconditioner<double> {
 public:
  explicit DiagonalPreconditioner(std::vector<double> d)
      : Preconditioner<double>(test_context(), {std::ssize(d), std::ssize(d)}), d_(std::move(d)) {}
  std::string_view name() const noexcept override { return "diagonal"; }
  VectorView<const double> inverse_diagonal() const noexcept override { return view(d_); }

 protected:
  void setup(const LinearOperator<double>&, bool) override {}
  void do_apply(double, VectorView<const double>, double, VectorView<double>) const override {}

 private:
  std::vector<double> d_;
};

// The answer of a solver to A x = b from x = 0.
template <class T>
SolveReport solve(const char* method, const Dense& A, const std::vector<T>& b, std::vector<T>& x,
                  const SolverOptions& options = {}, const Preconditioner<T>* M = nullptr) {
  x.assign(b.size(), T(0));
  return make_solver<T>(method, options)->solve(DenseOperator<T>(A), view(b), view(x), M);
}

Dense scaled(Dense A, long double factor) {
  for (long double& a : A.a) a *= factor;
  return A;
}

TEST(GmresGuard, LargeEntriesAreNoBreakdown) {
  for (const char* how : {"cgs2", "mgs"})
    for (long double factor : {1e-5L, 1e5L, 1e8L}) {
      const Dense A = scaled(convection_2d(12, 0), factor);
      std::vector<float> b = right_hand_side<float>(A.n), x;
      const SolveReport report = solve<float>(
          "gmres", A, b, x, {.stopping = {.relative_tolerance = 1e-5}, .orthogonalization = how});
      EXPECT_EQ(report.reason, StopReason::relative_tolerance)
          << how << " " << factor << " " << to_string(report.reason) << " " << report.detail;
    }
}

TEST(GmresGuard, PenaltyRowsAreNoBreakdown) {
  Dense A = convection_2d(30, 0);
  for (std::int64_t i = 0; i < A.n; i += 31) A(i, i) += 1e10L;
  const std::vector<double> b = right_hand_side<double>(A.n);
  std::vector<double> x;
  for (const char* method : all_methods()) {
    // The residual of idr grows by more than the spread of these eigenvalues before it falls.
    if (method == std::string_view("idr")) continue;
    const SolveReport report = solve<double>(method, A, b, x, options_read_by(method, {.restart = 200}));
    EXPECT_TRUE(report.converged()) << method << " " << to_string(report.reason) << " " << report.detail;
  }
}

// A = I + N with a small N: what A v_j has beside v_j is small, too, but far above its rounding. The first step
// leaves a residual of that size, the second one solves the system.
template <class T>
void expect_two_steps(long double size_of_n, double tolerance) {
  Dense A = scaled(convection_2d(9, 1), size_of_n);
  for (std::int64_t i = 0; i < A.n; ++i) A(i, i) += 1;
  const std::vector<T> b = right_hand_side<T>(A.n);
  for (const char* how : {"cgs2", "mgs"}) {
    std::vector<T> x;
    const SolveReport report =
        solve<T>("gmres", A, b, x, {.stopping = {.relative_tolerance = tolerance}, .orthogonalization = how});
    EXPECT_EQ(report.reason, StopReason::relative_tolerance)
        << how << " " << to_string(report.reason) << " " << report.detail;
    EXPECT_EQ(report.iterations, 2) << how;
    EXPECT_EQ(report.restarts, 0) << how;
  }
}
TEST(GmresGuard, ASmallNewDirectionIsNoBreakdown) {
  expect_two_steps<double>(1e-10L, 1e-13);
  expect_two_steps<float>(1e-4L, 1e-5);
}

// The kernel of the judge on a GPU applies the same comparison; here the host compares, on scalars that are copied one
// by one.
TEST(GmresGuard, TheSameOnADevice) {
  for (const ContextPtr& context : {fake_device_context(), test_context(Space::device)}) {
    if (!context) continue;  // no GPU
    const bool fake = context->simulated();
    auto csr = deep_copy(test_context(), generate(test_context(), "poisson-2d", {{"n", 16}}));
    for (std::int64_t i = 0; i < csr.nonzeros(); ++i) const_cast<double*>(csr.values)[i] *= 1e15;
    const auto A = make_matrix(fake ? fake_format("csr") : find_format("csr"), placed(context, csr), context);
    const Placed<double> b(context, right_hand_side<double>(csr.rows()));
    Placed<double> x(context, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
    const SolveReport report = make_solver<double>("gmres")->solve(*A, b.read(), x.view());
    EXPECT_TRUE(report.converged()) << to_string(report.reason) << " " << report.detail;
  }
}

TEST(GmresGuard, AZeroColumnDoesNotReduceTheResidual) {
  // A b = 0 without rounding: nothing can be minimised.
  std::vector<double> b = {0, 0, 1}, x;
  for (const char* how : {"cgs2", "mgs"}) {
    const SolveReport report =
        solve<double>("gmres", diagonal_matrix({1, 2, 0}), b, x, {.orthogonalization = how});
    EXPECT_EQ(report.reason, StopReason::breakdown) << to_string(report.reason);
    EXPECT_EQ(report.iterations, 1);
    EXPECT_EQ(report.recurrence_residual, 1);
    EXPECT_EQ(report.true_residual, 1);
  }
}

TEST(CgGuard, APreconditionerThatIsIndefiniteFromTheSecondStepOn) {
  // r . M^-1 r is positive for the first residual (1, 1, 1), negative for the second, (-4, 1, 5) / 7, and
  // p . A p is positive in the first step.
  const Dense A = diagonal_matrix({1, 2, 3});
  const std::vector<double> b = {1, 1, 1};
  const DiagonalPreconditioner M({1, 3, -0.5});
  std::vector<double> x;
  const SolveReport report = solve<double>("cg", A, b, x, {}, &M);
  EXPECT_EQ(report.reason, StopReason::indefinite_preconditioner) << report.detail;
  EXPECT_NE(report.detail.find("r . M^-1 r = -"), std::string::npos) << report.detail;
  EXPECT_EQ(report.iterations, 1);
}

TEST(CgGuard, APreconditionerThatGivesNotANumberIsNotCalledIndefinite) {
  // r is finite, r . M^-1 r is not: from the first residual on, and from the second.
  const Dense A = diagonal_matrix({1, 2, 3});
  const std::vector<double> b = {1, 1, 1};
  for (const std::int64_t bad : {1, 2}) {
    std::int64_t calls = 0;
    const CallbackPreconditioner<double> M(test_context(), {3, 3},
                                           [&](const double* r, double* z, CUstream_st*) {
                                             std::copy(r, r + 3, z);
                                             if (++calls == bad) z[1] = std::nan("");
                                           });
    std::vector<double> x;
    const SolveReport report = solve<double>("cg", A, b, x, {}, &M);
    EXPECT_EQ(report.reason, StopReason::not_finite) << to_string(report.reason) << " " << report.detail;
    EXPECT_NE(report.detail.find("r . M^-1 r"), std::string::npos) << report.detail;
    EXPECT_EQ(report.iterations, bad - 1);
    EXPECT_TRUE(std::isfinite(report.true_residual));
  }
}

TEST(BiCgStabGuard, AResidualOrthogonalToTheFirst) {
  // b = e1: v = A b = (1, -1, 0), alpha = 1, s = (0, 1, 0), t = A s = (0, 1, 1), omega = 1/2 and
  // r = (0, 1/2, -1/2): r0 . r = 0 although neither omega nor r is zero.
  Dense A(3);
  A(0, 0) = 1, A(1, 0) = -1, A(1, 1) = 1, A(2, 1) = 1, A(2, 2) = 1;
  const std::vector<double> b = {1, 0, 0};
  std::vector<double> x;
  const SolveReport report = solve<double>("bicgstab", A, b, x, {.stopping = {.max_iterations = 1}});
  EXPECT_EQ(report.reason, StopReason::breakdown) << to_string(report.reason);
  EXPECT_EQ(report.iterations, 1);
  EXPECT_NE(report.detail.find("rho = r0 . r = 0"), std::string::npos) << report.detail;
  EXPECT_EQ(report.true_residual, std::sqrt(0.5));
  // That is progress, so that the method begins again from there.
  const SolveReport longer = solve<double>("bicgstab", A, b, x);
  EXPECT_TRUE(longer.converged()) << to_string(longer.reason) << " " << longer.detail;
  EXPECT_GE(longer.restarts, 1);
}

TEST(Norms, AVectorWhoseSquaresOverflowIsScaledBack) {
  // r . r is infinite, so the solve ends before a step. The recurrence must begin with b - A x itself: were
  // it left divided by its largest entry, r . r would be finite.
  const Dense A = convection_2d(5, 0);
  std::vector<double> b = right_hand_side<double>(A.n), x;
  for (double& v : b) v *= 1e170;
  for (const char* method : all_methods()) {
    const SolveReport report = solve<double>(method, A, b, x);
    EXPECT_EQ(report.reason, StopReason::not_finite) << method << " " << to_string(report.reason);
    EXPECT_EQ(report.iterations, 0) << method;
    EXPECT_EQ(report.restarts, 0) << method;
    EXPECT_NEAR(report.true_residual / 1e170, report.rhs_norm / 1e170, 1e-12) << method;
  }
}

// One unknown: CG takes one step, after which the recurrence is zero, and then b - A x is computed. Here that
// is falsified, so each restart finds the residual that the test has chosen.
SolveReport restart_with(std::vector<double> residuals) {
  DenseOperator<double> A(diagonal_matrix({1}));
  // Products 1: b - A x0; then, again and again, one of a step and one of b - A x.
  A.after = [&](std::int64_t product, VectorView<double> y) {
    if (product == 1 || product % 2 == 0) return;
    const auto k = static_cast<std::size_t>(product / 2 - 1);
    y[0] = k < residuals.size() ? residuals[k] : 0;
  };
  const std::vector<double> b = {1};
  std::vector<double> x = {0};
  return make_solver<double>("cg")->solve(A, view(b), view(x));
}

TEST(Restarts, OneWithoutProgressIsForgottenAfterOneWithProgress) {
  // Falls, stays, falls, stays, falls.
  SolveReport report = restart_with({0.5, 0.5, 0.1, 0.1, 0.01});
  EXPECT_EQ(report.reason, StopReason::relative_tolerance) << to_string(report.reason) << report.detail;
  EXPECT_EQ(report.restarts, 5);
  // Two without progress after each other are one too many.
  report = restart_with({0.5, 0.5, 0.5, 0.1, 0.01});
  EXPECT_EQ(report.reason, StopReason::stagnation);
  EXPECT_EQ(report.restarts, 2);
}

TEST(Divergence, IsMeasuredFromAFarInitialGuessToo) {
  const Dense A = convection_2d(9, 0);
  const std::vector<double> b = right_hand_side<double>(A.n);
  for (const char* method : all_methods()) {
    std::vector<double> x(b.size(), 1e6);
    const SolveReport report = make_solver<double>(method, {.stopping = {.divergence = 100}})
                                   ->solve(DenseOperator<double>(A), view(b), view(x));
    EXPECT_GT(report.initial_residual, 1e5 * report.rhs_norm);
    EXPECT_TRUE(report.converged()) << method << " " << to_string(report.reason) << " " << report.detail;
  }
}

// If products of two numbers are below the range of the type, a solve ends for that reason, whatever scalar was the
// first to become zero.
template <class T>
void expect_underflow(const std::vector<long double>& factors, double tolerance, bool of_matrix) {
  for (const char* method : all_methods())
    for (const char* preconditioner : {"none", "jacobi"})
      for (long double factor : factors) {
        SCOPED_TRACE(testing::Message() << method << " " << preconditioner << " " << factor);
        const Dense matrix = scaled(convection_2d(9, 0), of_matrix ? factor : 1);
        const DenseOperator<T> A(matrix);
        std::vector<T> b = right_hand_side<T>(A.rows()), x(b.size(), T(0));
        for (T& v : b) v = static_cast<T>(v * factor);
        const auto M = make_preconditioner<T>(preconditioner, A);
        if (M) M->ensure(A);
        const auto solver = make_solver<T>(method, {.stopping = {.relative_tolerance = tolerance}});
        const SolveReport report = solver->solve(A, view(b), view(x), M.get());
        // Jacobi scales p . A p, and GMRES divides by ||r||: these still solve some of the systems.
        const bool cg_alone = std::string_view(method) == "cg" && !M;
        if (cg_alone || !report.converged()) {
          EXPECT_EQ(report.reason, StopReason::underflow) << to_string(report.reason) << " " << report.detail;
          EXPECT_NE(report.detail.find("||r|| = 1e-"), std::string::npos) << report.detail;
          EXPECT_NE(report.detail.find(sizeof(T) == 4 ? "; single precision" : "; double precision"),
                    std::string::npos)
              << report.detail;
          const std::string began = "the solve began with ||r|| = 1e";
          if (report.detail.find(began) != std::string::npos) {
            const auto power = std::to_string(std::lround(std::log10(report.initial_residual)));
            EXPECT_NE(report.detail.find(began + power), std::string::npos) << report.detail;
          }
        }
        // What the advice recommends helps.
        const DenseOperator<T> larger(scaled(matrix, 1 / factor));
        for (T& v : b) v = static_cast<T>(v / factor);
        x.assign(b.size(), T(0));
        if (M) M->ensure(larger);
        if (of_matrix) { EXPECT_TRUE(solver->solve(larger, view(b), view(x), M.get()).converged()); }
      }
}

TEST(Underflow, OfASmallRightHandSideInSinglePrecision) {
  expect_underflow<float>({1e-18L, 1e-19L, 1e-20L, 1e-24L, 1e-30L}, 1e-5, false);
}
TEST(Underflow, OfASmallSystemInSinglePrecision) {
  expect_underflow<float>({1e-15L, 1e-18L, 1e-22L}, 1e-5, true);
}
TEST(Underflow, OfASmallRightHandSideInDouble) {
  expect_underflow<double>({1e-158L, 1e-170L, 1e-250L}, 1e-8, false);
}
TEST(Underflow, OfASmallSystemInDouble) { expect_underflow<double>({1e-110L, 1e-160L, 1e-200L}, 1e-8, true); }

TEST(Underflow, IsNotTakenForAnIndefiniteMatrixNorTheOtherWayRound) {
  // p . A p = 0 with p = e1 in the kernel of A, and no number is small.
  std::vector<float> b = {1e-10f, 0, 0}, x;
  SolveReport report = solve<float>("cg", diagonal_matrix({0, 1, 1}), b, x);
  EXPECT_EQ(report.reason, StopReason::indefinite_operator) << report.detail;
  // The curvature is zero without a zero in A p.
  b = {1e-10f, 1e-10f, 0};
  report = solve<float>("cg", diagonal_matrix({1, -1, 1}), b, x);
  EXPECT_EQ(report.reason, StopReason::indefinite_operator) << report.detail;
  Dense skew(2);
  skew(0, 1) = 1, skew(1, 0) = -1;
  b = {1e-10f, 0};
  EXPECT_EQ(solve<float>("bicgstab", skew, b, x).reason, StopReason::breakdown);
}

// Overflow, unlike underflow, is a number that is not finite, whatever scalar was the first. It was taken for a
// breakdown where a scalar was small only beside an infinite one.
template <class T>
void expect_overflow(const std::vector<long double>& factors, double tolerance) {
  for (const char* method : all_methods()) {
    int named = 0;
    for (const char* preconditioner : {"none", "jacobi"})
      for (const long double factor : factors)
        for (const long double of_b : {1.0L, std::sqrt(factor), factor})
          for (const bool several : {false, true}) {
            const auto known = multi_methods();
            if (several && std::find(known.begin(), known.end(), method) == known.end()) continue;
            SCOPED_TRACE(testing::Message() << method << " " << preconditioner << " A " << factor << " b "
                                            << of_b << (several ? " several columns" : ""));
            const bool symmetric = find_solver(method).symmetric;
            const Dense unit = convection_2d(5, symmetric ? 0 : 3);
            std::vector<T> b = right_hand_side<T>(unit.n), x(b.size(), T(0));
            for (T& v : b) v = static_cast<T>(v * of_b);
            const SolverOptions options{.stopping = {.relative_tolerance = tolerance, .max_iterations = 300}};
            const auto solve_with = [&](const Dense& matrix) {
              const DenseOperator<T> A(matrix);
              const auto M = make_preconditioner<T>(preconditioner, A);
              if (M) M->ensure(A);
              if (!several) return make_solver<T>(method, options)->solve(A, view(b), view(x), M.get());
              return MultiSolver<T>(method, options)
                  .solve(A, MultiVectorView<const T>{b.data(), unit.n, 1, unit.n},
                         MultiVectorView<T>{x.data(), unit.n, 1, unit.n}, M.get())
                  .columns[0];
            };
            const SolveReport report = solve_with(scaled(unit, factor));
            if (report.converged()) continue;
            ++named;
            EXPECT_EQ(report.reason, StopReason::not_finite)
                << to_string(report.reason) << " " << report.detail;
            EXPECT_NE(report.detail.find("overflow: ||r|| = 1e"), std::string::npos) << report.detail;
            // What the advice recommends helps.
            for (T& v : b) v = static_cast<T>(v / of_b);
            std::fill(x.begin(), x.end(), T(0));
            EXPECT_TRUE(solve_with(unit).converged());
          }
    EXPECT_GT(named, 0) << method;
  }
}
TEST(Overflow, OfALargeSystemInDouble) {
  expect_overflow<double>({1e100L, 1e140L, 1e154L, 1e160L, 1e200L, 1e300L}, 1e-8);
}
TEST(Overflow, OfALargeSystemInSinglePrecision) {
  expect_overflow<float>({1e15L, 1e18L, 1e20L, 1e30L}, 1e-5);
}

// It ends the solve only where a new beginning from b - A x does not help.
TEST(Overflow, AMethodThatCanGoOnDoes) {
  const DenseOperator<double> A(scaled(convection_2d(9, 0), 1e154L / 4));
  std::vector<double> b(81), x(81, 0.0);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 1 + static_cast<double>(i % 3);
  const SolveReport report = make_solver<double>("minres", {.stopping = {.max_iterations = 300}})
                                 ->solve(A, view(std::as_const(b)), view(x));
  EXPECT_TRUE(report.converged()) << to_string(report.reason) << " " << report.detail;
  EXPECT_GE(report.restarts, 1);
}

TEST(Overflow, IsNotSaidOfANumberThatWasNotFinite) {
  for (const char* method : all_methods()) {
    DenseOperator<double> A(convection_2d(5, 0));
    A.after = [](std::int64_t product, VectorView<double> y) {
      if (product == 3) y[5] = std::numeric_limits<double>::quiet_NaN();
    };
    std::vector<double> b = right_hand_side<double>(A.rows()), x(b.size(), 0.0);
    const SolveReport report = make_solver<double>(method)->solve(A, view(b), view(x));
    EXPECT_EQ(report.reason, StopReason::not_finite) << method << " " << to_string(report.reason);
    EXPECT_EQ(report.detail.find("overflow"), std::string::npos) << report.detail;
  }
}

TEST(Underflow, OnADevice) {
  for (const ContextPtr& context : {fake_device_context(), test_context(Space::device)}) {
    if (!context) continue;  // no GPU
    const auto csr =
        convert_values<float>(test_context(), generate(test_context(), "poisson-2d", {{"n", 9}}));
    const FormatEntry& format = context->simulated() ? fake_format("csr") : find_format("csr");
    const auto A = make_matrix(format, placed(context, csr), context);
    const auto M = make_preconditioner<float>("jacobi", *A);
    M->ensure(*A);
    for (const char* method : all_methods()) {
      const Placed<float> b(context, std::vector<float>(81, 1e-20f));
      Placed<float> x(context, std::vector<float>(81, 0.0f));
      const SolveReport report = make_solver<float>(method)->solve(*A, b.read(), x.view(), M.get());
      EXPECT_EQ(report.reason, StopReason::underflow) << method << " " << to_string(report.reason);
    }
  }
}

// Half of all assembled Laplacians have this sign.
class NegativeDefinite : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, NegativeDefinite, testing::Values("none", "jacobi"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(NegativeDefinite, IsNamedByCg) {
  auto csr = deep_copy(test_context(), generate(test_context(), "poisson-2d", {{"n", 40}}));
  for (std::int64_t i = 0; i < csr.nonzeros(); ++i) const_cast<double*>(csr.values)[i] *= -1;
  for (const ContextPtr& context : {test_context(), fake_device_context(), test_context(Space::device)}) {
    if (!context) continue;  // no GPU
    const FormatEntry& format = context->simulated() ? fake_format("csr") : find_format("csr");
    const auto A = make_matrix(format, placed(context, csr), context);
    const auto M = make_preconditioner<double>(GetParam(), *A);
    if (M) M->ensure(*A);
    const Placed<double> b(context, right_hand_side<double>(csr.rows()));
    Placed<double> x(context, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
    const SolveReport report = make_solver<double>("cg")->solve(*A, b.read(), x.view(), M.get());
    EXPECT_EQ(report.reason, StopReason::negative_definite) << to_string(report.reason);
    EXPECT_NE(report.detail.find("all 1600 diagonal entries are negative"), std::string::npos)
        << report.detail;
    EXPECT_EQ(x.fetch(), std::vector<double>(1600, 0.0));
    EXPECT_NEAR(report.true_relative, 1, 1e-14);
  }
}

TEST_P(NegativeDefinite, IsNotSaidOfOthers) {
  const auto reason = [&](const Dense& matrix, const std::vector<double>& b, std::string& detail) {
    const DenseOperator<double> A(matrix);
    const auto M = make_preconditioner<double>(GetParam(), A);
    if (M) M->ensure(A);
    std::vector<double> x(b.size(), 0.0);
    const SolveReport report = make_solver<double>("cg")->solve(A, view(b), view(x), M.get());
    detail = report.detail;
    return report.reason;
  };
  std::string detail;
  // One diagonal entry, the last one of a second stretch, is positive.
  std::vector<long double> d(1025, -1);
  d[1024] = 1;
  EXPECT_NE(reason(diagonal_matrix(d), right_hand_side<double>(1025), detail), StopReason::negative_definite)
      << detail;
  d[1024] = 0.0L;
  if (std::string_view(GetParam()) == "none") {
    EXPECT_EQ(reason(diagonal_matrix(d), right_hand_side<double>(1025), detail),
              StopReason::indefinite_operator);
  }
  // All diagonal entries are negative, but the curvature of the first step is positive.
  Dense A(2);
  A(0, 0) = A(1, 1) = -1, A(0, 1) = A(1, 0) = 3;
  const StopReason given = reason(A, {1, 1.5}, detail);
  if (std::string_view(GetParam()) == "none") { EXPECT_EQ(given, StopReason::indefinite_operator) << detail; }
}

TEST(NegativeDefiniteWithoutADiagonal, IsIndefiniteWithAdviceThatHelps) {
  const CallbackOperator<double> A(test_context(), {3, 3}, [](const double* x, double* y) {
    for (int i = 0; i < 3; ++i) y[i] = -(i + 1) * x[i];
  });
  const std::vector<double> b = {1, 2, 3};
  std::vector<double> x(3, 0.0);
  const SolveReport report = make_solver<double>("cg")->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::indefinite_operator);
  EXPECT_NE(report.advice.find("-A x = -b"), std::string::npos);
}

// Squares of these numbers are denormal: they have few digits or none.
TEST(Norm, IsExactWhereSquaresUnderflow) {
  const DenseOperator<double> A(poisson_1d(20));
  const std::vector<double> unit = right_hand_side<double>(20);
  long double expected = 0;
  for (const double v : unit) expected += static_cast<long double>(v) * v;
  expected = std::sqrt(expected);
  for (const int exponent : {-530, -520, -515, -510, 515}) {
    std::vector<double> b = unit, x(20, 0.0);
    for (double& v : b) v = std::ldexp(v, exponent);
    const auto report = make_solver<double>("gmres", {.stopping = {.max_iterations = 0}})
                            ->solve(A, view(std::as_const(b)), view(x));
    EXPECT_NEAR(std::ldexp(report.rhs_norm, -exponent), static_cast<double>(expected), 1e-13) << exponent;
  }
}

}  // namespace
}  // namespace protean::test

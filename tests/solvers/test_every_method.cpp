// The contract of all methods, tested for each method, precision and preconditioner.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/contract.hpp"
#include "solvers/methods_of_contract.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

INSTANTIATE_TEST_SUITE_P(All, Methods,
                         testing::Values(Case{"cg", "cg"}, Case{"fcg", "fcg"}, Case{"minres", "minres"},
                                         Case{"bicgstab", "bicgstab"}, Case{"bicgstab2", "bicgstab2"},
                                         Case{"idr", "idr"}, Case{"gmres_cgs2", "gmres"},
                                         Case{"gmres_mgs", "gmres", "mgs"}, Case{"fgmres_cgs2", "fgmres"},
                                         Case{"fgmres_mgs", "fgmres", "mgs"}),
                         [](const auto& one) { return one.param.label; });

// A symmetric preconditioner that is no diagonal, so that a solver must call apply().
template <class T>
class TridiagonalPreconditioner final : public Preconditioner<T> {
 public:
  using Preconditioner<T>::Preconditioner;
  std::string_view name() const noexcept override { return "tridiagonal"; }

 protected:
  void setup(const LinearOperator<T>&, bool) override {}
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const std::int64_t n = x.size;
    for (std::int64_t i = 0; i < n; ++i) {
      const T z = T(0.5) * x[i] + T(0.2) * ((i > 0 ? x[i - 1] : T(0)) + (i + 1 < n ? x[i + 1] : T(0)));
      y[i] = alpha * z + (beta == T(0) ? T(0) : beta * y[i]);
    }
  }
};

template <class T>
void solve_with_everything(const std::function<std::unique_ptr<Solver<T>>(StoppingRule)>& make,
                           const Dense& matrix, double tolerance) {
  const DenseOperator<T> A(matrix);
  const auto b = right_hand_side<T>(matrix.n);
  const auto jacobi = make_preconditioner<T>("jacobi", A);
  jacobi->ensure(A);
  const TridiagonalPreconditioner<T> general(A.context(), A.shape());
  for (const Preconditioner<T>* M :
       {static_cast<const Preconditioner<T>*>(nullptr), static_cast<const Preconditioner<T>*>(jacobi.get()),
        static_cast<const Preconditioner<T>*>(&general)})
    for (T start : {T(0), T(3)}) {
      std::vector<T> x(b.size(), start);
      const auto report = make({.relative_tolerance = tolerance})->solve(A, view(b), view(x), M);
      SCOPED_TRACE(std::string(M ? M->name() : "none") + " from " + std::to_string(start));
      expect_solution(matrix, b, x, report, tolerance);
      EXPECT_GT(report.iterations, 0);
      EXPECT_LT(report.iterations, 200);
    }
}

TEST_P(Methods, SolvesInDouble) {
  for (double tolerance : {1e-3, 1e-8, 1e-12})
    solve_with_everything<double>([&](StoppingRule rule) { return make<double>(rule); }, matrix(), tolerance);
}

TEST_P(Methods, SolvesInSinglePrecision) {
  for (double tolerance : {1e-3, 1e-5})
    solve_with_everything<float>([&](StoppingRule rule) { return make<float>(rule); }, matrix(), tolerance);
}

TEST_P(Methods, LargeEnoughForThreads) {
  // Each thread has at least 2 blocks of unknowns. Iterations and answers must agree for all numbers of
  // threads.
  const std::int64_t n = 20000;
  const double c = symmetric() ? 0 : 0.2;
  const auto product = [=](const double* x, double* y) {
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = 3 * x[i] - (1 + c) * (i > 0 ? x[i - 1] : 0) - (i + 1 < n ? x[i + 1] : 0);
  };
  std::vector<double> first;
  std::int64_t iterations = 0;
  for (int threads : {1, 2, 3}) {
    const CallbackOperator<double> A(Context::host(threads), {n, n}, product);
    const auto b = right_hand_side<double>(n);
    std::vector<double> x(b.size(), 0.0);
    const auto report = make({.relative_tolerance = 1e-10})->solve(A, view(b), view(x));
    ASSERT_TRUE(report.converged());
    if (first.empty()) first = x, iterations = report.iterations;
    EXPECT_LE(std::abs(report.iterations - iterations), 1);
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(x[i], first[i], 1e-8);
  }
}

TEST_P(Methods, TheSameCountWithAUsersOperator) {
  const Dense matrix = this->matrix();
  const auto b = right_hand_side<double>(matrix.n);
  std::vector<double> x(b.size(), 0.0), y(b.size(), 0.0);
  const DenseOperator<double> A(matrix);
  const CallbackOperator<double> F(test_context(), {matrix.n, matrix.n}, [&](const double* in, double* out) {
    for (std::int64_t i = 0; i < matrix.n; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < matrix.n; ++j) sum += static_cast<double>(matrix(i, j)) * in[j];
      out[i] = sum;
    }
  });
  const auto one = make()->solve(A, view(b), view(x)), two = make()->solve(F, view(b), view(y));
  EXPECT_EQ(one.iterations, two.iterations);
  EXPECT_EQ(x, y);
}

TEST_P(Methods, ZeroRightHandSide) {
  const DenseOperator<double> A(matrix());
  const std::vector<double> b(81, 0.0);
  std::vector<double> x(81, 5.0);
  History history;
  const auto report = make()->solve(A, view(b), view(x), nullptr, &history);
  EXPECT_EQ(report.reason, StopReason::zero_right_hand_side);
  EXPECT_EQ(report.iterations, 0);
  EXPECT_EQ(report.true_residual, 0);
  EXPECT_EQ(x, b);
  EXPECT_EQ(history.seen.size(), 1u);
}

TEST_P(Methods, AGoodInitialGuessNeedsNoIteration) {
  const Dense matrix = this->matrix();
  const DenseOperator<double> A(matrix);
  const auto b = right_hand_side<double>(81);
  const auto exact = direct_solution(matrix, {b.begin(), b.end()});
  std::vector<double> x(exact.begin(), exact.end());
  const auto before = x;
  const auto report = make()->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::relative_tolerance);
  EXPECT_EQ(report.iterations, 0);
  EXPECT_EQ(A.products(), 1) << "b - A x must have been computed";
  EXPECT_GT(report.true_residual, 0) << "the residual of x must not be assumed";
  EXPECT_EQ(x, before);
}

TEST_P(Methods, EmptySystem) {
  const DenseOperator<double> A(Dense(0));
  const auto report = make()->solve(A, {}, {});
  EXPECT_TRUE(report.converged());
  EXPECT_EQ(report.iterations, 0);
}

TEST_P(Methods, OneUnknown) {
  const DenseOperator<double> A(diagonal_matrix({4}));
  const std::vector<double> b = {2};
  std::vector<double> x = {7};
  const auto report = make({.relative_tolerance = 1e-14})->solve(A, view(b), view(x));
  EXPECT_TRUE(report.converged()) << to_string(report.reason);
  EXPECT_LE(report.iterations, 2);
  EXPECT_NEAR(x[0], 0.5, 1e-14);
}

TEST_P(Methods, FiniteTermination) {
  // At most n steps in exact arithmetic; a few more by rounding.
  const Dense matrix = symmetric() ? poisson_1d(12) : convection_2d(3, 2);
  const DenseOperator<double> A(matrix);
  const auto b = right_hand_side<double>(matrix.n);
  std::vector<double> x(b.size(), 0.0);
  const auto report = make({.relative_tolerance = 1e-10})->solve(A, view(b), view(x));
  EXPECT_TRUE(report.converged());
  // idr: n + n / s products.
  EXPECT_LE(report.iterations, matrix.n + 1 + (is("idr") ? matrix.n / 4 : 0));
}

TEST_P(Methods, OnAHostNoStepsAreRecorded) {
  const DenseOperator<double> A(matrix());
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  History history;
  const auto report = make()->solve(A, view(b), view(x), nullptr, &history);
  EXPECT_TRUE(report.converged()) << report.detail;
  EXPECT_GT(history.seen.size(), 2U);
  for (const IterationInfo& info : history.seen) EXPECT_EQ(info.record_seconds, 0) << info.iteration;
}

TEST_P(Methods, NothingIsAllocatedInTheSecondSolve) {
  const DenseOperator<double> A(matrix());
  const auto jacobi = make_preconditioner<double>("jacobi", A);
  jacobi->ensure(A);
  const auto b = right_hand_side<double>(81);
  const auto solver = make();
  const std::size_t before = allocated_bytes();
  std::vector<double> x(81, 0.0), y(81, 0.0);
  const auto first = solver->solve(A, view(b), view(x), jacobi.get());
  const std::size_t kept = allocated_bytes();
  EXPECT_GT(kept, before);
  History history;
  history.then = [&](const IterationInfo&) {
    EXPECT_EQ(allocated_bytes(), kept);
    return true;
  };
  const auto second = solver->solve(A, view(b), view(y), jacobi.get(), &history);
  EXPECT_EQ(allocated_bytes(), kept);
  EXPECT_EQ(x, y) << "the second solve must not depend on the first";
  EXPECT_EQ(first.iterations, second.iterations);
  // A solve of another size in between changes nothing.
  const DenseOperator<double> small(symmetric() ? convection_2d(4, 0) : convection_2d(4, 3));
  const auto c = right_hand_side<double>(16);
  std::vector<double> z(16, 0.0);
  EXPECT_TRUE(solver->solve(small, view(c), view(z)).converged());
  std::fill(y.begin(), y.end(), 0.0);
  solver->solve(A, view(b), view(y), jacobi.get());
  EXPECT_EQ(x, y);
}

TEST_P(Methods, OneSolveAtATime) {
  const DenseOperator<double> A(matrix());
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0), y(81, 0.0);
  const auto solver = make();
  History history;
  history.then = [&](const IterationInfo&) {
    EXPECT_THROW(solver->solve(A, view(b), view(y)), BadArgument);
    return true;
  };
  EXPECT_TRUE(solver->solve(A, view(b), view(x), nullptr, &history).converged());
  // An exception of the observer passes through, and the solver can be used afterwards.
  history.then = [](const IterationInfo& info) -> bool {
    if (info.iteration == 2) throw std::runtime_error("enough");
    return true;
  };
  EXPECT_THROW(solver->solve(A, view(b), view(y), nullptr, &history), std::runtime_error);
  std::fill(y.begin(), y.end(), 0.0);
  EXPECT_TRUE(solver->solve(A, view(b), view(y)).converged());
  EXPECT_EQ(x, y);
}

TEST_P(Methods, VeryLargeAndVerySmallNumbers) {
  const DenseOperator<double> A(matrix());
  for (double factor : {1e-120, 1e120}) {
    auto b = right_hand_side<double>(81);
    for (double& v : b) v *= factor;
    std::vector<double> x(81, 0.0);
    const auto report = make()->solve(A, view(b), view(x));
    EXPECT_TRUE(report.converged()) << factor << " " << to_string(report.reason);
    EXPECT_NEAR(report.rhs_norm / factor, 4.249, 1e-3);
  }
  // Here squares overflow or underflow. The solve must not report success without it, nor take b for zero.
  for (double factor : {1e-170, 1e170}) {
    auto b = right_hand_side<double>(81);
    for (double& v : b) v *= factor;
    std::vector<double> x(81, 0.0);
    const auto report = make()->solve(A, view(b), view(x));
    EXPECT_NEAR(report.rhs_norm / factor, 4.249, 1e-3);
    if (report.converged()) {
      EXPECT_LE(residual_norm(A.matrix(), b, x), 1.01e-8 * report.rhs_norm);
    } else {
      EXPECT_LE(report.iterations, 5) << to_string(report.reason);
    }
  }
}

TEST_P(Methods, BadArguments) {
  const DenseOperator<double> A(matrix()), small(diagonal_matrix({1, 2}));
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0), shorter(80, 0.0);
  const auto solver = make();
  EXPECT_THROW(solver->solve(A, view(std::as_const(shorter)), view(x)), ShapeMismatch);
  EXPECT_THROW(solver->solve(A, view(b), view(shorter)), ShapeMismatch);
  EXPECT_THROW(solver->solve(A, view(std::as_const(x)), view(x)), BadArgument);
  EXPECT_THROW(solver->solve(A, {b.data(), 81, Space::device}, view(x)), WrongSpace);
  const auto M = make_preconditioner<double>("jacobi", small);
  EXPECT_THROW(solver->solve(A, view(b), view(x), M.get()), ShapeMismatch);
  // Without a diagonal the size of M is known from M alone.
  const CallbackPreconditioner<double> M_small(test_context(), small.shape(),
                                               [](const double*, double*, CUstream_st*) {});
  const double untouched = x[0] = 17;
  try {
    (void)solver->solve(A, view(b), view(x), &M_small);
    ADD_FAILURE() << "a preconditioner of another size was taken";
  } catch (const ShapeMismatch& error) {
    EXPECT_STREQ(error.what(), "the preconditioner is 2 x 2; the operator is 81 x 81");
  }
  EXPECT_EQ(x[0], untouched);
  EXPECT_TRUE(solver->solve(A, view(b), view(x)).converged()) << "the solver must be usable afterwards";
}

class EveryMethod : public testing::TestWithParam<const char*> {
 protected:
  static CsrMatrix<double> system() {
    return generate(test_context(),
                    find_solver(GetParam()).symmetric ? "poisson-3d" : "convection-diffusion-3d",
                    {{"n", 12}});
  }
};
INSTANTIATE_TEST_SUITE_P(All, EveryMethod, testing::ValuesIn(all_methods()),
                         [](const auto& one) { return std::string(one.param); });

struct Answer {
  std::int64_t iterations;
  double recurrence, truth;
  std::vector<double> x;
  bool operator==(const Answer&) const = default;
};
Answer solve_on(const ContextPtr& context, const FormatEntry& format, const CsrMatrix<double>& csr,
                const char* method, const char* preconditioner, const SolverOptions& options = {}) {
  const auto A = make_matrix(format, placed(context, csr), context, most_tolerant(format));
  const auto M = make_preconditioner<double>(preconditioner, *A);
  if (M) M->ensure(*A);
  const Placed<double> b(context, right_hand_side<double>(csr.rows()));
  Placed<double> x(context, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
  const auto report = make_solver<double>(method, options)->solve(*A, b.read(), x.view(), M.get());
  EXPECT_TRUE(report.converged()) << method << " " << to_string(report.reason) << " " << report.detail;
  return {report.iterations, report.recurrence_residual, report.true_residual, x.fetch()};
}

TEST_P(EveryMethod, DeterministicModeGivesTheSameBits) {
  const auto csr = system();
  for (const char* preconditioner : {"none", "jacobi"}) {
    const Answer first = solve_on(Context::host(1, {.deterministic = true}), find_format("csr"), csr,
                                  GetParam(), preconditioner);
    for (const int threads : {1, 2, 3})
      for (const char* format : {"csr", "sell-c-sigma", "ell"})
        EXPECT_EQ(solve_on(Context::host(threads, {.deterministic = true}), find_format(format), csr,
                           GetParam(), preconditioner),
                  first)
            << format << " " << threads << " " << preconditioner;
  }
}

// Scalars of the method lie in device memory, which the host must not touch.
TEST_P(EveryMethod, RunsOnADevice) {
  const auto csr = system();
  for (const char* preconditioner : {"none", "jacobi", "chebyshev"})
    EXPECT_EQ(solve_on(fake_device_context(), fake_format("csr"), csr, GetParam(), preconditioner),
              solve_on(test_context(), find_format("csr"), csr, GetParam(), preconditioner))
        << preconditioner;
}

TEST_P(EveryMethod, GoesOnAfterAChangeOfFormat) {
  const auto csr = system();
  const auto b = right_hand_side<double>(csr.rows());
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  std::vector<double> exact(b.size(), 0.0), x = exact;
  const auto plain = make_solver<double>(GetParam(), {.stopping = {.relative_tolerance = 1e-10}})
                         ->solve(*A, view(b), view(exact));
  Matrix<double> adaptive(csr, make_matrix(find_format("csr"), csr, test_context()));
  History switcher;
  switcher.then = [&](const IterationInfo& info) {
    if (info.iteration % 3 != 2) return true;
    return adaptive.switch_to({&find_format(adaptive.form() % 2 == 0 ? "sell-c-sigma" : "csr")},
                              info.iteration, "the test");
  };
  const auto report = make_solver<double>(GetParam(), {.stopping = {.relative_tolerance = 1e-10}})
                          ->solve(adaptive, view(b), view(x), nullptr, &switcher);
  EXPECT_TRUE(report.converged()) << report.detail;
  EXPECT_GE(adaptive.history().size(), 2u);
  EXPECT_EQ(report.restarts, plain.restarts) << "a change of format is no change of the operator";
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], exact[i], 1e-8);
}

TEST_P(EveryMethod, SeesNewValuesDuringASolve) {
  const Dense before = find_solver(GetParam()).symmetric ? convection_2d(9, 0) : convection_2d(9, 1);
  Dense after = before;
  for (std::int64_t i = 0; i < after.n; ++i) after(i, i) += 1;
  struct Changing final : DenseOperator<double> {
    Dense other;
    mutable bool changed = false;
    Changing(const Dense& a, Dense b) : DenseOperator<double>(a), other(std::move(b)) {}
    void do_apply(double alpha, VectorView<const double> x, double beta,
                  VectorView<double> y) const override {
      if (!changed) return DenseOperator<double>::do_apply(alpha, x, beta, y);
      for (std::int64_t i = 0; i < other.n; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < other.n; ++j) sum += static_cast<double>(other(i, j)) * x[j];
        y[i] = alpha * sum + (beta == 0 ? 0 : beta * y[i]);
      }
    }
  } A(before, after);
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  History history;
  history.then = [&](const IterationInfo& info) {
    if (info.iteration == 3 && !A.changed) A.changed = true, ++A.revision_.values;
    return true;
  };
  const auto report = make_solver<double>(GetParam())->solve(A, view(b), view(x), nullptr, &history);
  EXPECT_TRUE(report.converged()) << to_string(report.reason);
  EXPECT_GE(report.restarts, 1);
  EXPECT_LE(residual_norm(after, b, x), 1.01e-8L * report.rhs_norm);
}

}  // namespace
}  // namespace protean::test

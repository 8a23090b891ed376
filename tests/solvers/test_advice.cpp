// What a solve that has not converged advises: methods and preconditioners by name, that fit matrix, method and what
// was used.
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/advice.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

bool has_amg() {
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == "amg") return entry.unavailable.empty();
  return false;
}

template <class T = double>
SolveReport solve(const char* method, const LinearOperator<T>& A,
                  const Preconditioner<std::type_identity_t<T>>* M = nullptr, std::int64_t iterations = 2,
                  std::int64_t columns = 0) {
  const SolverOptions options =
      options_read_by(method, {.stopping = {.max_iterations = iterations}, .restart = 5});
  std::vector<T> b = right_hand_side<T>(A.rows()), x(b.size(), T(0));
  if (columns == 0) return make_solver<T>(method, options)->solve(A, view(std::as_const(b)), view(x), M);
  const std::int64_t n = A.rows();
  for (std::int64_t j = 1; j < columns; ++j) b.insert(b.end(), b.begin(), b.begin() + n);
  x.assign(b.size(), T(0));
  return MultiSolver<T>(method, options)
      .solve(A, MultiVectorView<const T>{b.data(), n, columns, n},
             MultiVectorView<T>{x.data(), n, columns, n}, M)
      .columns.back();
}

SolveReport solve_with(const char* method, const char* preconditioner, const char* kind = "poisson-2d") {
  const auto A = make_matrix(find_format("csr"), generate(test_context(), kind, {{"n", 9}}), test_context());
  const auto M = make_preconditioner<double>(preconditioner, *A);
  if (M) M->ensure(*A);
  return solve(method, *A, M.get());
}

TEST(Advice, NamesStrongerPreconditionersThanThatInUse) {
  const auto advice = [](const char* method, const char* preconditioner) {
    const SolveReport report = solve_with(method, preconditioner);
    EXPECT_EQ(report.reason, StopReason::max_iterations);
    return report.advice;
  };
  for (const char* method : {"cg", "fcg", "minres"})
    for (const char* weak : {"none", "jacobi", "spai0"}) {
      const std::string text = advice(method, weak);
      EXPECT_TRUE(has(text, "preconditioner ic0")) << text;
      EXPECT_EQ(has(text, "amg"), has_amg()) << text;
      EXPECT_TRUE(has(text, "block-jacobi if a node has several unknowns")) << text;
    }
  EXPECT_FALSE(has(advice("cg", "block-jacobi"), "block-jacobi"));
  EXPECT_FALSE(has(advice("cg", "ssor"), "block-jacobi"));
  EXPECT_TRUE(has(advice("cg", "ic0"), "preconditioner ic with fill 1 or 2"));
  EXPECT_FALSE(has(advice("cg", "ic0"), "ic0"));
  EXPECT_TRUE(has(advice("cg", "ic"), "ic with a larger fill"));
  for (const char* method : {"bicgstab", "bicgstab2", "idr", "gmres", "fgmres"}) {
    EXPECT_TRUE(has(advice(method, "none"), "preconditioner ilu0 or block-jacobi")) << advice(method, "none");
    EXPECT_TRUE(has(advice(method, "none"), "positive definite, method cg with ic0"));
    EXPECT_TRUE(has(advice(method, "ilu0"), "preconditioner ilu with fill 1 or 2"));
    EXPECT_TRUE(has(advice(method, "ilu"), "ilu with a larger fill"));
    EXPECT_EQ(has(advice(method, "none"), "larger restart"), std::string_view(method).ends_with("gmres"));
  }
}

TEST(Advice, NamesNoPreconditionerThatIsNotForTheDevice) {
  const ContextPtr context = fake_device_context();
  const auto A = make_matrix(fake_format("csr"),
                             placed(context, generate(test_context(), "poisson-2d", {{"n", 9}})), context);
  const Placed<double> b(context, right_hand_side<double>(81));
  Placed<double> x(context, std::vector<double>(81, 0.0));
  const SolveReport report =
      make_solver<double>("cg", {.stopping = {.max_iterations = 2}})->solve(*A, b.read(), x.view());
  EXPECT_TRUE(has(report.advice, "ic0")) << report.advice;
  EXPECT_EQ(has(report.advice, "amg"), has_amg()) << report.advice;
}

TEST(Advice, IsEmptyWhenConverged) {
  for (const char* method : all_methods()) {
    const DenseOperator<double> A(convection_2d(5, 0));
    const SolveReport report = solve(method, A, nullptr, 100);
    EXPECT_TRUE(report.converged());
    EXPECT_EQ(report.advice, "");
  }
}

// cg and its relatives, one or several columns: too few iterations, or the first p . A p that is not positive.
TEST(Advice, AMatrixThatIsNotSymmetricIsNamed) {
  for (const char* method : {"cg", "fcg", "minres"})
    for (const std::int64_t columns : {0, 1, 3})
      for (const double convection : {1e-6, 1.0, 50.0}) {
        if (columns > 0 && std::string_view(method) != "cg") continue;
        const DenseOperator<double> A(convection_2d(9, convection));
        const SolveReport report = solve(method, A, nullptr, 4, columns);
        ASSERT_FALSE(report.converged());
        EXPECT_TRUE(report.advice.starts_with("The matrix is not symmetric")) << report.advice;
        EXPECT_TRUE(has(report.advice, std::string("and ") + method + " needs a symmetric one"));
        EXPECT_TRUE(has(report.advice, "gmres, bicgstab or idr, with preconditioner ilu0"));
        if (columns < 2) { EXPECT_TRUE(has(report.detail, "the matrix is not symmetric")) << report.detail; }
      }
  const DenseOperator<float> A(convection_2d(9, 1e-2));
  EXPECT_TRUE(solve<float>("cg", A).advice.starts_with("The matrix is not symmetric"));
}

TEST(Advice, ASymmetricMatrixIsNotCalledUnsymmetric) {
  // Entries of very different sizes, whose products round.
  Dense scaled = convection_2d(15, 0);
  for (std::int64_t i = 0; i < scaled.n; ++i)
    for (std::int64_t j = 0; j < scaled.n; ++j)
      scaled(i, j) *= std::pow(10.0L, static_cast<long double>(i % 5 + j % 5) / 2) / 3;
  for (std::int64_t i = 0; i < scaled.n; ++i)
    for (std::int64_t j = 0; j < i; ++j) scaled(i, j) = scaled(j, i);
  for (const char* method : {"cg", "fcg", "minres"})
    for (const char* kind : {"poisson-2d", "poisson-3d", "anisotropic-2d", "elasticity-3d", "random-spd"}) {
      const CsrMatrix<double> csr = generate(test_context(), kind, {{"n", 9}});
      const auto A = make_matrix(find_format("csr"), csr, test_context());
      const SolveReport report = solve(method, *A);
      EXPECT_FALSE(has(report.advice + report.detail, "not symmetric")) << kind << report.detail;
    }
  for (const char* method : {"cg", "fcg", "minres"}) {
    EXPECT_FALSE(has(solve(method, DenseOperator<double>(scaled)).advice, "not symmetric"));
    EXPECT_FALSE(has(solve<float>(method, DenseOperator<float>(scaled)).advice, "not symmetric"));
  }
}

TEST(Advice, AnIndefiniteSymmetricMatrixIsForMinres) {
  Dense A = convection_2d(5, 0);
  for (std::int64_t i = 0; i < A.n; ++i) A(i, i) -= 3.9L;
  for (const char* method : {"cg", "fcg"}) {
    const SolveReport report = solve(method, DenseOperator<double>(A), nullptr, 100);
    EXPECT_EQ(report.reason, StopReason::indefinite_operator);
    EXPECT_TRUE(has(report.advice, "which is symmetric, is not positive definite")) << report.advice;
    EXPECT_TRUE(has(report.advice, std::string(method) + " does not apply. Take method minres"))
        << report.advice;
  }
  // ic0 and jacobi of such a matrix are not for minres.
  for (std::int64_t i = 0; i < A.n; i += 2) A(i, i) = 0;
  const SolveReport report = solve("minres", DenseOperator<double>(A));
  EXPECT_TRUE(has(report.advice, "take gmres with ilu0")) << report.advice;
}

TEST(Advice, OfAnIndefinitePreconditionerNamesIt) {
  Dense A = convection_2d(5, 0);
  A(3, 3) = -4;
  const DenseOperator<double> op(A);
  const auto M = make_preconditioner<double>("jacobi", op);
  M->ensure(op);
  const SolveReport report = solve("cg", op, M.get(), 100);
  ASSERT_EQ(report.reason, StopReason::indefinite_preconditioner) << to_string(report.reason);
  EXPECT_TRUE(has(report.advice, "preconditioner jacobi is not")) << report.advice;
  EXPECT_TRUE(has(report.advice, "a diagonal entry that is not positive")) << report.advice;
}

// Advice for a solve of which only the reason is known: none for reasons that need more, and none that names a
// preconditioner, which may be the one that failed.
TEST(Advice, FollowsFromTheNumbersAlone) {
  for (const StopReason reason : {StopReason::max_iterations, StopReason::time_limit, StopReason::running})
    EXPECT_TRUE(detail::advice_for_any_method(reason).empty());
  for (const StopReason reason : {StopReason::stagnation, StopReason::divergence, StopReason::breakdown,
                                  StopReason::underflow, StopReason::inconsistent})
    EXPECT_FALSE(has(std::string(detail::advice_for_any_method(reason)), "ic0")) << to_string(reason);
  EXPECT_TRUE(has(std::string(detail::advice_for_any_method(StopReason::not_finite)), "matrix.scale"));
  EXPECT_TRUE(has(std::string(detail::advice_for_any_method(StopReason::negative_definite)), "-A x = -b"));
}

}  // namespace
}  // namespace protean::test

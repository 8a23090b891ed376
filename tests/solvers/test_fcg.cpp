// fcg against its textbook in long double, with preconditioners that vary.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "solvers/textbook.hpp"

namespace protean::test {
namespace {

// Notay's algorithm with the last m directions. Returns ||r_k||.
std::vector<Real> flexible_cg(const Dense& A, const Column& b, int steps, std::size_t m, const Varying& M) {
  Column r = b, x(b.size(), 0);
  std::vector<Column> P, Q;
  std::vector<Real> norms{length(r)};
  for (int k = 0; k < steps; ++k) {
    const Column z = M(k, r);
    Column p = z;
    for (std::size_t i = P.size() - std::min(P.size(), m); i < P.size(); ++i)
      add(p, -dot_of(z, Q[i]) / dot_of(P[i], Q[i]), P[i]);
    const Column q = product(A, p);
    const Real alpha = dot_of(p, r) / dot_of(p, q);
    add(x, alpha, p), add(r, -alpha, q);
    P.push_back(p), Q.push_back(q);
    norms.push_back(length(r));
  }
  return norms;
}

TEST(Fcg, FollowsTheTextbookWithAVaryingPreconditioner) {
  const Dense A = convection_2d(9, 0);
  const auto b = right_hand_side<double>(A.n);
  for (std::int64_t m : {1, 2, 5, 30}) {
    VaryingPreconditioner M(A.n, alternating);
    const Solved fcg = solve("fcg", A, b, {.directions = m}, &M);
    expect_history(fcg.history, flexible_cg(A, wide(b), 15, static_cast<std::size_t>(m), alternating), 1e-9);
    EXPECT_TRUE(fcg.report.converged()) << m << " " << fcg.report.detail;
    EXPECT_EQ(fcg.report.restarts, 0) << m;
  }
}

TEST(Fcg, ConvergesWhereCgStagnates) {
  const Dense A = convection_2d(12, 0);
  const auto b = right_hand_side<double>(A.n);
  // One, two and three sweeps of Gauss-Seidel in turn.
  VaryingPreconditioner M(A.n, [&](std::int64_t k, const Column& r) {
    Column z(r.size(), 0);
    for (std::int64_t sweep = 0; sweep <= k % 3; ++sweep)
      for (std::int64_t i = 0; i < A.n; ++i) {
        Real sum = r[i];
        for (std::int64_t j = 0; j < A.n; ++j) sum -= j == i ? 0 : A(i, j) * z[j];
        z[i] = sum / A(i, i);
      }
    return z;
  });
  const Solved fcg = solve("fcg", A, b, {}, &M);
  EXPECT_TRUE(fcg.report.converged()) << fcg.report.detail;
  EXPECT_LT(fcg.report.iterations, 40);
  M.reset();
  const Solved cg = solve("cg", A, b, {.stopping = {.max_iterations = 10 * fcg.report.iterations}}, &M);
  EXPECT_FALSE(cg.report.converged()) << cg.report.iterations << " beside " << fcg.report.iterations;
}

TEST(Fcg, IsCgWithAFixedPreconditioner) {
  const Dense matrix = convection_2d(10, 0);
  const DenseOperator<double> A(matrix);
  const auto b = right_hand_side<double>(matrix.n);
  const auto M = make_preconditioner<double>(
      "ssor",
      *make_matrix(find_format("csr"), generate(test_context(), "poisson-2d", {{"n", 10}}), test_context()));
  const auto csr =
      make_matrix(find_format("csr"), generate(test_context(), "poisson-2d", {{"n", 10}}), test_context());
  M->ensure(*csr);
  for (const Preconditioner<double>* one : {static_cast<const Preconditioner<double>*>(nullptr),
                                            static_cast<const Preconditioner<double>*>(M.get())}) {
    const Solved cg = solve("cg", matrix, b, {}, one), fcg = solve("fcg", matrix, b, {}, one);
    EXPECT_EQ(fcg.report.iterations, cg.report.iterations);
    std::vector<Real> norms;
    for (const IterationInfo& info : cg.history.seen) norms.push_back(info.residual);
    expect_history(fcg.history, norms, 1e-10);
  }
}

// Beyond the attainable accuracy r_k is no longer orthogonal to the last directions, so r . z is not r . p. A step of
// length r . z / p . A p then makes the error larger, each time.
TEST(Fcg, StaysAtTheAttainableAccuracy) {
  for (const std::int64_t n : {20, 30})
    for (const double start : {0.0, 1e20})
      for (const char* preconditioner : {"none", "jacobi"})
        for (const double tolerance : {0.0, 1e-8}) {
          const DenseOperator<double> A(poisson_1d(n));
          const auto M = make_preconditioner<double>(preconditioner, A);
          if (M) M->ensure(A);
          const std::vector<double> b(static_cast<std::size_t>(n), 1.0);
          const auto residual = [&](const char* method, std::int64_t directions) {
            std::vector<double> x(b.size(), start);
            constexpr double infinity = std::numeric_limits<double>::infinity();
            const SolverOptions options = options_read_by(
                method,
                {.stopping = {.relative_tolerance = tolerance, .max_iterations = 400, .divergence = infinity},
                 .directions = directions});
            (void)make_solver<double>(method, options)->solve(A, view(b), view(x), M.get());
            return static_cast<double>(residual_norm(A.matrix(), b, x));
          };
          // What rounding leaves of the products with the first x.
          const double attainable = 1e-15 * (start + static_cast<double>(n * n)) * static_cast<double>(n);
          EXPECT_LE(residual("cg", 1), std::max(attainable, tolerance * std::sqrt(static_cast<double>(n))));
          for (const std::int64_t directions : {1, 2, 5, 12})
            EXPECT_LE(residual("fcg", directions),
                      std::max(attainable, tolerance * std::sqrt(static_cast<double>(n))))
                << n << " unknowns, x0 " << start << ", " << preconditioner << ", tolerance " << tolerance
                << ", " << directions << " directions";
        }
}

TEST(Fcg, NamesIndefiniteOperatorsAndPreconditioners) {
  const auto b = right_hand_side<double>(6);
  Solved fcg = solve("fcg", rotated({1, 2, 3, -4, 5, 6}), b);
  EXPECT_EQ(fcg.report.reason, StopReason::indefinite_operator);
  EXPECT_NE(fcg.report.detail.find("p . A p = -"), std::string::npos) << fcg.report.detail;
  for (std::int64_t bad : {1, 2, 3}) {
    const VaryingPreconditioner M(6, [&](std::int64_t k, const Column& r) {
      Column z = r;
      if (k + 1 >= bad)
        for (Real& v : z) v = -v;
      return z;
    });
    fcg = solve("fcg", rotated({1, 2, 3, 4, 5, 6}), b, {}, &M);
    EXPECT_EQ(fcg.report.reason, StopReason::indefinite_preconditioner) << to_string(fcg.report.reason);
    EXPECT_EQ(fcg.report.iterations, bad - 1);
  }
}

}  // namespace
}  // namespace protean::test

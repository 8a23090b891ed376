// minres against gmres and textbooks in long double: indefinite, singular and inconsistent systems.
#include <algorithm>
#include <cmath>

#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "solvers/textbook.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// Symmetric, with eigenvalues of both signs: a shifted Laplacian.
Dense indefinite(std::int64_t m, Real shift) {
  Dense A = convection_2d(m, 0);
  for (std::int64_t i = 0; i < A.n; ++i) A(i, i) -= shift;
  return A;
}

TEST(MinRes, HasTheSmallestResidualsOnAnIndefiniteMatrix) {
  const Dense A = indefinite(7, 1.3L);
  const auto b = right_hand_side<double>(A.n);
  std::vector<Real> norms;
  for (const Column& x : flexible_gmres(A, wide(b), 18)) norms.push_back(length(residual(A, wide(b), x)));
  const Solved minres = solve("minres", A, b);
  expect_history(minres.history, norms, 1e-9);
  EXPECT_EQ(minres.report.reason, StopReason::relative_tolerance) << minres.report.detail;
  EXPECT_EQ(solve("cg", A, b).report.reason, StopReason::indefinite_operator);
  const Column exact = direct_solution(A, wide(b));
  for (std::size_t i = 0; i < exact.size(); ++i)
    EXPECT_NEAR(minres.x[i], static_cast<double>(exact[i]), 1e-6);
}

// With M = D the iterates are D^-1/2 y_k for the iterates y_k of D^-1/2 A D^-1/2 without M.
TEST(MinRes, WithAPreconditionerReportsTheTwoNorm) {
  const Dense A = indefinite(6, 1.1L);
  const auto b = right_hand_side<double>(A.n);
  Dense S = A;
  Column scaled = wide(b), d(b.size());
  for (std::int64_t i = 0; i < A.n; ++i) d[i] = 1 + i % 5;
  for (std::int64_t i = 0; i < A.n; ++i) {
    scaled[i] /= std::sqrt(d[i]);
    for (std::int64_t j = 0; j < A.n; ++j) S(i, j) /= std::sqrt(d[i] * d[j]);
  }
  std::vector<Real> norms;
  for (Column y : flexible_gmres(S, scaled, 15)) {
    for (std::int64_t i = 0; i < A.n; ++i) y[i] /= std::sqrt(d[i]);
    norms.push_back(length(residual(A, wide(b), y)));
  }
  const VaryingPreconditioner general(A.n, [&](std::int64_t, const Column& r) {
    Column z = r;
    for (std::size_t i = 0; i < z.size(); ++i) z[i] /= d[i];
    return z;
  });
  const Solved minres = solve("minres", A, b, {}, &general);
  expect_history(minres.history, norms, 1e-9);
  EXPECT_TRUE(minres.report.converged()) << minres.report.detail;
  EXPECT_EQ(minres.report.restarts, 0) << "the residual that is carried along is the true one";
}

TEST(MinRes, IsGmresForAsManyStepsAsDistinctEigenvalues) {
  for (int distinct : {1, 2, 4, 6}) {
    std::vector<long double> d;
    for (int i = 0; i < 40; ++i) d.push_back((i % 2 ? -1 : 1) * (1 + 2 * (i % distinct)));
    const auto values = static_cast<std::int64_t>([&] {
      auto e = d;
      std::sort(e.begin(), e.end());
      return std::unique(e.begin(), e.end()) - e.begin();
    }());
    const Solved minres = solve("minres", rotated(d), right_hand_side<double>(40));
    EXPECT_TRUE(minres.report.converged()) << minres.report.detail;
    EXPECT_EQ(minres.report.iterations, values);
    EXPECT_EQ(minres.report.restarts, 0);
  }
}

TEST(MinRes, NamesAnIndefinitePreconditioner) {
  const auto b = right_hand_side<double>(9);
  for (std::int64_t bad : {1, 2, 3}) {
    // Positive for the first bad - 1 calls.
    const VaryingPreconditioner M(9, [&](std::int64_t k, const Column& r) {
      Column z = r;
      if (k + 1 >= bad)
        for (Real& v : z) v = -v;
      return z;
    });
    const Solved minres = solve("minres", convection_2d(3, 0), b, {}, &M);
    EXPECT_EQ(minres.report.reason, StopReason::indefinite_preconditioner) << to_string(minres.report.reason);
    EXPECT_EQ(minres.report.iterations, bad - 1);
    EXPECT_NE(minres.report.detail.find("r . M^-1 r"), std::string::npos);
    EXPECT_TRUE(std::isfinite(minres.report.true_residual));
  }
}

TEST(MinRes, SingularMatrices) {
  // Consistent: solved. Inconsistent: what can be solved is, and the reason is named.
  Solved one = solve("minres", diagonal_matrix({1, -2, 0}), {1, 1, 0});
  EXPECT_TRUE(one.report.converged()) << to_string(one.report.reason);
  EXPECT_NEAR(one.x[0], 1, 1e-12);
  EXPECT_NEAR(one.x[1], -0.5, 1e-12);
  one = solve("minres", diagonal_matrix({1, -2, 0}), {0, 0, 1});
  EXPECT_EQ(one.report.reason, StopReason::inconsistent) << to_string(one.report.reason);
  EXPECT_EQ(one.report.true_residual, 1);
}

// A singular symmetric matrix, a null vector of it, and b with a part of it.
struct Inconsistent {
  const char* name;
  Dense A;
  Column null_vector;
};
Column null_vector_of(const Dense& A) {
  // The columns of a rotated matrix without its last eigenvalue, 0: the projection of the identity with it.
  Column d(static_cast<std::size_t>(A.n), 0);
  d.back() = 1;
  const Dense P = rotated(d);
  Column v(d.size());
  for (std::int64_t i = 0; i < A.n; ++i) v[static_cast<std::size_t>(i)] = P(i, 0);
  return v;
}
std::vector<Inconsistent> inconsistent_systems() {
  std::vector<Inconsistent> all;
  for (const std::int64_t n : {7, 40, 200}) {
    Dense A(n);
    for (std::int64_t i = 0; i + 1 < n; ++i)
      A(i, i) += 1, A(i + 1, i + 1) += 1, A(i, i + 1) -= 1, A(i + 1, i) -= 1;
    all.push_back({"Neumann, 1 dimension", A, Column(static_cast<std::size_t>(n), 1)});
  }
  const std::int64_t m = 12;
  Dense grid(m * m);
  for (std::int64_t i = 0; i < m * m; ++i)
    for (const std::int64_t step : {std::int64_t{1}, m})
      if (const std::int64_t j = i + step; j < m * m && (step == m || j % m != 0))
        grid(i, i) += 1, grid(j, j) += 1, grid(i, j) -= 1, grid(j, i) -= 1;
  all.push_back({"Neumann, 2 dimensions", grid, Column(static_cast<std::size_t>(m * m), 1)});
  for (const bool indefinite : {false, true}) {
    Column d(100);
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = (indefinite && i % 3 == 1 ? -1 : 1) * (0.01L + static_cast<Real>(i * 37 % 100) / 100);
    d.back() = 0;
    const Dense A = rotated(d);
    all.push_back({indefinite ? "indefinite" : "semidefinite", A, null_vector_of(A)});
  }
  return all;
}
// What is left of v without its part along w.
Column without(Column v, const Column& w) {
  Real vw = 0, ww = 0;
  for (std::size_t i = 0; i < v.size(); ++i) vw += v[i] * w[i], ww += w[i] * w[i];
  for (std::size_t i = 0; i < v.size(); ++i) v[i] -= vw / ww * w[i];
  return v;
}

// No x solves the system. The solve says so, and x has the smallest residual that there is: the part of b in the null
// space.
template <class T>
void ends_with_least_squares(const ContextPtr& context, double accuracy, double largest) {
  for (const Inconsistent& one : inconsistent_systems())
    for (const bool diagonal : {false, true}) {
      const std::string what = std::string(one.name) + ", n = " + std::to_string(one.A.n) +
                               (diagonal ? ", jacobi" : "") + ", " + std::to_string(sizeof(T)) + " bytes";
      Dense A = one.A;
      Column null = one.null_vector;
      bool positive = true;
      for (std::int64_t i = 0; i < A.n; ++i) positive = positive && A(i, i) > 0;
      if (diagonal && !positive) continue;
      // D A D, so that the diagonal is no multiple of the identity; its null vector is D^-1 v.
      if (diagonal)
        for (std::int64_t i = 0; i < A.n; ++i) {
          const auto d = [](std::int64_t k) { return 1 + static_cast<Real>(k * 7 % 5) / 5; };
          for (std::int64_t j = 0; j < A.n; ++j) A(i, j) *= d(i) * d(j);
          null[static_cast<std::size_t>(i)] /= d(i);
        }
      const std::vector<T> b = right_hand_side<T>(A.n);
      // M = D: min ||b - A x|| in the norm of M^-1, at a residual r with M^-1 r = t v for the null vector v.
      Column scale(null.size(), 1);
      if (diagonal)
        for (std::int64_t i = 0; i < A.n; ++i) scale[static_cast<std::size_t>(i)] = A(i, i);
      Real vb = 0, vmv = 0;
      for (std::size_t i = 0; i < b.size(); ++i)
        vb += null[i] * static_cast<Real>(b[i]), vmv += null[i] * scale[i] * null[i];
      Column best(null.size());
      for (std::size_t i = 0; i < b.size(); ++i) best[i] = vb / vmv * scale[i] * null[i];

      const CsrMatrix<T> csr = sparse<T>(A);
      const auto matrix = make_matrix(context->simulated() ? fake_format("csr") : find_format("csr"),
                                      placed(context, csr), context);
      std::unique_ptr<Preconditioner<T>> M;
      if (diagonal) {
        M = make_preconditioner<T>("jacobi", *matrix);
        M->ensure(*matrix);
      }
      const Placed<T> rhs(context, b);
      Placed<T> x(context, std::vector<T>(b.size(), T(0)));
      SolverOptions options;
      options.stopping.relative_tolerance = sizeof(T) == 4 ? 1e-4 : 1e-8;
      const auto report = make_solver<T>("minres", options)->solve(*matrix, rhs.read(), x.view(), M.get());
      EXPECT_EQ(report.reason, StopReason::inconsistent)
          << what << ": " << to_string(report.reason) << " " << report.detail;
      EXPECT_NE(report.detail.find("least squares"), std::string::npos) << report.detail;
      EXPECT_NE(report.advice.find("singular"), std::string::npos) << report.advice;
      const std::vector<T> found = x.fetch();
      Column error(b.size()), wide(b.size());
      for (std::int64_t i = 0; i < A.n; ++i) {
        Real r = static_cast<Real>(b[static_cast<std::size_t>(i)]);
        for (std::int64_t j = 0; j < A.n; ++j)
          r -= A(i, j) * static_cast<Real>(found[static_cast<std::size_t>(j)]);
        error[static_cast<std::size_t>(i)] = r - best[static_cast<std::size_t>(i)];
        wide[static_cast<std::size_t>(i)] = static_cast<Real>(found[static_cast<std::size_t>(i)]);
      }
      EXPECT_LE(length(error), accuracy * length(best)) << what;
      EXPECT_LE(length(wide), largest * length(without(Column(b.begin(), b.end()), null)))
          << what << ", x has grown";
      EXPECT_GT(report.iterations, 3) << what;
    }
}
TEST(MinRes, InconsistentSystemsEndWithASolutionOfLeastSquares) {
  ends_with_least_squares<double>(test_context(), 1e-5, 1e6);
  ends_with_least_squares<float>(test_context(), 0.05, 1e5);
  ends_with_least_squares<double>(fake_device_context({.steps_ahead = 2, .steps_after_end = 7}), 1e-5, 1e6);
  if (const ContextPtr gpu = test_context(Space::device)) ends_with_least_squares<double>(gpu, 1e-5, 1e6);
}

// Singular, but b is in the range; and nonsingular with a condition up to 1e10. Nothing is called inconsistent.
TEST(MinRes, SolvableSystemsAreNotCalledInconsistent) {
  for (const Inconsistent& one : inconsistent_systems()) {
    std::vector<double> b(static_cast<std::size_t>(one.A.n));
    for (std::int64_t i = 0; i < one.A.n; ++i) {
      Real sum = 0;
      for (std::int64_t j = 0; j < one.A.n; ++j) sum += one.A(i, j) * (1 + static_cast<Real>(j * 13 % 7));
      b[static_cast<std::size_t>(i)] = static_cast<double>(sum);
    }
    const Solved consistent = solve("minres", one.A, b, {.stopping = {.relative_tolerance = 1e-10}});
    EXPECT_TRUE(consistent.report.converged()) << one.name << ": " << consistent.report.detail;
    EXPECT_EQ(consistent.report.restarts, 0) << one.name;
    // No tolerance can be reached; what is left of b is rounding.
    const Solved exact =
        solve("minres", one.A, b, {.stopping = {.relative_tolerance = 0, .max_iterations = 2000}});
    EXPECT_NE(exact.report.reason, StopReason::inconsistent) << one.name << ": " << exact.report.detail;
  }
  for (const Real smallest : {1e-4L, 1e-6L, 1e-8L, 1e-10L}) {
    std::vector<Real> d(100);
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = (i % 2 == 1 ? -1 : 1) * (0.1L + static_cast<Real>(i * 37 % 100) / 100);
    d[50] = smallest;
    const Solved hard =
        solve("minres", rotated(d), right_hand_side<double>(100), {.stopping = {.relative_tolerance = 1e-5}});
    EXPECT_TRUE(hard.report.converged()) << static_cast<double>(smallest) << ": " << hard.report.detail;
  }
}

// Four distinct eigenvalues: after four steps the space holds the solution, and beta is 0 up to rounding. The method
// then begins again from b - A x instead of dividing by it.
TEST(MinRes, ABetaThatIsZeroByRoundingEndsTheSpace) {
  const Dense A = rotated({1, 1, 2, 2, -3, -3, 5, 5});
  const auto b = right_hand_side<double>(8);
  for (const std::int64_t steps : {4, 6}) {
    const Solved one =
        solve("minres", A, b, {.stopping = {.relative_tolerance = 0, .max_iterations = steps}});
    EXPECT_EQ(one.report.reason, StopReason::max_iterations) << to_string(one.report.reason);
    EXPECT_EQ(one.report.restarts, steps > 4 ? 1 : 0);  // none at the limit
    EXPECT_LT(one.report.true_relative, 1e-13);
  }
}

}  // namespace
}  // namespace protean::test

// chebyshev: its polynomial, its bounds of the eigenvalues, and when it is recorded again.
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "core/error.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

// For Poisson's equation in one dimension the eigenvectors of D^-1 A are known: sin(i j pi / (n + 1)), eigenvalues
// 1 - cos(j pi / (n + 1)), D = 2.
TEST(Chebyshev, IsTheChebyshevPolynomial) {
  const std::int64_t n = 40;
  const auto A = assembled(sparse(poisson_1d(n)));
  for (const int degree : {1, 2, 5}) {
    const auto M = ready<double>("chebyshev", *A, {.degree = degree, .eigenvalue_ratio = 8});
    const double high = figure(*M, "eigenvalue_bound"), low = high / 8;
    const double largest = 1 - std::cos(n * std::numbers::pi / (n + 1));
    EXPECT_GT(high, largest);
    EXPECT_LE(high, 1.1 * largest * (1 + 1e-12));
    const auto chebyshev = [&](double x) {
      return std::abs(x) <= 1
                 ? std::cos((degree + 1) * std::acos(x))
                 : std::copysign(std::cosh((degree + 1) * std::acosh(std::abs(x))), degree % 2 ? 1.0 : x);
    };
    for (std::int64_t j = 1; j <= n; j += 3) {
      const double t = 1 - std::cos(static_cast<double>(j) * std::numbers::pi / (n + 1));
      std::vector<double> v(n);
      for (std::int64_t i = 0; i < n; ++i)
        v[i] = std::sin(static_cast<double>((i + 1) * j) * std::numbers::pi / (n + 1));
      const std::vector<double> z = applied(*M, v);
      const double middle = (high + low) / 2, half = (high - low) / 2;
      const double polynomial = (1 - chebyshev((middle - t) / half) / chebyshev(middle / half)) / t;
      for (std::int64_t i = 0; i < n; ++i)
        EXPECT_NEAR(z[i], polynomial / 2 * v[i], 1e-12) << degree << ' ' << j;
    }
  }
}

// D^-1 A is the same for every multiple of A.
TEST(Chebyshev, BoundsTheSameEigenvaluesInAnyUnit) {
  const Dense A = poisson_2d(9);
  const double bound = figure(*ready<double>("chebyshev", *assembled(sparse(A))), "eigenvalue_bound");
  EXPECT_GT(bound, 1.9);
  for (const int exponent : {-300, -100, 100, 300}) {
    Dense other = A;
    for (std::int64_t i = 0; i < A.n; ++i)
      for (std::int64_t j = 0; j < A.n; ++j) other(i, j) = std::ldexp(A(i, j), exponent);
    EXPECT_NEAR(figure(*ready<double>("chebyshev", *assembled(sparse(other))), "eigenvalue_bound"), bound,
                1e-12 * bound)
        << exponent;
  }
}

TEST(Chebyshev, NeedsAPositiveDefiniteMatrixAndADiagonal) {
  Dense A = poisson_1d(12);
  A(4, 4) = -2;
  EXPECT_SAYS(message<BadMatrix>([&] { ready<double>("chebyshev", *assembled(sparse(A))); }),
              "1 of 12 diagonal entries are negative: row 4 (-2)");
  A(4, 4) = 1e-3L;
  EXPECT_SAYS(message<BadMatrix>([&] { ready<double>("chebyshev", *assembled(sparse(A))); }),
              "needs a symmetric positive definite matrix");
  A(4, 4) = 0;
  EXPECT_SAYS(message<BadMatrix>([&] { ready<double>("chebyshev", *assembled(sparse(A))); }), "row 4 (0)");
  // An operator without entries will do.
  const DenseOperator<double> dense(poisson_1d(12));
  EXPECT_GT(figure(*ready<double>("chebyshev", dense), "eigenvalue_bound"), 1.9);
}

// What a solver has recorded of M is recorded again when M has new numbers in it.
TEST_P(InSpace, ARecordedPolynomialIsRenewed) {
  const CsrMatrix<double> csr = sparse(poisson_2d(9));
  const auto A = matrix(csr);
  const auto M = ready<double>("chebyshev", *A);
  const std::uint64_t version = M->recording().version;
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  values[0] *= 40;  // so that the interval of the eigenvalues is another one
  CsrMatrix<double> next = csr;
  next.values = values.data(), next.values_owner = nullptr;
  A->update_values(placed(context_, next)), M->ensure(*A);
  EXPECT_NE(M->recording().version, version);
}

// Even if the work of A itself stays as it is.
TEST(RecordedPolynomial, IsRenewedWithItsNumbers) {
  struct Steady final : DenseOperator<double> {
    using DenseOperator<double>::DenseOperator;
    Recording recording() const noexcept override { return {true, 5, 100}; }
  };
  Steady A(poisson_2d(4));
  const auto M = ready<double>("chebyshev", A);
  const std::uint64_t version = M->recording().version;
  ++A.revision_.values, M->ensure(A);
  EXPECT_NE(M->recording().version, version);
}

}  // namespace
}  // namespace protean::test

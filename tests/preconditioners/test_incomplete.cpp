// Incomplete factors on the host, against dense computations of their formulas in long double.
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

TEST(Incomplete, FactorsAreThoseOfTheDenseAlgorithm) {
  for (const Dense& A : {poisson_2d(7), convection_2d(6, 3), scattered(40, 1), scattered(40, 2)})
    for (const int fill : {0, 1, 2, 5}) {
      const auto matrix = assembled(sparse(A));
      const auto M = ready_with_read<double>(fill == 0 ? "ilu0" : "ilu", *matrix, {.fill = fill});
      EXPECT_EQ(figure(*M, "shift"), 0);
      expect_same(dense_inverse(*M), inverse(incomplete_product(A, fill)), 1e-13);
    }
  for (const Dense& A : {poisson_2d(7), symmetric_part(scattered(40, 3))})
    for (const int fill : {0, 1, 2, 5}) {
      const auto matrix = assembled(sparse(A));
      const auto M = ready_with_read<double>(fill == 0 ? "ic0" : "ic", *matrix, {.fill = fill});
      EXPECT_EQ(figure(*M, "shift"), 0);
      expect_same(dense_inverse(*M), inverse(incomplete_product(A, fill)), 1e-13);
    }
}

// The defining property: M agrees with A wherever A has an entry.
TEST(Incomplete, ProductOfTheFactorsIsTheMatrixOnItsPattern) {
  for (const auto& [id, A] :
       std::map<std::string, Dense>{{"ic0", poisson_2d(8)}, {"ilu0", scattered(50, 4)}}) {
    const auto matrix = assembled(sparse(A));
    const Dense M = inverse(dense_inverse(*ready<double>(id, *matrix)));
    bool elsewhere = false;
    for (std::int64_t i = 0; i < A.n; ++i)
      for (std::int64_t j = 0; j < A.n; ++j)
        if (A(i, j) != 0) {
          EXPECT_NEAR(static_cast<double>(M(i, j)), static_cast<double>(A(i, j)), 1e-11)
              << id << i << ' ' << j;
        } else {
          elsewhere |= std::abs(M(i, j)) > 1e-3;
        }
    EXPECT_TRUE(elsewhere) << "the factors are exact, so this shows nothing";
  }
}

TEST(Incomplete, EnoughFillIsAFactorization) {
  const Dense A = scattered(30, 5);
  const auto matrix = assembled(sparse(A));
  expect_same(dense_inverse(*ready<double>("ilu", *matrix, {.fill = 30})), inverse(A), 1e-13);
}

// Kershaw, J. Comput. Phys. 26 (1978) 43: positive definite, but a pivot of ic0 is negative.
TEST(Incomplete, BreakdownIsShiftedAway) {
  Dense A(4);
  for (int i = 0; i < 4; ++i) A(i, i) = 3;
  A(0, 1) = A(1, 0) = A(1, 2) = A(2, 1) = A(2, 3) = A(3, 2) = -2, A(0, 3) = A(3, 0) = 2;
  const auto matrix = assembled(sparse(A));
  const auto M = ready<double>("ic0", *matrix);
  const double shift = figure(*M, "shift");
  ASSERT_GT(shift, 0);
  EXPECT_EQ(std::remainder(std::log2(shift / 1e-3), 1.0), 0.0) << shift;
  const auto shifted = [&](double alpha) {
    Dense B = A;
    for (int i = 0; i < 4; ++i) B(i, i) *= 1 + static_cast<long double>(alpha);
    return B;
  };
  expect_same(dense_inverse(*M), inverse(incomplete_product(shifted(shift), 0)), 1e-12);
  // The last pivot with half of the shift, without fill: d4 = a44 - l41^2 d1 - l43^2 d3.
  const long double d = 3 * (1 + static_cast<long double>(shift) / 2), d2 = d - 4 / d, d3 = d - 4 / d2;
  EXPECT_LE(d - 4 / d - 4 / d3, 0) << "half of the shift would have been enough";

  // The second pivot of ilu0 is zero.
  Dense B(2);
  B(0, 0) = B(0, 1) = B(1, 0) = B(1, 1) = 1;
  EXPECT_EQ(figure(*ready<double>("ilu0", *assembled(sparse(B))), "shift"), 1e-3);
}

TEST(Incomplete, BadDiagonalsAreNamed) {
  Dense A = poisson_1d(5);
  A(3, 3) = 0;
  const auto zero = assembled(sparse(A));
  for (const char* id : {"ic0", "ilu0", "ssor", "gauss-seidel", "spai0"}) {
    const std::string text = message<BadMatrix>([&] { ready<double>(id, *zero); });
    EXPECT_SAYS(text, std::string(id) + " divides by the diagonal, but 1 of 5");
    EXPECT_SAYS(text, "row 3 (0)");
  }
  // a_33 = 1 instead.
  Dense one = A;
  one(3, 3) = 1;
  expect_same(dense_inverse(*ready<double>("ilu0", *zero, {.zero_diagonal = ZeroDiagonal::one})),
              inverse(incomplete_product(one, 0)), 1e-13);
  A(3, 3) = -2;
  const std::string text = message<BadMatrix>([&] { ready<double>("ic0", *assembled(sparse(A))); });
  EXPECT_SAYS(text, "1 of 5 diagonal entries are negative: row 3 (-2)");
  EXPECT_SAYS(text, "ilu0");
}

TEST(Incomplete, CholeskyNeedsASymmetricMatrix) {
  const std::string pattern =
      message<BadMatrix>([&] { ready<double>("ic0", *assembled(sparse(scattered(20, 6)))); });
  EXPECT_SAYS(pattern, "entries and their mirrored ones (0 if none is stored) differ by up to");
  EXPECT_SAYS(pattern, "use ilu0");
  const std::string values =
      message<BadMatrix>([&] { ready<double>("ic", *assembled(sparse(convection_2d(4, 1)))); });
  EXPECT_SAYS(values, "differ by up to 2.0e-01 of the largest entry of their rows; use ilu with");
}

// Rounding up to sqrt(eps) of the largest entry of a row is no asymmetry.
TEST(Incomplete, CholeskyTakesAMatrixThatIsSymmetricUpToRounding) {
  const auto refused = [](auto number, double difference) {
    using T = decltype(number);
    Dense A = poisson_2d(5);
    A(7, 2) += 4 * static_cast<long double>(difference);
    return message<BadMatrix>([&] { ready<T>("ic0", *assembled(sparse<T>(A))); });
  };
  EXPECT_EQ(refused(double{}, 1e-9), "nothing was thrown");
  EXPECT_SAYS(refused(double{}, 1e-7), "differ by up to 1.0e-07 of the largest entry");
  EXPECT_EQ(refused(float{}, 1e-4), "nothing was thrown");
  EXPECT_SAYS(refused(float{}, 1e-2), "differ by up to 1.0e-02 of the largest entry");
}

// U of ic is L^T bit for bit, even if A is symmetric only up to rounding. Two coupled points of a grid have no common
// neighbour, so with one Jacobi sweep both entries of M^-1 are one product: -u_ij d_j and -d_j l_ji.
TEST(Incomplete, CholeskyIsSymmetricBitForBit) {
  Dense A = poisson_2d(9);
  std::mt19937 random(3);
  for (std::int64_t i = 0; i < A.n; ++i) {
    A(i, i) += static_cast<long double>(random() % 1000) / 777;
    for (std::int64_t j = 0; j < i; ++j) {
      A(i, j) *= 1 + static_cast<long double>(random() % 1000) / 5000;
      A(j, i) = A(i, j) * (1 + 1e-13L * static_cast<long double>(random() % 9));
    }
  }
  const CsrMatrix<double> csr = sparse(A);
  int rounded = 0, coupled = 0;
  for (const char* id : {"ic0", "ic"}) {
    const PreconditionerOptions options{.fill = 0, .solve = TriangularSolve::sweeps, .sweeps = 1};
    const Dense inverted =
        dense_inverse(*ready<double>(id, *assembled(csr), preconditioner_options_read_by(id, options)));
    for (std::int64_t i = 0; i < A.n; ++i)
      for (std::int64_t j = 0; j < i; ++j) {
        if (A(i, j) == 0) continue;
        ++coupled, rounded += A(i, j) != A(j, i);
        EXPECT_EQ(inverted(i, j), inverted(j, i)) << id << ' ' << i << ' ' << j;
        EXPECT_NE(inverted(i, j), 0) << id << ' ' << i << ' ' << j;
      }
  }
  EXPECT_GT(2 * rounded, coupled) << "the matrix is symmetric, so this shows little";
}

// A pivot of 64 eps |a_ii| is taken for rounding, one of a little more is not.
template <class T>
void expect_limit_of_pivots() {
  constexpr T eps = std::numeric_limits<T>::epsilon();
  const auto shift = [](const char* id, T a, T b, T c) {
    std::vector<Triplet<T>> entries = {{0, 0, a}, {0, 1, b}, {1, 0, b}, {1, 1, c}};
    const auto M = ready<T>(id, *assembled(csr_from_triplets<T>(test_context(), 2, 2, entries)));
    for (const PreconditionerFigure& one : M->figures())
      if (one.name == "shift") return one.value;
    return -1.0;
  };
  // The second pivot is c - b^2 / a, exactly; the entries are powers of two, or one more last bits of one.
  for (const char* id : {"ic0", "ic", "ilu0", "ilu"})
    for (const T scale : {T(1), T(1048576), T(1) / T(1048576)}) {
      SCOPED_TRACE(std::string(id) + ' ' + std::to_string(scale));
      EXPECT_EQ(shift(id, scale, scale, scale * (1 + 60 * eps)), 1e-3);
      EXPECT_EQ(shift(id, scale, scale, scale * (1 + 64 * eps)), 1e-3);
      EXPECT_EQ(shift(id, scale, scale, scale * (1 + 66 * eps)), 0);
      // A negative pivot is good for ilu.
      const bool cholesky = std::string_view(id).starts_with("ic");
      EXPECT_EQ(shift(id, scale, scale, scale * (1 - 60 * eps)), 1e-3);
      EXPECT_EQ(shift(id, scale, scale, scale / 2) > 0, cholesky);
    }
}
TEST(Incomplete, PivotsUpToRoundingAreShifted) {
  expect_limit_of_pivots<double>();
  expect_limit_of_pivots<float>();
}

// The shift is on the diagonal of every row: the factors are the factors of A + alpha diag(A).
TEST(Incomplete, FactorsOfAShiftedMatrix) {
  Dense A = poisson_2d(4);
  A(1, 1) = A(0, 1) * A(1, 0) / A(0, 0);  // the second pivot is zero
  for (const int fill : {0, 1}) {
    const auto M = ready_with_read<double>(fill == 0 ? "ilu0" : "ilu", *assembled(sparse(A)), {.fill = fill});
    const double shift = figure(*M, "shift");
    ASSERT_GT(shift, 0);
    Dense shifted = A;
    for (std::int64_t i = 0; i < A.n; ++i) shifted(i, i) *= 1 + static_cast<long double>(shift);
    expect_same(dense_inverse(*M), inverse(incomplete_product(shifted, fill)), 1e-9);
  }
}

}  // namespace
}  // namespace protean::test

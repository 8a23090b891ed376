// Preconditioners that need the entries of the matrix, against dense computations of their formulas in long double.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numbers>
#include <random>
#include <string>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/elements/element_operator.hpp"
#include "operators/policy/adaptive_operator.hpp"
#include "operators/rows.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

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
  EXPECT_SAYS(pattern, "entries and their mirrored ones (0 where none is stored) differ by up to");
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

// U of ic is L^T bit for bit, also where A is symmetric up to rounding only. Two coupled points of a grid have no
// common neighbour, so with one Jacobi sweep both entries of M^-1 are one product: -u_ij d_j and -d_j l_ji.
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

// The shift is on the diagonal of every row: the factors are those of A + alpha diag(A).
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

// Poisson's equation with the even points first: two stages of many rows, which several threads share.
// one_sided: a fifth of the odd points do not feel their neighbours, which feel them.
CsrMatrix<double> red_black(std::int64_t m, bool one_sided = false) {
  std::vector<Triplet<double>> entries;
  const auto row = [&](std::int64_t x, std::int64_t y) {
    const std::int64_t i = y * m + x;
    return static_cast<std::int32_t>((x + y) % 2 ? (m * m + 1) / 2 + i / 2 : i / 2);
  };
  for (std::int64_t y = 0; y < m; ++y)
    for (std::int64_t x = 0; x < m; ++x) {
      entries.push_back({row(x, y), row(x, y), 4.0 + 0.001 * static_cast<double>(x % 7)});
      if (one_sided && (x + y) % 2 && (3 * x + y) % 5 == 0) continue;
      if (x > 0) entries.push_back({row(x, y), row(x - 1, y), -1});
      if (x + 1 < m) entries.push_back({row(x, y), row(x + 1, y), -1});
      if (y > 0) entries.push_back({row(x, y), row(x, y - 1), -1});
      if (y + 1 < m) entries.push_back({row(x, y), row(x, y + 1), -1});
    }
  return csr_from_triplets<double>(test_context(), m * m, m * m, entries, Duplicates::refuse);
}

TEST(Sweeps, TheSameBitsForAnyNumberOfThreads) {
  const CsrMatrix<double> csr = red_black(151);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const char* id : {"ic0", "ilu0", "ic", "ilu", "ssor", "gauss-seidel", "block-jacobi", "spai0"}) {
    std::vector<double> first;
    for (const int threads : {1, 2, 3, 7}) {
      const auto A = assembled(csr, Context::host(threads));
      const std::vector<double> z = applied(*ready<double>(id, *A), r);
      if (first.empty()) first = z;
      EXPECT_EQ(z, first) << id << " with " << threads << " threads";
    }
  }
  const auto A = assembled(csr);
  EXPECT_EQ(figure(*ready<double>("ilu0", *A), "levels"), 2);
  EXPECT_EQ(figure(*ready<double>("ssor", *A), "colours"), 2);
}

// A row of U that no row of L asks for must wait all the same. New values reach all threads.
TEST(Sweeps, UnsymmetricPatternsByLevels) {
  const CsrMatrix<double> csr = red_black(181, true);
  std::vector<double> others(csr.values, csr.values + csr.nonzeros());
  for (std::size_t k = 0; k < others.size(); ++k) others[k] *= 1 + 0.01 * static_cast<double>(k % 3);
  CsrMatrix<double> renewed = csr;
  renewed.values = others.data();
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const char* id : {"ilu0", "ilu"}) {
    const std::vector<double> first = applied(*ready<double>(id, *assembled(csr, Context::host(1))), r),
                              second = applied(*ready<double>(id, *assembled(renewed, Context::host(1))), r);
    ASSERT_NE(first, second);
    for (const int threads : {2, 5, 5, 5}) {
      SCOPED_TRACE(std::string(id) + " with " + std::to_string(threads) + " threads");
      const auto A = assembled(csr, Context::host(threads));
      const auto M = ready<double>(id, *A);
      EXPECT_EQ(applied(*M, r), first);
      A->update_values(renewed);
      M->ensure(*A);
      EXPECT_EQ(applied(*M, r), second);
    }
  }
}

// From 65,536 rows on it is measured whether several threads solve faster than one: the bits do not tell.
TEST(Sweeps, TheSameBitsWhicheverWayIsFaster) {
  const CsrMatrix<double> csr = red_black(301);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const char* id : {"ic0", "ilu"}) {
    const std::vector<double> first = applied(*ready<double>(id, *assembled(csr, Context::host(1))), r);
    for (const int threads : {2, 3, 3}) {
      const auto A = assembled(csr, Context::host(threads));
      const auto M = ready<double>(id, *A);
      EXPECT_EQ(applied(*M, r), first) << id << " with " << threads << " threads";
      A->update_values(csr);
      M->ensure(*A);
      EXPECT_EQ(applied(*M, r), first) << id << " with " << threads << " threads, set up again";
    }
  }
}

TEST(Relaxation, FormulasInTheOrderOfTheColours) {
  for (const Dense& A : {poisson_2d(6), scattered(35, 7), symmetric_part(scattered(35, 8))}) {
    const std::vector<int> colour = greedy_colours(A);
    const auto matrix = assembled(sparse(A));
    expect_same(dense_inverse(*ready<double>("gauss-seidel", *matrix)), inverse(gauss_seidel_matrix(A)),
                1e-14);
    for (const double omega : {1.0, 0.7, 1.6})
      expect_same(dense_inverse(*ready<double>("ssor", *matrix, {.omega = omega})),
                  inverse(ssor_matrix(A, omega)), 1e-13);
    EXPECT_EQ(figure(*ready<double>("ssor", *matrix), "colours"),
              1 + *std::max_element(colour.begin(), colour.end()));
  }
}

TEST(BlockJacobi, InvertsTheBlocks) {
  for (const Dense& A : {poisson_2d(5), scattered(27, 9)})
    for (const std::int64_t size : {1, 2, 4, 7, 64}) {
      Dense blocks(A.n);
      for (std::int64_t i = 0; i < A.n; ++i)
        for (std::int64_t j = 0; j < A.n; ++j)
          if (i / size == j / size) blocks(i, j) = A(i, j);
      expect_same(dense_inverse(*ready<double>("block-jacobi", *assembled(sparse(A)), {.block_size = size})),
                  inverse(blocks), 1e-13);
    }
}

TEST(BlockJacobi, PivotsInABlockAndNamesASingularOne) {
  Dense A(6);
  A(0, 1) = 2, A(1, 0) = 4;  // a zero diagonal, symmetric pattern
  A(2, 2) = A(2, 3) = A(3, 2) = A(3, 3) = 1;
  A(4, 4) = A(5, 5) = 1;
  const auto matrix = assembled(sparse(A));
  const std::string text =
      message<BadMatrix>([&] { ready<double>("block-jacobi", *matrix, {.block_size = 2}); });
  EXPECT_SAYS(text, "the block of rows 2 to 3 (from 0) is singular");
  A(3, 3) = 2;
  expect_same(dense_inverse(*ready<double>("block-jacobi", *assembled(sparse(A)), {.block_size = 2})),
              inverse(A), 1e-14);
}

// Unit vectors give the entries of the inverses as they are stored. The blocks are not definite, so they are
// eliminated.
TEST(BlockJacobi, InversesOfSymmetricBlocksAreSymmetricBitForBit) {
  Dense A = symmetric_part(scattered(48, 11));
  for (std::int64_t i = 0; i < A.n; i += 2) A(i, i) = -A(i, i);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < i; ++j)
      A(i, j) = A(j, i) = A(i, j) + 1.0L / static_cast<long double>(3 + i + j);
  const Dense inverted =
      dense_inverse(*ready<double>("block-jacobi", *assembled(sparse(A)), {.block_size = 12}));
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < i; ++j) EXPECT_EQ(inverted(i, j), inverted(j, i)) << i << ' ' << j;
}

TEST(Spai0, ARowOfZerosIsLeftAlone) {
  std::vector<Triplet<double>> entries = {{0, 0, 4}, {0, 2, 3}, {1, 1, 0}, {2, 2, -2}};
  const auto A = assembled(csr_from_triplets<double>(test_context(), 3, 3, entries));
  const auto M = ready<double>("spai0", *A, {.zero_diagonal = ZeroDiagonal::one});
  EXPECT_EQ(applied(*M, {25, 7, 6}), (std::vector<double>{4, 7, -3}));
}

TEST(Spai0, MinimisesTheFrobeniusNorm) {
  const Dense A = scattered(20, 10);
  const auto M = ready<double>("spai0", *assembled(sparse(A)));
  ASSERT_EQ(M->inverse_diagonal().size, 20);
  for (std::int64_t i = 0; i < A.n; ++i) {
    long double sum = 0;
    for (std::int64_t j = 0; j < A.n; ++j) sum += A(i, j) * A(i, j);
    EXPECT_NEAR(M->inverse_diagonal()[i], static_cast<double>(A(i, i) / sum), 1e-16);
  }
  // Squares of these entries overflow or underflow.
  const auto large = ready<double>("spai0", *assembled(sparse(diagonal_matrix({1e200L, 1e-200L}))));
  EXPECT_NEAR(large->inverse_diagonal()[0] * 1e200, 1, 1e-15);
  EXPECT_NEAR(large->inverse_diagonal()[1] * 1e-200, 1, 1e-15);
}

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

std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id != "none" && entry.unavailable.empty()) ids.emplace_back(entry.id);
  return ids;
}
class Every : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Preconditioners, Every, testing::ValuesIn(all_ids()), [](const auto& instance) {
  std::string name = instance.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

// A few numbers that are no arrays need not count.
TEST_P(Every, CountsAllItsBuffers) {
  const auto A = assembled(sparse(poisson_2d(20)));
  const std::size_t before = allocated_bytes();
  const auto M = make_preconditioner<double>(GetParam(), *A);
  M->ensure(*A);
  EXPECT_GE(M->bytes() + 64, allocated_bytes() - before);
}

TEST_P(Every, AlphaAndBeta) {
  const auto A = assembled(sparse(poisson_2d(6)));
  const auto M = make_preconditioner<double>(GetParam(), *A);
  std::vector<double> r = right_hand_side<double>(36), y(36, 2);
  EXPECT_THROW(M->apply(view(std::as_const(r)), view(y)), BadArgument) << "not set up";
  M->ensure(*A);
  const std::vector<double> z = applied(*M, r);
  M->apply(3.0, view(std::as_const(r)), -2.0, view(y));
  for (std::int64_t i = 0; i < 36; ++i) EXPECT_NEAR(y[i], 3 * z[i] - 4, 1e-14);
  M->apply(0.0, view(std::as_const(r)), 1.0, view(y));
  for (std::int64_t i = 0; i < 36; ++i) EXPECT_NEAR(y[i], 3 * z[i] - 4, 1e-14);
  M->apply(0.0, view(std::as_const(r)), -0.5, view(y));
  for (std::int64_t i = 0; i < 36; ++i) EXPECT_NEAR(y[i], 2 - 1.5 * z[i], 1e-14);
  M->apply(2.0, view(std::as_const(r)), 0.0, view(y));
  for (std::int64_t i = 0; i < 36; ++i) EXPECT_NEAR(y[i], 2 * z[i], 1e-14);
  EXPECT_GT(M->bytes(), 0u);
}

TEST_P(Every, NewValuesRenewIt) {
  const CsrMatrix<double> before = sparse(poisson_2d(8));
  std::vector<double> values(before.values, before.values + before.nonzeros());
  const auto A = assembled(before);
  const auto M = ready<double>(GetParam(), *A);
  const std::vector<double> r = right_hand_side<double>(64), old = applied(*M, r);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] *= values[k] > 0 ? 2.5 : 1.5;
  CsrMatrix<double> after = before;
  after.values = values.data(), after.values_owner = nullptr;
  A->update_values(after);
  // The polynomial computes with A itself.
  if (GetParam() != "chebyshev") { EXPECT_EQ(applied(*M, r), old) << "it must wait for ensure()"; }
  M->ensure(*A);
  const auto fresh = assembled(after);
  EXPECT_EQ(applied(*M, r), applied(*ready<double>(GetParam(), *fresh), r));
  EXPECT_NE(applied(*M, r), old);
}

TEST_P(Every, AnotherMatrixWithAnotherPattern) {
  const auto A = assembled(sparse(poisson_1d(36))), B = assembled(sparse(poisson_2d(6)));
  const auto M = ready<double>(GetParam(), *A);
  const std::vector<double> r = right_hand_side<double>(36);
  M->ensure(*B);
  EXPECT_EQ(applied(*M, r), applied(*ready<double>(GetParam(), *B), r));
}

TEST_P(Every, AFailedSetupKeepsTheOldOne) {
  const Dense good = poisson_1d(9);
  Dense bad = good;
  for (std::int64_t i = 0; i < 9; ++i)
    for (std::int64_t j = 0; j < 9; ++j) bad(i, j) = 0;
  bad(0, 1) = bad(1, 0) = 1;
  const auto A = assembled(sparse(good)), B = assembled(sparse(bad));
  const auto M = ready<double>(GetParam(), *A);
  const std::vector<double> r = right_hand_side<double>(9), z = applied(*M, r);
  if (GetParam() == "auto") {  // is none for such a matrix, until the next one
    M->ensure(*B);
    EXPECT_EQ(applied(*M, r), r);
    M->ensure(*A);
  } else {
    EXPECT_THROW(M->ensure(*B), BadMatrix);
  }
  EXPECT_EQ(applied(*M, r), z);
}

// A change of format leaves M as it is: no new setup, the same bits.
TEST_P(Every, AChangeOfFormatLeavesItAsItIs) {
  const CsrMatrix<double> csr = sparse(poisson_2d(10));
  AdaptiveOperator<double> A(csr, assembled(csr));
  const auto M = ready<double>(GetParam(), A);
  const std::vector<double> r = right_hand_side<double>(100), z = applied(*M, r);
  ASSERT_TRUE(A.switch_to({.entry = &find_format("sell-c-sigma")}, 1));
  const std::uint64_t version = M->recording().version;
  const VectorView<const double> diagonal = M->inverse_diagonal();
  M->ensure(A);
  // Recorded steps of the polynomial are products of A, which are others now.
  if (GetParam() != "chebyshev") { EXPECT_EQ(M->recording().version, version) << "it was set up again"; }
  EXPECT_EQ(M->inverse_diagonal().data, diagonal.data);
  const std::vector<double> after = applied(*M, r);
  for (std::size_t i = 0; i < r.size(); ++i)
    EXPECT_NEAR(after[i], z[i], GetParam() == "chebyshev" ? 1e-14 : 0);
  // From any running format the entries are found.
  EXPECT_EQ(applied(*ready<double>(GetParam(), A), r), after);
  const auto ell = assembled(csr, test_context(), "ell");
  const std::vector<double> other = applied(*ready<double>(GetParam(), *ell), r);
  for (std::size_t i = 0; i < r.size(); ++i)
    EXPECT_NEAR(other[i], z[i], GetParam() == "chebyshev" ? 1e-14 : 0);
}

TEST_P(Every, SolvesInBothPrecisions) {
  const Dense A = poisson_2d(20);
  const auto solve = [&]<class T>(T, const char* method, double tolerance) {
    const CsrMatrix<T> csr = sparse<T>(A);
    const auto matrix = assembled(csr);
    const auto M = ready<T>(GetParam(), *matrix);
    const std::vector<T> b = right_hand_side<T>(A.n);
    std::vector<T> x(b.size()), plain(b.size());
    const auto solver = make_solver<T>(method, {.stopping = {.relative_tolerance = tolerance}});
    if (std::string_view(method) == "cg" && !M->symmetric()) {
      const std::string text =
          message<BadArgument>([&] { solver->solve(*matrix, view(b), view(x), M.get()); });
      EXPECT_SAYS(text, "cg needs a symmetric preconditioner, and " + GetParam());
      EXPECT_SAYS(text, GetParam() == "gauss-seidel"     ? "use ssor"
                        : GetParam() == "isai-lu"        ? "use isai"
                        : GetParam() == "ilu"            ? "use ic "
                        : GetParam() == "subdomain-ilu0" ? "use subdomain-ic0"
                                                         : "use ic0");
      return;
    }
    const SolveReport report = solver->solve(*matrix, view(b), view(x), M.get());
    EXPECT_TRUE(report.converged()) << method << to_string(report.reason) << report.detail;
    EXPECT_LE(residual_norm(A, b, x), 2 * tolerance * report.rhs_norm);
    const SolveReport without = solver->solve(*matrix, view(b), view(plain));
    // The diagonal of this matrix is constant: these change little.
    if (GetParam() != "jacobi" && GetParam() != "spai0" && GetParam() != "block-jacobi" &&
        GetParam() != "auto") {
      EXPECT_LT(report.iterations, without.iterations) << method;
    }
  };
  for (const char* method : {"cg", "bicgstab", "gmres"})
    solve(double{}, method, 1e-10), solve(float{}, method, 1e-4);
}

// On a device: the results of the host. More in test_on_device.cpp.
TEST_P(Every, OnADevice) {
  const Dense A = poisson_2d(9);
  const CsrMatrix<double> csr = sparse(A);
  const std::vector<double> r = right_hand_side<double>(A.n);
  // There ic0 and ilu0 eliminate colour after colour.
  const std::vector<double> expected = applied(
      *ready_with_read<double>(GetParam(), *assembled(csr), {.ordering = FactorOrdering::colours}), r);
  const ContextPtr context = fake_device_context();
  const auto on_device = make_matrix(fake_format("csr"), upload(context, csr), context);
  const auto M = ready<double>(GetParam(), *on_device);
  const Placed<double> x(context, r);
  Placed<double> z(context, std::vector<double>(r.size(), std::numeric_limits<double>::quiet_NaN()));
  M->apply(x.read(), z.view());
  const std::vector<double> got = z.fetch();
  for (std::size_t i = 0; i < r.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-13);
  EXPECT_TRUE(M->recording().allowed);
  Placed<double> solution(context, std::vector<double>(r.size(), 0.0));
  const SolveReport report = make_solver<double>(M->symmetric() ? "cg" : "bicgstab")
                                 ->solve(*on_device, x.read(), solution.view(), M.get());
  EXPECT_TRUE(report.converged());
  EXPECT_LE(residual_norm(A, r, solution.fetch()), 2e-8 * report.rhs_norm);
}

TEST(Preconditioners, EntriesOfEveryOperator) {
  const Dense A = poisson_1d(6);
  struct WithRows final : DenseOperator<double>, HasRows<double> {
    using DenseOperator<double>::DenseOperator;
    CsrMatrix<double> rows_as_csr() const override { return sparse(matrix()); }
  };
  const WithRows rows(A);
  expect_same(dense_inverse(*ready<double>("ic0", rows)), inverse(A), 1e-14);
  const DenseOperator<double> none(A);
  EXPECT_SAYS(message<BadArgument>([&] { ready<double>("ic0", none); }),
              "ic0 needs the entries of the matrix, which operator 'dense' cannot give");
  // Element matrices: the bars of poisson_1d, with both ends fixed.
  std::vector<std::int32_t> nodes;
  std::vector<double> bars;
  for (std::int32_t e = 0; e < 7; ++e)
    nodes.insert(nodes.end(), {e, e + 1}), bars.insert(bars.end(), {1, -1, -1, 1});
  const ElementGroup<double> group{.elements = 7, .nodes = 2, .connectivity = nodes, .matrices = bars};
  const std::int64_t ends[] = {0, 7};
  const ElementOptions options{.constrained = ends, .constrained_rows = ConstrainedRows::eliminate};
  auto elements = make_element_operator<double>(test_context(), 8, {&group, 1}, options);
  expect_same(dense_inverse(*ready<double>("ic0", *elements)), inverse(A), 1e-14);
  AdaptiveOperator<double> adaptive(std::move(elements));
  expect_same(dense_inverse(*ready<double>("ic0", adaptive)), inverse(A), 1e-14);
  ASSERT_TRUE(adaptive.switch_to({.entry = &find_format("csr")}, 1));
  expect_same(dense_inverse(*ready<double>("ic0", adaptive)), inverse(A), 1e-14);
}

TEST(Preconditioners, OptionsOutOfRange) {
  const DenseOperator<double> A(poisson_1d(4));
  const auto refused = [&](PreconditionerOptions options) {
    return message<BadArgument>([&] { make_preconditioner<double>("jacobi", A, options); });
  };
  EXPECT_SAYS(refused({.fill = -1}), "fill is -1; it must be a whole number from 0 to 1000");
  EXPECT_SAYS(refused({.block_size = 65}),
              "block_size is 65; it must be 0 for auto, or a whole number from 1");
  EXPECT_SAYS(refused({.omega = 2}), "omega is 2; it must be a number above 0 and below 2");
  EXPECT_SAYS(refused({.omega = std::nan("")}), "omega is nan");
  EXPECT_SAYS(refused({.smoother = static_cast<Smoother>(7)}),
              "smoother is 7; it must be one of: l1-jacobi, gauss-seidel, chebyshev");
  // In range, but jacobi does not read them.
  EXPECT_SAYS(
      refused({.omega = 1.5}),
      "omega is for preconditioner ssor; the preconditioner is jacobi: leave it at 1, or take that one");
  EXPECT_SAYS(refused({.fill = 2}), "fill is for preconditioners ic and ilu; the preconditioner is jacobi");
  EXPECT_SAYS(
      message<BadArgument>(
          [&] { make_preconditioner<double>("none", A, {.zero_diagonal = ZeroDiagonal::one}); }),
      "zero_diagonal is for each preconditioner but none and block-jacobi; the preconditioner is none");
  EXPECT_SAYS(message<BadArgument>([&] { make_preconditioner<double>("ic0", A, {.sweeps = 5}); }),
              "sweeps is for solve: sweeps; solve is auto: leave it at 4");
  EXPECT_EQ(preconditioner_options_read_by("ic", {.fill = 3, .omega = 1.5}),
            PreconditionerOptions{.fill = 3});
}

TEST(Preconditioners, RectangularAndEmpty) {
  const auto empty =
      assembled(csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{}));
  for (const std::string& id : all_ids()) EXPECT_TRUE(applied(*ready<double>(id, *empty), {}).empty()) << id;
  const std::vector<Triplet<double>> entries = {{0, 0, 2}, {1, 1, 3}};
  for (const auto& [rows, cols] : {std::pair(2, 3), std::pair(3, 2), std::pair(2, 0)}) {
    const auto A = assembled(csr_from_triplets<double>(test_context(), rows, cols,
                                                       cols == 0 ? std::vector<Triplet<double>>{} : entries));
    for (const std::string& id : all_ids())
      EXPECT_SAYS(message<ShapeMismatch>([&] { (void)make_preconditioner<double>(id, *A); }),
                  "the operator is " + std::to_string(rows) + " x " + std::to_string(cols) +
                      "; a preconditioner needs a square one");
    EXPECT_EQ(make_preconditioner<double>("none", *A), nullptr);
  }
}

// Each entry of the table makes what it names.
TEST(Preconditioners, EveryEntryMakesItsOwn) {
  const CsrMatrix<double> csr = sparse(poisson_2d(5));
  const auto A = assembled(csr);
  const auto B = assembled(sparse<float>(poisson_2d(5)));
  for (const PreconditionerEntry& entry : preconditioners()) {
    EXPECT_FALSE(entry.title.empty()) << entry.id;
    if (entry.id == "none") continue;
    if (!entry.unavailable.empty()) {
      EXPECT_THROW((void)make_preconditioner<double>(entry.id, *A), NotAvailable) << entry.id;
      continue;
    }
    const auto M = make_preconditioner<double>(entry.id, *A);
    EXPECT_EQ(M->name(), entry.id);
    EXPECT_EQ(M->symmetric(), entry.symmetric) << entry.id;
    EXPECT_EQ(make_preconditioner<float>(entry.id, *B)->name(), entry.id);
  }
}

std::int64_t iterations(const CsrMatrix<double>& csr, const char* method, const char* id) {
  const auto A = assembled(csr);
  const auto M = ready<double>(id, *A);
  const std::vector<double> ones(static_cast<std::size_t>(csr.rows()), 1.0);
  std::vector<double> b(ones.size()), x(ones.size());
  A->apply(view(ones), view(b));
  const SolveReport report = make_solver<double>(method, {.stopping = {.max_iterations = 100000}})
                                 ->solve(*A, view(std::as_const(b)), view(x), M.get());
  EXPECT_TRUE(report.converged()) << id << ' ' << to_string(report.reason);
  return report.iterations;
}
CsrMatrix<double> shipped(const std::string& name) {
  return read_matrix(test_context(),
                     std::string(PROTEAN_SOURCE_DIR "/problems/matrices/") + name + ".mtx.xz");
}

TEST(RealMatrices, FewerIterationsThanJacobi) {
  const CsrMatrix<double> structure = shipped("bcsstk16"), shell = shipped("s1rmt3m1"),
                          reservoir = shipped("orsirr_1");
  EXPECT_LT(3 * iterations(structure, "cg", "ic0"), iterations(structure, "cg", "jacobi"));
  EXPECT_LT(4 * iterations(shell, "cg", "ic0"), iterations(shell, "cg", "jacobi"));
  EXPECT_LT(5 * iterations(reservoir, "bicgstab", "ilu0"), iterations(reservoir, "bicgstab", "jacobi"));
}

}  // namespace
}  // namespace protean::test

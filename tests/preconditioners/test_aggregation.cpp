// Algebraic multigrid by smoothed aggregation: what it must be as a preconditioner, and that neither threads nor kept
// patterns change a bit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/aggregation_solves.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "protean.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

// M^-1 of several levels, by unit vectors: symmetric, and the Cholesky factorization in long double succeeds.
bool positive_definite(Dense A) {
  for (std::int64_t k = 0; k < A.n; ++k) {
    if (!(A(k, k) > 0)) return false;
    for (std::int64_t i = k + 1; i < A.n; ++i) {
      const long double factor = A(i, k) / A(k, k);
      for (std::int64_t j = k + 1; j < A.n; ++j) A(i, j) -= factor * A(k, j);
    }
  }
  return true;
}

TEST(Aggregation, IsSymmetricPositiveDefinite) {
  for (const CsrMatrix<double>& csr :
       {poisson("poisson-2d", 18), poisson("poisson-3d", 7),
        generate(test_context(), "anisotropic-2d", {{"n", 18}, {"epsilon_y", 0.02}})}) {
    const auto A = assembled(csr);
    for (const Smoother smoother : smoothers)
      for (const std::int64_t cycles : {1, 2}) {
        const auto M = ready<double>("amg", *A, {.smoother = smoother, .cycles = cycles});
        EXPECT_EQ(figure(*M, "levels"), 2);
        const Dense inverted = dense_inverse(*M);
        long double largest = 0, difference = 0;
        for (std::int64_t i = 0; i < inverted.n; ++i)
          for (std::int64_t j = 0; j < i; ++j)
            largest = std::max(largest, std::abs(inverted(i, j))),
            difference = std::max(difference, std::abs(inverted(i, j) - inverted(j, i)));
        EXPECT_LE(difference, 1e-14L * largest) << to_string(smoother) << cycles;
        EXPECT_TRUE(positive_definite(inverted)) << to_string(smoother) << cycles;
      }
  }
}

// x . M^-1 y = y . M^-1 x with more than two levels.
TEST(Aggregation, IsSymmetricWithManyLevels) {
  const CsrMatrix<double> csr = poisson("poisson-2d", 130);
  const auto A = assembled(csr);
  for (const Smoother smoother : smoothers) {
    const auto M = ready<double>("amg", *A, {.smoother = smoother});
    EXPECT_GE(figure(*M, "levels"), 3);
    std::vector<double> x = right_hand_side<double>(csr.rows()), y(x.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::cos(static_cast<double>(i * i % 1000));
    const std::vector<double> Mx = applied(*M, x), My = applied(*M, y);
    long double xMy = 0, yMx = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      xMy += static_cast<long double>(x[i]) * My[i], yMx += static_cast<long double>(y[i]) * Mx[i],
          size += std::abs(static_cast<long double>(x[i]) * My[i]);
    EXPECT_LE(std::abs(xMy - yMx), 1e-13L * size) << to_string(smoother);
  }
}

TEST(Aggregation, IterationsHardlyGrowWithTheGrid) {
  const auto grown = [](const char* kind, double small, double large, const PreconditionerOptions& options,
                        std::int64_t most) {
    const std::int64_t few = iterations(poisson(kind, small), "cg", "amg", options),
                       many = iterations(poisson(kind, large), "cg", "amg", options);
    EXPECT_LE(many, few + few / 3 + 2) << kind << ' ' << to_string(options.smoother) << ": " << few;
    EXPECT_LE(many, most) << kind << ' ' << to_string(options.smoother);
  };
  for (const Smoother smoother : smoothers) {
    grown("poisson-2d", 60, 240, {.smoother = smoother}, 40);
    grown("poisson-3d", 16, 48, {.smoother = smoother}, 34);
  }
  EXPECT_GE(iterations(poisson("poisson-3d", 48), "cg", "jacobi"),
            2 * iterations(poisson("poisson-3d", 16), "cg", "jacobi"))
      << "the grids are too alike to show anything";
}

TEST(Aggregation, WeakCouplingsCountWhereThereAreNoOthers) {
  const std::int64_t small = iterations(trilinear(9), "cg", "amg"),
                     large = iterations(trilinear(22), "cg", "amg");
  EXPECT_LE(large, 16);
  EXPECT_LE(large, small + 6);
  EXPECT_GE(figure(*ready<double>("amg", *assembled(trilinear(9))), "levels"), 2);
}

TEST(Aggregation, Anisotropy) {
  const CsrMatrix<double> csr =
      generate(test_context(), "anisotropic-2d", {{"n", 150}, {"epsilon_y", 0.001}});
  const std::int64_t strong = iterations(csr, "cg", "amg"),
                     all = iterations(csr, "cg", "amg", {.strength = 0});
  EXPECT_LT(2 * strong, all);
}

TEST(Aggregation, ConvectionAndDiffusion) {
  const CsrMatrix<double> csr = generate(test_context(), "convection-diffusion-3d", {{"n", 24}});
  const std::int64_t plain = iterations(csr, "bicgstab", "jacobi");
  for (const char* method : {"bicgstab", "gmres", "fgmres", "idr"})
    EXPECT_LE(iterations(csr, method, "amg"), plain) << method;
}

TEST(Aggregation, TheSameBitsForAnyNumberOfThreads) {
  for (const char* kind : {"poisson-3d", "convection-diffusion-3d"}) {
    const CsrMatrix<double> csr = poisson(kind, 22);
    const std::vector<double> r = right_hand_side<double>(csr.rows());
    for (const Smoother smoother : {Smoother::l1_jacobi, Smoother::gauss_seidel}) {
      std::vector<double> first;
      for (const int threads : {1, 2, 8}) {
        const auto A = assembled(csr, Context::host(threads));
        const std::vector<double> z =
            applied(*ready<double>("amg", *A, {.smoother = smoother, .level_format = LevelFormat::csr}), r);
        if (first.empty()) first = z;
        EXPECT_EQ(z, first) << kind << threads;
      }
    }
  }
}

// Values that keep the couplings, and values that do not: a kept M has the bits of a new one.
TEST(Aggregation, NewValuesHaveTheBitsOfANewSetup) {
  const CsrMatrix<double> csr = generate(test_context(), "anisotropic-2d", {{"n", 60}, {"epsilon_y", 0.5}});
  const auto A = assembled(csr);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const Smoother smoother : smoothers) {
    A->update_values(csr);
    const auto M = ready<double>("amg", *A, {.smoother = smoother});
    ASSERT_GE(figure(*M, "levels"), 3);
    std::vector<double> before = applied(*M, r);
    for (int kind = 0; kind < 4; ++kind) {
      std::vector<double> values(csr.values, csr.values + csr.nonzeros());
      for (std::int64_t i = 0; i < csr.rows(); ++i)
        for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p) {
          const std::int64_t j = csr.pattern.col[p];
          double& value = values[static_cast<std::size_t>(p)];
          if (kind % 2 == 0) value *= 1 + 0.01 * static_cast<double>((i + j) % 7);  // all couplings stay
          if (kind % 2 == 1 && std::abs(i - j) == 1) value *= 1e-3;  // couplings of one direction go
        }
      CsrMatrix<double> renewed = csr;
      renewed.values = values.data(), renewed.values_owner = nullptr;
      A->update_values(renewed);
      M->ensure(*A);
      const std::vector<double> z = applied(*M, r);
      EXPECT_EQ(z, applied(*ready<double>("amg", *A, {.smoother = smoother}), r))
          << to_string(smoother) << kind;
      EXPECT_NE(z, before) << kind;
      before = z;
    }
  }
}

TEST(Aggregation, AFailedSetupKeepsTheOldOne) {
  const CsrMatrix<double> csr = poisson("poisson-2d", 40);
  const auto A = assembled(csr);
  const auto M = ready<double>("amg", *A);
  const std::vector<double> r = right_hand_side<double>(csr.rows()), z = applied(*M, r);
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  values[20] = std::numeric_limits<double>::infinity();
  CsrMatrix<double> broken = csr;
  broken.values = values.data(), broken.values_owner = nullptr;
  const auto B = assembled(broken);
  EXPECT_SAYS(message<BadMatrix>([&] { M->ensure(*B); }), "amg needs finite entries");
  EXPECT_EQ(applied(*M, r), z);
}

TEST(Aggregation, FloatIsLikeDouble) {
  const CsrMatrix<double> csr = poisson("poisson-3d", 14);
  const CsrMatrix<float> narrow = convert_values<float>(test_context(), csr);
  const auto A = assembled(csr);
  const auto B = assembled(narrow);
  const auto M = ready<double>("amg", *A);
  const auto N = ready<float>("amg", *B);
  const std::vector<double> r = right_hand_side<double>(csr.rows()), expected = applied(*M, r);
  const std::vector<float> s(r.begin(), r.end());
  std::vector<float> z(s.size());
  N->apply(view(s), view(z));
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(z[i], expected[i], 1e-5 * largest);
}

TEST(Aggregation, SmallAndDegenerateMatrices) {
  for (const std::int64_t n : {1, 2, 3, 9, 256, 257, 300}) {
    const auto A = assembled(sparse(poisson_1d(n)));
    const std::vector<double> r = right_hand_side<double>(n);
    for (const Smoother smoother : smoothers)
      for (const double value : applied(*ready<double>("amg", *A, {.smoother = smoother}), r))
        EXPECT_TRUE(std::isfinite(value)) << n;
  }
  // Small matrices are inverted.
  expect_same(dense_inverse(*ready<double>("amg", *assembled(sparse(poisson_2d(9))))), inverse(poisson_2d(9)),
              1e-13L);
  // Without couplings there is nothing to coarsen, and the smoother is exact.
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < 1000; ++i) entries.push_back({i, i, i % 2 ? 3.0 + i : -2.0 - i});
  const auto D = assembled(csr_from_triplets<double>(test_context(), 1000, 1000, entries));
  const auto M = ready<double>("amg", *D);
  EXPECT_EQ(figure(*M, "levels"), 1);
  const std::vector<double> r = right_hand_side<double>(1000), z = applied(*M, r);
  for (std::size_t i = 0; i < z.size(); ++i)
    EXPECT_NEAR(z[i], r[i] / entries[i].value, 1e-15 * std::abs(z[i]));
  // One level is the smoother.
  const Dense S = symmetric_part(scattered(60, 5));
  Dense l1(S.n);
  for (std::int64_t i = 0; i < S.n; ++i) {
    for (std::int64_t j = 0; j < S.n; ++j) l1(i, i) += 2.0L / 3 * std::abs(S(i, j));
    l1(i, i) = std::max(l1(i, i), S(i, i));
  }
  expect_same(dense_inverse(*ready<double>("amg", *assembled(sparse(S)), {.max_levels = 1})), inverse(l1),
              1e-14L);
  EXPECT_LE(
      figure(*ready<double>("amg", *assembled(poisson("poisson-2d", 150)), {.max_levels = 2}), "levels"), 2);
}

TEST(Aggregation, MissingDiagonalEntries) {
  CsrMatrix<double> csr = poisson("poisson-2d", 30);
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  for (std::int64_t p = csr.pattern.row_ptr[7]; p < csr.pattern.row_ptr[8]; ++p)
    if (csr.pattern.col[p] == 7) values[static_cast<std::size_t>(p)] = 0;
  csr.values = values.data();
  const auto A = assembled(csr);
  EXPECT_SAYS(message<BadMatrix>([&] { ready<double>("amg", *A); }), "1 of 900 diagonal entries");
  for (const Smoother smoother : {Smoother::l1_jacobi, Smoother::gauss_seidel}) {
    const auto M = ready<double>("amg", *A, {.zero_diagonal = ZeroDiagonal::one, .smoother = smoother});
    for (const double value : applied(*M, right_hand_side<double>(900))) EXPECT_TRUE(std::isfinite(value));
  }
}

// Pure Neumann conditions: A is singular, and so is the coarsest matrix. Several bodies, each with a null space; some
// of them are one aggregate, so that a row of the next level is nothing but rounding.
TEST(Aggregation, SingularMatrices) {
  const std::int64_t m = 40;
  std::vector<Triplet<double>> entries;
  const auto couple = [&](std::int64_t i, std::int64_t j) {
    const auto a = static_cast<std::int32_t>(i), b = static_cast<std::int32_t>(j);
    const double w = 0.1 + 0.01 * static_cast<double>((i + j) % 17);
    entries.insert(entries.end(), {{a, a, w}, {b, b, w}, {a, b, -w}, {b, a, -w}});
  };
  for (std::int64_t y = 0; y < m; ++y)
    for (std::int64_t x = 0; x < m; ++x) {
      if (x + 1 < m) couple(y * m + x, y * m + x + 1);
      if (y + 1 < m) couple(y * m + x, (y + 1) * m + x);
    }
  const auto solve = [](const CsrMatrix<double>& csr, std::vector<double> b, const char* null_space,
                        Smoother smoother) {
    const auto A = assembled(csr);
    const auto M = ready<double>("amg", *A, {.smoother = smoother});
    std::vector<double> x(b.size());
    SolverOptions options;
    options.null_space = null_space, options.stopping.max_iterations = 100;
    const SolveReport report =
        make_solver<double>("cg", options)->solve(*A, view(std::as_const(b)), view(x), M.get());
    EXPECT_TRUE(report.converged()) << to_string(report.reason) << report.detail << to_string(smoother);
    return report.iterations;
  };
  std::vector<double> b(static_cast<std::size_t>(m * m));
  b.front() = 1, b.back() = -1;
  const CsrMatrix<double> one = csr_from_triplets<double>(test_context(), m * m, m * m, entries);
  for (const Smoother smoother : smoothers) EXPECT_LE(solve(one, b, "constant", smoother), 40);
  // 400 pairs beside it.
  for (std::int64_t k = 0; k < 400; ++k)
    couple(m * m + 2 * k, m * m + 2 * k + 1), b.push_back(0.5), b.push_back(-0.5);
  const CsrMatrix<double> many = csr_from_triplets<double>(test_context(), m * m + 800, m * m + 800, entries);
  for (const Smoother smoother : smoothers) EXPECT_LE(solve(many, b, "none", smoother), 60);
}

TEST(Aggregation, SeveralColumnsAndCallers) {
  const CsrMatrix<double> csr = poisson("poisson-2d", 40);
  const auto A = assembled(csr, Context::host(2));
  const auto M = ready<double>("amg", *A);
  const std::int64_t n = csr.rows();
  MultiVector<double> R(A->context(), n, 3, VectorLayout::interleaved),
      Z(A->context(), n, 3, VectorLayout::interleaved);
  std::vector<std::vector<double>> expected;
  for (std::int64_t j = 0; j < 3; ++j) {
    std::vector<double> r = right_hand_side<double>(n);
    for (std::size_t i = 0; i < r.size(); ++i)
      r[i] *= static_cast<double>(i % 5 + static_cast<std::size_t>(j));
    for (std::int64_t i = 0; i < n; ++i) R.view()(i, j) = r[static_cast<std::size_t>(i)];
    expected.push_back(applied(*M, r));
  }
  multi_apply<double>(*M, R.view(), Z.view());
  for (std::int64_t j = 0; j < 3; ++j)
    for (std::int64_t i = 0; i < n; ++i)
      EXPECT_EQ(Z.view()(i, j), expected[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)]);
}

// The running format computes the products of the finest level.
TEST(Aggregation, FollowsAChangeOfFormat) {
  const CsrMatrix<double> csr = poisson("poisson-2d", 40);
  Matrix<double> A(csr, assembled(csr));
  const auto M = ready<double>("amg", A);
  const std::vector<double> r = right_hand_side<double>(csr.rows()), z = applied(*M, r);
  ASSERT_TRUE(A.switch_to({.entry = &find_format("sell-c-sigma")}, 1));
  M->ensure(A);
  const std::vector<double> after = applied(*M, r);
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(after[i], z[i], 1e-12);
}

TEST(Aggregation, DeterministicMode) {
  const CsrMatrix<double> csr = poisson("poisson-2d", 40);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  std::vector<double> first;
  for (const int threads : {1, 3})
    for (const char* format : {"csr", "ell"}) {
      const auto A = assembled(csr, Context::host(threads, {.deterministic = true}), format);
      for (const Smoother smoother : {Smoother::l1_jacobi}) {
        const std::vector<double> z = applied(*ready<double>("amg", *A, {.smoother = smoother}), r);
        if (first.empty()) first = z;
        EXPECT_EQ(z, first) << threads << format;
      }
    }
}

TEST(Aggregation, Figures) {
  auto A = assembled(poisson("poisson-3d", 30));
  const auto M = make_preconditioner<double>("amg", *A);
  EXPECT_TRUE(M->figures().empty());
  M->ensure(*A);
  EXPECT_GE(figure(*M, "levels"), 3);
  EXPECT_GT(figure(*M, "operator_complexity"), 1);
  EXPECT_LT(figure(*M, "operator_complexity"), 1.5);
  EXPECT_GT(figure(*M, "grid_complexity"), 1);
  EXPECT_LT(figure(*M, "grid_complexity"), 1.2);
  EXPECT_LE(figure(*M, "coarsest_rows"), 256);
  // A cycle has two products of the finest level, and vectors and coarser levels beside them.
  EXPECT_GT(figure(*M, "cycle_products"), 3);
  EXPECT_LT(figure(*M, "cycle_products"), 6);
  const double twice = figure(*ready<double>("amg", *A, {.cycles = 2}), "cycle_products");
  EXPECT_GT(twice, 1.5 * figure(*M, "cycle_products"));
  A.reset();  // the figures belong to the last setup
  EXPECT_GE(figure(*M, "levels"), 3);
}

}  // namespace
}  // namespace protean::test

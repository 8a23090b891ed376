// Algebraic multigrid by hypre (setup classical): what it must be as a preconditioner, what it refuses, and that
// hypre's state of the process is no concern of its users. How it shares MPI with a program: amg_and_mpi.cpp.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/multigrid/boomeramg.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

const PreconditionerEntry& amg_entry() {
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == "amg") return entry;
  throw BadArgument("there is no amg");
}

TEST(AmgInAnyBuild, ClassicalIsThereOrSaysWhatToDo) {
  const PreconditionerEntry& entry = amg_entry();
  EXPECT_TRUE(entry.symmetric);
  EXPECT_TRUE(entry.unavailable.empty());
  const auto A = assembled(sparse(poisson_1d(4)));
  const PreconditionerOptions by_hypre{.setup = AmgSetup::classical};
  EXPECT_EQ(unavailable(AmgSetup::aggregation), "");
  if (unavailable(AmgSetup::classical).empty()) {
    EXPECT_EQ(entry.library.rfind("hypre ", 0), 0u) << entry.library;
    EXPECT_NE(make_preconditioner<double>("amg", *A, by_hypre), nullptr);
    return;
  }
  EXPECT_EQ(entry.library, "");
  const std::string text =
      message<NotAvailable>([&] { (void)make_preconditioner<double>("amg", *A, by_hypre); });
  EXPECT_SAYS(text, "preconditioner amg with setup classical: this build has no hypre");
  EXPECT_SAYS(text, "PROTEAN_HYPRE=ON");
  EXPECT_SAYS(text, "HYPRE_ROOT");
}

class Amg : public testing::Test {
 protected:
  void SetUp() override {
    if (!unavailable(AmgSetup::classical).empty())
      GTEST_SKIP() << "no hypre in this build: PROTEAN_HYPRE, HYPRE_ROOT";
  }
};

// The options of amg, with hypre's setup.
PreconditionerOptions classical(PreconditionerOptions options = {}) {
  options.setup = AmgSetup::classical;
  return options;
}

struct Solved {
  std::int64_t iterations = 0;
  double residual = 0;  // ||b - A x|| / ||b||
};
template <class T = double>
Solved solved(const CsrMatrix<T>& csr, const char* method, const char* id,
              const PreconditionerOptions& options = {}, double tolerance = 1e-8) {
  const auto A = assembled(csr);
  const auto M = ready<T>(id, *A, options);
  const std::vector<T> ones(static_cast<std::size_t>(csr.rows()), T(1));
  std::vector<T> b(ones.size()), x(ones.size());
  A->apply(view(ones), view(b));
  const SolveReport report =
      make_solver<T>(method, {.stopping = {.relative_tolerance = tolerance, .max_iterations = 2000}})
          ->solve(*A, view(std::as_const(b)), view(x), M.get());
  EXPECT_TRUE(report.converged()) << method << ' ' << to_string(report.reason) << ' ' << report.detail;
  return {report.iterations, report.true_relative};
}

// The Cholesky factorization in long double succeeds.
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
long double largest_asymmetry(const Dense& A) {
  long double largest = 0, difference = 0;
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j)
      largest = std::max(largest, std::abs(A(i, j))),
      difference = std::max(difference, std::abs(A(i, j) - A(j, i)));
  return difference / largest;
}
// -u_xx - epsilon u_yy on m x m points.
Dense anisotropic_2d(std::int64_t m, long double epsilon) {
  Dense A(m * m);
  for (std::int64_t y = 0; y < m; ++y)
    for (std::int64_t x = 0; x < m; ++x) {
      const std::int64_t i = y * m + x;
      A(i, i) = 2 + 2 * epsilon;
      if (x > 0) A(i, i - 1) = A(i - 1, i) = -1;
      if (y > 0) A(i, i - m) = A(i - m, i) = -epsilon;
    }
  return A;
}

TEST_F(Amg, SymmetricPositiveDefinite) {
  for (const Dense& A : {poisson_2d(12), anisotropic_2d(12, 0.01L), symmetric_part(scattered(100, 3))}) {
    const auto matrix = assembled(sparse(A));
    std::vector<PreconditionerOptions> kinds;
    for (const Smoother smoother : smoothers)
      for (const std::int64_t levels : {1, 2, 25})
        for (const std::int64_t cycles : {1, 2}) {
          for (const Coarsening coarsening : coarsenings)
            kinds.push_back(
                {.smoother = smoother, .coarsening = coarsening, .max_levels = levels, .cycles = cycles});
          kinds.push_back(
              {.smoother = smoother, .aggressive_levels = 1, .max_levels = levels, .cycles = cycles});
        }
    for (const PreconditionerOptions& options : kinds) {
      SCOPED_TRACE(
          std::string(to_string(options.smoother)) + " " + std::string(to_string(options.coarsening)) + " " +
          std::to_string(options.aggressive_levels) + " aggressive, " + std::to_string(options.max_levels) +
          " levels, " + std::to_string(options.cycles) + " cycles");
      const auto M = ready<double>("amg", *matrix, classical(options));
      EXPECT_LE(figure(*M, "levels"), options.max_levels);
      const Dense inverted = dense_inverse(*M);
      EXPECT_LE(largest_asymmetry(inverted), 1e-14L);
      EXPECT_TRUE(positive_definite(inverted));
    }
  }
}

// With one level a cycle is one use of the smoother.
TEST_F(Amg, OneLevelIsTheSmoother) {
  const Dense A = symmetric_part(scattered(60, 5));
  const auto matrix = assembled(sparse(A));
  Dense l1(A.n), seidel(A.n);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j) {
      l1(i, i) += std::abs(A(i, j));
      // (D + L) D^-1 (D + U)
      for (std::int64_t k = 0; k <= std::min(i, j); ++k) seidel(i, j) += A(i, k) / A(k, k) * A(k, j);
    }
  expect_same(dense_inverse(*ready<double>("amg", *matrix, classical({.max_levels = 1}))), inverse(l1),
              1e-14L);
  expect_same(dense_inverse(*ready<double>("amg", *matrix,
                                           classical({.smoother = Smoother::gauss_seidel, .max_levels = 1}))),
              inverse(seidel), 1e-14L);
}

// Two cycles: z := B r, z := z + B (r - A z).
TEST_F(Amg, CyclesFollowEachOther) {
  const Dense A = anisotropic_2d(10, 0.1L);
  const auto matrix = assembled(sparse(A));
  for (const Smoother smoother : smoothers) {
    const Dense B = dense_inverse(*ready<double>("amg", *matrix, classical({.smoother = smoother})));
    const Dense BAB = product(B, product(A, B));
    Dense expected(A.n);
    for (std::size_t k = 0; k < B.a.size(); ++k) expected.a[k] = 2 * B.a[k] - BAB.a[k];
    const auto M = ready<double>("amg", *matrix, classical({.smoother = smoother, .cycles = 2}));
    expect_same(dense_inverse(*M), expected, 1e-13L);
  }
}

TEST_F(Amg, IterationsHardlyGrowWithTheGrid) {
  const auto iterations = [](std::int64_t n, const char* id, PreconditionerOptions options = {}) {
    return solved(generate(test_context(), "poisson-3d", {{"n", static_cast<double>(n)}}), "cg", id, options)
        .iterations;
  };
  for (const Smoother smoother : smoothers) {
    const std::int64_t small = iterations(20, "amg", classical({.smoother = smoother})),
                       large = iterations(40, "amg", classical({.smoother = smoother}));
    EXPECT_LE(large, small + 2) << to_string(smoother);
    EXPECT_LE(large, 14) << to_string(smoother);
  }
  EXPECT_GE(iterations(40, "jacobi"), 1.6 * static_cast<double>(iterations(20, "jacobi")))
      << "the grids are too alike to show anything";
}

TEST_F(Amg, ConvectionAndDiffusion) {
  for (const double n : {8.0, 24.0}) {
    const CsrMatrix<double> csr = generate(test_context(), "convection-diffusion-3d", {{"n", n}});
    for (const char* method : {"bicgstab", "gmres", "fgmres", "idr"}) {
      const Solved amg = solved(csr, method, "amg", classical());
      EXPECT_LE(amg.residual, 1.01e-8) << method;
      EXPECT_LE(amg.iterations, 40) << method << ' ' << n;
    }
  }
}

TEST_F(Amg, UnknownsOfElasticity) {
  const CsrMatrix<double> csr = generate(test_context(), "elasticity-3d", {{"n", 12}});
  const std::int64_t scalar = solved(csr, "cg", "amg", classical()).iterations,
                     system = solved(csr, "cg", "amg", classical({.unknowns = 3})).iterations;
  EXPECT_LT(system, scalar);
  EXPECT_LT(2 * system, solved(csr, "cg", "jacobi").iterations);
  const auto A = assembled(sparse(poisson_1d(10)));
  EXPECT_SAYS(message<ShapeMismatch>([&] { ready<double>("amg", *A, classical({.unknowns = 3})); }),
              "unknowns is 3, which does not divide the 10 rows");
}

TEST_F(Amg, FloatIsConverted) {
  const Dense A = poisson_2d(15);
  const auto wide = assembled(sparse(A));
  const auto narrow = assembled(sparse<float>(A));
  const auto M = ready<double>("amg", *wide, classical());
  const auto M32 = ready<float>("amg", *narrow, classical());
  std::vector<float> r(225), z(225);
  std::vector<double> same;
  for (std::size_t i = 0; i < r.size(); ++i) same.push_back(r[i] = std::sin(static_cast<float>(i)));
  M32->apply(view(std::as_const(r)), view(z));
  const std::vector<double> expected = applied(*M, same);
  // Entries and r are exact in both, so only the result is rounded.
  for (std::size_t i = 0; i < r.size(); ++i) EXPECT_EQ(z[i], static_cast<float>(expected[i])) << i;
}

TEST_F(Amg, SmallAndDegenerateMatrices) {
  for (const std::int64_t n : {1, 2, 3, 9, 10, 11}) {
    const auto A = assembled(sparse(poisson_1d(n)));
    for (const Smoother smoother : smoothers)
      EXPECT_TRUE(
          positive_definite(dense_inverse(*ready<double>("amg", *A, classical({.smoother = smoother})))))
          << n;
  }
  // Without entries off the diagonal the smoother is exact.
  const Dense D = diagonal_matrix({2, 4, -8, 1e-3L, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_same(dense_inverse(*ready<double>("amg", *assembled(sparse(D)), classical())), inverse(D), 1e-15L);
  EXPECT_SAYS(message<ShapeMismatch>([] {
                const std::vector<Triplet<double>> entries = {{0, 0, 1.0}};
                const auto A = assembled(csr_from_triplets<double>(test_context(), 2, 3, entries));
                ready<double>("amg", *A, classical());
              }),
              "2 x 3");
}

TEST_F(Amg, MissingDiagonalEntries) {
  Dense A = poisson_1d(20);
  A(7, 7) = 0;  // not stored
  const auto missing = assembled(sparse(A));
  const std::string text = message<BadMatrix>([&] { ready<double>("amg", *missing, classical()); });
  EXPECT_SAYS(text, "1 of 20 diagonal entries");
  EXPECT_SAYS(text, "row 7 (0)");
  A(7, 7) = 1;
  const auto M = ready<double>("amg", *missing, classical({.zero_diagonal = ZeroDiagonal::one}));
  expect_same(dense_inverse(*M), dense_inverse(*ready<double>("amg", *assembled(sparse(A)), classical())), 0);
}

TEST_F(Amg, EntriesThatAreNotFinite) {
  const CsrMatrix<double> csr = sparse(poisson_2d(6));
  const std::vector<double> r = right_hand_side<double>(36);
  const auto good = assembled(csr);
  const auto M = ready<double>("amg", *good, classical());
  const std::vector<double> z = applied(*M, r);
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    std::vector<double> values(csr.values, csr.values + csr.nonzeros());
    values[csr.pattern.row_ptr[5]] = bad;  // (5, 4)
    CsrMatrix<double> broken = csr;
    broken.values = values.data(), broken.values_owner = nullptr;
    const auto A = assembled(broken);
    EXPECT_SAYS(message<BadMatrix>([&] { M->ensure(*A); }),
                "amg needs finite entries, but the entry of row 5, column 4 is ");
    EXPECT_EQ(applied(*M, r), z);
  }
}

// What hypre cannot do is an error with its words, and hypre's error flag does not reach the next user.
TEST_F(Amg, FailuresOfHypreAreNamed) {
  const std::vector<double> r = right_hand_side<double>(36);
  const auto good = assembled(sparse(poisson_2d(6)));
  const std::vector<double> z = applied(*ready<double>("amg", *good, classical()), r);
  // The coarsest level is one zero.
  Dense singular = poisson_1d(3);
  singular(0, 0) = singular(2, 2) = 1;
  const auto A = assembled(sparse(singular));
  const auto M = make_preconditioner<double>("amg", *A, classical());
  for (int time = 0; time < 2; ++time) {
    const std::string text = message<BadMatrix>([&] { M->ensure(*A); });
    EXPECT_SAYS(
        text, "amg: a V-cycle of the setup failed with error 1 of hypre: [Generic error]; another smoother");
    EXPECT_SAYS(text, "another preconditioner");
    EXPECT_THROW((void)applied(*M, {1, 2, 3}), BadArgument) << "it was never set up";
    EXPECT_EQ(applied(*ready<double>("amg", *good, classical()), r), z);
  }
  // Gauss-Seidel divides by the diagonal, and its products overflow.
  Dense small(2);
  small(0, 0) = small(1, 1) = 1e-200L, small(0, 1) = small(1, 0) = 1e200L;
  const auto B = assembled(sparse(small));
  const std::string text = message<BadMatrix>(
      [&] { ready<double>("amg", *B, classical({.smoother = Smoother::gauss_seidel, .max_levels = 1})); });
  EXPECT_SAYS(text, "amg: a V-cycle for r = (1 ... 1) gives ");
  EXPECT_SAYS(text, "scale the matrix, or another smoother");
}

// With pure Neumann conditions A is singular, and on the coarsest level nearly so.
TEST_F(Amg, NullSpaceOfConstants) {
  const std::int64_t m = 40;
  std::vector<Triplet<double>> entries;
  const auto couple = [&](std::int64_t i, std::int64_t j) {
    const auto a = static_cast<std::int32_t>(i), b = static_cast<std::int32_t>(j);
    entries.insert(entries.end(), {{a, a, 1}, {b, b, 1}, {a, b, -1}, {b, a, -1}});
  };
  for (std::int64_t y = 0; y < m; ++y)
    for (std::int64_t x = 0; x < m; ++x) {
      if (x + 1 < m) couple(y * m + x, y * m + x + 1);
      if (y + 1 < m) couple(y * m + x, (y + 1) * m + x);
    }
  const auto A = assembled(csr_from_triplets<double>(test_context(), m * m, m * m, entries));
  const auto M = ready<double>("amg", *A, classical());
  std::vector<double> b(static_cast<std::size_t>(m * m)), x(b.size());
  b.front() = 1, b.back() = -1;
  const SolveReport report = make_solver<double>("cg", {.null_space = "constant"})
                                 ->solve(*A, view(std::as_const(b)), view(x), M.get());
  EXPECT_TRUE(report.converged()) << to_string(report.reason) << report.detail;
  EXPECT_LE(report.iterations, 20);
}

// The numbers of a solve that breaks down pass through, and leave nothing behind.
TEST_F(Amg, NanGoesThrough) {
  const auto A = assembled(sparse(poisson_2d(20)));
  const auto M = ready<double>("amg", *A, classical());
  std::vector<double> r = right_hand_side<double>(400);
  const std::vector<double> z = applied(*M, r);
  std::vector<double> bad = r;
  bad[17] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> result = applied(*M, bad);
  EXPECT_TRUE(std::any_of(result.begin(), result.end(), [](double value) { return std::isnan(value); }));
  EXPECT_EQ(applied(*M, r), z);
}

TEST_F(Amg, IntegersOfHypre) {
  EXPECT_NO_THROW(detail::require_countable<std::int32_t>(2147483647, 2147483647));
  EXPECT_NO_THROW(detail::require_countable<std::int64_t>(2147483648, 3000000000));
  EXPECT_SAYS(message<BadMatrix>([] { detail::require_countable<std::int32_t>(5, 2147483648); }),
              "5 rows and 2147483648 entries with its diagonal, and this hypre counts up to 2147483647");
  EXPECT_SAYS(message<BadMatrix>([] { detail::require_countable<std::int32_t>(2147483648, 2147483648); }),
              "2147483648 rows");
}

TEST_F(Amg, NotInDeterministicMode) {
  const ContextPtr context = Context::host(1, {.deterministic = true});
  const auto A = assembled(sparse(poisson_1d(9)), context);
  EXPECT_SAYS(message<NotAvailable>([&] { (void)make_preconditioner<double>("amg", *A, classical()); }),
              "amg with setup classical is not for deterministic mode: another library adds its sums");
}

TEST_F(Amg, Figures) {
  const auto A = assembled(generate(test_context(), "poisson-3d", {{"n", 16}}));
  const auto M = make_preconditioner<double>("amg", *A, classical());
  EXPECT_TRUE(M->figures().empty());
  M->ensure(*A);
  EXPECT_GE(figure(*M, "levels"), 3);
  EXPECT_GT(figure(*M, "operator_complexity"), 1);
  EXPECT_LT(figure(*M, "operator_complexity"), 4);
  EXPECT_GT(figure(*M, "grid_complexity"), 1);
  EXPECT_LT(figure(*M, "grid_complexity"), 2);
  const auto aggressive = ready<double>("amg", *A, classical({.aggressive_levels = 1}));
  EXPECT_LT(figure(*aggressive, "operator_complexity"), 0.7 * figure(*M, "operator_complexity"));
  EXPECT_LT(aggressive->bytes(), M->bytes());
  // At least the entries of all levels.
  EXPECT_GT(static_cast<double>(M->bytes()),
            figure(*M, "operator_complexity") * 12 * static_cast<double>(16 * 16 * (7 * 16 - 6)));
  const auto two = ready<double>("amg", *A, classical({.max_levels = 2}));
  EXPECT_EQ(figure(*two, "levels"), 2);
  EXPECT_LT(two->bytes(), M->bytes());
  // MPI runs already.
  EXPECT_EQ(two->figures().size(), 3u);
}

TEST_F(Amg, TheSameBitsForAnyNumberOfThreads) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 20}});
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  std::vector<double> first;
  for (const int threads : {1, 2, 5}) {
    const auto A = assembled(csr, Context::host(threads));
    const std::vector<double> z = applied(*ready<double>("amg", *A, classical()), r);
    if (first.empty()) first = z;
    EXPECT_EQ(z, first) << threads;
  }
}

TEST_F(Amg, PartOfAComposition) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  const auto A = assembled(csr);
  const PreconditionerPart parts[] = {{"jacobi"}, {"amg", classical({.cycles = 2})}};
  const auto M = make_composition<double>(*A, parts, Composition::additive);
  M->ensure(*A);
  const std::vector<double> r = right_hand_side<double>(400);
  const std::vector<double> sum = applied(*M, r), one = applied(*ready<double>("jacobi", *A), r),
                            other = applied(*ready<double>("amg", *A, classical({.cycles = 2})), r);
  for (std::size_t i = 0; i < r.size(); ++i) EXPECT_NEAR(sum[i], one[i] + other[i], 1e-14);
}

// Several preconditioners, matrices and values in a random order: each result has the bits of a new one.
TEST_F(Amg, ReuseInAnyOrder) {
  std::mt19937 random(20);
  const std::vector<CsrMatrix<double>> sources = {
      generate(test_context(), "poisson-2d", {{"n", 12}}),
      generate(test_context(), "convection-diffusion-3d", {{"nx", 6}, {"ny", 6}, {"nz", 4}}),
      generate(test_context(), "random-spd", {{"n", 144}})};
  const std::vector<PreconditionerOptions> kinds = {
      {},
      {.smoother = Smoother::gauss_seidel, .coarsening = Coarsening::falgout},
      {.smoother = Smoother::gauss_seidel, .max_levels = 2},
      {.coarsening = Coarsening::pmis, .cycles = 2, .unknowns = 2}};
  struct Owned {
    std::vector<double> values;
    CsrMatrix<double> csr;
    std::unique_ptr<AssembledMatrix<double>> A;
  };
  std::vector<Owned> matrices;
  for (const CsrMatrix<double>& source : sources) {
    ASSERT_EQ(source.rows(), 144);
    Owned one{{source.values, source.values + source.nonzeros()}, source, nullptr};
    one.csr.values = one.values.data(), one.csr.values_owner = nullptr;
    one.A = assembled(one.csr);
    matrices.push_back(std::move(one));
    matrices.back().csr.values = matrices.back().values.data();
  }
  std::vector<std::unique_ptr<Preconditioner<double>>> kept;
  for (const PreconditionerOptions& options : kinds)
    kept.push_back(make_preconditioner<double>("amg", *matrices[0].A, classical(options)));
  const std::vector<double> r = right_hand_side<double>(144);
  for (int step = 0; step < 200; ++step) {
    Owned& matrix = matrices[random() % matrices.size()];
    const std::size_t k = random() % kept.size();
    if (random() % 3 == 0) {
      const double factor = 0.5 + static_cast<double>(random() % 1000) / 500;
      for (double& value : matrix.values) value *= factor;
      matrix.A->update_values(matrix.csr);
    }
    kept[k]->ensure(*matrix.A);
    ASSERT_EQ(applied(*kept[k], r), applied(*ready<double>("amg", *matrix.A, classical(kinds[k])), r))
        << "step " << step;
    if (random() % 10 == 0) kept[k] = make_preconditioner<double>("amg", *matrix.A, classical(kinds[k]));
  }
}

// Each thread with its own system, and all with one preconditioner: the bits of one thread.
TEST_F(Amg, SolvesOfSeveralThreads) {
  const CsrMatrix<double> shared = generate(test_context(), "poisson-2d", {{"n", 30}});
  const auto A = assembled(shared, Context::host(1));
  const auto M = ready<double>("amg", *A, classical());
  const std::vector<double> r = right_hand_side<double>(900), z = applied(*M, r);
  const auto solve = [](int kind) {
    const CsrMatrix<double> csr =
        generate(test_context(), kind % 2 ? "convection-diffusion-3d" : "poisson-3d", {{"n", 8.0 + kind}});
    const auto own = assembled(csr, Context::host(1));
    const auto m = ready<double>("amg", *own, classical({.smoother = smoothers[kind % 2]}));
    const std::vector<double> b = right_hand_side<double>(csr.rows());
    std::vector<double> x(b.size());
    const SolveReport report =
        make_solver<double>(kind % 2 ? "bicgstab" : "cg")->solve(*own, view(b), view(x), m.get());
    EXPECT_TRUE(report.converged()) << kind << report.detail;
    return x;
  };
  constexpr int threads = 6;
  std::vector<std::vector<double>> expected, found(threads);
  for (int k = 0; k < threads; ++k) expected.push_back(solve(k));
  std::vector<std::thread> running;
  for (int k = 0; k < threads; ++k)
    running.emplace_back([&, k] {
      for (int pass = 0; pass < 3; ++pass) {
        found[k] = solve(k);
        EXPECT_EQ(applied(*M, r), z);
      }
    });
  for (std::thread& one : running) one.join();
  for (int k = 0; k < threads; ++k) EXPECT_EQ(found[k], expected[k]) << k;
}

}  // namespace
}  // namespace protean::test

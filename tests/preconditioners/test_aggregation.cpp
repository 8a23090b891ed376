// Algebraic multigrid by smoothed aggregation: its parts, what it must be as a preconditioner, and that neither threads
// nor kept patterns change a bit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/multigrid/host/aggregates.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/sparse/dense_inverse.hpp"
#include "preconditioners/sparse/sparse_product.hpp"
#include "protean.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

CsrMatrix<double> poisson(const char* kind, double n) { return generate(test_context(), kind, {{"n", n}}); }

SolveReport solved(const CsrMatrix<double>& csr, const char* method, const Preconditioner<double>& M,
                   const LinearOperator<double>& A, SolverOptions options = {}) {
  const std::vector<double> ones(static_cast<std::size_t>(csr.rows()), 1.0);
  std::vector<double> b(ones.size()), x(ones.size());
  A.apply(view(ones), view(b));
  options.stopping.relative_tolerance = 1e-8, options.stopping.max_iterations = 1000;
  const SolveReport report =
      make_solver<double>(method, options)->solve(A, view(std::as_const(b)), view(x), &M);
  EXPECT_TRUE(report.converged()) << method << ' ' << to_string(report.reason) << ' ' << report.detail;
  return report;
}
std::int64_t iterations(const CsrMatrix<double>& csr, const char* method, const char* id,
                        const PreconditionerOptions& options = {}) {
  const auto A = assembled(csr);
  return solved(csr, method, *ready<double>(id, *A, options), *A).iterations;
}

detail::Graph graph_of(const CsrMatrix<double>& csr, const Context& context, double strength = 0.08) {
  std::vector<std::int32_t> first(static_cast<std::size_t>(csr.rows()) + 1),
      of(static_cast<std::size_t>(csr.rows()));
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<std::int32_t>(i);
  std::copy(first.begin(), first.end() - 1, of.begin());
  return detail::strong_couplings<double>(context, csr, first, of, strength);
}

// Roots are at a distance of 3 or more, and everyone has one at a distance of 2 or less.
TEST(Aggregates, CoverTheGraph) {
  for (const CsrMatrix<double>& csr : {poisson("poisson-2d", 40), poisson("poisson-3d", 14),
                                       generate(test_context(), "random-spd", {{"n", 900}})}) {
    const detail::Graph graph = graph_of(csr, *test_context(), 0);
    const detail::Aggregates made = detail::aggregate(*test_context(), graph);
    ASSERT_GT(made.count, 0);
    EXPECT_LT(4 * made.count, csr.rows());
    std::vector<std::vector<std::int32_t>> members(static_cast<std::size_t>(made.count));
    for (std::int32_t i = 0; i < csr.rows(); ++i) {
      ASSERT_GE(made.of[static_cast<std::size_t>(i)], 0) << i;
      ASSERT_LT(made.of[static_cast<std::size_t>(i)], made.count);
      members[static_cast<std::size_t>(made.of[static_cast<std::size_t>(i)])].push_back(i);
    }
    // Each has a root: a member of which all neighbours are members, and all members are within 2 of it.
    for (const auto& one : members) {
      ASSERT_FALSE(one.empty());
      const std::set<std::int32_t> inside(one.begin(), one.end());
      const bool with_root = std::any_of(one.begin(), one.end(), [&](std::int32_t root) {
        std::set<std::int32_t> near = {root};
        for (const std::int32_t j : graph.row(root)) {
          if (!inside.count(j)) return false;
          near.insert(j);
          for (const std::int32_t k : graph.row(j)) near.insert(k);
        }
        return std::includes(near.begin(), near.end(), inside.begin(), inside.end());
      });
      EXPECT_TRUE(with_root);
    }
  }
}

TEST(Aggregates, TheSameForAnyNumberOfThreads) {
  const CsrMatrix<double> csr = poisson("poisson-3d", 26);
  const detail::Graph graph = graph_of(csr, *Context::host(1));
  const detail::Aggregates expected = detail::aggregate(*Context::host(1), graph);
  for (const int threads : {2, 8}) {
    const ContextPtr context = Context::host(threads);
    EXPECT_EQ(graph_of(csr, *context), graph);
    EXPECT_EQ(detail::aggregate(*context, graph).of, expected.of) << threads;
  }
}

TEST(Aggregates, WeakCouplingsAreLeftOut) {
  const CsrMatrix<double> csr = generate(test_context(), "anisotropic-2d", {{"n", 12}, {"epsilon_y", 0.01}});
  const detail::Graph all = graph_of(csr, *test_context(), 0), strong = graph_of(csr, *test_context(), 0.08);
  EXPECT_EQ(all.size(), csr.nonzeros() - csr.rows());
  EXPECT_LT(strong.size(), all.size());
  EXPECT_GT(strong.size(), 0);
  // In any unit.
  for (const int exponent : {-600, 600}) {
    std::vector<double> values(csr.values, csr.values + csr.nonzeros());
    for (double& value : values) value = std::ldexp(value, exponent);
    CsrMatrix<double> other = csr;
    other.values = values.data();
    EXPECT_EQ(graph_of(other, *test_context()), strong) << exponent;
  }
  // A coupling of one side joins both.
  const std::vector<Triplet<double>> entries = {{0, 0, 1}, {1, 1, 1}, {2, 2, 1}, {0, 2, 0.5}};
  const detail::Graph one_sided =
      graph_of(csr_from_triplets<double>(test_context(), 3, 3, entries), *test_context());
  EXPECT_EQ(one_sided.col, (std::vector<std::int32_t>{2, 0}));
}

TEST(SparseProduct, IsTheProduct) {
  const Dense A = scattered(30, 2), B = scattered(30, 3);
  const CsrMatrix<double> a = sparse(A), b = sparse(B);
  const auto pattern =
      std::make_shared<const detail::Graph>(detail::product_pattern(*test_context(), a.pattern, b.pattern));
  const CsrMatrix<double> c =
      detail::matrix_of<double>(pattern, 30, detail::product_values(test_context(), a, b, *pattern));
  const Dense expected = product(A, B);
  Dense found(30);
  for (std::int64_t i = 0; i < 30; ++i)
    for (std::int64_t p = c.pattern.row_ptr[i]; p < c.pattern.row_ptr[i + 1]; ++p)
      found(i, c.pattern.col[p]) = c.values[p];
  expect_same(found, expected, 1e-15L);
}

// Rows of nodes, which have the same columns, and columns in runs of each length: what the product takes together.
// Empty rows, rows alone and runs next to each other are among them.
template <class T>
void expect_products_of_blocks(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  // `sizes`: rows of each node; a node has the same few groups of columns in each of its rows.
  const auto blocks = [&](std::int64_t groups, std::int64_t& rows, std::int64_t cols) {
    std::vector<Triplet<double>> entries;
    rows = 0;
    for (std::int64_t node = 0; node < groups; ++node) {
      std::vector<std::int32_t> columns;
      for (std::int64_t k = below(4); k > 0; --k) {
        const std::int64_t first = below(static_cast<std::uint64_t>(cols)), size = 1 + below(19);
        for (std::int64_t c = first; c < std::min(cols, first + size); ++c)
          columns.push_back(static_cast<std::int32_t>(c));
      }
      std::sort(columns.begin(), columns.end());
      columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
      for (std::int64_t r = 1 + below(20); r > 0; --r, ++rows)
        for (const std::int32_t c : columns)
          entries.push_back(
              {static_cast<std::int32_t>(rows), c, static_cast<double>(below(2001)) / 1000 - 1});
    }
    const CsrMatrix<double> wide = csr_from_triplets<double>(test_context(), rows, cols, entries);
    if constexpr (sizeof(T) == 8)
      return wide;
    else
      return convert_values<T>(test_context(), wide);
  };
  std::int64_t inner = 0, rows = 0;
  const CsrMatrix<T> B = blocks(60, inner, 90), A = blocks(150, rows, inner);
  const auto pattern =
      std::make_shared<const detail::Graph>(detail::product_pattern(*test_context(), A.pattern, B.pattern));
  const Buffer<T> values = detail::product_values(test_context(), A, B, *pattern);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<long double> sum(90), size(90);
    std::set<std::int32_t> columns;
    for (std::int64_t p = A.pattern.row_ptr[i]; p < A.pattern.row_ptr[i + 1]; ++p) {
      const std::int64_t k = A.pattern.col[p];
      for (std::int64_t q = B.pattern.row_ptr[k]; q < B.pattern.row_ptr[k + 1]; ++q) {
        const auto j = static_cast<std::size_t>(B.pattern.col[q]);
        const long double term =
            static_cast<long double>(A.values[p]) * static_cast<long double>(B.values[q]);
        sum[j] += term, size[j] += std::abs(term), columns.insert(B.pattern.col[q]);
      }
    }
    const auto row = pattern->row(i);
    ASSERT_TRUE(std::equal(row.begin(), row.end(), columns.begin(), columns.end())) << seed << ' ' << i;
    const long double unit =
        static_cast<long double>(A.pattern.row_length(i) + 1) * std::numeric_limits<T>::epsilon();
    for (std::size_t k = 0; k < row.size(); ++k) {
      const auto j = static_cast<std::size_t>(row[k]);
      const auto found = static_cast<long double>(
          values.data()[pattern->ptr[static_cast<std::size_t>(i)] + static_cast<std::int64_t>(k)]);
      ASSERT_LE(std::abs(found - sum[j]), unit * size[j]) << seed << ' ' << i << ' ' << j;
    }
  }
  // The same for any number of threads.
  const ContextPtr one = Context::host(1), three = Context::host(3);
  for (const ContextPtr& context : {one, three}) {
    EXPECT_EQ(detail::product_pattern(*context, A.pattern, B.pattern), *pattern);
    const Buffer<T> again = detail::product_values(context, A, B, *pattern);
    EXPECT_TRUE(std::equal(values.data(), values.data() + values.size(), again.data())) << seed;
    const CsrMatrix<T> R = transpose(context, A), same = transpose(one, A);
    ASSERT_EQ(R.nonzeros(), same.nonzeros());
    EXPECT_TRUE(std::equal(R.values, R.values + R.nonzeros(), same.values));
    EXPECT_TRUE(std::equal(R.pattern.col, R.pattern.col + R.nonzeros(), same.pattern.col));
  }
}

TEST(SparseProduct, OfRowsOfNodesAndRunsOfColumns) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    expect_products_of_blocks<double>(seed), expect_products_of_blocks<float>(seed);
}

TEST(DenseInverse, OfRegularAndSingularMatrices) {
  const auto flat = [](const Dense& A) {
    std::vector<double> a(A.a.size());
    std::copy(A.a.begin(), A.a.end(), a.begin());
    return a;
  };
  const auto dense = [](const std::vector<double>& a, std::int64_t n) {
    Dense A(n);
    std::copy(a.begin(), a.end(), A.a.begin());
    return A;
  };
  for (const Dense& A : {poisson_2d(5), scattered(25, 4)}) {
    std::vector<double> a = flat(A);
    EXPECT_EQ(detail::invert_dense(a, A.n, 1e-14), A.n);
    expect_same(dense(a, A.n), inverse(A), 1e-13L);
  }
  // A chain with free ends: the vector of ones is its null space.
  Dense free = poisson_1d(6);
  free(0, 0) = free(5, 5) = 1;
  std::vector<double> x = flat(free);
  EXPECT_EQ(detail::invert_dense(x, 6, 1e-13), 5);
  const Dense X = dense(x, 6);
  expect_same(product(free, product(X, free)), free, 1e-14L);
  std::vector<double> nothing(9, 0.0);
  EXPECT_EQ(detail::invert_dense(nothing, 3, 0), 0);
  EXPECT_EQ(nothing, std::vector<double>(9, 0.0));
  std::vector<double> empty;
  EXPECT_EQ(detail::invert_dense(empty, 0, 0), 0);
}

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

// Nodes of an elastic body: one vector for each displacement, and better its rigid body modes.
// elasticity-3d: node (k (n + 1) + j) n + i - 1 lies at (i, j, k) / n; i = 0 is clamped.
MultiVector<double> places_of_nodes(std::int64_t n) {
  const std::int64_t m = n + 1;
  MultiVector<double> coordinates(test_context(), n * m * m, 3);
  for (std::int64_t node = 0; node < n * m * m; ++node) {
    coordinates.view()(node, 0) = static_cast<double>(node % n + 1) / static_cast<double>(n);
    coordinates.view()(node, 1) = static_cast<double>(node / n % m) / static_cast<double>(n);
    coordinates.view()(node, 2) = static_cast<double>(node / n / m) / static_cast<double>(n);
  }
  return coordinates;
}

TEST(Aggregation, Elasticity) {
  const std::int64_t n = 12, m = n + 1;
  const CsrMatrix<double> csr = poisson("elasticity-3d", static_cast<double>(n));
  const std::int64_t scalar = iterations(csr, "cg", "amg"),
                     blocks = iterations(csr, "cg", "amg", {.unknowns = 3});
  EXPECT_LT(blocks, scalar);
  EXPECT_LT(2 * blocks, iterations(csr, "cg", "jacobi"));
  const MultiVector<double> modes = rigid_body_modes(test_context(), places_of_nodes(n));
  ASSERT_EQ(modes.columns(), 6);
  const auto A = assembled(csr);
  // Away from the clamped face the body does not resist them.
  for (std::int64_t k = 0; k < 6; ++k) {
    std::vector<double> y(static_cast<std::size_t>(csr.rows()));
    A->apply(modes.view().column(k), view(y));
    const std::int64_t inner = ((6 * m) + 6) * n + 6;
    for (std::int64_t c = 0; c < 3; ++c)
      EXPECT_NEAR(y[static_cast<std::size_t>(3 * inner + c)], 0, 1e-13) << k;
  }
  const auto M = make_amg<double>(*A, modes, {.unknowns = 3});
  M->ensure(*A);
  EXPECT_LT(solved(csr, "cg", *M, *A).iterations, blocks);
  // The same as an option: of M alone, of one call, and of a kept system with new values.
  const PreconditionerOptions options{.unknowns = 3, .near_null_space = &modes};
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  EXPECT_EQ(applied(*ready<double>("amg", *A, options), r), applied(*M, r));
  SolveSettings settings;
  settings.preconditioner = "amg", settings.preconditioning = options, settings.format = "csr";
  settings.context = test_context();
  LinearSystem<double> system(csr, settings);
  std::vector<double> expected(r.size(), 0.0);
  system.solver().set_preconditioner(
      [&](const LinearOperator<double>& of) { return make_amg<double>(of, modes, {.unknowns = 3}); });
  EXPECT_TRUE(system.solve(view(r), view(expected)).converged());
  system.solver().set_preconditioner({});
  std::vector<double> x(r.size(), 0.0);
  EXPECT_TRUE(solve<double>(csr, view(r), view(x), settings).converged());
  EXPECT_EQ(x, expected);
  for (int step = 0; step < 2; ++step) {
    std::fill(x.begin(), x.end(), 0.0);
    EXPECT_TRUE(system.solve(view(r), view(x)).converged());
    EXPECT_EQ(x, expected) << step;
    system.update_values(csr.values);
  }
}

TEST(Aggregation, OthersRefuseVectorsNearTheNullSpace) {
  const auto A = assembled(sparse(poisson_2d(20)));
  MultiVector<double> B(test_context(), 400, 1);
  for (std::int64_t i = 0; i < 400; ++i) B.view()(i, 0) = 1;
  const PreconditionerOptions options{.near_null_space = &B};
  for (const PreconditionerEntry& entry : preconditioners()) {
    if (!entry.unavailable.empty()) continue;
    if (reads_near_null_space(entry.id)) {
      EXPECT_NE(make_preconditioner<double>(entry.id, *A, options), nullptr) << entry.id;
      EXPECT_EQ(preconditioner_options_read_by(entry.id, options), options) << entry.id;
      continue;
    }
    EXPECT_SAYS(message<BadArgument>([&] { make_preconditioner<double>(entry.id, *A, options); }),
                "near_null_space is for preconditioners amg and auto, and " + std::string(entry.id));
    EXPECT_EQ(preconditioner_options_read_by(entry.id, options).near_null_space, nullptr) << entry.id;
  }
}

// Only the direction of a vector counts, down to numbers whose squares vanish and up to those whose squares overflow.
TEST(Aggregation, GivenVectorsOfAnySizeAreThoseOfSizeOne) {
  const Dense S = poisson_2d(30);
  const auto A = assembled(sparse(S));
  const std::int64_t n = S.n;
  const std::vector<double> r = right_hand_side<double>(n);
  const auto same = ready<double>("amg", *A);
  const std::vector<double> expected = applied(*same, r);
  for (const double size : {0x1p-1070, 0x1p-600, 1.0, 0x1p600, 0x1p1020, 1e300, -3e-300}) {
    MultiVector<double> B(test_context(), n, 1);
    for (std::int64_t i = 0; i < n; ++i) B.view()(i, 0) = size;
    const auto M = make_amg<double>(*A, B);
    M->ensure(*A);
    EXPECT_EQ(figure(*M, "levels"), figure(*same, "levels")) << size;
    const std::vector<double> found = applied(*M, r);
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_NEAR(found[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(i)], 1e-12) << size;
    if (std::abs(std::frexp(size, std::make_unique<int>().get())) == 0.5) {
      EXPECT_EQ(found, expected) << size;
    }
  }
}

TEST(Aggregation, GivenVectorsAreChecked) {
  const auto A = assembled(sparse(poisson_2d(20)));
  MultiVector<double> B(test_context(), 400, 2), short_one(test_context(), 399, 1),
      none(test_context(), 400, 0);
  const auto fill = [&](auto second) {
    for (std::int64_t i = 0; i < 400; ++i) B.view()(i, 0) = 1, B.view()(i, 1) = second(i);
  };
  const auto why = [&] { return message<BadArgument>([&] { make_amg<double>(*A, B); }); };
  fill([](auto) { return 0.0; });
  EXPECT_SAYS(why(), "vector 1 near the null space is zero");
  fill([](auto) { return 2.0; });
  EXPECT_SAYS(why(), "vector 1 near the null space is a sum of multiples of those before it");
  fill([](auto i) { return 1e300 * (1 + 1e-15 * static_cast<double>(i % 2)); });
  EXPECT_SAYS(why(), "vector 1 near the null space is a sum of multiples of those before it");
  fill([](auto i) { return 1 + 1e-9 * static_cast<double>(i % 2); });
  EXPECT_NO_THROW(make_amg<double>(*A, B)->ensure(*A));
  EXPECT_THROW(make_amg<double>(*A, short_one), ShapeMismatch);
  EXPECT_SAYS(message<BadArgument>([&] { make_amg<double>(*A, none); }), "amg takes 1 to 64 vectors");
  B.view()(7, 1) = std::nan("");
  EXPECT_SAYS(message<BadArgument>([&] { make_amg<double>(*A, B); }),
              "entry 7 of vector 1 near the null space is nan");
  EXPECT_SAYS(message<BadArgument>([&] { make_amg<double>(*A, B, {.setup = AmgSetup::classical}); }),
              "are for amg with setup aggregation");
  EXPECT_SAYS(message<ShapeMismatch>([&] { ready<double>("amg", *A, {.unknowns = 3}); }),
              "unknowns is 3, which does not divide the 400 rows");
  EXPECT_SAYS(message<BadArgument>([&] { (void)rigid_body_modes(test_context(), B.view().part(0, 1)); }),
              "2 or 3 coordinates");
  EXPECT_EQ(rigid_body_modes(test_context(), MultiVector<double>(test_context(), 0, 2)).columns(), 3);
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
          if (kind % 2 == 1 && std::abs(i - j) == 1) value *= 1e-3;  // those of one direction go
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

// Products of the finest level are those of the running format.
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
  A.reset();  // the figures are those of the last setup
  EXPECT_GE(figure(*M, "levels"), 3);
}

}  // namespace
}  // namespace protean::test

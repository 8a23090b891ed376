// Parts of multigrid: aggregates, products of sparse matrices, dense inverses.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/aggregation_solves.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/multigrid/host/aggregates.hpp"
#include "preconditioners/sparse/dense_inverse.hpp"
#include "preconditioners/sparse/sparse_product.hpp"
#include "protean.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

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

}  // namespace
}  // namespace protean::test

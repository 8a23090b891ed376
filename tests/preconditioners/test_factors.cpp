// Factors by colours against dense computations in long double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

using Factors = InSpace;
INSTANTIATE_TEST_SUITE_P(Spaces, Factors, testing::Values(Where::host, Where::simulated, Where::gpu),
                         name_of_space);

// The rows colour after colour.
std::vector<std::int64_t> by_colours(const Dense& A) {
  const std::vector<int> colour = greedy_colours(A);
  std::vector<std::int64_t> order(colour.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return colour[static_cast<std::size_t>(i)]; });
  return order;
}
// B_kl = A_{order k, order l}, or back.
Dense permuted(const Dense& A, const std::vector<std::int64_t>& order, bool back) {
  Dense B(A.n);
  for (std::int64_t k = 0; k < A.n; ++k)
    for (std::int64_t l = 0; l < A.n; ++l)
      (back ? B(order[k], order[l]) : B(k, l)) = back ? A(k, l) : A(order[k], order[l]);
  return B;
}
// The inverse of the product of the factors of the matrix in the order of the colours.
Dense coloured_inverse(const Dense& A) {
  const std::vector<std::int64_t> order = by_colours(A);
  return permuted(inverse(incomplete_product(permuted(A, order, false), 0)), order, true);
}
int count_of_colours(const Dense& A) {
  const std::vector<int> colour = greedy_colours(A);
  return 1 + *std::max_element(colour.begin(), colour.end());
}

constexpr PreconditionerOptions coloured{.ordering = FactorOrdering::colours};

TEST_P(Factors, ByColoursAreThoseOfTheReorderedMatrix) {
  for (const Dense& A : symmetric_battery()) {
    const Dense expected = coloured_inverse(A);
    const auto M = ready<double>("ic0", *matrix(sparse(A)), coloured);
    EXPECT_EQ(figure(*M, "colours"), count_of_colours(A));
    expect_same(dense(*M), expected, 1e-12);
    expect_same(dense(*ready<double>("ilu0", *matrix(sparse(A)), coloured)), expected, 1e-12);
    expect_same(dense(*ready<float>("ic0", *matrix(sparse<float>(A)), coloured)), expected, 1e-5);
  }
  for (const Dense& A : general_battery()) {
    const Dense expected = coloured_inverse(A);
    expect_same(dense(*ready<double>("ilu0", *matrix(sparse(A)), coloured)), expected, 1e-12);
    expect_same(dense(*ready<float>("ilu0", *matrix(sparse<float>(A)), coloured)), expected, 1e-5);
  }
}

// The orders give other factors, so that the test above shows something.
TEST_P(Factors, ColoursAreAnotherPreconditionerThanTheNaturalOrder) {
  const Dense A = poisson_2d(7);
  const Dense natural = inverse(incomplete_product(A, 0)), by_colour = coloured_inverse(A);
  EXPECT_GT(std::abs(natural(24, 24) - by_colour(24, 24)), 1e-3L);
  const auto ordering = [&](FactorOrdering one) {
    return dense(*ready<double>("ic0", *matrix(sparse(A)), {.ordering = one}));
  };
  expect_same(ordering(FactorOrdering::natural), natural, 1e-12);
  expect_same(ordering(FactorOrdering::automatic), GetParam() == Where::host ? natural : by_colour, 1e-12);
}

// A way of solving that is asked for keeps the order of the rows that it is for.
TEST_P(Factors, AutoIsNaturalWhereASolveIsNamedOrColoursAreMany) {
  const Dense A = poisson_2d(7);
  const Dense natural = inverse(incomplete_product(A, 0));
  expect_same(dense(*ready<double>("ic0", *matrix(sparse(A)), {.solve = TriangularSolve::levels})), natural,
              1e-12);
  const Dense many = full(66);  // 66 colours
  expect_same(dense(*ready<double>("ic0", *matrix(sparse(many)))), inverse(incomplete_product(many, 0)),
              1e-11);
  if (!gpu()) return;
  EXPECT_SAYS(message<BadArgument>([&] {
                ready<double>("ic0", *matrix(sparse(A)),
                              {.ordering = FactorOrdering::colours, .solve = TriangularSolve::cusparse});
              }),
              "ic0 with ordering colours solves colour after colour");
}

TEST_P(Factors, SweepsOfFactorsByColours) {
  const Dense A = poisson_2d(6);
  const PreconditionerOptions options{
      .ordering = FactorOrdering::colours, .solve = TriangularSolve::sweeps, .sweeps = 36};
  expect_same(dense(*ready<double>("ic0", *matrix(sparse(A)), options)), coloured_inverse(A), 1e-12);
}

TEST_P(Factors, ByColoursAreSymmetricForIc0) {
  const Dense got = dense(*ready<double>("ic0", *matrix(sparse(poisson_2d(8))), coloured));
  for (std::int64_t i = 0; i < got.n; ++i)
    for (std::int64_t j = 0; j < i; ++j) EXPECT_NEAR(static_cast<double>(got(i, j) - got(j, i)), 0, 1e-15);
}

// A pivot that is not positive, and one of ilu0 that is zero.
TEST_P(Factors, BreakdownByColoursIsShiftedAway) {
  Dense A(4);
  for (int i = 0; i < 4; ++i) A(i, i) = 3;
  A(0, 1) = A(1, 0) = A(1, 2) = A(2, 1) = A(2, 3) = A(3, 2) = -2.5L, A(0, 3) = A(3, 0) = 2.5L;
  const auto M = ready<double>("ic0", *matrix(sparse(A)), coloured);
  const double shift = figure(*M, "shift");
  ASSERT_GT(shift, 0);
  Dense shifted = A;
  for (int i = 0; i < 4; ++i) shifted(i, i) *= 1 + static_cast<long double>(shift);
  expect_same(dense(*M), coloured_inverse(shifted), 1e-12);
  Dense B(2);
  B(0, 0) = B(0, 1) = B(1, 0) = B(1, 1) = 1;
  EXPECT_EQ(figure(*ready<double>("ilu0", *matrix(sparse(B)), coloured), "shift"), 1e-3);
}

TEST_P(Factors, WhatTheHostRefusesIsRefusedByName) {
  const auto refused = [&](const Dense& A, const char* id, const PreconditionerOptions& options) {
    return message<BadMatrix>([&] { ready<double>(id, *matrix(sparse(A)), options); });
  };
  for (const PreconditionerOptions& options : {coloured, PreconditionerOptions{}})
    for (const char* id : {"ic0", "ilu0", "isai", "isai-lu"}) {
      if (std::string_view(id).starts_with("isai") && options == coloured) continue;
      SCOPED_TRACE(id);
      Dense A = poisson_2d(4);
      A(5, 5) = 0;
      EXPECT_SAYS(refused(A, id, options), "1 of 16 diagonal entries are zero");
      PreconditionerOptions one = options;
      one.zero_diagonal = ZeroDiagonal::one;
      Dense with_one = A;
      with_one(5, 5) = 1;
      const auto M = ready<double>(id, *matrix(sparse(A)), one);
      const auto same = ready<double>(id, *matrix(sparse(with_one)), one);
      expect_same(dense(*M), dense(*same), 1e-13);
      const bool symmetric = M->symmetric();
      A(5, 5) = -4;
      if (symmetric) {
        EXPECT_SAYS(refused(A, id, options), "1 of 16 diagonal entries are negative: row 5 (-4)");
      }
      A(5, 5) = std::numeric_limits<double>::quiet_NaN();
      EXPECT_SAYS(refused(A, id, options), "row 5, column 5 is nan");
      if (symmetric) { EXPECT_SAYS(refused(convection_2d(4, 1), id, options), "needs a symmetric matrix"); }
    }
}

// Nodes of 1 to 5 unknowns, each coupled with some others: rows of one node have the same columns, and a factorization
// on the host subtracts up to three of them at once. Rows of different nodes may be alike by chance.
Dense of_nodes(unsigned seed, bool symmetric) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> node;
  for (int k = 0; k < 16; ++k) node.insert(node.end(), 1 + random() % 5, k);
  std::vector<char> coupled(16 * 16);
  for (int k = 0; k < 16; ++k)
    for (int l = 0; l <= k; ++l) coupled[k * 16 + l] = coupled[l * 16 + k] = k == l || random() % 4 == 0;
  Dense A(static_cast<std::int64_t>(node.size()));
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j)
      if (coupled[node[i] * 16 + node[j]]) A(i, j) = static_cast<int>(random() % 15) - 7.5L;
  for (std::int64_t i = 0; i < A.n; ++i) {
    long double sum = 1;
    for (std::int64_t j = 0; j < A.n; ++j) {
      if (symmetric && j < i) A(i, j) = A(j, i);
      if (j != i) sum += std::abs(A(i, j));
    }
    A(i, i) = sum;
  }
  return A;
}

TEST_P(Factors, RowsOfANodeAreSubtractedTogether) {
  PreconditionerOptions natural;
  natural.ordering = FactorOrdering::natural;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    const Dense A = of_nodes(seed, true), B = of_nodes(seed, false);
    for (const int fill : {0, 1}) {
      const Dense expected = inverse(incomplete_product(A, fill));
      const auto named = [&](const char* without, const char* with) { return fill == 0 ? without : with; };
      PreconditionerOptions options = natural;
      options.fill = fill;
      expect_same(dense(*ready_with_read<double>(named("ic0", "ic"), *matrix(sparse(A)), options)), expected,
                  1e-13);
      expect_same(dense(*ready_with_read<float>(named("ic0", "ic"), *matrix(sparse<float>(A)), options)),
                  expected, 1e-5);
      expect_same(dense(*ready_with_read<double>(named("ilu0", "ilu"), *matrix(sparse(B)), options)),
                  inverse(incomplete_product(B, fill)), 1e-12);
    }
  }
}

// A pattern with as many entries above as below the diagonal, in every row and column, that is not symmetric.
TEST_P(Factors, APatternThatOnlyCountsLikeASymmetricOneIsRefused) {
  Dense A = diagonal_matrix({9, 9, 9, 9, 9, 9});
  for (const auto& [i, j] :
       {std::pair{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 4}, {0, 2}, {1, 3}, {2, 4}, {3, 5}, {0, 5}})
    A(i, j) = 1;
  for (const char* id : {"ic0", "isai"})
    EXPECT_SAYS(message<BadMatrix>([&] { (void)ready<double>(id, *matrix(sparse(A))); }),
                "entries and their mirrored ones (0 if none is stored) differ by up to 1.1e-01");
}

// New values, again and again, give what a new object gives, bit for bit; a refused one between them changes nothing.
TEST_P(Factors, NewValuesAgainAndAgainAreThoseOfANewObject) {
  for (const char* id : {"ic0", "ic", "ilu0", "ilu"}) {
    SCOPED_TRACE(id);
    const CsrMatrix<double> csr = sparse(of_nodes(7, true));
    const auto A = matrix(csr);
    const auto M = ready<double>(id, *A);
    const std::vector<double> r = right_hand_side<double>(csr.rows());
    std::vector<double> values(csr.values, csr.values + csr.nonzeros());
    for (int turn = 0; turn < 5; ++turn) {
      SCOPED_TRACE(turn);
      if (turn == 2) {
        const std::vector<double> before = apply(*M, r), bad(values.size(), 0.0);
        A->update_values(placed(context_, with_values(csr, bad.data())));
        EXPECT_THROW(M->ensure(*A), BadMatrix);
        EXPECT_EQ(apply(*M, r), before);
      }
      for (double& value : values) value *= 1.5;
      A->update_values(placed(context_, with_values(csr, values.data())));
      M->ensure(*A);
      EXPECT_EQ(apply(*M, r), apply(*ready<double>(id, *matrix(with_values(csr, values.data()))), r));
    }
  }
}

// On a device new values are factored there: what is wrong with them has the message of the host, and M is kept.
TEST_P(Factors, BadNewValuesKeepTheOldFactors) {
  const CsrMatrix<double> csr = sparse(poisson_2d(6));
  struct Kind {
    const char* id;
    PreconditionerOptions options;
  };
  for (const Kind& kind : {Kind{"ic0", coloured}, {"ilu0", coloured}, {"isai", {}}, {"isai-lu", {}}}) {
    const auto A = matrix(csr);
    const auto M = ready<double>(kind.id, *A, kind.options);
    const std::vector<double> r = right_hand_side<double>(36), z = apply(*M, r);
    const auto with = [&](std::size_t at, double value) {
      std::vector<double> values(csr.values, csr.values + csr.nonzeros());
      values[at] = value;
      A->update_values(placed(context_, with_values(csr, values.data())));
      return message<BadMatrix>([&] { M->ensure(*A); });
    };
    SCOPED_TRACE(kind.id);
    EXPECT_SAYS(with(0, 0), "row 0 (0)");
    EXPECT_EQ(apply(*M, r), z);
    EXPECT_SAYS(with(1, std::numeric_limits<double>::infinity()), "row 0, column 1 is inf");
    EXPECT_EQ(apply(*M, r), z);
    if (M->symmetric()) {
      EXPECT_SAYS(with(1, -0.5), "differ by up to 1.2e-01 of the largest entry");
      EXPECT_EQ(apply(*M, r), z);
    }
    std::vector<double> values(csr.values, csr.values + csr.nonzeros());
    for (double& value : values) value *= 2;
    A->update_values(placed(context_, with_values(csr, values.data())));
    M->ensure(*A);
    const std::vector<double> half = apply(*M, r);
    for (std::size_t i = 0; i < r.size(); ++i) EXPECT_NEAR(half[i], z[i] / 2, 1e-14) << kind.id;
  }
}

// New values, other patterns and back: the bits of a new object.
TEST_P(Factors, RenewedAsMadeAnew) {
  struct Kind {
    const char* id;
    PreconditionerOptions options;
  };
  for (const Kind& kind :
       {Kind{"ic0", coloured}, {"ilu0", coloured}, {"isai", {}}, {"isai-lu", {.power = 2}}}) {
    std::vector<CsrMatrix<double>> patterns;
    for (const Dense& A : {poisson_2d(8), poisson_1d(64), full(64)}) patterns.push_back(sparse(A));
    const auto M = make_preconditioner<double>(kind.id, *matrix(patterns[0]), kind.options);
    const std::vector<double> r = right_hand_side<double>(64);
    std::vector<std::unique_ptr<AssembledMatrix<double>>> matrices;
    for (const CsrMatrix<double>& one : patterns) matrices.push_back(matrix(one));
    int step = 0;
    for (const std::size_t which : {0, 0, 1, 1, 1, 2, 0, 0}) {
      const CsrMatrix<double>& csr = patterns[which];
      std::vector<double> values(csr.values, csr.values + csr.nonzeros());
      for (std::int64_t i = 0; i < csr.rows(); ++i)
        for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
          values[static_cast<std::size_t>(p)] *= csr.pattern.col[p] == i ? 1.5 + 0.1 * step : 1 + 0.05 * step;
      const CsrMatrix<double> next = with_values(csr, values.data());
      matrices[which]->update_values(placed(context_, next));
      const std::uint64_t version = M->recording().version;
      M->ensure(*matrices[which]);
      const auto fresh_matrix = matrix(next);
      EXPECT_EQ(apply(*M, r), apply(*ready<double>(kind.id, *fresh_matrix, kind.options), r))
          << kind.id << ' ' << step;
      // Factors by colours stay where they are.
      if (GetParam() != Where::host && step == 1 && kind.id[1] != 's') {
        EXPECT_EQ(M->recording().version, version) << kind.id;
      }
      ++step;
    }
  }
}

// Many rows, blocks and lanes: the residual of M z = r, with what is known of the factors. M agrees with A on its
// pattern (the defining property of factors without fill), so (M - A) has none of it.
TEST_P(Factors, LargeFactorsByColoursKeepTheirPattern) {
  const double n = gpu() ? 40 : 12;
  const CsrMatrix<double> csr = generate(test_context(), "elasticity-3d", {{"n", n}});
  const auto A = matrix(csr);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  // By the host's own code in another order of the arithmetic.
  const auto on_host = assembled(csr);
  const std::vector<double> expected = applied(*ready<double>("ic0", *on_host, coloured), r);
  const auto M = ready<double>("ic0", *A, coloured);
  double largest = 0, difference = 0;
  const std::vector<double> got = apply(*M, r);
  for (std::size_t i = 0; i < r.size(); ++i)
    largest = std::max(largest, std::abs(expected[i])),
    difference = std::max(difference, std::abs(expected[i] - got[i]));
  EXPECT_LE(difference, 1e-10 * largest);
  EXPECT_EQ(apply(*M, r), got) << "two applications gave different bits";
  const std::vector<double> inverse_host = applied(*ready<double>("isai", *on_host), r),
                            inverse_here = apply(*ready<double>("isai", *A), r);
  largest = difference = 0;
  for (std::size_t i = 0; i < r.size(); ++i)
    largest = std::max(largest, std::abs(inverse_host[i])),
    difference = std::max(difference, std::abs(inverse_host[i] - inverse_here[i]));
  EXPECT_LE(difference, 1e-10 * largest);
}

}  // namespace
}  // namespace protean::test

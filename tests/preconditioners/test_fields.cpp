// The recipes of preconditioner fields against dense algebra, and new values.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_blocks.hpp"
#include "preconditioners/in_space.hpp"
#include "support/stokes.hpp"

namespace protean::test {
namespace {

// A matrix of two fields, and the rows of each: field 0 has a dominant diagonal. `block`: the size of the entries of
// A_11, whose diagonal is negative; 0: there are none.
struct Coupled {
  Dense A{0};
  std::vector<std::vector<std::int64_t>> rows;
  std::string fields;  // the option
};

Coupled coupled(bool symmetric, double block, std::int64_t of_0, std::int64_t of_1, bool scattered,
                unsigned seed) {
  std::mt19937 random(seed);
  const auto number = [&] { return static_cast<long double>(static_cast<int>(random() % 33) - 16) / 8; };
  const std::int64_t n = of_0 + of_1;
  Coupled made{Dense(n), {{}, {}}, ""};
  if (scattered) {
    // Rows of both fields in turn, as far as they last.
    for (std::int64_t i = 0; i < n; ++i)
      made.rows[i % 3 == 2 && made.rows[1].size() < std::size_t(of_1)].push_back(i);
    std::string text[2] = {"u", "p"};
    for (int k = 0; k < 2; ++k)
      for (const std::int64_t i : made.rows[k]) text[k] += " " + std::to_string(i);
    made.fields = text[0] + ", " + text[1];
  } else {
    for (std::int64_t i = 0; i < n; ++i) made.rows[i >= of_0].push_back(i);
    made.fields = "u 0-" + std::to_string(of_0 - 1) + ", p " + std::to_string(of_0) + "-";
  }
  Dense& A = made.A;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b)
      for (const std::int64_t i : made.rows[a])
        for (const std::int64_t j : made.rows[b]) {
          if (a == 1 && b == 1 && block == 0) continue;
          if (i != j && random() % 3 != 0 && a == b) continue;
          const long double value = (a == 1 && b == 1 ? block : 1) * number();
          if (symmetric && j < i) continue;
          A(i, j) = value;
          if (symmetric) A(j, i) = value;
        }
  for (int a = 0; a < 2; ++a)
    for (const std::int64_t i : made.rows[a]) {
      if (a == 1 && block == 0) continue;
      long double sum = 0.5;
      for (const std::int64_t j : made.rows[a])
        if (j != i) sum += std::abs(A(i, j));
      A(i, i) = a == 0 ? sum : -sum;
    }
  return made;
}

// M of a recipe by its definition as a matrix of blocks, while the preconditioner computes by substitution.
Dense by_definition(const Coupled& c, FieldRecipe recipe, SchurComplement how, double* sign_found = nullptr) {
  const Rows &u = c.rows[0], &p = c.rows[1];
  const Rect A00 = part(c.A, u, u), A01 = part(c.A, u, p), A10 = part(c.A, p, u), A11 = part(c.A, p, p);
  PreconditionerOptions omega;
  omega.omega = 1.2;
  const Rect K = matrix_of("ssor", A00, omega), D = diagonal_of(A00);
  Rect L = A10 * (inverse_of(D) * A01);
  const Rect complement = how == SchurComplement::diagonal ? L - A11 : L;
  long double trace = 0;
  for (std::int64_t i = 0; i < complement.rows; ++i) trace += complement(i, i);
  const long double sign = trace < 0 ? -1 : 1;
  if (sign_found) *sign_found = static_cast<double>(sign);
  const bool schur = recipe >= FieldRecipe::schur_diagonal;
  // |S| of the preconditioner, or M_1 of the block itself.
  Rect S = schur ? matrix_of("jacobi", sign * complement) : matrix_of("jacobi", A11);
  if (schur && how == SchurComplement::commutator) {
    const Rect M1 = S, X = A10 * (inverse_of(D) * (A00 * (inverse_of(D) * A01)));
    S = M1 * (inverse_of(sign * X) * M1);
  }
  const Rect signed_S = -sign * S;
  Dense M(c.A.n), left(c.A.n), right(c.A.n), middle(c.A.n);
  const auto identity = [](std::int64_t n) {
    Rect one(n, n);
    for (std::int64_t i = 0; i < n; ++i) one(i, i) = 1;
    return one;
  };
  put(M, u, u, K);
  switch (recipe) {
    case FieldRecipe::additive:
    case FieldRecipe::schur_diagonal:
      put(M, p, p, S);
      return M;
    case FieldRecipe::lower:
      put(M, p, p, S), put(M, p, u, A10);
      return M;
    case FieldRecipe::upper:
      put(M, p, p, S), put(M, u, p, A01);
      return M;
    case FieldRecipe::schur_lower:
      put(M, p, p, signed_S), put(M, p, u, A10);
      return M;
    case FieldRecipe::schur_upper:
      put(M, p, p, signed_S), put(M, u, p, A01);
      return M;
    default: {
      // (D + L) D^-1 (D + U) with the blocks of D on the diagonal, which is what both others are.
      const Rect& last = recipe == FieldRecipe::symmetric ? S : signed_S;
      put(left, u, u, identity(K.rows)), put(left, p, p, identity(S.rows)),
          put(left, p, u, A10 * inverse_of(K));
      put(right, u, u, identity(K.rows)), put(right, p, p, identity(S.rows));
      put(right, u, p, inverse_of(K) * A01);
      put(middle, u, u, K), put(middle, p, p, last);
      return product(left, product(middle, right));
    }
  }
}

bool of_cells(FieldRecipe recipe) {
  return recipe == FieldRecipe::cpr_quasi_impes || recipe == FieldRecipe::cpr_true_impes;
}

TEST_P(InSpace, FieldsAreThoseOfTheDenseFormulas) {
  for (const bool symmetric : {true, false})
    for (const double block : {0.0, 0.25})
      for (const bool mixed : {false, true})
        for (const FieldRecipe recipe : field_recipes) {
          if (recipe == FieldRecipe::automatic || of_cells(recipe)) continue;
          for (const SchurComplement how : schur_complements) {
            const bool schur = recipe >= FieldRecipe::schur_diagonal;
            if (block == 0 && !schur) continue;  // jacobi has nothing to divide by
            if (how == SchurComplement::commutator && (block != 0 || !schur)) continue;
            SCOPED_TRACE(std::string(to_string(recipe)) + (symmetric ? " symmetric " : " ") +
                         std::to_string(block));
            const Coupled c = coupled(symmetric, block, 14, 6, mixed, 5);
            const auto A = matrix(sparse(c.A));
            PreconditionerOptions options;
            options.fields = c.fields, options.recipe = recipe, options.schur = how;
            options.inner = "u ssor omega=1.2, p jacobi";
            const auto M = ready<double>("fields", *A, options);
            const Dense expected = inverse(by_definition(c, recipe, how));
            expect_same(dense(*M), expected, 1e-12);
          }
        }
}

// -A_10 in place of A_10 turns the sign of S, and |S|^-1 stays as it is.
TEST_P(InSpace, TheSignOfASchurComplementIsFound) {
  for (const SchurComplement how : schur_complements)
    for (const FieldRecipe recipe : {FieldRecipe::schur_diagonal, FieldRecipe::schur_upper}) {
      Coupled c = coupled(true, 0, 14, 6, false, 5);
      double before = 0, after = 0;
      for (const bool turned : {false, true}) {
        if (turned)
          for (const std::int64_t i : c.rows[1])
            for (const std::int64_t j : c.rows[0]) c.A(i, j) = -c.A(i, j);
        const auto A = matrix(sparse(c.A));
        PreconditionerOptions options;
        options.fields = c.fields, options.recipe = recipe, options.schur = how;
        options.inner = "u ssor omega=1.2, p jacobi";
        expect_same(dense(*ready<double>("fields", *A, options)),
                    inverse(by_definition(c, recipe, how, turned ? &after : &before)), 1e-12);
      }
      EXPECT_EQ(before, 1);
      EXPECT_EQ(after, -1);
    }
}

// A matrix of the caller in place of |S|.
TEST_P(InSpace, GivenSchurComplements) {
  for (const bool turned : {false, true})
    for (const FieldRecipe recipe :
         {FieldRecipe::schur_diagonal, FieldRecipe::schur_lower, FieldRecipe::schur_full}) {
      Coupled c = coupled(false, 0.25, 14, 6, true, 31);
      const Rows &u = c.rows[0], &p = c.rows[1];
      if (turned)
        for (const std::int64_t i : p)
          for (std::int64_t j = 0; j < c.A.n; ++j) c.A(i, j) = -c.A(i, j);
      const auto A = matrix(sparse(c.A));
      const Dense mass = symmetric_part(scattered(6, 4));
      auto given = std::make_unique<CsrMatrix<double>>(sparse(mass));
      PreconditionerOptions options;
      options.fields = c.fields, options.recipe = recipe, options.inner = "u jacobi, p ssor";
      options.schur_operator = given.get();
      const auto M = make_preconditioner<double>("fields", *A, options);
      given.reset();
      M->ensure(*A);
      EXPECT_SAYS(M->description(), "by the given operator");
      const Rect A01 = part(c.A, u, p), A10 = part(c.A, p, u), K = diagonal_of(part(c.A, u, u));
      const Rect complement = A10 * (inverse_of(K) * A01) - part(c.A, p, p);
      long double trace = 0;
      for (std::int64_t i = 0; i < complement.rows; ++i) trace += complement(i, i);
      const Rect S = matrix_of("ssor", rect(mass)), signed_S = (trace < 0 ? 1.0L : -1.0L) * S;
      Dense expected(c.A.n);
      put(expected, u, u, K), put(expected, p, p, recipe == FieldRecipe::schur_diagonal ? S : signed_S);
      if (recipe != FieldRecipe::schur_diagonal) put(expected, p, u, A10);
      if (recipe == FieldRecipe::schur_full) {
        const Rect product = A10 * (inverse_of(K) * A01);
        put(expected, u, p, A01), put(expected, p, p, signed_S - -1.0L * product);
      }
      expect_same(dense(*M), inverse(expected), 1e-12);
    }
  const auto A = assembled(sparse(coupled(true, 0, 14, 6, false, 5).A));
  const CsrMatrix<double> small = sparse(poisson_1d(5));
  PreconditionerOptions options;
  options.schur_operator = &small;
  EXPECT_SAYS(message<ShapeMismatch>([&] { ready<double>("fields", *A, options); }),
              "schur_operator has 5 rows, and field p has 6");
  EXPECT_SAYS(message<BadArgument>([&] { ready<double>("ilu0", *A, options); }),
              "is for preconditioner fields");
  options.schur = SchurComplement::commutator;
  EXPECT_SAYS(message<BadArgument>([&] { ready<double>("fields", *A, options); }),
              "leave schur commutator out");
  options.schur = SchurComplement::diagonal, options.recipe = FieldRecipe::lower;
  EXPECT_SAYS(message<BadArgument>([&] { ready<double>("fields", *A, options); }), "for a recipe schur-..");
}

// Of inner auto M_1 is of the diagonal of C = A_10 D^-1 A_01 - A_11, or of E = |A_10| D^-1 |A_01| + diag(C) if the
// complement is like a mass matrix of linear elements; times the power of two that is nearest to the largest eigenvalue
// of the complement relative to it.
TEST_P(InSpace, WhatStandsForAComplementIsScaled) {
  for (const char* const kind : {"stabilised", "faces", "taylor-hood"}) {
    SCOPED_TRACE(kind);
    const bool mass = kind[0] == 't';
    const CsrMatrix<double> csr = mass ? generate(test_context(), "taylor-hood-2d", {{"n", 5}})
                                       : stokes(test_context(), 8, std::string_view(kind) == "stabilised");
    const auto A = matrix(csr);
    const std::int64_t n = csr.rows(), pressures = mass ? 36 : 64;
    Rows u, p;
    Dense all(n);
    for (std::int64_t i = 0; i < n; ++i) {
      (i < n - pressures ? u : p).push_back(i);
      for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
        all(i, csr.pattern.col[k]) = csr.values[k];
    }
    const Rect A00 = part(all, u, u), A01 = part(all, u, p), A10 = part(all, p, u), A11 = part(all, p, p),
               D = inverse_of(diagonal_of(A00)), C = A10 * (D * A01) - A11;
    const auto absolute = [](Rect X) {
      for (long double& one : X.a) one = std::abs(one);
      return X;
    };
    const Rect E = absolute(A10) * (D * absolute(A01)) - -1.0L * diagonal_of(C);
    const CsrMatrix<double> given = sparse(square(E));
    PreconditionerOptions options, chebyshev;
    options.recipe = FieldRecipe::schur_diagonal;
    options.inner = mass ? "u amg, p chebyshev degree=4 eigenvalue_ratio=10" : "u amg, p jacobi";
    if (mass) options.schur_operator = &given;
    const auto plain = ready<double>("fields", *A, options);
    options.inner = "u amg", options.schur_operator = nullptr;
    const auto scaled = ready<double>("fields", *A, options);
    EXPECT_SAYS(scaled->description(),
                mass ? "; recipe schur-diagonal by a matrix like a mass matrix times 2; inner u "
                       "amg, p chebyshev degree=4 eigenvalue_ratio=10"
                     : "; inner u amg, p jacobi");
    const std::vector<double> r = right_hand_side<double>(n), z = apply(*scaled, r), one = apply(*plain, r);
    const double factor = std::exp2(std::round(std::log2(one[n - 1] / z[n - 1])));
    double size = 0;
    for (std::int64_t i = 0; i < n; ++i) size = std::max(size, std::abs(one[i]));
    for (std::int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(z[i] * (i < n - pressures ? 1 : factor), one[i], mass ? 1e-9 * size : 0) << i;
    // The eigenvalue, by dense algebra.
    chebyshev.degree = 4, chebyshev.eigenvalue_ratio = 10;
    const Rect S = A10 * (inverse_of(matrix_of("amg", A00)) * A01) - A11,
               M_1 = inverse_of(mass ? matrix_of("chebyshev", E, chebyshev) : diagonal_of(C));
    Rect x(pressures, 1);
    for (std::int64_t i = 0; i < pressures; ++i) x(i, 0) = static_cast<double>(i * i % 7) - 3;
    long double largest = 0;
    for (int step = 0; step < 500; ++step) {
      long double mean = 0, square = 0;
      for (const long double value : x.a) mean += value / pressures;
      for (long double& value : x.a) value -= mean, square += value * value;
      for (long double& value : x.a) value /= std::sqrt(square);
      largest = step == 0 ? 0 : std::sqrt(square);
      x = M_1 * (S * x);
    }
    EXPECT_GT(factor, largest / 1.6L);
    EXPECT_LT(factor, largest * 1.6L);
  }
}

// Three fields, one unknown of each in a node: the sweeps are block triangles.
TEST_P(InSpace, SweepsOverSeveralFields) {
  const Dense A = scattered(45, 7);
  const auto A_here = matrix(sparse(A));
  PreconditionerOptions options;
  options.interleaved = 3, options.inner = "0 jacobi, 1 ssor, 2 gauss-seidel";
  std::vector<Rows> rows(3);
  for (std::int64_t i = 0; i < A.n; ++i) rows[i % 3].push_back(i);
  const char* const ids[] = {"jacobi", "ssor", "gauss-seidel"};
  Dense D(A.n), lower(A.n), upper(A.n);
  for (int i = 0; i < 3; ++i) {
    const Rect M = matrix_of(ids[i], part(A, rows[i], rows[i]));
    put(D, rows[i], rows[i], M), put(lower, rows[i], rows[i], M), put(upper, rows[i], rows[i], M);
    for (int j = 0; j < i; ++j) put(lower, rows[i], rows[j], part(A, rows[i], rows[j]));
    for (int j = i + 1; j < 3; ++j) put(upper, rows[i], rows[j], part(A, rows[i], rows[j]));
  }
  const auto made = [&](FieldRecipe recipe) {
    options.recipe = recipe;
    return dense(*ready<double>("fields", *A_here, options));
  };
  expect_same(made(FieldRecipe::additive), inverse(D), 1e-13);
  expect_same(made(FieldRecipe::lower), inverse(lower), 1e-13);
  expect_same(made(FieldRecipe::upper), inverse(upper), 1e-13);
  expect_same(made(FieldRecipe::symmetric), inverse(product(lower, product(inverse(D), upper))), 1e-12);
  expect_same(made(FieldRecipe::automatic), inverse(lower), 1e-13);  // A is not symmetric
}

// With exact inner solves recipe schur-full of an exact S would be A^-1. D is A_00 for a diagonal A_00.
TEST_P(InSpace, IsTheInverseIfNothingIsApproximated) {
  Coupled c = coupled(true, 0, 8, 1, false, 3);
  for (const std::int64_t i : c.rows[0])
    for (const std::int64_t j : c.rows[0])
      if (i != j) c.A(i, j) = 0;
  const auto A = matrix(sparse(c.A));
  for (const SchurComplement how : schur_complements) {
    PreconditionerOptions options;
    options.fields = c.fields, options.recipe = FieldRecipe::schur_full, options.schur = how;
    options.inner = "u jacobi, p jacobi";
    expect_same(dense(*ready<double>("fields", *A, options)), inverse(c.A), 1e-13);
  }
}

// A constant pressure changes nothing in the Stokes equations without flow through the border, and nothing of it is in
// M^-1 r.
TEST_P(InSpace, ConstantsOfAPressureAreTakenOut) {
  const CsrMatrix<double> csr = stokes(test_context(), 5);
  const auto A = matrix(csr);
  const std::int64_t pressures = 25, n = csr.rows();
  for (const SchurComplement how : schur_complements)
    for (const FieldRecipe recipe :
         {FieldRecipe::schur_diagonal, FieldRecipe::schur_lower, FieldRecipe::schur_full}) {
      PreconditionerOptions options;
      options.recipe = recipe, options.schur = how, options.inner = "u jacobi, p jacobi";
      const auto M = ready<double>("fields", *A, options);
      EXPECT_SAYS(M->description(), "constants in field p change nothing");
      std::vector<double> r = right_hand_side<double>(n);
      const std::vector<double> z = apply(*M, r);
      double mean = 0, largest = 0;
      for (std::int64_t i = n - pressures; i < n; ++i)
        mean += z[i], largest = std::max(largest, std::abs(z[i]));
      EXPECT_GT(largest, 0);
      EXPECT_LE(std::abs(mean), 1e-13 * pressures * largest);
      for (std::int64_t i = n - pressures; i < n; ++i) r[i] += 3;
      const std::vector<double> same = apply(*M, r);
      for (std::int64_t i = 0; i < n; ++i) EXPECT_NEAR(same[i], z[i], 1e-12 * largest);
    }
  // One pressure of another scale: then they count.
  PreconditionerOptions options;
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  CsrMatrix<double> changed = csr;
  changed.values = values.data(), changed.values_owner = nullptr;
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
    values[k] = csr.values[k] * (csr.pattern.col[k] == n - 1 ? 2 : 1);
  EXPECT_EQ(ready<double>("fields", *matrix(changed), options)->description().find("constants"),
            std::string::npos);
}

// Solves with blocks to a tolerance: M^-1 tends to the one with exact inverses.
TEST_P(InSpace, InnerMethodsSolveToTheirTolerance) {
  const Coupled c = coupled(false, 0.25, 20, 9, true, 11);
  const auto A = matrix(sparse(c.A));
  PreconditionerOptions options;
  options.fields = c.fields, options.recipe = FieldRecipe::lower;
  const Rows &u = c.rows[0], &p = c.rows[1];
  Dense lower(c.A.n);
  put(lower, u, u, part(c.A, u, u)), put(lower, p, p, part(c.A, p, p)), put(lower, p, u, part(c.A, p, u));
  const Dense exact = inverse(lower);
  options.inner = "u ilu0 method=gmres tolerance=1e-12, p jacobi method=bicgstab tolerance=1e-12";
  const auto M = ready<double>("fields", *A, options);
  EXPECT_TRUE(M->variable());
  EXPECT_FALSE(M->symmetric());
  expect_same(dense(*M), exact, 1e-9);
  options.inner = "u none method=gmres tolerance=1e-12, p none method=gmres tolerance=1e-12";
  expect_same(dense(*ready<double>("fields", *A, options)), exact, 1e-9);
  // One iteration is far from it.
  options.inner = "u none method=gmres tolerance=1e-12 iterations=1, p jacobi";
  const Dense rough = dense(*ready<double>("fields", *A, options));
  long double difference = 0, largest = 0;
  for (std::size_t k = 0; k < rough.a.size(); ++k)
    difference = std::max(difference, std::abs(rough.a[k] - exact.a[k])),
    largest = std::max(largest, std::abs(exact.a[k]));
  EXPECT_GT(difference, 1e-3L * largest);
}

// New values in the pattern give what a fresh object gives, bit for bit, in each recipe; whatever was set up before.
TEST_P(InSpace, FieldsFollowNewValues) {
  std::mt19937 random(17);
  for (const bool found : {false, true})
    for (const FieldRecipe recipe : field_recipes)
      for (const SchurComplement how : schur_complements) {
        if (how == SchurComplement::commutator && (recipe < FieldRecipe::schur_diagonal)) continue;
        const bool zero = found || how == SchurComplement::commutator;
        if (found && recipe != FieldRecipe::automatic && recipe < FieldRecipe::schur_diagonal) continue;
        SCOPED_TRACE(std::string(to_string(recipe)) + " " + std::string(to_string(how)));
        const bool cells = of_cells(recipe);
        const Coupled c = coupled(true, zero ? 0 : 0.25, 17, cells ? 17 : 8, !cells, 23);
        const CsrMatrix<double> csr = sparse(c.A);
        const auto A = matrix(csr);
        PreconditionerOptions options;
        if (!found) options.fields = c.fields;
        options.recipe = recipe, options.schur = how;
        options.inner = cells ? "u ssor, whole jacobi" : "u ssor, p jacobi";
        const auto M = ready<double>("fields", *A, options);
        const std::vector<double> r = right_hand_side<double>(csr.rows());
        std::vector<double> last = apply(*M, r), values(static_cast<std::size_t>(csr.nonzeros()));
        for (int step = 0; step < 6; ++step) {
          const double scale = std::exp2(static_cast<int>(random() % 9) - 4);
          for (std::int64_t i = 0; i < csr.rows(); ++i)
            for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k) {
              const double factor = csr.pattern.col[k] == i ? 1 + static_cast<double>(random() % 8) / 4 : 1;
              values[k] = csr.values[k] * factor * scale;
            }
          CsrMatrix<double> next = csr;
          next.values = values.data(), next.values_owner = nullptr;
          A->update_values(placed(context_, next));
          if (random() % 3 == 0) continue;  // without ensure()
          M->ensure(*A);
          const std::vector<double> z = apply(*M, r), fresh = apply(*ready<double>("fields", *A, options), r);
          EXPECT_EQ(z, fresh);
          EXPECT_NE(z, last);
          last = z;
        }
      }
}

// What fails leaves no mixture of old and new blocks.
TEST_P(InSpace, FieldsStayAsTheyWereAfterAFailedRenewal) {
  const Coupled c = coupled(true, 0.25, 12, 5, false, 9);
  const CsrMatrix<double> csr = sparse(c.A);
  const auto A = matrix(csr);
  PreconditionerOptions options;
  options.fields = c.fields, options.recipe = FieldRecipe::lower, options.inner = "u ic0, p jacobi";
  const auto M = ready<double>("fields", *A, options);
  const std::vector<double> r = right_hand_side<double>(csr.rows()), before = apply(*M, r);
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  for (double& one : values) one = -one;
  CsrMatrix<double> negative = csr;
  negative.values = values.data(), negative.values_owner = nullptr;
  A->update_values(placed(context_, negative));
  EXPECT_SAYS(message<BadMatrix>([&] { M->ensure(*A); }), "preconditioner ic0 of field u");
  EXPECT_EQ(apply(*M, r), before);
  A->update_values(placed(context_, csr));
  M->ensure(*A);
  EXPECT_EQ(apply(*M, r), before);
}

}  // namespace
}  // namespace protean::test

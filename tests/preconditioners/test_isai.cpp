// Sparse approximate inverses of factors, against their definition in long double.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

// Instantiated in test_factors.cpp.
using Factors = InSpace;

constexpr PreconditionerOptions coloured{.ordering = FactorOrdering::colours};

// The pattern of (I + |T|)^power, and X with X T = I there; T has ones on its diagonal.
Dense sparse_inverse(const Dense& T, int power) {
  Dense pattern(T.n), once(T.n);
  for (std::int64_t i = 0; i < T.n; ++i)
    for (std::int64_t j = 0; j < T.n; ++j) once(i, j) = pattern(i, j) = T(i, j) != 0;
  for (int k = 1; k < power; ++k) pattern = product(pattern, once);
  Dense X(T.n);
  for (std::int64_t i = 0; i < T.n; ++i) {
    std::vector<std::int64_t> J;
    for (std::int64_t j = 0; j < T.n; ++j)
      if (pattern(i, j) != 0) J.push_back(j);
    const auto m = static_cast<std::int64_t>(J.size());
    Dense part(m);
    for (std::int64_t a = 0; a < m; ++a)
      for (std::int64_t b = 0; b < m; ++b) part(a, b) = T(J[a], J[b]);
    const Dense inverted = inverse(part);
    const std::int64_t own = std::find(J.begin(), J.end(), i) - J.begin();
    for (std::int64_t b = 0; b < m; ++b) X(i, J[b]) = inverted(own, b);
  }
  return X;
}
Dense isai_inverse(const Dense& A, int power, bool symmetric) {
  const Dense F = incomplete_factors(A, 0);
  Dense lower(A.n), upper(A.n);
  for (std::int64_t i = 0; i < A.n; ++i) {
    lower(i, i) = upper(i, i) = 1;
    for (std::int64_t j = 0; j < i; ++j) lower(i, j) = F(i, j);
    for (std::int64_t j = i + 1; j < A.n; ++j) upper(i, j) = F(i, j) / F(i, i);
  }
  Dense X = sparse_inverse(lower, power), Y(A.n);
  if (symmetric)
    for (std::int64_t i = 0; i < A.n; ++i)
      for (std::int64_t j = 0; j < A.n; ++j) Y(i, j) = X(j, i);
  else
    Y = sparse_inverse(upper, power);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j) X(i, j) /= F(i, i);
  return product(Y, X);
}

TEST_P(Factors, IsaiIsThatOfTheDenseDefinition) {
  for (const int power : {1, 2, 3}) {
    for (const Dense& A : symmetric_battery()) {
      const Dense expected = isai_inverse(A, power, true);
      expect_same(dense(*ready<double>("isai", *matrix(sparse(A)), {.power = power})), expected, 1e-12);
      expect_same(dense(*ready<float>("isai", *matrix(sparse<float>(A)), {.power = power})), expected, 2e-5);
    }
    for (const Dense& A : general_battery())
      expect_same(dense(*ready<double>("isai-lu", *matrix(sparse(A)), {.power = power})),
                  isai_inverse(A, power, false), 1e-12);
  }
  // The patterns of high powers finally reach the pattern of the inverse.
  const Dense chain = poisson_1d(5);
  expect_same(dense(*ready<double>("isai", *matrix(sparse(chain)), {.power = 4})), inverse(chain), 1e-13);
}

TEST_P(Factors, MorePowerNeedsFewerIterations) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 14}});
  const auto A = matrix(csr);
  const Placed<double> b(context_, right_hand_side<double>(csr.rows()));
  const auto iterations = [&](const char* id, const PreconditionerOptions& options) {
    const auto M = ready<double>(id, *A, options);
    Placed<double> x(context_, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
    const SolveReport report = make_solver<double>("cg")->solve(*A, b.read(), x.view(), M.get());
    EXPECT_TRUE(report.converged()) << id;
    return report.iterations;
  };
  const std::int64_t jacobi = iterations("jacobi", {}), one = iterations("isai", {.power = 1}),
                     two = iterations("isai", {.power = 2}),
                     exact = iterations("ic0", {.ordering = FactorOrdering::natural}),
                     colours = iterations("ic0", coloured);
  EXPECT_LT(one, jacobi);
  EXPECT_LT(two, one);
  EXPECT_LE(exact, two);
  EXPECT_LT(colours, jacobi);
}

}  // namespace
}  // namespace protean::test

// Preconditioners made of several parts: additive, multiplicative and symmetric.
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "operators/rows.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

TEST_P(InSpace, CompositionsAreThoseOfTheDenseFormulas) {
  const auto identity_minus = [](const Dense& A) {
    Dense result(A.n);
    for (std::int64_t i = 0; i < A.n; ++i)
      for (std::int64_t j = 0; j < A.n; ++j) result(i, j) = (i == j) - A(i, j);
    return result;
  };
  for (const Dense& A : {poisson_2d(6), symmetric_part(scattered(40, 3))}) {
    const auto A_here = matrix(sparse(A));
    const std::vector<PreconditionerPart> parts = {
        {"jacobi"}, {"ssor", {.omega = 1.2}}, {"block-jacobi", {.block_size = 3}}};
    std::vector<Dense> inverses, errors;
    for (const PreconditionerPart& part : parts) {
      inverses.push_back(dense(*ready<double>(part.id, *A_here, part.options)));
      errors.push_back(identity_minus(product(inverses.back(), A)));
    }
    const auto composed = [&](std::size_t count, Composition how) {
      auto M = make_composition<double>(*A_here, {parts.data(), count}, how);
      EXPECT_EQ(M->symmetric(), is_symmetric({parts.data(), count}, how));
      M->ensure(*A_here);
      return M;
    };
    Dense sum(A.n);
    for (std::size_t k = 0; k < sum.a.size(); ++k)
      sum.a[k] = inverses[0].a[k] + inverses[1].a[k] + inverses[2].a[k];
    expect_same(dense(*composed(3, Composition::additive)), sum, 1e-14);
    const Dense A_inverse = inverse(A), forward = product(errors[2], product(errors[1], errors[0]));
    expect_same(dense(*composed(3, Composition::multiplicative)), product(identity_minus(forward), A_inverse),
                1e-13);
    const Dense both = product(errors[0], product(errors[1], forward));
    const Dense symmetric = dense(*composed(3, Composition::symmetric));
    expect_same(symmetric, product(identity_minus(both), A_inverse), 1e-13);
    for (std::int64_t i = 0; i < A.n; ++i)
      for (std::int64_t j = 0; j < i; ++j)
        EXPECT_NEAR(static_cast<double>(symmetric(i, j)), static_cast<double>(symmetric(j, i)), 1e-14);
    for (const Composition how : compositions) expect_same(dense(*composed(1, how)), inverses[0], 1e-15);
  }
}

// The products of A between the parts are recorded, too.
TEST(Compositions, RecordTheProductsOfTheMatrix) {
  struct Changing final : DenseOperator<double>, HasRows<double> {
    using DenseOperator<double>::DenseOperator;
    CsrMatrix<double> rows_as_csr() const override { return sparse(matrix()); }
    Recording recording() const noexcept override { return {allowed, version, 1000000}; }
    std::uint64_t version = 5;
    bool allowed = true;
  };
  Changing A(poisson_2d(4));
  const auto recorded = [&](const std::vector<PreconditionerPart>& parts, Composition how) {
    const auto M = make_composition<double>(A, parts, how);
    M->ensure(A);
    return M->recording();
  };
  const std::vector<PreconditionerPart> factors = {{"ssor"}, {"ic0"}},
                                        polynomials = {{"chebyshev", {.degree = 2}},
                                                       {"chebyshev", {.degree = 3}}};
  const auto millions = [](const Recording& one) { return one.bytes / 1000000; };
  EXPECT_EQ(millions(recorded(factors, Composition::additive)), 0u);
  EXPECT_EQ(millions(recorded(factors, Composition::multiplicative)), 1u);
  EXPECT_EQ(millions(recorded(factors, Composition::symmetric)), 2u);
  EXPECT_EQ(millions(recorded(polynomials, Composition::additive)), 5u);
  // One part that may not be recorded is enough.
  const std::vector<PreconditionerPart> two = {{"chebyshev"}, {"jacobi"}};
  EXPECT_TRUE(recorded(two, Composition::additive).allowed);
  A.allowed = false;
  EXPECT_FALSE(recorded(two, Composition::additive).allowed);
  A.allowed = true;
  EXPECT_EQ(millions(recorded(polynomials, Composition::symmetric)), 2 + 3 + 2 + 2u);
  // Other products of A are other work; if nobody can know whether they are, it is recorded in each solve.
  for (const auto& parts : {factors, polynomials}) {
    const auto M = make_composition<double>(A, parts, Composition::symmetric);
    M->ensure(A);
    const std::uint64_t before = M->recording().version;
    EXPECT_NE(before, 0u);
    ++A.version;
    EXPECT_NE(M->recording().version, before);
    A.version = 0;
    EXPECT_EQ(M->recording().version, 0u);
    A.version = 5;
  }
}

TEST_P(InSpace, CompositionsInSolves) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 30}});
  const auto A = matrix(csr);
  const Placed<double> b(context_, right_hand_side<double>(csr.rows()));
  const std::vector<PreconditionerPart> parts = {{"block-jacobi"},
                                                 {"ic0", {.solve = TriangularSolve::levels}}};
  const auto solve = [&](const char* method, Preconditioner<double>& M) {
    M.ensure(*A);
    Placed<double> x(context_, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
    const SolveReport report = make_solver<double>(method, {.device_steps = gpu() ? "graph" : "auto"})
                                   ->solve(*A, b.read(), x.view(), &M);
    EXPECT_TRUE(report.converged()) << method << report.detail;
    if (gpu()) { EXPECT_GE(report.graphs_recorded, 1); }
    return report.iterations;
  };
  const std::int64_t alone = solve("cg", *make_preconditioner<double>("ic0", *A));
  EXPECT_LT(solve("cg", *make_composition<double>(*A, parts, Composition::symmetric)), alone);
  EXPECT_LT(solve("gmres", *make_composition<double>(*A, parts, Composition::multiplicative)), alone);
  solve("cg", *make_composition<double>(*A, parts, Composition::additive));
  const auto lopsided = make_composition<double>(*A, parts, Composition::multiplicative);
  EXPECT_SAYS(message<BadArgument>([&] { solve("cg", *lopsided); }), "cg needs a symmetric preconditioner");
}

// New values reach all parts. After a failed renewal some parts are new and others old, so it refuses to compute.
TEST_P(InSpace, CompositionsAreRenewed) {
  const CsrMatrix<double> csr = sparse(poisson_2d(7));
  const auto A = matrix(csr);
  const std::vector<PreconditionerPart> parts = {{"jacobi"}, {"ic0", {.solve = TriangularSolve::levels}}};
  const auto M = make_composition<double>(*A, parts, Composition::symmetric);
  const std::vector<double> r = right_hand_side<double>(49);
  EXPECT_THROW(apply(*M, r), BadArgument) << "not set up";
  M->ensure(*A);
  EXPECT_GT(M->bytes(), 49u * 8 * 3);
  EXPECT_EQ(figure(*M, "shift"), 0);
  const std::vector<double> before = apply(*M, r);
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  const auto change = [&](double diagonal) {
    for (std::int64_t i = 0; i < csr.rows(); ++i)
      for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
        values[p] = csr.values[p] * (csr.pattern.col[p] == i ? diagonal : 1);
    CsrMatrix<double> next = csr;
    next.values = values.data(), next.values_owner = nullptr;
    A->update_values(placed(context_, next));
  };
  change(1.5), M->ensure(*A);
  const auto fresh = make_composition<double>(*A, parts, Composition::symmetric);
  fresh->ensure(*A);
  EXPECT_EQ(apply(*M, r), apply(*fresh, r));
  EXPECT_NE(apply(*M, r), before);
  change(-1);  // jacobi takes it, ic0 does not
  EXPECT_THROW(M->ensure(*A), BadMatrix);
  EXPECT_SAYS(message<BadArgument>([&] { apply(*M, r); }), "after an ensure(A) that failed");
  change(1), M->ensure(*A);
  EXPECT_EQ(apply(*M, r), before);
  // The same for another operator, although A has not changed since M was made of it.
  const auto B = matrix(sparse(diagonal_matrix(std::vector<long double>(49, -1.0L))));
  EXPECT_THROW(M->ensure(*B), BadMatrix);
  M->ensure(*A);
  EXPECT_EQ(apply(*M, r), before);
}

TEST_P(InSpace, CompositionsOfNothingAreRefused) {
  const auto A = matrix(sparse(poisson_2d(4)));
  const auto refused = [&](const std::vector<PreconditionerPart>& parts) {
    return message<BadArgument>([&] { make_composition<double>(*A, parts, Composition::additive); });
  };
  EXPECT_SAYS(refused({}), "needs one part or more");
  EXPECT_SAYS(refused({{"jacobi"}, {"none"}}), "part 1 (from 0) of a composition is none");
  EXPECT_SAYS(refused({{"jacoby"}}), "Did you mean 'jacobi'?");
  EXPECT_SAYS(refused({{"ssor", {.omega = 3}}}), "omega is 3");
}

}  // namespace
}  // namespace protean::test

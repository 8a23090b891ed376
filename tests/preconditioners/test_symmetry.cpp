// Preconditioners of symmetric matrices, of matrices in which rounding has left entries on one side of the
// diagonal only.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/statistics.hpp"
#include "gtest/gtest.h"
#include "preconditioners/choice/choice.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::test {
namespace {

using OneSided = InSpace;
INSTANTIATE_TEST_SUITE_P(Spaces, OneSided, testing::Values(Where::host, Where::simulated, Where::gpu),
                         name_of_space);

struct Kind {
  const char* id;
  PreconditionerOptions options;
};
const Kind symmetric_kinds[] = {{"ic0", {}},
                                {"ic0", {.ordering = FactorOrdering::natural}},
                                {"ic0", {.ordering = FactorOrdering::colours}},
                                {"ic0", {.solve = TriangularSolve::sweeps}},
                                {"ic", {}},
                                {"isai", {}},
                                {"isai", {.power = 2}},
                                {"subdomain-ic0", {.subdomain_size = 40}},
                                {"subdomain-ic0", {}}};

// An entry of `csr` with another value, or a new one.
template <class T>
CsrMatrix<T> with_entry(const CsrMatrix<T>& csr, std::vector<Triplet<T>> more) {
  for (std::int32_t i = 0; i < csr.rows(); ++i)
    for (std::int64_t e = csr.pattern.row_ptr[i]; e < csr.pattern.row_ptr[i + 1]; ++e)
      more.push_back({i, csr.pattern.col[e], csr.values[e]});
  return csr_from_triplets<T>(test_context(), csr.rows(), csr.cols(), more);
}

TEST_P(OneSided, EntriesOfRoundingAreNoAsymmetry) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 12}});
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  // Above and below the diagonal, within a subdomain of 40 rows and across two; alone and so that as many lie above as
  // below.
  const std::vector<std::vector<Triplet<double>>> cases = {{{3, 17, 1e-17}},
                                                           {{17, 3, -1e-17}},
                                                           {{5, 9, 0}},
                                                           {{100, 4, 0}},
                                                           {{2, 30, 0}, {31, 1, 1e-18}},
                                                           {{2, 30, 0}, {31, 1, 1e-18}, {143, 0, -1e-16}}};
  for (const Kind& kind : symmetric_kinds) {
    const auto expected = apply(*ready<double>(kind.id, *matrix(csr), kind.options), r);
    for (std::size_t one = 0; one < cases.size(); ++one) {
      SCOPED_TRACE(std::string(kind.id) + ", case " + std::to_string(one));
      EXPECT_EQ(apply(*ready<double>(kind.id, *matrix(with_entry(csr, cases[one])), kind.options), r),
                expected);
    }
  }
}

TEST_P(OneSided, EntriesOfRoundingAreNoAsymmetryInSinglePrecision) {
  const CsrMatrix<float> csr = sparse<float>(poisson_2d(9));
  const std::vector<float> r = right_hand_side<float>(csr.rows());
  for (const Kind& kind : symmetric_kinds) {
    SCOPED_TRACE(kind.id);
    EXPECT_EQ(
        apply(*ready<float>(kind.id, *matrix(with_entry<float>(csr, {{3, 17, 1e-9f}})), kind.options), r),
        apply(*ready<float>(kind.id, *matrix(csr), kind.options), r));
  }
}

// What was rounding may grow with new values of the same pattern; then it is refused, and M is as before.
TEST_P(OneSided, EntriesThatGrowAreRefused) {
  const CsrMatrix<double> csr =
      with_entry<double>(generate(test_context(), "poisson-2d", {{"n", 12}}), {{3, 17, 1e-17}});
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  std::int64_t at = csr.pattern.row_ptr[3];
  while (csr.pattern.col[at] != 17) ++at;
  for (const Kind& kind : symmetric_kinds) {
    SCOPED_TRACE(kind.id);
    const auto A = matrix(csr);
    const auto M = ready<double>(kind.id, *A, kind.options);
    const std::vector<double> before = apply(*M, r);
    std::vector<double> values(csr.values, csr.values + csr.nonzeros());
    const auto renew = [&](double value) {
      values[static_cast<std::size_t>(at)] = value;
      A->update_values(placed(context_, with_values(csr, values.data())));
      M->ensure(*A);
    };
    EXPECT_SAYS(message<BadMatrix>([&] { renew(1e-6); }), "differ by up to 2.5e-07 of the largest entry");
    EXPECT_EQ(apply(*M, r), before);
    for (double& value : values) value *= 2;
    renew(-1e-18);
    EXPECT_EQ(apply(*M, r),
              apply(*ready<double>(kind.id, *matrix(with_values(csr, values.data())), kind.options), r));
    // Another pattern, which is symmetric.
    const CsrMatrix<double> other = generate(test_context(), "poisson-2d", {{"n", 12}, {"nx", 12}});
    const auto B = matrix(other);
    M->ensure(*B);
    EXPECT_EQ(apply(*M, r), apply(*ready<double>(kind.id, *B, kind.options), r));
  }
}

// Each entry is compared with the entries of its rows, so that a penalty of 1e30 in one row hides nothing in the
// others.
TEST_P(OneSided, ALargeEntryHidesNothing) {
  for (const bool stored : {false, true}) {
    Dense A = poisson_2d(12);
    A(40, 40) = 1e30L;
    const auto penalty = matrix(sparse(A));
    std::vector<Triplet<double>> more = {{100, 101, 0.5}};
    if (!stored) A(101, 100) = 0;
    const CsrMatrix<double> unequal = with_entry(sparse(A), more);
    for (const Kind& kind : symmetric_kinds) {
      SCOPED_TRACE(kind.id);
      EXPECT_NO_THROW((void)ready<double>(kind.id, *penalty, kind.options));
      EXPECT_SAYS(message<BadMatrix>([&] { (void)ready<double>(kind.id, *matrix(unequal), kind.options); }),
                  "of the largest entry of their rows");
    }
  }
}

// Rows of very different sizes, and differences that are rounding in each of them: what a device cannot see from its
// largest and least numbers the host finds.
TEST_P(OneSided, RoundingOfRowsOfManySizesIsNoAsymmetry) {
  Dense A = poisson_2d(12);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j)
      A(i, j) *= std::pow(10.0L, (i + j) / 12) * (i < j ? 1 + 1e-12L : 1);
  const CsrMatrix<double> csr = sparse(A);
  EXPECT_LE(asymmetry(*test_context(), csr), 1e-11);
  EXPECT_GT(asymmetry(*test_context(), csr), 0);
  for (const Kind& kind : symmetric_kinds) {
    SCOPED_TRACE(kind.id);
    EXPECT_NO_THROW((void)ready<double>(kind.id, *matrix(csr), kind.options));
  }
}

TEST(Choice, TakesRoundingForNoAsymmetry) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 12}});
  const auto symmetric = [&](double value) {
    return detail::choice_traits<double>(*test_context(), with_entry<double>(csr, {{3, 17, value}}))
        .symmetric;
  };
  EXPECT_TRUE(symmetric(0));
  EXPECT_TRUE(symmetric(1e-17));
  EXPECT_FALSE(symmetric(1e-3));
}

}  // namespace
}  // namespace protean::test

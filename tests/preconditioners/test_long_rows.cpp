// Rows that are coupled with most others: what factors of them cost, and when they are refused.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"
#include "core/permutation.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::test {
namespace {

using LongRows = InSpace;
INSTANTIATE_TEST_SUITE_P(Spaces, LongRows, testing::Values(Where::host, Where::simulated, Where::gpu),
                         name_of_space);

// A chain, all of whose rows are also coupled with the rows `dense`.
template <class T = double>
CsrMatrix<T> arrow(std::int32_t n, const std::vector<std::int32_t>& dense, double skew = 0) {
  std::vector<Triplet<T>> entries;
  const auto couple = [&](std::int32_t i, std::int32_t j, double value) {
    entries.push_back({i, j, static_cast<T>(value * (1 + skew))}),
        entries.push_back({j, i, static_cast<T>(value)});
  };
  std::vector<char> is_dense(static_cast<std::size_t>(n), 0);
  for (const std::int32_t i : dense) is_dense[static_cast<std::size_t>(i)] = 1;
  for (std::int32_t i = 0; i < n; ++i) {
    const bool own = is_dense[static_cast<std::size_t>(i)] != 0;
    entries.push_back({i, i, static_cast<T>(own ? n : 4 + 0.01 * (i % 7))});
    for (const std::int32_t j : dense)
      if (j != i && (!own || i < j)) couple(i, j, -0.5 - 0.001 * (i % 5));
    if (i + 1 < n && !own && is_dense[static_cast<std::size_t>(i) + 1] == 0) couple(i, i + 1, -1);
  }
  return csr_from_triplets<T>(test_context(), n, n, entries);
}
Dense full_of(const CsrMatrix<double>& csr) {
  Dense A(csr.rows());
  for (std::int64_t i = 0; i < csr.rows(); ++i)
    for (std::int64_t e = csr.pattern.row_ptr[i]; e < csr.pattern.row_ptr[i + 1]; ++e)
      A(i, csr.pattern.col[e]) = csr.values[e];
  return A;
}

// Entries of a long row are looked up for the entries of a short one. The factors agree with the definition.
TEST_P(LongRows, HaveTheFactorsOfTheDenseAlgorithm) {
  const PreconditionerOptions natural{.ordering = FactorOrdering::natural};
  for (const std::vector<std::int32_t>& long_rows :
       {std::vector<std::int32_t>{0}, {210}, {419}, {0, 1, 2}, {0, 200, 419}}) {
    const CsrMatrix<double> A = arrow(420, long_rows), B = arrow(420, long_rows, 0.25);
    const Dense of_A = inverse(incomplete_product(full_of(A), 0)),
                of_B = inverse(incomplete_product(full_of(B), 0));
    SCOPED_TRACE(std::to_string(long_rows.size()) + " from row " + std::to_string(long_rows.front()));
    expect_same(this->dense(*ready<double>("ic0", *matrix(A), natural)), of_A, 1e-12);
    expect_same(this->dense(*ready<double>("ilu0", *matrix(A), natural)), of_A, 1e-12);
    expect_same(this->dense(*ready<double>("ilu0", *matrix(B), natural)), of_B, 1e-12);
  }
}

// By colours, with the same rows in the order of the colours.
TEST_P(LongRows, ByColoursAreThoseOfTheHostInEachSpace) {
  for (const std::vector<std::int32_t>& long_rows : {std::vector<std::int32_t>{0}, {3, 200}}) {
    const CsrMatrix<double> A = arrow(420, long_rows);
    const PreconditionerOptions coloured{.ordering = FactorOrdering::colours};
    const std::vector<double> r = right_hand_side<double>(420);
    const auto here = ready<double>("ic0", *assembled(A), coloured),
               lu = ready<double>("ilu0", *assembled(A), coloured);
    std::vector<double> expected = applied(*here, r),
                        found = apply(*ready<double>("ic0", *matrix(A), coloured), r);
    for (std::size_t i = 0; i < r.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-12 * std::abs(expected[i]) + 1e-15);
    // A = A^T, so both factors are of the same matrix.
    found = applied(*lu, r);
    for (std::size_t i = 0; i < r.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-12 * std::abs(expected[i]) + 1e-15);
  }
}

TEST_P(LongRows, IsaiIsThatOfTheDenseDefinition) {
  for (const std::vector<std::int32_t>& long_rows : {std::vector<std::int32_t>{0}, {150}, {299}}) {
    const CsrMatrix<double> A = arrow(300, long_rows);
    const Dense full = full_of(A);
    const std::vector<double> r = right_hand_side<double>(300);
    // With a power that reaches all of the triangle the approximate inverse is exact.
    const auto exact = ready<double>("ic0", *assembled(A), {.ordering = FactorOrdering::natural});
    const auto isai = ready<double>("isai", *matrix(A), {.power = 4});
    const std::vector<double> expected = applied(*exact, r), found = apply(*isai, r);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < r.size(); ++i)
      difference = std::max(difference, std::abs(found[i] - expected[i])),
      size = std::max(size, std::abs(expected[i]));
    EXPECT_LT(difference, 0.05 * size) << long_rows.front();
  }
}

// Steps are counted at the places at which a setup may be ended: 2^18 of them lie between two questions. Going through
// a dense row for each other row takes n^2 / 2 of them.
TEST(LongRow, IsNotGoneThroughForEachOtherRow) {
  const ContextPtr host = Context::host(1);
  for (const std::int32_t row : {0, 20000, 39999}) {
    const CsrMatrix<double> csr = arrow(40000, {row});
    const auto A = assembled(csr, host);
    for (const char* id : {"ic0", "ilu0", "isai", "isai-lu"}) {
      SCOPED_TRACE(std::string(id) + ", row " + std::to_string(row));
      std::int64_t asked = 0;
      const detail::EndableWork work(*host, [&] { return ++asked < 0; });
      (void)ready<double>(id, *A);
      EXPECT_LT(asked, 1000);
    }
  }
}

// Long loops ask, too, so that a setup with fill can be ended: many more questions than parallel regions.
TEST(LongRow, SetupsWithFillAskWhileTheyRun) {
  const ContextPtr host = Context::host(1);
  const auto A = assembled(arrow(800, {0}), host);
  for (const char* id : {"ic", "ilu"}) {
    std::int64_t asked = 0;
    {
      const detail::EndableWork work(*host, [&] { return ++asked < 0; });
      (void)ready<double>(id, *A);
    }
    EXPECT_GT(asked, 500) << id;
    const std::int64_t all = asked;
    for (const std::int64_t last : {all / 4, all / 2, 3 * all / 4}) {
      asked = 0;
      const detail::EndableWork work(*host, [&] { return ++asked > last; });
      EXPECT_THROW((void)ready<double>(id, *A), detail::WorkEnded) << id;
      EXPECT_EQ(asked, last + 1);
    }
  }
}

// Fill of a dense row that comes first is all of the matrix: it is refused while it is counted, with numbers and
// what to do, which then works.
TEST(LongRow, FillThatIsNotWorthItIsRefusedWhileItIsCounted) {
  const CsrMatrix<double> csr = arrow(4000, {0});
  for (const char* id : {"ic", "ilu"}) {
    const std::string said = message<BadMatrix>([&] { (void)ready<double>(id, *assembled(csr)); });
    EXPECT_SAYS(said, std::string(id) + " with fill 1 has ");
    EXPECT_SAYS(said, "of 4000, for 19994 entries of the matrix");
    EXPECT_SAYS(said, "fill: 0 (" + std::string(id) + "0)");
    EXPECT_SAYS(said, "number such rows last in the matrix");
  }
  (void)ready<double>("ic0", *assembled(csr));
  const PermutedMatrix<double> ordered(
      test_context(), csr, Permutation(test_context(), make_order("rcm", *test_context(), csr.pattern)));
  const auto M = ready<double>("ic", *assembled(ordered.matrix()));
  EXPECT_LT(figure(*M, "entries"), 3 * 19994);
  // Of a small matrix all fill is made.
  (void)ready<double>("ic", *assembled(arrow(500, {0})));
  // Powers of a factor become dense in the same way.
  EXPECT_SAYS(message<BadMatrix>(
                  [&] { (void)ready<double>("isai", *assembled(arrow(60000, {30000})), {.power = 2}); }),
              "take power: 1");
}

}  // namespace
}  // namespace protean::test

// Factors of subdomains against dense computations in long double, and against ic0 and ilu0 of matrices without the
// entries between subdomains.
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/partition.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/subdomain_cases.hpp"
#include "solvers/systems.hpp"
#include "systems/linear_system.hpp"

namespace protean::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Spaces, Subdomains, testing::Values(Where::host, Where::simulated, Where::gpu),
                         name_of_space);

using Rows = std::vector<std::int64_t>;

// The own rows of each subdomain, ascending.
std::vector<Rows> in_order(std::int64_t n, std::int64_t size) {
  std::vector<Rows> groups;
  for (std::int64_t i = 0; i < n; ++i) {
    if (i % size == 0) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}
std::vector<Rows> by_metis(const CsrMatrix<double>& csr, std::int64_t size) {
  const std::int64_t parts = (csr.rows() + size - 1) / size;
  std::vector<Rows> groups(static_cast<std::size_t>(parts));
  const auto part = detail::metis_parts(*test_context(), csr.pattern, parts, "");
  for (std::int64_t i = 0; i < csr.rows(); ++i) groups[static_cast<std::size_t>(part[i])].push_back(i);
  std::erase_if(groups, [](const Rows& rows) { return rows.empty(); });
  return groups;
}
// The own rows and the rows that have a column in them, ascending.
Rows with_halo(const Dense& A, const Rows& own) {
  std::set<std::int64_t> rows(own.begin(), own.end());
  for (const std::int64_t i : own)
    for (std::int64_t j = 0; j < A.n; ++j)
      if (A(i, j) != 0) rows.insert(j);
  return {rows.begin(), rows.end()};
}
// sum_s Q_s^T M_s^-1 R_s; shift: added to the diagonal of a subdomain, as a part of it.
Dense by_subdomains(const Dense& A, const std::vector<Rows>& groups, int overlap = 0,
                    const std::map<std::size_t, double>& shift = {}) {
  Dense sum(A.n);
  for (std::size_t s = 0; s < groups.size(); ++s) {
    const Rows rows = overlap > 0 ? with_halo(A, groups[s]) : groups[s];
    Dense part(static_cast<std::int64_t>(rows.size()));
    for (std::int64_t a = 0; a < part.n; ++a)
      for (std::int64_t b = 0; b < part.n; ++b) part(a, b) = A(rows[a], rows[b]);
    if (const auto found = shift.find(s); found != shift.end())
      for (std::int64_t a = 0; a < part.n; ++a) part(a, a) *= 1 + static_cast<long double>(found->second);
    const Dense inverted = inverse(incomplete_product(part, 0));
    for (std::int64_t a = 0; a < part.n; ++a)
      if (std::binary_search(groups[s].begin(), groups[s].end(), rows[a]))
        for (std::int64_t b = 0; b < part.n; ++b) sum(rows[a], rows[b]) = inverted(a, b);
  }
  return sum;
}
TEST_P(Subdomains, OneIsThatOfTheFactorsOfTheMatrix) {
  for (const Dense& A : symmetric_battery()) {
    const Dense expected = inverse(incomplete_product(A, 0));
    for (const char* id : both)
      for (const std::int64_t size : {std::int64_t{0}, A.n, A.n + 7}) {
        const auto M = ready<double>(id, *matrix(sparse(A)), of_size(size));
        EXPECT_EQ(figure(*M, "subdomains"), 1);
        EXPECT_EQ(figure(*M, "shift"), 0);
        expect_same(dense(*M), expected, 1e-12);
        expect_same(dense(*ready<float>(id, *matrix(sparse<float>(A)), of_size(size))), expected, 1e-5);
      }
  }
  for (const Dense& A : general_battery()) {
    const Dense expected = inverse(incomplete_product(A, 0));
    for (const std::int64_t overlap : {0, 1}) {
      const auto M = ready<double>("subdomain-ilu0", *matrix(sparse(A)), of_size(0, overlap));
      expect_same(dense(*M), expected, 1e-12);
      const auto single = ready<float>("subdomain-ilu0", *matrix(sparse<float>(A)), of_size(0, overlap));
      expect_same(dense(*single), expected, 1e-5);
    }
  }
}

TEST_P(Subdomains, EachHasTheFactorsOfTheDenseAlgorithm) {
  for (const std::int64_t size : {1, 2, 7, 16, 33}) {
    SCOPED_TRACE(size);
    for (const Dense& A : symmetric_battery()) {
      const auto groups = in_order(A.n, size);
      const Dense expected = by_subdomains(A, groups);
      for (const char* id : both) {
        const auto M = ready<double>(id, *matrix(sparse(A)), of_size(size));
        EXPECT_EQ(figure(*M, "subdomains"), static_cast<double>(groups.size()));
        EXPECT_EQ(figure(*M, "subdomain_size"), static_cast<double>(size));
        expect_same(dense(*M), expected, 1e-12);
        expect_same(dense(*ready<float>(id, *matrix(sparse<float>(A)), of_size(size))), expected, 1e-5);
      }
    }
    for (const Dense& A : general_battery())
      for (const int overlap : {0, 1}) {
        const Dense expected = by_subdomains(A, in_order(A.n, size), overlap);
        expect_same(dense(*ready<double>("subdomain-ilu0", *matrix(sparse(A)), of_size(size, overlap))),
                    expected, 1e-12);
      }
  }
  // So that the tests above show something.
  const Dense A = poisson_2d(7);
  const Dense one = by_subdomains(A, in_order(49, 49)), seven = by_subdomains(A, in_order(49, 7)),
              overlapping = by_subdomains(A, in_order(49, 7), 1);
  EXPECT_GT(std::abs(one(24, 24) - seven(24, 24)), 1e-3L);
  EXPECT_GT(std::abs(overlapping(24, 24) - seven(24, 24)), 1e-3L);
}

TEST_P(Subdomains, OfMetis) {
  if (!unavailable(SubdomainPartition::metis).empty()) {
    EXPECT_SAYS(message<NotAvailable>([&] {
                  (void)make_preconditioner<double>("subdomain-ic0", *matrix(sparse(poisson_2d(4))),
                                                    {.partition = SubdomainPartition::metis});
                }),
                "subdomain-ic0 with partition metis: this build has no METIS; install libmetis-dev");
    GTEST_SKIP() << unavailable(SubdomainPartition::metis);
  }
  std::vector<Dense> battery = symmetric_battery();
  for (const Dense& A : general_battery()) battery.push_back(A);
  for (const Dense& A : battery)
    for (const std::int64_t size : {5, 20, 200})
      for (const int overlap : {0, 1}) {
        const CsrMatrix<double> csr = sparse(A);
        PreconditionerOptions options = of_size(size, overlap);
        options.partition = SubdomainPartition::metis;
        const auto groups = by_metis(csr, size);
        const auto M = ready<double>("subdomain-ilu0", *matrix(csr), options);
        EXPECT_EQ(figure(*M, "subdomains"), static_cast<double>(groups.size()));
        expect_same(dense(*M), by_subdomains(A, groups, overlap), 1e-12);
      }
  // Rows next to each other on the grid are in one subdomain, where in_order() takes lines.
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 24}});
  PreconditionerOptions options = of_size(64);
  const auto lines = ready<double>("subdomain-ic0", *matrix(csr), options);
  options.partition = SubdomainPartition::metis;
  const auto squares = ready<double>("subdomain-ic0", *matrix(csr), options);
  EXPECT_GT(figure(*squares, "entries"), figure(*lines, "entries"));
}

TEST_P(Subdomains, WithoutOverlapAreSymmetric) {
  for (const Dense& A : symmetric_battery())
    for (const std::int64_t size : {3, 20}) {
      const auto M = ready<double>("subdomain-ic0", *matrix(sparse(A)), of_size(size));
      EXPECT_TRUE(M->symmetric());
      const Dense got = dense(*M);
      Dense transposed(A.n);
      for (std::int64_t i = 0; i < A.n; ++i)
        for (std::int64_t j = 0; j < A.n; ++j) transposed(i, j) = got(j, i);
      expect_same(got, transposed, 1e-15);
    }
}

TEST_P(Subdomains, OverlapIsForIlu0) {
  const auto A = matrix(sparse(poisson_2d(6)));
  EXPECT_SAYS(message<BadArgument>([&] { ready<double>("subdomain-ic0", *A, of_size(9, 1)); }),
              "overlap is for preconditioner subdomain-ilu0; the preconditioner is subdomain-ic0");
  EXPECT_SAYS(message<BadArgument>([&] { ready<double>("subdomain-ilu0", *A, of_size(9, 2)); }),
              "overlap is 2; it must be a whole number from 0 to 1");
  EXPECT_SAYS(message<BadArgument>([&] { ready<double>("subdomain-ilu0", *A, of_size(-1)); }),
              "subdomain_size is -1; it must be 0 for auto, or a whole number from 1");
  // The unknowns that a halo adds are of use: a matrix that is coupled over the borders.
  const Dense B = convection_2d(6, 2);
  const auto M = ready<double>("subdomain-ilu0", *matrix(sparse(B)), of_size(6, 1));
  EXPECT_FALSE(M->symmetric());
  const Dense got = dense(*M);
  bool reads_halo = false;
  for (std::int64_t i = 0; i < 36; ++i)
    for (std::int64_t j = 0; j < 36; ++j) reads_halo |= i / 6 != j / 6 && got(i, j) != 0;
  EXPECT_TRUE(reads_halo);
}

TEST_P(Subdomains, SmallAndDecoupledMatrices) {
  const auto of = [&](const Dense& A, std::int64_t size) {
    for (const char* id : both) {
      SCOPED_TRACE(std::string(id) + ' ' + std::to_string(A.n) + ' ' + std::to_string(size));
      const auto M = ready<double>(id, *matrix(sparse(A)), of_size(size));
      expect_same(dense(*M), by_subdomains(A, in_order(A.n, size > 0 ? size : 1000)), 1e-13);
    }
    expect_same(dense(*ready<double>("subdomain-ilu0", *matrix(sparse(A)), of_size(size, 1))),
                by_subdomains(A, in_order(A.n, size > 0 ? size : 1000), 1), 1e-13);
  };
  for (const std::int64_t size : {0, 1, 2, 5}) {
    of(diagonal_matrix({4}), size);
    of(diagonal_matrix({4, 2, 8, 1, 16, 32, 3}), size);
    // Three chains, numbered in turn, so that subdomains consist of parts that are not connected.
    Dense chains(18);
    for (std::int64_t i = 0; i < 18; ++i) {
      chains(i, i) = 3 + 0.25L * static_cast<long double>(i % 4);
      if (i >= 3) chains(i, i - 3) = chains(i - 3, i) = -1;
    }
    of(chains, size);
  }
  for (const char* id : both) {
    const auto empty =
        matrix(csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{}));
    const auto M = ready<double>(id, *empty);
    EXPECT_TRUE(apply(*M, {}).empty());
    EXPECT_EQ(figure(*M, "subdomains"), 0);
  }
}

// The last pivot of a chain with free ends is zero. The other subdomains keep their factors.
TEST_P(Subdomains, ASingularOneIsShiftedAlone) {
  Dense A = poisson_1d(30);
  const auto free_chain = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) A(i, i) = (i > begin ? 1 : 0) + (i + 1 < end ? 1 : 0);
  };
  free_chain(10, 20);
  for (const char* id : both) {
    const auto M = ready<double>(id, *matrix(sparse(A)), of_size(10));
    EXPECT_EQ(figure(*M, "shift"), 1e-3) << id;
    EXPECT_EQ(figure(*M, "shifted_subdomains"), 1) << id;
    expect_same(dense(*M), by_subdomains(A, in_order(30, 10), 0, {{1, 1e-3}}), 1e-10);
  }
  // Kershaw's matrix, whose ic0 has a negative pivot, between others.
  Dense B = diagonal_matrix(std::vector<long double>(12, 3.0L));
  B(4, 5) = B(5, 4) = B(5, 6) = B(6, 5) = B(6, 7) = B(7, 6) = -2, B(4, 7) = B(7, 4) = 2;
  const auto M = ready<double>("subdomain-ic0", *matrix(sparse(B)), of_size(4));
  const double shift = figure(*M, "shift");
  ASSERT_GT(shift, 0);
  EXPECT_EQ(figure(*M, "shifted_subdomains"), 1);
  expect_same(dense(*M), by_subdomains(B, in_order(12, 4), 0, {{1, shift}}), 1e-12);
}

TEST_P(Subdomains, ABreakdownNamesRowAndSubdomain) {
  Dense A = poisson_1d(12);
  A(6, 7) = A(7, 6) = 1e6L;
  const std::string text =
      message<BadMatrix>([&] { ready<double>("subdomain-ic0", *matrix(sparse(A)), of_size(4)); });
  EXPECT_SAYS(text,
              "subdomain-ic0 broke down with every shift up to 8388.608: the pivot of row 7 (from 0) is not "
              "positive in subdomain 1, which has 4 rows from row 4 to row 7");
  EXPECT_SAYS(text, "use another subdomain_size or preconditioner");
  // In another subdomain each.
  A(6, 7) = A(7, 6) = -1, A(7, 8) = A(8, 7) = 1e6L;
  EXPECT_EQ(figure(*ready<double>("subdomain-ic0", *matrix(sparse(A)), of_size(4)), "shift"), 0);
  EXPECT_EQ(figure(*ready<double>("subdomain-ilu0", *matrix(sparse(A)), of_size(12)), "shift"), 0);
}

TEST_P(Subdomains, WhatTheFactorsRefuseIsRefused) {
  const auto refused = [&](const Dense& A, const char* id) {
    return message<BadMatrix>([&] { ready<double>(id, *matrix(sparse(A)), of_size(5)); });
  };
  for (const char* id : both) {
    SCOPED_TRACE(id);
    Dense A = poisson_2d(4);
    A(5, 5) = 0;
    EXPECT_SAYS(refused(A, id), std::string(id) + " divides by the diagonal, but 1 of 16 diagonal entries");
    PreconditionerOptions one = of_size(5);
    one.zero_diagonal = ZeroDiagonal::one;
    Dense with_one = A;
    with_one(5, 5) = 1;
    expect_same(dense(*ready<double>(id, *matrix(sparse(A)), one)), by_subdomains(with_one, in_order(16, 5)),
                1e-13);
    A(5, 5) = std::numeric_limits<double>::quiet_NaN();
    EXPECT_SAYS(refused(A, id), "row 5, column 5 is nan");
  }
  Dense A = poisson_2d(4);
  A(5, 5) = -4;
  EXPECT_SAYS(refused(A, "subdomain-ic0"), "1 of 16 diagonal entries are negative: row 5 (-4)");
  EXPECT_SAYS(refused(convection_2d(4, 1), "subdomain-ic0"),
              "needs a symmetric matrix, but entries and their mirrored ones (0 if none is stored) differ "
              "by up to");
  EXPECT_SAYS(refused(convection_2d(4, 1), "subdomain-ic0"), "use subdomain-ilu0 with gmres");
  EXPECT_SAYS(refused(scattered(20, 6), "subdomain-ic0"), "needs a symmetric matrix");
  // Factors that single precision cannot hold.
  Dense upper = diagonal_matrix({1e-20L, 1, 1});
  upper(0, 2) = 1e20L;
  EXPECT_SAYS(message<BadMatrix>([&] { ready<float>("subdomain-ilu0", *matrix(sparse<float>(upper))); }),
              "subdomain-ilu0: the quotients of entries of this matrix are too large for single precision");
  const auto A_here = matrix(sparse(poisson_2d(4)));
  const auto lopsided = ready<double>("subdomain-ilu0", *A_here);
  Placed<double> b(context_, right_hand_side<double>(16)), x(context_, std::vector<double>(16, 0.0));
  EXPECT_SAYS(message<BadArgument>([&] {
                (void)make_solver<double>("cg")->solve(*A_here, b.read(), x.view(), lopsided.get());
              }),
              "use subdomain-ic0");
}

}  // namespace
}  // namespace protean::test

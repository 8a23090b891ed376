#include "core/csr.hpp"

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "core/repeated_entries.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

TEST(Csr, TripletsInAnyOrderGiveTheSortedMatrix) {
  const std::vector<Triplet<double>> triplets = {{2, 1, 5.0}, {0, 2, 2.0}, {0, 0, 1.0}, {2, 0, 4.0}};
  const auto a = csr_from_triplets<double>(test_context(), 3, 3, triplets);
  ASSERT_EQ(a.nonzeros(), 4);
  EXPECT_EQ(a.pattern.row_ptr[1], 2);
  EXPECT_EQ(a.pattern.row_ptr[2], 2);
  EXPECT_EQ(a.pattern.col[0], 0);
  EXPECT_EQ(a.values[1], 2.0);
  EXPECT_NO_THROW(validate_sorted(*test_context(), a.pattern));
}

TEST(Csr, DuplicatesAreSummedOrRefused) {
  const std::vector<Triplet<double>> triplets = {{0, 0, 1.0}, {0, 0, 2.0}, {1, 1, 4.0}};
  EXPECT_EQ(csr_from_triplets<double>(test_context(), 2, 2, triplets).values[0], 3.0);
  EXPECT_THROW(csr_from_triplets<double>(test_context(), 2, 2, triplets, Duplicates::refuse), BadMatrix);
}

TEST(Csr, UnsortedInputIsRefusedAndCanBeSorted) {
  const std::int32_t row_ptr[] = {0, 3}, col[] = {2, 0, 1};
  const double values[] = {3, 1, 2};
  const auto a = csr_view(1, 3, row_ptr, col, values);
  EXPECT_FALSE(is_sorted(*test_context(), a.pattern));
  EXPECT_THROW(validate_sorted(*test_context(), a.pattern), BadMatrix);
  EXPECT_NO_THROW(validate(test_context(), a)) << "products with it are right";
  const auto sorted = sorted_copy(test_context(), a);
  EXPECT_NO_THROW(validate_sorted(*test_context(), sorted.pattern));
  EXPECT_EQ(sorted.values[2], 3.0);
}

// Rows that do not ascend are found wherever they are, in both spaces.
TEST(Csr, SortedRowsInBothSpaces) {
  struct Case {
    std::vector<std::int32_t> ptr, col;
    bool sorted;
  };
  const Case cases[] = {{{0}, {}, true},
                        {{0, 0, 0}, {}, true},
                        {{0, 3, 3, 5}, {0, 1, 2, 0, 1}, true},
                        {{0, 3, 3, 5}, {0, 2, 1, 0, 1}, false},
                        {{0, 3, 3, 5}, {0, 1, 2, 1, 0}, false},
                        {{0, 3, 3, 5}, {0, 1, 1, 0, 1}, false},
                        {{0, 1, 2, 3}, {2, 1, 0}, true}};
  for (const Space space : {Space::host, Space::device}) {
    const ContextPtr context = test_context(space);
    if (!context) GTEST_SKIP() << no_device;
    for (const Case& one : cases) {
      const std::vector<double> values(one.col.size(), 1.0);
      CsrMatrix<double> csr;
      csr.pattern.rows = std::ssize(one.ptr) - 1, csr.pattern.cols = 3;
      csr.pattern.nonzeros = std::ssize(one.col);
      csr.pattern.row_ptr.p32 = one.ptr.data(), csr.pattern.col = one.col.data(), csr.values = values.data();
      const CsrMatrix<double> there = placed(context, csr);
      EXPECT_EQ(is_sorted(*context, there.pattern), one.sorted) << to_string(space) << " " << &one - cases;
    }
  }
}

TEST(Csr, ViewsCopyNothingOrOnlyIndices) {
  const CsrMatrix<double>& a = battery_matrix("random_257");
  std::vector<std::int32_t> row_ptr, col(a.pattern.col, a.pattern.col + a.nonzeros());
  for (std::int64_t r = 0; r <= a.rows(); ++r)
    row_ptr.push_back(static_cast<std::int32_t>(a.pattern.row_ptr[r]));
  const auto view =
      csr_view(test_context(), a.rows(), a.cols(), a.nonzeros(), row_ptr.data(), col.data(), a.values);
  EXPECT_EQ(view.pattern.row_ptr.p32, row_ptr.data());
  EXPECT_EQ(view.pattern.col, col.data());
  EXPECT_EQ(view.values, a.values);
  EXPECT_TRUE(identical(view, a));
  // As Fortran counts, with row pointers of both widths.
  std::vector<std::int64_t> wide;
  for (auto& p : row_ptr) wide.push_back(++p);
  for (auto& c : col) ++c;
  const auto narrow_one = csr_view(test_context(), a.rows(), a.cols(), a.nonzeros(), row_ptr.data(),
                                   col.data(), a.values, IndexBase::one);
  const auto wide_one = csr_view(test_context(), a.rows(), a.cols(), a.nonzeros(), wide.data(), col.data(),
                                 a.values, IndexBase::one);
  EXPECT_TRUE(identical(narrow_one, a));
  EXPECT_TRUE(identical(wide_one, a));
  EXPECT_EQ(narrow_one.values, a.values);
  EXPECT_NE(wide_one.pattern.row_ptr.p64, nullptr);
  EXPECT_EQ(row_ptr[0], 1);
  const std::vector<double> other(static_cast<std::size_t>(a.nonzeros()), 2.0);
  const auto changed = with_values(narrow_one, other.data());
  EXPECT_EQ(changed.values, other.data());
  EXPECT_TRUE(same_pattern(changed.pattern, a.pattern));
}

TEST(Csr, ViewsOfDeviceArrays) {
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  const CsrMatrix<double>& a = battery_matrix("random_257");
  CsrBuilder<double> ones(test_context(), a.rows(), a.cols(), a.nonzeros());
  for (std::int64_t r = 0; r <= a.rows(); ++r)
    ones.row_ptr32()[r] = static_cast<std::int32_t>(a.pattern.row_ptr[r] + 1);
  for (std::int64_t k = 0; k < a.nonzeros(); ++k)
    ones.col()[k] = a.pattern.col[k] + 1, ones.values()[k] = a.values[k];
  const auto there = upload(device, ones.freeze());
  const auto view = csr_view(device, a.rows(), a.cols(), a.nonzeros(), there.pattern.row_ptr.p32,
                             there.pattern.col, there.values, IndexBase::one);
  EXPECT_EQ(view.values, there.values);
  EXPECT_TRUE(identical(download(test_context(), *device, view), a));
  const auto same = csr_view(device, a.rows(), a.cols(), a.nonzeros(), there.pattern.row_ptr.p32,
                             there.pattern.col, there.values);
  EXPECT_EQ(same.pattern.col, there.pattern.col);
  EXPECT_EQ(same.pattern.space, Space::device);
}

TEST(Csr, ViewsThatCannotBeAreRefused) {
  const std::int32_t row_ptr[] = {0, 1, 2}, col[] = {0, 1};
  const double values[] = {1, 1};
  const auto view = [&](std::int64_t rows, std::int64_t nonzeros, const std::int32_t* p,
                        const std::int32_t* c, const double* v, IndexBase base) {
    return csr_view(test_context(), rows, 2, nonzeros, p, c, v, base);
  };
  EXPECT_NO_THROW(view(2, 2, row_ptr, col, values, IndexBase::zero));
  EXPECT_THROW(view(2, 2, row_ptr, col, values, IndexBase::one), BadArgument);
  EXPECT_THROW(view(2, 3, row_ptr, col, values, IndexBase::zero), BadArgument);
  EXPECT_THROW(view(2, 2, nullptr, col, values, IndexBase::zero), BadArgument);
  EXPECT_THROW(view(2, 2, row_ptr, nullptr, values, IndexBase::zero), BadArgument);
  EXPECT_THROW(view(2, 2, row_ptr, col, nullptr, IndexBase::zero), BadArgument);
  EXPECT_THROW(view(-1, 2, row_ptr, col, values, IndexBase::zero), BadArgument);
  EXPECT_THROW(view(2, -2, row_ptr, col, values, IndexBase::zero), BadArgument);
}

TEST(Csr, ValidateNamesWhatIsWrong) {
  const double values[] = {1, 1};
  const std::int32_t outside[] = {0, 5}, pointers[] = {0, 1, 2}, falling[] = {0, 2, 1};
  EXPECT_THROW(validate_sorted(*test_context(), csr_view(2, 2, pointers, outside, values).pattern),
               BadMatrix);
  const std::int32_t good[] = {0, 1};
  EXPECT_THROW(validate_sorted(*test_context(), csr_view(2, 2, falling, good, values).pattern), BadMatrix);
}

// The part of a thread may begin at a row pointer that is below zero.
TEST(Csr, ValidateReadsNothingThroughBadRowPointers) {
  const auto a = generate(test_context(), "poisson-2d", {{"n", 100}});
  std::vector<std::int64_t> row_ptr;
  for (std::int64_t r = 0; r <= a.rows(); ++r) row_ptr.push_back(a.pattern.row_ptr[r]);
  CsrMatrix<double> bad = a;
  bad.pattern.row_ptr = {nullptr, row_ptr.data()};
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{-1} << 60, std::int64_t{1} << 60})
    for (const int threads : {1, 2, 3, 4})
      for (int part = 1; part <= threads; ++part) {
        const std::int64_t at = a.rows() * part / threads, right = row_ptr[at];
        row_ptr[at] = wrong;
        try {
          validate_sorted(*Context::host(threads), bad.pattern);
          ADD_FAILURE() << "accepted row_ptr[" << at << "] = " << wrong;
        } catch (const BadMatrix& error) {
          EXPECT_NE(std::string(error.what()).find(std::to_string(wrong)), std::string::npos) << error.what();
        }
        row_ptr[at] = right;
      }
  EXPECT_NO_THROW(validate_sorted(*test_context(), bad.pattern));
}

TEST(Csr, DuplicatesThatAddUpToInfinityAreRefused) {
  const std::vector<Triplet<double>> triplets = {{0, 0, 1.0}, {1, 0, 1e308}, {1, 1, 4.0}, {1, 0, 1e308}};
  try {
    (void)csr_from_triplets<double>(test_context(), 2, 2, triplets);
    FAIL();
  } catch (const BadMatrix& error) {
    EXPECT_NE(std::string(error.what()).find("entry (1, 0)"), std::string::npos) << error.what();
  }
}

// Diagonals in long and short rows, at the ends and in the middle, far from the place in the row before,
// missing, in empty rows, and in rows of any order: compared with a plain search.
TEST(Csr, DiagonalWhereverItIs) {
  std::vector<Triplet<double>> triplets;
  const std::int32_t n = 300;
  for (std::int32_t r = 0; r < n; ++r) {
    const std::int32_t left = r % 7 == 0 ? 0 : (r * 13) % 41, right = r % 5 == 0 ? 0 : (r * 29) % 37;
    for (std::int32_t c = std::max(0, r - left); c <= std::min(n - 1, r + right); ++c)
      if (r % 11 != 3 && (c != r || r % 6 != 1)) triplets.push_back({r, c, 1.0 + r + 1000.0 * c});
  }
  const auto sorted = csr_from_triplets<double>(test_context(), n, n, triplets);
  std::vector<std::int32_t> col(sorted.pattern.col, sorted.pattern.col + sorted.nonzeros());
  std::vector<double> values(sorted.values, sorted.values + sorted.nonzeros());
  for (std::int64_t r = 0; r < n; r += 3) {
    std::reverse(col.begin() + sorted.pattern.row_ptr[r], col.begin() + sorted.pattern.row_ptr[r + 1]);
    std::reverse(values.begin() + sorted.pattern.row_ptr[r], values.begin() + sorted.pattern.row_ptr[r + 1]);
  }
  CsrMatrix<double> mixed = sorted;
  mixed.pattern.col = col.data(), mixed.values = values.data();
  const CsrMatrix<double>* const both[] = {&sorted, &mixed};
  for (const auto* matrix : both)
    for (int threads : {1, 3}) {
      std::vector<double> expected(n, 0.0), diagonal(n, -1.0);
      for (std::int64_t r = 0; r < n; ++r)
        for (std::int64_t k = matrix->pattern.row_ptr[r]; k < matrix->pattern.row_ptr[r + 1]; ++k)
          if (matrix->pattern.col[k] == r) expected[r] = matrix->values[k];
      extract_diagonal(*Context::host(threads), *matrix, diagonal.data());
      EXPECT_EQ(diagonal, expected);
    }
}

TEST(Csr, TransposeTwiceIsTheSame) {
  for (const BatteryMatrix& entry : battery()) {
    const auto twice = transpose(test_context(), transpose(test_context(), entry.matrix));
    EXPECT_TRUE(identical(entry.matrix, twice)) << entry.name;
  }
}

// A device sorts, a host counts: the same matrix.
TEST(Csr, TransposeOnADeviceIsThatOfTheHost) {
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  for (const BatteryMatrix& entry : battery()) {
    const auto expected = transpose(test_context(), entry.matrix);
    EXPECT_TRUE(identical(expected, fetched(device, transpose(device, upload(device, entry.matrix)))))
        << entry.name;
    const auto single = convert_values<float>(test_context(), entry.matrix);
    EXPECT_TRUE(identical(transpose(test_context(), single),
                          fetched(device, transpose(device, upload(device, single)))))
        << entry.name;
  }
  EXPECT_THROW((void)transpose(device, battery().front().matrix), WrongSpace);
}

TEST(Csr, EachEntryKnowsItsRow) {
  for (const BatteryMatrix& entry : battery()) {
    const SparsityPattern& p = entry.matrix.pattern;
    for (std::int64_t r = 0; r < p.rows; ++r)
      for (std::int64_t k : {p.row_ptr[r], p.row_ptr[r + 1] - 1})
        if (p.row_length(r) > 0) { ASSERT_EQ(detail::row_of_entry(p.row_ptr, p.rows, k), r) << entry.name; }
  }
}

TEST(Csr, BordersCoverAllRows) {
  for (const BatteryMatrix& entry : battery())
    for (int parts : {1, 2, 3, 7}) {
      const auto borders = balanced_row_borders(entry.matrix.pattern, parts, 4);
      ASSERT_EQ(borders.size(), static_cast<std::size_t>(parts) + 1);
      EXPECT_EQ(borders.front(), 0);
      EXPECT_EQ(borders.back(), entry.matrix.rows());
      EXPECT_TRUE(std::is_sorted(borders.begin(), borders.end())) << entry.name;
    }
}

TEST(Csr, ValidateRefusesTheColumnPastTheLast) {
  const std::int32_t row_ptr[] = {0, 1, 2}, last[] = {0, 1}, past[] = {0, 2};
  const double values[] = {1, 1};
  EXPECT_NO_THROW(validate_sorted(*test_context(), csr_view(2, 2, row_ptr, last, values).pattern));
  EXPECT_THROW(validate_sorted(*test_context(), csr_view(2, 2, row_ptr, past, values).pattern), BadMatrix);
}

TEST(Csr, PatternsThatDifferInTheirRowsAloneAreNotTheSame) {
  const std::int32_t one[] = {0, 1, 2}, other[] = {0, 2, 2}, col[] = {0, 1};
  const double values[] = {1, 1};
  EXPECT_TRUE(
      same_pattern(csr_view(2, 2, one, col, values).pattern, csr_view(2, 2, one, col, values).pattern));
  EXPECT_FALSE(
      same_pattern(csr_view(2, 2, one, col, values).pattern, csr_view(2, 2, other, col, values).pattern));
}

TEST(Csr, RepeatedEntriesAreAddedInTheirOrderInRowsOfAnyLength) {
  for (const int triples : numbers_of_triples) {
    const auto a =
        csr_from_triplets<double>(test_context(), 1, 2, entries_whose_sum_shows_their_order(triples));
    ASSERT_EQ(a.nonzeros(), 2);
    EXPECT_EQ(a.values[0], triples);
    EXPECT_EQ(a.values[1], triples);
  }
}

}  // namespace
}  // namespace protean::test

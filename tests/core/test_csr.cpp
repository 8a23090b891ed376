#include "core/csr.hpp"

#include "gtest/gtest.h"
#include "support/battery.hpp"

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
  EXPECT_NO_THROW(validate(*test_context(), a.pattern));
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
  EXPECT_THROW(validate(*test_context(), a.pattern), BadMatrix);
  const auto sorted = sorted_copy(test_context(), a);
  EXPECT_NO_THROW(validate(*test_context(), sorted.pattern));
  EXPECT_EQ(sorted.values[2], 3.0);
}

TEST(Csr, ValidateNamesWhatIsWrong) {
  const double values[] = {1, 1};
  const std::int32_t outside[] = {0, 5}, pointers[] = {0, 1, 2}, falling[] = {0, 2, 1};
  EXPECT_THROW(validate(*test_context(), csr_view(2, 2, pointers, outside, values).pattern), BadMatrix);
  const std::int32_t good[] = {0, 1};
  EXPECT_THROW(validate(*test_context(), csr_view(2, 2, falling, good, values).pattern), BadMatrix);
}

TEST(Csr, TransposeTwiceIsTheSame) {
  for (const BatteryMatrix& entry : battery()) {
    const auto twice = transpose(test_context(), transpose(test_context(), entry.matrix));
    EXPECT_TRUE(identical(entry.matrix, twice)) << entry.name;
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

}  // namespace
}  // namespace protean::test

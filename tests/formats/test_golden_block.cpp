// Golden arrays and counts of the block formats on the catalogue's T8 and clSpMV's C.
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

FormatParams blocks(const char* rows, const char* cols) {
  return {{"rows", rows}, {"cols", cols}, {"max_fill", "8"}};
}

TEST(Bcsr, StoresAsManyValuesAsTheCatalogueSays) {
  const auto count = [](const char* rows, const char* cols) {
    return layout_numbers(*build("bcsr", t8(), blocks(rows, cols)), "values").size();
  };
  EXPECT_EQ(count("2", "2"), 40u);
  EXPECT_EQ(count("1", "4"), 44u);
  EXPECT_EQ(count("2", "4"), 56u);
  EXPECT_EQ(count("4", "4"), 64u);
  EXPECT_EQ(count("1", "2"), 30u);
  EXPECT_EQ(count("2", "1"), 36u);
}

TEST(Bcsr, BlocksOfTwoOnT8) {
  const auto matrix = build("bcsr", t8(), blocks("2", "2"));
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr"), (Numbers{0, 3, 4, 8, 10}));
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{0, 1, 2, 1, 0, 1, 2, 3, 1, 3}));
  const Numbers values = layout_numbers(*matrix, "values");
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 12),
            (Numbers{11, 12, 0, 22, 0, 0, 23, 24, 0, 0, 25, 26}));
  EXPECT_EQ(layout_numbers(*matrix, "entries").front(), 1 + 2 + 8);
}

TEST(Bcsr, BlocksOfTwoByFourOnT8) {
  EXPECT_EQ(layout_numbers(*build("bcsr", t8(), blocks("2", "4")), "block_ptr"), (Numbers{0, 2, 3, 5, 7}));
}

TEST(Bcsr, ClSpmvC) {
  const auto matrix = build("bcsr", clspmv_c(), blocks("2", "4"));
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr"), (Numbers{0, 2, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{0, 1, 0, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            (Numbers{1,  2,  3,  4,  9,  10, 11, 12, 5,  6,  7,  8,  13, 14, 15, 16,
                     17, 18, 19, 20, 25, 26, 27, 28, 21, 22, 23, 24, 29, 30, 31, 32}));
}

TEST(Bcsr, AutoFindsTheBlocksOfTheMatrix) {
  const auto matrix = build("bcsr", battery_matrix("blocks_3x3_60"));
  EXPECT_EQ(static_cast<std::int64_t>(layout_numbers(*matrix, "values").size()), matrix->nonzeros());
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr").size(), 21u);
}

TEST(Bcsr, ScatteredEntriesAreRefused) {
  const auto& csr = battery_matrix("identity_33");
  try {
    build("bcsr", csr, {{"rows", "3"}, {"cols", "3"}});
    FAIL();
  } catch (const FormatRefused& error) {
    EXPECT_EQ(error.bytes(), 11u * (9 * 8 + 4 + 2) + 8 * 12);
    EXPECT_NE(error.reason().find("3 x 3"), std::string::npos);
  }
}

// The memory behind the last column of x and the last row of y does not belong to them.
TEST(Bcsr, BlocksThatStickOutTouchNothingOutside) {
  const auto& csr = battery_matrix("blocks_ragged_61x47");
  const auto matrix = build("bcsr", csr, blocks("4", "4"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> x(48, 1.0), y(64, 7.0);
  x[47] = nan;
  matrix->apply(VectorView<const double>{x.data(), 47}, {y.data(), 61});
  for (int r = 0; r < 61; ++r) EXPECT_FALSE(std::isnan(y[r])) << "row " << r;
  for (int r = 61; r < 64; ++r) EXPECT_EQ(y[r], 7.0);
}

// The table counts the products of stored zeros as well.
TEST(Bcsr, NanReachesRowsOfItsBlocks) {
  const auto matrix = build("bcsr", t8(), blocks("2", "2"));
  std::vector<double> x(8, 1.0), y(8);
  x[5] = std::numeric_limits<double>::quiet_NaN();
  matrix->apply(VectorView<const double>{x.data(), 8}, {y.data(), 8});
  const bool expected[8] = {true, true, false, false, true, true, false, false};
  for (int r = 0; r < 8; ++r) EXPECT_EQ(std::isnan(y[r]), expected[r]) << "row " << r;
}

}  // namespace
}  // namespace protean::test

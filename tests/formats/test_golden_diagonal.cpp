// Golden arrays and counts of the diagonal formats on the catalogue's T8 and clSpMV's B.
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

Numbers part(const Numbers& all, std::size_t begin, std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
}

TEST(Dia, ArraysOnT8) {
  const auto matrix = build("dia", t8());
  EXPECT_EQ(layout_numbers(*matrix, "off"), (Numbers{-5, -4, -3, -2, -1, 0, 1, 2, 3, 4}));
  const Numbers values = layout_numbers(*matrix, "values");
  ASSERT_EQ(values.size(), 80u);
  EXPECT_EQ(part(values, 40, 48), (Numbers{11, 22, 0, 0, 55, 66, 77, 88}));
  EXPECT_EQ(part(values, 48, 56), (Numbers{12, 23, 34, 0, 0, 67, 78, 0}));
}

TEST(Dia, ClSpmvB) {
  const auto matrix = build("dia", clspmv_b());
  EXPECT_EQ(layout_numbers(*matrix, "off"), (Numbers{-2, 0, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0}));
  EXPECT_EQ(layout_numbers(*matrix, "entries"), (Numbers{12, 15, 7}));
}

TEST(Dia, ScatteredEntriesAreRefused) {
  try {
    build("dia", battery_matrix("antidiagonal_40"));
    FAIL();
  } catch (const FormatRefused& error) {
    EXPECT_EQ(error.bytes(), 40u * (40u * 4u + 4u + 5u) + 16) << "its values are exact in float";
    EXPECT_NE(error.reason().find("max_fill"), std::string::npos);
  }
}

// The table counts the products of stored zeros as well.
TEST(Dia, NanReachesRowsOfItsDiagonals) {
  const auto matrix = build("dia", clspmv_b());
  std::vector<double> x(4, 1.0), y(4);
  x[2] = std::numeric_limits<double>::quiet_NaN();
  matrix->apply(VectorView<const double>{x.data(), 4}, {y.data(), 4});
  EXPECT_FALSE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_FALSE(std::isnan(y[3]));
}

TEST(Hdi, ArraysOnT8) {
  const auto matrix = build("hdi", t8(), {{"hack", "4"}});
  EXPECT_EQ(layout_numbers(*matrix, "hack_ptr"), (Numbers{0, 5, 14}));
  EXPECT_EQ(layout_numbers(*matrix, "off"), (Numbers{0, 1, 2, 3, 4, -5, -4, -3, -2, -1, 0, 1, 2, 3}));
  const Numbers values = layout_numbers(*matrix, "values");
  ASSERT_EQ(values.size(), 56u);
  EXPECT_EQ(part(values, 0, 20),
            (Numbers{11, 22, 0, 0, 12, 23, 34, 0, 0, 24, 0, 0, 0, 25, 0, 0, 0, 26, 0, 0}));
  EXPECT_EQ(layout_numbers(*build("hdi", t8(), {{"hack", "2"}}), "values").size(), 38u);
}

// Tight: offsets are not stored for every row, as the reference code allocates them.
TEST(Hdi, BytesAreTheTightFormula) {
  const auto matrix = build("hdi", t8(), {{"hack", "4"}, {"values", "double"}});
  EXPECT_EQ(matrix->bytes(), 8u * 4 * 14 + 4 * 14 + 8 * 3 + 14);
}

}  // namespace
}  // namespace protean::test

// Golden arrays of the row, column, coordinate and hybrid formats.
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

TEST(GoldenRows, CsrIsTheInput) {
  const auto matrix = build("csr", clspmv_b());
  EXPECT_EQ(layout_numbers(*matrix, "row_ptr"), (Numbers{0, 2, 4, 7, 9}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 1, 2, 0, 2, 3, 1, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{3, 7, 4, 8, 1, 5, 9, 2, 6}));
  EXPECT_EQ(layout_numbers(*build("csr", t8()), "row_ptr"), (Numbers{0, 2, 7, 8, 8, 11, 19, 21, 24}));
}

}  // namespace
}  // namespace protean::test

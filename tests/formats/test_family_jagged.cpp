// Golden arrays of the jagged family on the catalogue's T8, and the property by which each format differs from its
// neighbours. Each property is also shown not to hold of the neighbour.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

std::int64_t stored(std::string_view format, const FormatParams& params) {
  const Admission admission = admit(find_format(format), *test_context(), t8().pattern, params, 8);
  EXPECT_TRUE(admission.ok) << admission.reason;
  return admission.stored_values;
}
bool has(const AssembledMatrix<double>& A, std::string_view array) {
  const auto arrays = dynamic_cast<const HasLayout&>(A).layout();
  return std::any_of(arrays.begin(), arrays.end(), [&](const LayoutArray& one) { return one.name == array; });
}

TEST(GoldenJagged, EnhancedJdsOnT8) {
  const FormatParams params{{"max_fill", "6"}};
  EXPECT_EQ(stored("enhanced-jds", params), 128);
  const auto matrix = build("enhanced-jds", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "jag_ptr"), (Numbers{0, 16, 32, 48, 64, 80, 96, 112, 128}));
  EXPECT_EQ(layout_numbers(*matrix, "jag_rows"), (Numbers{7, 6, 4, 2, 2, 1, 1, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "perm"), (Numbers{5, 1, 4, 7, 0, 6, 2, 3}));
  const Numbers values = layout_numbers(*matrix, "values");
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 18),
            (Numbers{61, 22, 51, 84, 11, 77, 34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 62, 23}));
}

TEST(GoldenJagged, PjdsOnT8) {
  // A preset with blocks of 32 rows; the catalogue's example has blocks of 2.
  const FormatParams params{{"round", "2"}, {"ends", "rows"}};
  EXPECT_EQ(stored("jad", params), 28);
  const auto matrix = build("jad", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "jag_ptr"), (Numbers{0, 8, 14, 18, 20, 22, 24, 26, 28}));
  EXPECT_EQ(layout_numbers(*matrix, "lengths"), (Numbers{8, 5, 3, 3, 2, 2, 1, 0}));
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            (Numbers{61, 22, 51, 84, 11, 77, 34, 0,  62, 23, 55, 87, 12, 78,
                     63, 24, 58, 88, 64, 25, 65, 26, 66, 0,  67, 0,  68, 0}));
  EXPECT_EQ(stored("pjds", {{"max_fill", "11"}}), 8 * 32);
}

TEST(GoldenJagged, BiellOnT8) {
  const FormatParams params{{"W", "4"}};
  EXPECT_EQ(stored("biell", params), 26);
  const auto matrix = build("biell", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "group_ptr"), (Numbers{0, 4, 6, 9, 21, 21, 26}));
  EXPECT_EQ(layout_numbers(*matrix, "perm"), (Numbers{1, 0, 2, -4, 5, 4, 7, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{22, 11, 34, 0,  23, 12, 24, 25, 26, 61, 51, 84, 77,
                                                        62, 55, 87, 78, 63, 58, 88, 0,  64, 65, 66, 67, 68}));
  // Padding repeats the last column of its row, 0 in the row without entries.
  const Numbers col = layout_numbers(*matrix, "col");
  EXPECT_EQ(col[3], 0);
  EXPECT_EQ(col[20], 7);
}

TEST(GoldenJagged, BijadOnT8) {
  EXPECT_EQ(stored("bijad", {{"W", "4"}}), 25);
  const auto matrix = build("bijad", t8(), {{"W", "4"}});
  EXPECT_EQ(layout_numbers(*matrix, "group_ptr"), (Numbers{0, 12, 16, 19, 23, 25, 25}));
  EXPECT_EQ(layout_numbers(*matrix, "perm"), (Numbers{5, 1, 4, 7, 0, 6, 2, -4}));
}

TEST(GoldenJagged, TjadOnT8) {
  const auto matrix = build("tjad", t8());
  EXPECT_EQ(layout_numbers(*matrix, "col_perm"), (Numbers{3, 7, 0, 1, 4, 6, 2, 5}));
  EXPECT_EQ(layout_numbers(*matrix, "jag_ptr"), (Numbers{0, 8, 16, 22, 24}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{24, 58, 11, 12, 25, 67, 23, 26, 34, 68, 51, 22,
                                                        55, 77, 63, 66, 64, 78, 61, 62, 65, 87, 84, 88}));
  EXPECT_EQ(layout_numbers(*matrix, "row"),
            (Numbers{1, 4, 0, 0, 1, 5, 1, 1, 2, 5, 4, 1, 4, 6, 5, 5, 5, 6, 5, 5, 5, 7, 7, 7}));
}

TEST(GoldenJagged, BtjadOnT8) {
  const auto matrix = build("btjad", t8(), {{"R", "4"}});
  EXPECT_EQ(layout_numbers(*matrix, "band_col"), (Numbers{0, 6, 14}));
  EXPECT_EQ(layout_numbers(*matrix, "band_jag"), (Numbers{0, 2, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "col_perm"), (Numbers{1, 3, 0, 2, 4, 5, 7, 6, 0, 3, 4, 1, 2, 5}));
  EXPECT_EQ(layout_numbers(*matrix, "jag_ptr"), (Numbers{0, 6, 8, 16, 21, 23, 24}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{12, 24, 11, 23, 25, 26, 22, 34, 58, 67, 51, 64,
                                                        55, 62, 63, 66, 68, 77, 61, 84, 65, 78, 87, 88}));
  EXPECT_EQ(layout_numbers(*matrix, "row"),
            (Numbers{0, 1, 0, 1, 1, 1, 1, 2, 0, 1, 0, 1, 0, 1, 1, 1, 1, 2, 1, 3, 1, 2, 3, 3}));
  // One band of all rows has the arrays of tjad.
  EXPECT_EQ(layout_numbers(*build("btjad", t8(), {{"R", "8"}}), "values"),
            layout_numbers(*build("tjad", t8()), "values"));
}

// A row without entries keeps its padding from x.
TEST(GoldenJagged, NanReachesOnlyRowsThatUseIt) {
  const CsrMatrix<double> csr = t8();
  for (const auto& [format, params] :
       std::vector<std::pair<const char*, FormatParams>>{{"biell", {{"W", "4"}}},
                                                         {"biell", {{"W", "32"}, {"max_fill", "100"}}},
                                                         {"bijad", {{"W", "2"}}},
                                                         {"pjds", {{"max_fill", "100"}}},
                                                         {"enhanced-jds", {{"max_fill", "100"}}},
                                                         {"tjad", {}},
                                                         {"btjad", {{"R", "4"}}}}) {
    const auto matrix = build(format, csr, params);
    for (int j = 0; j < 8; ++j) {
      Numbers x(8, 1.0), y(8);
      x[static_cast<std::size_t>(j)] = std::numeric_limits<double>::quiet_NaN();
      matrix->apply(VectorView<const double>{x.data(), 8}, {y.data(), 8});
      for (int r = 0; r < 8; ++r) {
        const auto row = csr.pattern.row(r);
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(r)]),
                  std::find(row.begin(), row.end(), j) != row.end())
            << format << " row " << r << " column " << j;
      }
    }
  }
}

TEST(GoldenJagged, PaddingOfAVeryLongRowIsRefused) {
  CsrBuilder<double> builder(test_context(), 40, 5000, 5039);
  std::int64_t k = 0;
  for (std::int64_t r = 0; r < 40; ++r) {
    for (std::int32_t c = 0; c < (r == 7 ? 5000 : 1); ++c) builder.col()[k] = c, builder.values()[k++] = 1;
    builder.set_row_ptr(r + 1, k);
  }
  const auto csr = builder.freeze();
  EXPECT_EQ(build("jad", csr)->nonzeros(), 5039);
  for (const char* format : {"pjds", "enhanced-jds"}) try {
      build(format, csr);
      ADD_FAILURE() << format << " was not refused";
    } catch (const FormatRefused& error) {
      EXPECT_NE(error.reason().find("max_fill"), std::string::npos) << error.reason();
    }
}

TEST(JaggedNeighbours, EachPropertyHoldsOfItsFormatAlone) {
  using Matrix = AssembledMatrix<double>;
  const CsrMatrix<double>& csr = t8();
  const auto multiples = [](const Numbers& ptr, double of) {
    return std::all_of(ptr.begin(), ptr.end(), [&](double p) { return std::fmod(p, of) == 0; });
  };
  const auto positive = [](Numbers perm) {
    for (double& row : perm)
      if (row < 0) row = -1 - row;
    return perm;
  };
  struct Difference {
    const char* format;
    std::vector<const char*> neighbours;
    std::function<bool(const Matrix&)> property;
  };
  const Difference differences[] = {
      {"jad",
       {"enhanced-jds", "pjds", "biell", "bijad", "tjad", "btjad"},
       [&](const Matrix& A) {
         return has(A, "jag_ptr") && !has(A, "jag_rows") && !has(A, "lengths") && has(A, "perm") &&
                layout_numbers(A, "values").size() == 24;
       }},
      {"enhanced-jds",
       {"jad", "pjds", "biell", "bijad", "tjad", "btjad"},
       [&](const Matrix& A) { return has(A, "jag_rows") && multiples(layout_numbers(A, "jag_ptr"), 16); }},
      {"pjds",
       {"jad", "enhanced-jds", "biell", "bijad", "tjad", "btjad"},
       [&](const Matrix& A) {
         return has(A, "lengths") && has(A, "jag_ptr") && multiples(layout_numbers(A, "jag_ptr"), 32);
       }},
      {"biell",
       {"jad", "enhanced-jds", "pjds", "bijad", "tjad", "btjad"},
       // Rows do not leave their strip, and a strip has log2 W + 1 groups.
       [&](const Matrix& A) {
         if (!has(A, "group_ptr") || layout_numbers(A, "group_ptr").size() != 4 * 2 + 1) return false;
         const Numbers perm = positive(layout_numbers(A, "perm"));
         for (std::size_t p = 0; p < perm.size(); ++p)
           if (static_cast<std::size_t>(perm[p]) / 2 != p / 2) return false;
         return true;
       }},
      {"bijad",
       {"jad", "enhanced-jds", "pjds", "biell", "tjad", "btjad"},
       [&](const Matrix& A) {
         return has(A, "group_ptr") && positive(layout_numbers(A, "perm")) == Numbers{5, 1, 4, 7, 0, 6, 2, 3};
       }},
      {"tjad",
       {"jad", "enhanced-jds", "pjds", "biell", "bijad", "btjad"},
       // Entries know rows, and columns are sorted once for the whole matrix; there are no columns of entries.
       [&](const Matrix& A) {
         return has(A, "row") && has(A, "col_perm") &&
                layout_numbers(A, "col_perm") == Numbers{3, 7, 0, 1, 4, 6, 2, 5};
       }},
      {"btjad",
       {"jad", "enhanced-jds", "pjds", "biell", "bijad", "tjad"},
       [&](const Matrix& A) {
         const auto arrays = dynamic_cast<const HasLayout&>(A).layout();
         return std::any_of(arrays.begin(), arrays.end(), [](const LayoutArray& one) {
           return one.name == "row" && one.type == "uint16" &&
                  std::all_of(one.numbers.begin(), one.numbers.end(), [](double r) { return r < 4; });
         });
       }},
  };
  const auto made = [&](const char* format) {
    FormatParams params;
    const std::string name = format;
    if (name != "tjad" && name != "btjad") params.set("max_fill", "1000");
    if (name == "biell" || name == "bijad") params.set("W", "2");
    if (name == "btjad") params.set("R", "4");
    return build(format, csr, params);
  };
  for (const Difference& one : differences) {
    EXPECT_TRUE(one.property(*made(one.format))) << one.format;
    for (const char* neighbour : one.neighbours)
      EXPECT_FALSE(one.property(*made(neighbour))) << neighbour << " passes as " << one.format;
  }
}

}  // namespace
}  // namespace protean::test

// Golden arrays and counts of the ELLPACK formats and jagged diagonals on the catalogue's T8 and clSpMV's B.
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

std::int64_t stored(std::string_view format, const CsrMatrix<double>& csr, const FormatParams& params) {
  const FormatEntry& entry = find_format(format);
  const Admission admission = admit(entry, *test_context(), csr.pattern, params, 8);
  EXPECT_TRUE(admission.ok) << admission.reason;
  const auto matrix = build(format, csr, params);
  EXPECT_EQ(static_cast<std::int64_t>(layout_numbers(*matrix, "values").size()), admission.stored_values);
  return admission.stored_values;
}

TEST(Ell, ArraysOnT8) {
  EXPECT_EQ(stored("ell", t8(), {{"align", "1"}}), 64);
  const auto matrix = build("ell", t8());
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            (Numbers{11, 22, 34, 0,  51, 61, 77, 84, 12, 23, 0, 0,  55, 62, 78, 87, 0, 24, 0, 0, 58, 63,
                     0,  88, 0,  25, 0,  0,  0,  64, 0,  0,  0, 26, 0,  0,  0,  65, 0, 0,  0, 0, 0,  0,
                     0,  66, 0,  0,  0,  0,  0,  0,  0,  67, 0, 0,  0,  0,  0,  0,  0, 68, 0, 0}));
  const Numbers col = layout_numbers(*matrix, "col");
  EXPECT_EQ(Numbers(col.begin(), col.begin() + 24),
            (Numbers{0, 1, 3, 0, 0, 0, 6, 3, 1, 2, 3, 0, 4, 1, 7, 6, 1, 3, 3, 0, 7, 2, 7, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "empty"), Numbers{3});
}

TEST(Ell, ClSpmvB) {
  const auto matrix = build("ell", clspmv_b(), {{"align", "4"}});
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{3, 4, 1, 2, 7, 8, 5, 6, 0, 0, 9, 0}));
  // The figure pads with column 0; here padding repeats a row's last column.
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 0, 1, 1, 2, 2, 3, 1, 2, 3, 3}));
}

TEST(Ell, OneFullRowIsRefusedWithTheSizeItWouldHave) {
  try {
    build("ell", battery_matrix("one_full_row_300"));
    FAIL();
  } catch (const FormatRefused& error) {
    EXPECT_EQ(error.bytes(), 304u * 300u * 12u);
    EXPECT_NE(error.reason().find("max_fill"), std::string::npos);
  }
}

TEST(SellCSigma, StoresAsManyValuesAsTheCatalogueSays) {
  const auto count = [](const char* C, const char* sigma) {
    return stored("sell-c-sigma", t8(), {{"C", C}, {"sigma", sigma}});
  };
  EXPECT_EQ(count("1", "1"), 24);
  EXPECT_EQ(count("2", "1"), 34);
  EXPECT_EQ(count("4", "1"), 52);
  EXPECT_EQ(count("8", "1"), 64);
  EXPECT_EQ(count("2", "4"), 34);
  EXPECT_EQ(count("2", "8"), 28);
  EXPECT_EQ(count("4", "4"), 52);
  EXPECT_EQ(count("4", "8"), 40);
}

TEST(SellCSigma, SlicesOfTwoOnT8) {
  const auto matrix = build("sell-c-sigma", t8(), {{"C", "2"}, {"sigma", "1"}});
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 10, 12, 28, 34}));
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            (Numbers{11, 22, 12, 23, 0,  24, 0,  25, 0,  26, 34, 0,  51, 61, 55, 62, 58,
                     63, 0,  64, 0,  65, 0,  66, 0,  67, 0,  68, 77, 84, 78, 87, 0,  88}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 1, 2, 1, 3, 1, 4, 1, 5, 3, 0, 0, 0, 4, 1, 7,
                                                     2, 7, 3, 7, 4, 7, 5, 7, 6, 7, 7, 6, 3, 7, 6, 7, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "perm"), Numbers{});
  EXPECT_EQ(layout_numbers(*matrix, "empty"), Numbers{3});
}

TEST(SellCSigma, SlicesOfFourOnT8) {
  EXPECT_EQ(layout_numbers(*build("sell-c-sigma", t8(), {{"C", "4"}, {"sigma", "1"}}), "slice_ptr"),
            (Numbers{0, 20, 52}));
}

TEST(SellCSigma, SlicesOfOneAreCsr) {
  const auto matrix = build("sell-c-sigma", t8(), {{"C", "1"}, {"sigma", "1"}}), csr = build("csr", t8());
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), layout_numbers(*csr, "row_ptr"));
  EXPECT_EQ(layout_numbers(*matrix, "col"), layout_numbers(*csr, "col"));
  EXPECT_EQ(layout_numbers(*matrix, "values"), layout_numbers(*csr, "values"));
}

TEST(SellCSigma, SortsInsideWindowsOnly) {
  const auto all = build("sell-c-sigma", t8(), {{"C", "2"}, {"sigma", "8"}});
  EXPECT_EQ(layout_numbers(*all, "perm"), (Numbers{5, 1, 4, 7, 0, 6, 2, 3}));
  EXPECT_EQ(layout_numbers(*all, "empty"), Numbers{7});
  EXPECT_EQ(layout_numbers(*all, "values"), (Numbers{61, 22, 62, 23, 63, 24, 64, 25, 65, 26, 66, 0,  67, 0,
                                                     68, 0,  51, 84, 55, 87, 58, 88, 11, 77, 12, 78, 34, 0}));
  const auto half = build("sell-c-sigma", t8(), {{"C", "2"}, {"sigma", "4"}});
  EXPECT_EQ(layout_numbers(*half, "perm"), (Numbers{1, 0, 2, 3, 5, 4, 7, 6}));
}

TEST(SellCSigma, ClSpmvB) {
  const auto matrix = build("sell-c-sigma", clspmv_b(), {{"C", "2"}, {"sigma", "1"}});
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 4, 10}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{3, 4, 7, 8, 1, 2, 5, 6, 9, 0}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 1, 2, 0, 1, 2, 3, 3, 3}));
}

TEST(SellCSigma, SortsByItselfOnlyWhereThatSavesPadding) {
  EXPECT_EQ(layout_numbers(*build("sell-c-sigma", battery_matrix("dense_17x17"), {{"C", "1"}}), "perm"),
            Numbers{});
  EXPECT_EQ(layout_numbers(*build("sell-c-sigma", battery_matrix("random_257")), "perm").size(), 257u);
}

TEST(SellCSigma, WindowsAreMultiplesOfSlices) {
  try {
    build("sell-c-sigma", t8(), {{"C", "4"}, {"sigma", "6"}});
    FAIL();
  } catch (const FormatRefused& error) { EXPECT_NE(error.reason().find("multiple"), std::string::npos); }
  EXPECT_THROW(build("sell-c-sigma", t8(), {{"C", "3"}}), BadArgument);
}

TEST(Jad, ArraysOnT8) {
  const auto matrix = build("jad", t8());
  EXPECT_EQ(layout_numbers(*matrix, "jag_ptr"), (Numbers{0, 7, 13, 17, 19, 21, 22, 23, 24}));
  EXPECT_EQ(layout_numbers(*matrix, "perm"), (Numbers{5, 1, 4, 7, 0, 6, 2, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{61, 22, 51, 84, 11, 77, 34, 62, 23, 55, 87, 12,
                                                        78, 63, 24, 58, 88, 64, 25, 65, 26, 66, 67, 68}));
  EXPECT_EQ(layout_numbers(*matrix, "col"),
            (Numbers{0, 1, 0, 3, 0, 6, 3, 1, 2, 4, 6, 1, 7, 2, 3, 7, 7, 3, 4, 4, 5, 5, 6, 7}));
}

// Row 3 is empty and shares a slice with a long one; x[0] is used by rows 0, 4 and 5 only.
TEST(PaddedRows, NanReachesOnlyRowsThatUseIt) {
  std::vector<std::unique_ptr<AssembledMatrix<double>>> matrices;
  matrices.push_back(build("sell-c-sigma", t8(), {{"C", "4"}, {"sigma", "1"}}));
  matrices.push_back(build("sell-c-sigma", t8(), {{"C", "4"}, {"sigma", "8"}}));
  matrices.push_back(build("ell", t8()));
  matrices.push_back(build("jad", t8()));
  for (const auto& matrix : matrices) {
    std::vector<double> x(8, 1.0), y(8);
    x[0] = std::numeric_limits<double>::quiet_NaN();
    matrix->apply(VectorView<const double>{x.data(), 8}, {y.data(), 8});
    for (int r = 0; r < 8; ++r) EXPECT_EQ(std::isnan(y[r]), r == 0 || r == 4 || r == 5) << "row " << r;
    EXPECT_EQ(y[3], 0.0);
  }
}

}  // namespace
}  // namespace protean::test

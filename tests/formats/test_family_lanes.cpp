// Golden arrays of the lane-mapped family on the catalogue's T8, and the property by which each format differs from its
// neighbours. Each property is also shown not to hold of the neighbour.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/error.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;
using Matrix = AssembledMatrix<double>;

std::int64_t stored(std::string_view format, const FormatParams& params) {
  const Admission admission = admit(find_format(format), *test_context(), t8().pattern, params, 8);
  EXPECT_TRUE(admission.ok) << admission.reason;
  return admission.stored_values;
}
bool has(const Matrix& A, std::string_view array) {
  const auto arrays = dynamic_cast<const HasLayout&>(A).layout();
  return std::any_of(arrays.begin(), arrays.end(), [&](const LayoutArray& one) { return one.name == array; });
}
// The row of each lane, whether it has entries or not.
Numbers rows_of(const Matrix& A) {
  Numbers rows = layout_numbers(A, "lane_row");
  for (double& row : rows)
    if (row < 0) row = -1 - row;
  return rows;
}

TEST(GoldenLanes, ArgcsrOnT8) {
  const FormatParams params{{"chunks", "4"}, {"desired", "3"}};
  EXPECT_EQ(stored("argcsr", params), 40);
  EXPECT_EQ(stored("argcsr", {{"chunks", "8"}, {"desired", "2"}}), 48);
  const auto matrix = build("argcsr", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "unit_ptr"), (Numbers{0, 20, 36, 40}));
  EXPECT_EQ(layout_numbers(*matrix, "lane_row"), (Numbers{0, 1, 2, -4, 4, 5, 5, 6, 7, 7, 7, -8}));
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            (Numbers{11, 22, 34, 0,  12, 23, 0,  0,  0,  24, 0,  0, 0, 25, 0,  0, 0,  26, 0,  0,
                     51, 61, 65, 77, 55, 62, 66, 78, 58, 63, 67, 0, 0, 64, 68, 0, 84, 87, 88, 0}));
}

TEST(GoldenLanes, AdellOnT8) {
  const FormatParams params{{"W", "4"}};
  EXPECT_EQ(stored("adell", params), 36);
  const auto matrix = build("adell", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "unit_ptr"), (Numbers{0, 12, 24, 36}));
  EXPECT_EQ(layout_numbers(*matrix, "lane_row"), (Numbers{0, 1, 1, 2, -4, 4, 5, 5, 5, 6, 7, -8}));
  const Numbers values = layout_numbers(*matrix, "values");
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 12),
            (Numbers{11, 22, 25, 34, 12, 23, 26, 0, 0, 24, 0, 0}));
  // Padding repeats the last column of its row.
  const Numbers col = layout_numbers(*matrix, "col");
  EXPECT_EQ(Numbers(col.begin(), col.begin() + 12), (Numbers{0, 1, 4, 3, 1, 2, 5, 3, 1, 3, 5, 3}));
}

TEST(GoldenLanes, CoadellOnT8) {
  const FormatParams params{{"W", "4"}};
  EXPECT_EQ(stored("coadell", params), 36);
  const auto matrix = build("coadell", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "code_ptr"), (Numbers{0, 8, 16}));
  EXPECT_TRUE(layout_numbers(*matrix, "col").empty());
  const Numbers first = layout_numbers(*matrix, "first"), delta = layout_numbers(*matrix, "delta");
  EXPECT_EQ(Numbers(first.begin(), first.begin() + 4), (Numbers{0, 1, 4, 3}));
  EXPECT_EQ(Numbers(delta.begin(), delta.begin() + 8), (Numbers{1, 1, 1, 0, 0, 1, 0, 0}));
}

TEST(GoldenLanes, BrcOnT8) {
  const FormatParams params{{"B1", "4"}, {"B2", "4"}};
  EXPECT_EQ(stored("brc", params), 40);
  const auto matrix = build("brc", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr"), (Numbers{0, 16, 32, 40}));
  EXPECT_EQ(layout_numbers(*matrix, "block_unit"), (Numbers{0, 0, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "unit_ptr"), (Numbers{0, 32, 40}));
  EXPECT_EQ(layout_numbers(*matrix, "lane_row"), (Numbers{5, 1, 4, 7, 0, 6, 2, -4}));
}

// The options of adell-plus that are layouts.
FormatParams layout_options(const char* W, const char* blocking, const char* columns) {
  return {{"W", W}, {"blocking", blocking}, {"columns", columns}, {"max_fill", "1000000"}};
}

TEST(GoldenLanes, AdellPlusInBlocksOfTwoColumnsOnT8) {
  const FormatParams params = layout_options("4", "1x2", "raw");
  EXPECT_EQ(stored("adell-plus", params), 48);
  const auto matrix = build("adell-plus", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "unit_ptr"), (Numbers{0, 8, 16, 24}));
  EXPECT_EQ(layout_numbers(*matrix, "lane_row"), (Numbers{0, 1, 1, 2, -4, 4, 4, 5, 5, 6, 7, -8}));
  // 4 c + 3 for the columns c and c + 1, 4 c + 1 for column c alone. Row 1: 1 and 2, 3 and 4; 5.
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{3, 7,  21, 13, 3,  15, 21, 13, 0,  1,  29, 3,
                                                     0, 17, 29, 11, 19, 27, 13, 27, 27, 27, 27, 27}));
  EXPECT_EQ(
      layout_numbers(*matrix, "values"),
      (Numbers{11, 22, 26, 34, 12, 23, 0, 0,  0,  24, 0,  0, 0,  25, 0, 0, 0,  51, 58, 61, 0,  0, 0,  62,
               0,  55, 0,  63, 0,  0,  0, 64, 65, 77, 84, 0, 66, 78, 0, 0, 67, 0,  87, 0,  68, 0, 88, 0}));
}

TEST(GoldenLanes, AdellPlusInBlocksOfTwoRowsOnT8) {
  const FormatParams params = layout_options("4", "2x1", "raw");
  EXPECT_EQ(stored("adell-plus", params), 64);
  const auto matrix = build("adell-plus", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "unit_ptr"), (Numbers{0, 16, 32}));
  // Pairs of rows.
  EXPECT_EQ(layout_numbers(*matrix, "lane_row"), (Numbers{0, 0, 1, 2, 2, 3, -4, -4}));
  // 4 c + 1, + 2, + 3 for column c of the upper row, of the lower row, of both.
  const Numbers col = layout_numbers(*matrix, "col"), values = layout_numbers(*matrix, "values");
  EXPECT_EQ(Numbers(col.begin(), col.begin() + 16),
            (Numbers{1, 14, 13, 3, 7, 18, 13, 6, 10, 22, 13, 10, 10, 22, 13, 14}));
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 32),
            (Numbers{11, 0, 34, 51, 0,  24, 0, 61, 12, 0, 0, 0, 22, 25, 0, 62,
                     0,  0, 0,  0,  23, 26, 0, 63, 0,  0, 0, 0, 0,  0,  0, 64}));
}

TEST(GoldenLanes, AdellPlusCodesDifferencesOfBlocksOnT8) {
  const auto pairs = build("adell-plus", t8(), layout_options("4", "1x2", "delta16"));
  EXPECT_TRUE(layout_numbers(*pairs, "col").empty());
  EXPECT_EQ(layout_numbers(*pairs, "code_ptr"), (Numbers{0, 4, 8}));
  EXPECT_EQ(layout_numbers(*pairs, "first"), (Numbers{3, 7, 21, 13, 0, 1, 29, 3, 19, 27, 13, 27}));
  EXPECT_EQ(layout_numbers(*pairs, "delta"), (Numbers{0, 8, 0, 0, 0, 16, 0, 8, 8, 0, 14, 0}));
  const auto rows = build("adell-plus", t8(), layout_options("4", "2x1", "delta16"));
  EXPECT_EQ(layout_numbers(*rows, "code_ptr"), (Numbers{0, 12}));
  const Numbers delta = layout_numbers(*rows, "delta");
  EXPECT_EQ(Numbers(delta.begin(), delta.begin() + 12), (Numbers{6, 4, 0, 3, 3, 4, 0, 4, 0, 0, 0, 4}));
}

TEST(GoldenLanes, NanReachesOnlyRowsThatUseIt) {
  const CsrMatrix<double> csr = t8();
  for (const auto& [format, params] :
       std::vector<std::pair<const char*, FormatParams>>{{"argcsr", {{"chunks", "4"}, {"desired", "3"}}},
                                                         {"argcsr", {{"max_fill", "1000"}}},
                                                         {"adell", {{"W", "4"}}},
                                                         {"adell", {{"W", "2"}}},
                                                         {"coadell", {{"W", "4"}}},
                                                         {"adell-plus", {{"W", "4"}, {"columns", "raw"}}},
                                                         {"adell-plus", {{"W", "4"}, {"blocking", "1x2"}}},
                                                         {"adell-plus", {{"W", "4"}, {"blocking", "2x1"}}},
                                                         {"brc", {{"B1", "4"}, {"B2", "2"}}}}) {
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

// Rows of three entries, `apart` columns from each other.
CsrMatrix<double> spread(std::int32_t apart) {
  constexpr std::int64_t rows = 100;
  CsrBuilder<double> builder(test_context(), rows, 2 * apart + rows, 3 * rows);
  for (std::int32_t r = 0, k = 0; r < rows; ++r) {
    for (std::int32_t i = 0; i < 3; ++i, ++k) builder.col()[k] = r + i * apart, builder.values()[k] = 1 + i;
    builder.set_row_ptr(r + 1, k);
  }
  return builder.freeze();
}

TEST(GoldenLanes, DifferencesOfMoreThan16BitsAreNotCoded) {
  for (const std::int32_t apart : {65535, 65536}) {
    const CsrMatrix<double> csr = spread(apart);
    const auto matrix = build("coadell", csr);
    EXPECT_EQ(layout_numbers(*matrix, "delta").empty(), apart == 65536);
    EXPECT_EQ(layout_numbers(*matrix, "col").empty(), apart == 65535);
    EXPECT_TRUE(identical(matrix->to_csr(), csr));
    const Numbers x = sample_vector<double>(csr.cols(), 1), y0(100, 0.0);
    Numbers y(100);
    matrix->apply({x.data(), csr.cols()}, {y.data(), 100});
    EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, y0, y));
  }
}

// A row of many warps, of which one begins in the middle of a warp and ends in the middle of another.
TEST(GoldenLanes, ALongRowLiesInManyUnits) {
  constexpr std::int64_t rows = 9000, cols = 9000;
  std::vector<Triplet<double>> list;
  for (std::int32_t r = 0; r < rows; ++r)
    for (std::int32_t c = 0; c < (r == 4095 || r == 5000 ? cols : r % 4); ++c)
      list.push_back({r, c, static_cast<double>(1 + (r + c) % 7)});
  const auto csr = csr_from_triplets<double>(test_context(), rows, cols, list);
  const Numbers x = sample_vector<double>(cols, 1), y0 = sample_vector<double>(rows, 2);
  for (const char* format : {"adell", "coadell", "adell-plus"}) {
    const auto matrix = build(format, csr);
    const Numbers row = rows_of(*matrix);
    EXPECT_GT(std::count(row.begin(), row.end(), 5000.0), 2000) << format;
    EXPECT_TRUE(std::is_sorted(row.begin(), row.end())) << format;
    // A new unit begins with row 4096.
    EXPECT_EQ((std::find(row.begin(), row.end(), 4096.0) - row.begin()) % 32, 0) << format;
    Numbers y = y0;
    matrix->apply(2.0, {x.data(), cols}, -1.0, {y.data(), rows});
    EXPECT_TRUE(product_is_right(csr, 2.0, x, -1.0, y0, y)) << format;
    EXPECT_TRUE(identical(matrix->to_csr(), csr)) << format;
  }
}

TEST(GoldenLanes, AGroupWithAVeryLongRowIsRefused) {
  std::vector<Triplet<double>> list;
  for (std::int32_t r = 0; r < 600; ++r)
    for (std::int32_t c = 0; c < (r == 7 ? 60000 : 1); ++c) list.push_back({r, c, 1.0});
  const auto csr = csr_from_triplets<double>(test_context(), 600, 60000, list);
  EXPECT_EQ(build("adell", csr)->nonzeros(), csr.nonzeros());
  try {
    build("brc", csr);
    FAIL();
  } catch (const FormatRefused& error) {
    EXPECT_NE(error.reason().find("max_fill"), std::string::npos) << error.reason();
  }
}

TEST(LaneNeighbours, EachPropertyHoldsOfItsFormatAlone) {
  const CsrMatrix<double> csr = t8(), far = spread(70000);
  struct Difference {
    const char* format;
    std::vector<const char*> neighbours;
    std::function<bool(const Matrix&, const Matrix&)> property;  // of the matrices of T8 and of `far`
  };
  const Difference differences[] = {
      {"argcsr",
       {"adell", "coadell", "adell-plus", "brc"},
       // No row lies in two units, and a unit has all its lanes.
       [&](const Matrix& A, const Matrix&) {
         const Numbers row = rows_of(A);
         for (std::size_t lane = 4; lane < row.size(); lane += 4)
           if (row[lane - 1] == row[lane]) return false;
         return std::is_sorted(row.begin(), row.end()) && std::count(row.begin(), row.end(), 5.0) == 2;
       }},
      {"adell",
       {"argcsr", "coadell", "adell-plus", "brc"},
       // Row 5 goes on in another unit; columns are never coded.
       [&](const Matrix& A, const Matrix&) {
         const Numbers row = rows_of(A);
         return row.size() > 8 && row[7] == 5 && row[8] == 5 && !has(A, "delta");
       }},
      {"coadell",
       {"argcsr", "adell", "adell-plus", "brc"},
       [&](const Matrix& A, const Matrix& B) { return has(A, "delta") && has(B, "delta"); }},
      {"adell-plus",
       {"argcsr", "adell", "coadell", "brc"},
       // Codes columns only if that takes fewer bytes.
       [&](const Matrix& A, const Matrix& B) { return has(A, "delta") && !has(B, "delta"); }},
      {"brc",
       {"argcsr", "adell", "coadell", "adell-plus", "sell-c-sigma"},
       [&](const Matrix& A, const Matrix&) {
         return has(A, "block_ptr") && layout_numbers(A, "block_ptr").size() == 3 + 1;
       }},
  };
  const auto made = [&](const char* format, const CsrMatrix<double>& from) {
    const std::string name = format;
    FormatParams params{{"max_fill", "1000"}};
    if (name == "argcsr") params.set("chunks", "4"), params.set("desired", "3");
    if (name == "adell" || name == "coadell" || name == "adell-plus") params.set("W", "4");
    if (name == "brc") params.set("B1", "4"), params.set("B2", "4");
    if (name == "sell-c-sigma") params.set("C", "4"), params.set("sigma", "8");
    return build(format, from, params);
  };
  for (const Difference& one : differences) {
    EXPECT_TRUE(one.property(*made(one.format, csr), *made(one.format, far))) << one.format;
    for (const char* neighbour : one.neighbours)
      EXPECT_FALSE(one.property(*made(neighbour, csr), *made(neighbour, far)))
          << neighbour << " passes as " << one.format;
  }
}

}  // namespace
}  // namespace protean::test

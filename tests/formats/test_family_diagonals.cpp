// Golden arrays of the formats in lines of diagonals on the catalogue's T8 and clSpMV's B, and the property by which
// each format differs from its neighbours. Each property is also shown not to hold of the neighbour. (dia and hdi:
// test_golden_diagonal.cpp.)
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;
using Matrix = AssembledMatrix<double>;

Numbers part(const Numbers& all, std::size_t begin, std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
}

TEST(GoldenDiagonals, BdiaKeepsNeighbouringDiagonalsAsOneBand) {
  const auto b = build("bdia", clspmv_b());
  EXPECT_EQ(layout_numbers(*b, "band_off"), (Numbers{-2, 0}));
  EXPECT_EQ(layout_numbers(*b, "band_ptr"), (Numbers{0, 1, 3}));
  EXPECT_EQ(layout_numbers(*b, "values"), (Numbers{0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0}));
  const auto matrix = build("bdia", t8()), dia = build("dia", t8());
  EXPECT_EQ(layout_numbers(*matrix, "band_off"), (Numbers{-5}));
  EXPECT_EQ(layout_numbers(*matrix, "band_ptr"), (Numbers{0, 10}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), layout_numbers(*dia, "values"));
  EXPECT_EQ(layout_numbers(*matrix, "entries"), layout_numbers(*dia, "entries"));
  EXPECT_EQ(matrix->bytes(), 8u * 80 + 10 + 4 + 8 * 2);
}

TEST(GoldenDiagonals, DddNaiveStoresNoCorners) {
  const auto matrix = build("ddd-naive", t8());
  EXPECT_EQ(layout_numbers(*matrix, "off"), (Numbers{-5, -4, -3, -2, -1, 0, 1, 2, 3, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "dia_ptr"), (Numbers{0, 3, 7, 12, 18, 25, 33, 40, 46, 51, 55}));
  const Numbers values = layout_numbers(*matrix, "values");
  ASSERT_EQ(values.size(), 55u);
  EXPECT_EQ(part(values, 0, 7), (Numbers{61, 0, 0, 51, 62, 0, 84}));
  EXPECT_EQ(part(values, 25, 33), (Numbers{11, 22, 0, 0, 55, 66, 77, 88}));
  EXPECT_EQ(part(values, 51, 55), (Numbers{0, 26, 0, 0}));
  EXPECT_EQ(matrix->bytes(), 8u * 55 + 12 * 10 + 8 + 55 / 8 + 2 * 10);
  // Except at its corners a dense band is stored as in dia.
  EXPECT_EQ(layout_numbers(*build("ddd-naive", clspmv_b()), "values"), (Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(GoldenDiagonals, DddSplitHasASegmentForEachRun) {
  const auto matrix = build("ddd-split", t8(), {{"block", "8"}, {"gap", "1"}});
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr"), (Numbers{0, 16}));
  EXPECT_EQ(layout_numbers(*matrix, "off"), (Numbers{-5, -4, -4, -3, -2, -1, -1, 0, 0, 1, 1, 2, 2, 3, 3, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "first"), (Numbers{5, 4, 7, 5, 5, 5, 7, 0, 4, 0, 5, 1, 5, 1, 4, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "seg_ptr"),
            (Numbers{0, 1, 3, 4, 5, 6, 7, 8, 10, 14, 17, 19, 20, 21, 22, 23, 24}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{61, 51, 62, 84, 63, 64, 65, 87, 11, 22, 55, 66,
                                                        77, 88, 12, 23, 34, 67, 78, 24, 68, 25, 58, 26}));
  EXPECT_EQ(matrix->bytes(), 8u * 24 + 8 * 16 + 8 * 17 + 8 * 2 + 24 / 8 + 2 * 16);
}

TEST(GoldenDiagonals, DddSplitEndsSegmentsAtBlocksAndLongGaps) {
  // Offset 0 has the rows 0, 1 and 4 to 7: its gap of two rows is filled when three zeros end a segment.
  const auto filled = build("ddd-split", t8(), {{"block", "8"}, {"gap", "3"}});
  const Numbers off = layout_numbers(*filled, "off"), ptr = layout_numbers(*filled, "seg_ptr");
  EXPECT_EQ(std::count(off.begin(), off.end(), 0), 1);
  const auto at = static_cast<std::size_t>(std::find(off.begin(), off.end(), 0) - off.begin());
  EXPECT_EQ(part(layout_numbers(*filled, "values"), static_cast<std::size_t>(ptr[at]),
                 static_cast<std::size_t>(ptr[at + 1])),
            (Numbers{11, 22, 0, 0, 55, 66, 77, 88}));
  const auto cut = build("ddd-split", t8(), {{"block", "3"}, {"gap", "8"}});
  EXPECT_EQ(layout_numbers(*cut, "block_ptr").size(), 4u);
  const Numbers first = layout_numbers(*cut, "first"), ends = layout_numbers(*cut, "seg_ptr");
  for (std::size_t s = 0; s < first.size(); ++s)
    EXPECT_EQ(std::floor(first[s] / 3), std::floor((first[s] + ends[s + 1] - ends[s] - 1) / 3)) << s;
}

TEST(GoldenDiagonals, CdsHasALineForEachColumnOfItsBlocks) {
  const auto matrix = build("cds", t8(), {{"block", "2"}});
  EXPECT_EQ(layout_numbers(*matrix, "off"), (Numbers{-2, -1, 0, 1, 2}));
  const Numbers values = layout_numbers(*matrix, "values");
  ASSERT_EQ(values.size(), 80u);
  EXPECT_EQ(part(values, 32, 40), (Numbers{11, 0, 0, 0, 55, 65, 77, 87}));
  EXPECT_EQ(part(values, 40, 48), (Numbers{12, 22, 34, 0, 0, 66, 78, 88}));
  EXPECT_EQ(matrix->bytes(), 8u * 80 + 10 + 4 * 5);
  const auto single = build("cds", t8(), {{"block", "1"}}), dia = build("dia", t8());
  EXPECT_EQ(layout_numbers(*single, "values"), layout_numbers(*dia, "values"));
  EXPECT_EQ(layout_numbers(*single, "off"), layout_numbers(*dia, "off"));
}

TEST(GoldenDiagonals, CrsdScattersThinDiagonals) {
  const auto matrix = build("crsd", t8(), {{"rows", "4"}});
  EXPECT_EQ(layout_numbers(*matrix, "pattern_seg"), (Numbers{0, 1, 2}));
  EXPECT_EQ(layout_numbers(*matrix, "pattern_band"), (Numbers{0, 1, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "pattern_dia"), (Numbers{0, 2, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "band_off"), (Numbers{0, -4, -1}));
  EXPECT_EQ(layout_numbers(*matrix, "band_ptr"), (Numbers{0, 2, 3, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            (Numbers{11, 22, 0,  0,  12, 23, 34, 0, 51, 62, 0,  84, 0,  65, 0,  87,
                     55, 66, 77, 88, 0,  67, 78, 0, 24, 25, 26, 58, 61, 63, 64, 68}));
  EXPECT_EQ(layout_numbers(*matrix, "entries"), (Numbers{3, 7, 11, 10, 15, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "scatter_ptr"), (Numbers{0, 3, 8}));
  EXPECT_EQ(layout_numbers(*matrix, "scatter_row"), (Numbers{1, 1, 1, 4, 5, 5, 5, 5}));
  EXPECT_EQ(layout_numbers(*matrix, "scatter_col"), (Numbers{3, 4, 5, 7, 0, 2, 3, 7}));
  EXPECT_EQ(matrix->bytes(), 8u * 32 + 6 + 8 * 8 + 24 * 3 + 4 * 3 + 8 * 4 + 8 * 3);
}

TEST(GoldenDiagonals, CrsdHasThreePatternsOnAFivePointStencil) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 40}});
  const auto matrix = build("crsd", csr, {{"rows", "40"}});
  EXPECT_EQ(layout_numbers(*matrix, "pattern_seg"), (Numbers{0, 1, 39, 40}));
  EXPECT_EQ(layout_numbers(*matrix, "band_off"), (Numbers{-1, 40, -40, -1, 40, -40, -1}));
  EXPECT_TRUE(layout_numbers(*matrix, "scatter_col").empty());
}

TEST(GoldenDiagonals, ScatteredEntriesAreRefusedWithTheBytes) {
  const auto csr = battery_matrix("antidiagonal_40");  // 40 diagonals with one entry each
  const std::pair<const char*, std::size_t> refused[] = {
      {"bdia", 40u * 40 * 8 + 40 * 5 + 4 * 40 + 8 * 41},
      {"ddd-naive", 8u * 40 * 20 + 12 * 40 + 8 + 40 * 20 / 8 + 2 * 40},
      {"cds", 40u * 40 * 8 + 40 * 5 + 4 * 40}};
  for (const auto& [id, bytes] : refused) {
    const FormatParams params = id == std::string("cds") ? FormatParams{{"block", "1"}} : FormatParams{};
    try {
      build(id, csr, params);
      ADD_FAILURE() << id;
    } catch (const FormatRefused& error) {
      EXPECT_EQ(error.bytes(), bytes) << id;
      EXPECT_NE(error.reason().find("max_fill"), std::string::npos) << id;
    }
  }
  // Neither of these stores fill for them.
  for (const char* id : {"ddd-split", "crsd"})
    EXPECT_EQ(admit(find_format(id), *test_context(), csr.pattern, {}, 8).stored_values, 40) << id;
}

// n rows in blocks of b; blocks on the diagonals -1, 0 and 1 of blocks, all full.
CsrMatrix<double> blocks(std::int64_t n, std::int64_t b) {
  CsrBuilder<double> builder(test_context(), n, n, 3 * b * n - 2 * b * b);
  std::int64_t k = 0;
  for (std::int64_t r = 0; r < n; ++r) {
    const std::int64_t first = std::max<std::int64_t>(0, r / b - 1) * b, last = std::min(n, (r / b + 2) * b);
    for (std::int64_t c = first; c < last; ++c, ++k)
      builder.col()[k] = static_cast<std::int32_t>(c), builder.values()[k] = static_cast<double>(k + 1);
    builder.set_row_ptr(r + 1, k);
  }
  return builder.freeze();
}

// cds finds the blocks of a matrix: dia would have 2 b - 1 diagonals more than it has lines for each neighbour.
TEST(GoldenDiagonals, CdsChoosesTheBlock) {
  for (const std::int64_t b : {1, 2, 3, 5, 8})
    for (const std::int64_t n : {120 * b, 9000 * b}) {
      const auto csr = blocks(n, b);
      const Admission admission = admit(find_format("cds"), *test_context(), csr.pattern, {}, 8);
      EXPECT_EQ(admission.stored_values, 3 * b * n) << b;
      EXPECT_EQ(admit(find_format("dia"), *test_context(), csr.pattern, {}, 8).stored_values, (4 * b - 1) * n)
          << b;
    }
}

// In a solve with an infinite x_j only the rows that use column j, or have fill on its diagonal, may become infinite or
// NaN.
TEST(GoldenDiagonals, ScatteredEntriesMultiplyNoOtherX) {
  const auto csr = t8();
  Numbers x(8, 1), y(8);
  x[0] = std::numeric_limits<double>::infinity();
  // Rows 0, 4 and 5 use column 0; the entry of row 5 is scattered. Segment 1 has diagonal -4, on which row 4 uses it.
  build("crsd", csr, {{"rows", "4"}})->apply({x.data(), 8}, {y.data(), 8});
  for (std::size_t r = 0; r < 8; ++r) EXPECT_EQ(std::isfinite(y[r]), r != 0 && r != 4 && r != 5) << r;
  // dia has fill in rows 1, 2 and 3 on the diagonals -1, -2 and -3.
  build("dia", csr)->apply({x.data(), 8}, {y.data(), 8});
  for (std::size_t r = 0; r < 8; ++r) EXPECT_EQ(std::isfinite(y[r]), r > 5) << r;
}

bool has(const Matrix& A, std::string_view array) {
  const auto arrays = dynamic_cast<const HasLayout&>(A).layout();
  return std::any_of(arrays.begin(), arrays.end(), [&](const LayoutArray& one) { return one.name == array; });
}

TEST(DiagonalNeighbours, EachPropertyHoldsOfItsFormatAlone) {
  const CsrMatrix<double> csr = blocks(240, 2);
  const auto stored = [](const Matrix& A) { return layout_numbers(A, "values").size(); };
  const auto one_band = [](const Matrix& A) {
    return has(A, "band_ptr") && layout_numbers(A, "band_ptr") == Numbers{0, 7};
  };
  const auto corners = [&](const Matrix& A) { return stored(A) == 7 * 240 - 2 * (1 + 2 + 3); };
  const auto broken = [&](const Matrix& A) { return stored(A) == static_cast<std::size_t>(A.nonzeros()); };
  const auto lines = [&](const Matrix& A) { return stored(A) == 3 * 2 * 240 && !has(A, "block_col"); };
  const auto shared = [](const Matrix& A) {
    return has(A, "pattern_seg") && layout_numbers(A, "pattern_seg").size() < 5 &&
           layout_numbers(A, "scatter_ptr").size() > 7;
  };
  struct Difference {
    const char *format, *neighbour;
    FormatParams params;
    std::function<bool(const Matrix&)> property;
  };
  const Difference differences[] = {
      {"bdia", "dia", {}, one_band},
      {"bdia", "crsd", {}, one_band},
      {"bdia", "hdi", {}, one_band},
      {"ddd-naive", "dia", {}, corners},
      {"ddd-naive", "bdia", {}, corners},
      {"ddd-naive", "ddd-split", {}, corners},
      {"ddd-split", "ddd-naive", {{"gap", "1"}}, broken},
      {"ddd-split", "hdi", {{"gap", "1"}}, broken},
      {"cds", "dia", {}, lines},
      {"cds", "bdia", {}, lines},
      {"cds", "bcsr", {}, lines},
      {"crsd", "hdi", {{"rows", "32"}}, shared},
      {"crsd", "bdia", {{"rows", "32"}}, shared},
  };
  for (const Difference& one : differences) {
    EXPECT_TRUE(one.property(*build(one.format, csr, one.params))) << one.format;
    EXPECT_FALSE(one.property(*build(one.neighbour, csr))) << one.neighbour << " passes as " << one.format;
  }
}

}  // namespace
}  // namespace protean::test

// Row formats with a layout of their own: strips of rows, and tiles of equal numbers of entries. Their arrays on T8, and
// for each the property by which it differs from its neighbours, which do not have it.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/runs.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;
using Matrix = AssembledMatrix<double>;

// An array of the layout, or nothing when the format has no such array.
std::optional<Numbers> array_of(const Matrix& matrix, std::string_view name) {
  const auto* shown = dynamic_cast<const HasLayout*>(&matrix);
  if (!shown) return {};
  for (const LayoutArray& array : shown->layout())
    if (array.name == name) return array.numbers;
  return {};
}

// The merge of the row ends and the entries of T8, cut into four shares of eight steps.
TEST(FamilyTiles, MergePathOfT8) {
  const CsrMatrix<double> csr = t8();
  std::vector<std::pair<std::int64_t, std::int64_t>> cuts;
  for (std::int64_t step = 0; step <= 32; step += 8) {
    const std::int64_t rows = formats::merged_rows(csr.pattern.row_ptr, 8, 24, step);
    cuts.emplace_back(rows, step - rows);
  }
  EXPECT_EQ(cuts,
            (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {1, 7}, {5, 11}, {5, 19}, {8, 24}}));
}

// Steps are shared evenly, also among a million rows without entries.
TEST(FamilyTiles, MergePathPassesEmptyRows) {
  constexpr std::int64_t rows = 1'000'000;
  std::vector<std::int64_t> row_ptr(rows + 1, 0);
  for (std::int64_t r = 700'000; r <= rows; ++r) row_ptr[r] = 5000;  // row 699,999 has all entries
  EXPECT_EQ(formats::merged_rows(row_ptr, rows, 5000, 500'000), 500'000);
  EXPECT_EQ(formats::merged_rows(row_ptr, rows, 5000, 702'500), 699'999);
  EXPECT_EQ(formats::merged_rows(row_ptr, rows, 5000, 704'999), 699'999);
  EXPECT_EQ(formats::merged_rows(row_ptr, rows, 5000, 705'000), 700'000);
  EXPECT_EQ(formats::merged_rows(row_ptr, rows, 5000, 1'005'000), rows);
}

constexpr double top_bit = 2147483648.0;

TEST(FamilyTiles, CmrsOnT8) {
  const auto matrix = build("cmrs", t8(), {{"height", "2"}});
  EXPECT_EQ(layout_numbers(*matrix, "strip_ptr"), (Numbers{0, 7, 8, 19, 24}));
  const double s = top_bit;
  EXPECT_EQ(layout_numbers(*matrix, "packed"),
            (Numbers{0,     1,     s + 1, s + 2, s + 3, s + 4, s + 5, 3, 0, 4,     7,     s,
                     s + 1, s + 2, s + 3, s + 4, s + 5, s + 6, s + 7, 6, 7, s + 3, s + 6, s + 7}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), layout_numbers(*build("csr", t8()), "values"));
  EXPECT_EQ(matrix->bytes(), 24u * 12 + 5 * 8);
}

TEST(FamilyTiles, CmrsWithStripsOfOneRowIsCsr) {
  const auto cmrs = build("cmrs", t8(), {{"height", "1"}}), csr = build("csr", t8());
  EXPECT_EQ(layout_numbers(*cmrs, "strip_ptr"), layout_numbers(*csr, "row_ptr"));
  EXPECT_EQ(layout_numbers(*cmrs, "packed"), layout_numbers(*csr, "col"));
}

// A matrix of three entries, the last one in the last of `cols` columns.
CsrMatrix<double> wide(std::int64_t cols) {
  const std::vector<Triplet<double>> list{
      {0, 0, 1.0}, {15, 5, 2.0}, {31, static_cast<std::int32_t>(cols - 1), 3.0}};
  return csr_from_triplets<double>(test_context(), 40, cols, list);
}

TEST(FamilyTiles, CmrsKeepsTheRowInBitsThatTheColumnsLeave) {
  constexpr std::int64_t most = std::int64_t{1} << 28;
  const auto matrix = build("cmrs", wide(most), {{"height", "16"}});
  EXPECT_EQ(layout_numbers(*matrix, "packed"),
            (Numbers{0, 15.0 * most + 5, 15.0 * most + static_cast<double>(most - 1)}));
  EXPECT_TRUE(identical(wide(most), matrix->to_csr()));
  try {
    build("cmrs", wide(most + 1), {{"height", "16"}});
    FAIL() << "a column and a row share a bit";
  } catch (const FormatRefused& refusal) {
    EXPECT_NE(refusal.reason().find("set height to 8 or less"), std::string::npos) << refusal.reason();
  }
  // Left to itself it takes fewer rows.
  EXPECT_EQ(layout_numbers(*build("cmrs", wide(most)), "strip_ptr").size(), 4u);
  EXPECT_EQ(layout_numbers(*build("cmrs", wide(most + 1)), "strip_ptr").size(), 6u);
  EXPECT_TRUE(identical(wide(most + 1), build("cmrs", wide(most + 1))->to_csr()));
}

TEST(FamilyTiles, CmrsTakesStripsOf128Entries) {
  const auto height = [](std::int64_t entries_a_row) {
    std::vector<Triplet<double>> list;
    for (std::int32_t r = 0; r < 64; ++r)
      for (std::int32_t c = 0; c < entries_a_row; ++c) list.push_back({r, c, 1.0});
    const auto csr = csr_from_triplets<double>(test_context(), 64, 200, list);
    return 64 / (layout_numbers(*build("cmrs", csr), "strip_ptr").size() - 1);
  };
  EXPECT_EQ(height(3), 16u);
  EXPECT_EQ(height(8), 16u);
  EXPECT_EQ(height(16), 8u);
  EXPECT_EQ(height(17), 8u);
  EXPECT_EQ(height(100), 2u);
  EXPECT_EQ(height(128), 1u);
}

// The properties by which formats differ, on T8.
struct Difference {
  const char* format;
  FormatParams params;
  std::vector<std::string> neighbours;
  std::function<bool(const Matrix&)> property;
};

// One pointer for each strip, and the row in its strip beside each column.
bool has_strips(const Matrix& matrix) {
  const auto strips = array_of(matrix, "strip_ptr"), packed = array_of(matrix, "packed");
  if (!strips || !packed || strips->size() != 5 || packed->size() != 24) return false;
  const CsrMatrix<double> csr = t8();
  for (std::int64_t r = 0; r < 8; ++r)
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
      if ((*packed)[k] != csr.pattern.col[k] + (r % 2) * top_bit) return false;
  return true;
}

const std::vector<Difference>& differences() {
  static const std::vector<Difference> all = {
      {"cmrs", {{"height", "2"}}, {"csr", "merge-csr", "coo"}, has_strips},
  };
  return all;
}

TEST(FamilyTiles, DifferFromTheirNeighbours) {
  for (const Difference& one : differences()) {
    EXPECT_TRUE(one.property(*build(one.format, t8(), one.params))) << one.format;
    for (const std::string& neighbour : one.neighbours)
      EXPECT_FALSE(one.property(*build(neighbour, t8()))) << neighbour << " is " << one.format;
    for (const Difference& other : differences()) {
      if (&other == &one) continue;
      EXPECT_FALSE(one.property(*build(other.format, t8(), other.params)))
          << other.format << " is " << one.format;
    }
  }
}

}  // namespace
}  // namespace protean::test

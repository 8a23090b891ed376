// Row formats with their own layout: strips of rows, and tiles of equal numbers of entries. Their arrays on T8, and for
// each the property by which it differs from its neighbours, which do not have it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/runs/runs.hpp"
#include "formats/row/csr5.hpp"
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

const FormatParams small_panels{{"panel", "4"}, {"partition", "4"}, {"align", "2"}};

TEST(FamilyTiles, PcsrOnT8) {
  const auto matrix = build("pcsr", t8(), small_panels);
  EXPECT_EQ(layout_numbers(*matrix, "panel_ptr"), (Numbers{0, 2, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "first_col"), (Numbers{0, 4, 0, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "width"), (Numbers{4, 2, 4, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr"), (Numbers{0, 8, 10, 18, 28}));
  EXPECT_EQ(layout_numbers(*matrix, "row_end"), (Numbers{2, 6, 8, 8, 0, 2, 2, 2, 2, 6, 6, 8, 2, 6, 8, 10}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 1, 2, 3, 3, 3, 3,  //
                                                     0, 1,                    //
                                                     0, 0, 0, 1, 2, 3, 3, 3,  //
                                                     0, 3, 0, 1, 2, 3, 2, 3, 2, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{11, 12, 22, 23, 24, 0,  34, 0,  //
                                                        25, 26,                         //
                                                        51, 0,  61, 62, 63, 64, 84, 0,  //
                                                        55, 58, 65, 66, 67, 68, 77, 78, 87, 88}));
  EXPECT_EQ(matrix->bytes(), 28u * 10 + 4 * (16 + 4 * 4) + 8 + 8 * 3);
  // By default the seven rows with entries take 16 slots each.
  EXPECT_EQ(layout_numbers(*build("pcsr", t8()), "values").size(), 112u);
}

// A block begins at the first column that its panel needs, wherever that is, and x is read only as far as it uses it.
TEST(FamilyTiles, PcsrReadsOnlyThePartOfXThatABlockUses) {
  std::vector<Triplet<double>> list;
  for (std::int32_t r = 0; r < 300; ++r)
    for (const std::int32_t c : {r + 4000, r + 4010, r + 9000}) list.push_back({r, c, 1.0 + r % 3});
  const auto csr = csr_from_triplets<double>(test_context(), 300, 10000, list);
  const auto matrix = build("pcsr", csr, {{"align", "1"}});
  EXPECT_EQ(layout_numbers(*matrix, "panel_ptr"), (Numbers{0, 2, 4, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "first_col"), (Numbers{4000, 9000, 4128, 9128, 4256, 9256}));
  EXPECT_EQ(layout_numbers(*matrix, "width"), (Numbers{138, 128, 138, 128, 54, 44}));
  // 137 columns from the first one on do not reach the last one of the first panel.
  EXPECT_EQ(layout_numbers(*build("pcsr", csr, {{"align", "1"}, {"partition", "137"}}), "first_col").size(),
            8u);
}

TEST(FamilyTiles, PcsrRefusesPartitionsThatAreNearlyEmpty) {
  std::vector<Triplet<double>> list;
  for (std::int32_t r = 0; r < 100; ++r)
    for (std::int32_t k = 0; k < 5; ++k) list.push_back({r, k * 5000 + r, 1.0});
  const auto csr = csr_from_triplets<double>(test_context(), 100, 30000, list);
  EXPECT_THROW(build("pcsr", csr), FormatRefused);  // 16 slots for each entry
  EXPECT_NO_THROW(build("pcsr", csr, {{"align", "8"}}));
}

// A descriptor of tiles of four lanes with two entries: three bits, two bits, two flags.
double descriptor(unsigned y_offset, unsigned seg_offset, unsigned flags) {
  return static_cast<double>(y_offset << 29 | seg_offset << 27 | flags << 25);
}
const FormatParams small_tiles{{"omega", "4"}, {"sigma", "2"}};

TEST(FamilyTiles, Csr5OnT8) {
  const auto matrix = build("csr5", t8(), small_tiles);
  EXPECT_EQ(layout_numbers(*matrix, "row_ptr"), layout_numbers(*build("csr", t8()), "row_ptr"));
  EXPECT_EQ(layout_numbers(*matrix, "tile_ptr"), (Numbers{top_bit, 4, 5, 8}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{11, 22, 24, 26, 12, 23, 25, 34,  //
                                                        51, 58, 62, 64, 55, 61, 63, 65,  //
                                                        66, 68, 78, 87, 67, 77, 84, 88}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 3, 5, 1, 2, 4, 3,  //
                                                     0, 7, 1, 3, 4, 0, 2, 4,  //
                                                     5, 7, 7, 6, 6, 6, 3, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "tile_desc"),
            (Numbers{descriptor(0, 0, 2), descriptor(1, 1, 2), descriptor(2, 0, 0), descriptor(2, 0, 1),  //
                     descriptor(0, 0, 2), descriptor(1, 2, 1), descriptor(2, 1, 0), descriptor(2, 0, 0),  //
                     descriptor(0, 0, 2), descriptor(1, 0, 1), descriptor(2, 1, 1), descriptor(3, 0, 0)}));
  EXPECT_EQ(layout_numbers(*matrix, "empty_ptr"), (Numbers{0, 3, 3, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "empty_off"), (Numbers{0, 1, 2}));
  EXPECT_EQ(matrix->bytes(), 9u * 4 + 24 * 12 + 4 * 4 + 12 * 4 + 4 * 8 + 3 * 4);
  EXPECT_TRUE(identical(t8(), matrix->to_csr()));
}

// The example of the heads of the formats: rows 1 . 2 . / . 3 . . / . . . . / 4 5 . 6.
CsrMatrix<double> of_heads() {
  const std::vector<Triplet<double>> list{{0, 0, 1}, {0, 2, 2}, {1, 1, 3}, {3, 0, 4}, {3, 1, 5}, {3, 3, 6}};
  return csr_from_triplets<double>(test_context(), 4, 4, list);
}

// Row starts after a row without entries, and entries after the last full tile.
// A row of four entries in two lanes: each lane adds its own two first. One after another the entries would add to 1.
TEST(FamilyTiles, Csr5AddsByLanes) {
  std::vector<Triplet<double>> list;
  const double row[] = {1e16, 1, -1e16, 1};
  for (std::int32_t c = 0; c < 4; ++c) list.push_back({0, c, row[c]});
  const auto csr = csr_from_triplets<double>(Context::host(1), 1, 4, list);
  const auto matrix =
      make_matrix(find_format("csr5"), csr, Context::host(1), {{"omega", "2"}, {"sigma", "2"}});
  const std::vector<double> x(4, 1.0);
  double y = 7;
  matrix->apply(VectorView<const double>{x.data(), 4}, {&y, 1});
  EXPECT_EQ(y, 0);
}

// Rows start at every place of a lane, for every number of lanes.
TEST(FamilyTiles, Csr5LanesOfEverySize) {
  const CsrMatrix<double>& csr = battery_matrix("random_257");
  const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
  for (const char* omega : {"2", "4", "8", "16", "32"})
    for (const char* sigma : {"1", "2", "3", "7", "16", "31", "32"}) {
      SCOPED_TRACE(std::string(omega) + " x " + sigma);
      const auto matrix = build("csr5", csr, {{"omega", omega}, {"sigma", sigma}});
      auto y = y0;
      matrix->apply(-0.5, {x.data(), csr.cols()}, 2.0, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y));
    }
}

TEST(FamilyTiles, Csr5NamesRowsAfterEmptyOnes) {
  const auto matrix = build("csr5", of_heads(), {{"omega", "2"}, {"sigma", "2"}});
  EXPECT_EQ(layout_numbers(*matrix, "tile_ptr"), (Numbers{top_bit, 3, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{1, 3, 2, 4, 5, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 2, 0, 1, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "tile_desc"),
            (Numbers{static_cast<double>(2u << 27), static_cast<double>(1u << 30 | 3u << 27)}));
  EXPECT_EQ(layout_numbers(*matrix, "empty_ptr"), (Numbers{0, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "empty_off"), (Numbers{0, 1, 3}));
}

TEST(FamilyTiles, Csr5DescriptorsHoldTheirFields) {
  EXPECT_EQ(formats::Csr5Shape(32, 16).packets(), 1);  // 9 + 5 + 16 bits
  EXPECT_EQ(formats::Csr5Shape(32, 17).packets(), 1);  // 10 + 5 + 17
  EXPECT_EQ(formats::Csr5Shape(32, 18).packets(), 2);
  for (const int omega : {2, 4, 8, 16, 32})
    for (int sigma = 1; sigma <= 32; ++sigma) {
      const formats::Csr5Shape shape(omega, sigma);
      const std::uint32_t all = 0xffffffffu << (32 - sigma);
      for (const std::uint32_t starts : {0u, all, all & 0x55555555u, 1u << (32 - sigma)})
        for (const int y : {0, 1, omega * sigma - 1})
          for (const int seg : {0, omega - 1}) {
            std::uint32_t words[64] = {};
            shape.encode({y, seg, starts}, words);
            const formats::Csr5Lane lane = shape.decode(words);
            EXPECT_EQ(lane.y_offset, y) << omega << " " << sigma;
            EXPECT_EQ(lane.seg_offset, seg) << omega << " " << sigma;
            EXPECT_EQ(lane.starts, starts) << omega << " " << sigma;
          }
      for (std::int64_t k = 0; k < 3 * shape.entries(); ++k) {
        EXPECT_EQ(shape.entry(2, shape.place(2, k)), k);
        if (k >= 2 * shape.entries()) { EXPECT_EQ(shape.place(2, k), k); }
      }
    }
}

const FormatParams small_codes{{"threads", "4"}, {"values", "2"}};

TEST(FamilyTiles, MgpuCsrOnT8) {
  const auto matrix = build("mgpu-csr", t8(), small_codes);
  EXPECT_EQ(layout_numbers(*matrix, "limits"), (Numbers{0, 3, 4 + top_bit, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "used"), (Numbers{0, 1, 2, 4, 5, 6, 7}));
  const auto code = [](unsigned ends, unsigned since, unsigned index) {
    return static_cast<double>(ends | since << 13 | index << 20);
  };
  EXPECT_EQ(layout_numbers(*matrix, "code"),
            (Numbers{code(2, 0, 0), code(0, 1, 1), code(0, 2, 1), code(3, 0, 1),  //
                     code(0, 0, 0), code(1, 0, 0), code(0, 1, 1), code(0, 2, 1),  //
                     code(0, 0, 0), code(1, 0, 0), code(1, 0, 1), code(2, 0, 2)}));
  EXPECT_EQ(matrix->bytes(), 24u * 12 + 9 * 4 + 4 * 4 + 12 * 4 + 7 * 4);
  // The last tile is not full.
  const auto heads = build("mgpu-csr", of_heads(), {{"threads", "2"}, {"values", "2"}});
  EXPECT_EQ(layout_numbers(*heads, "limits"), (Numbers{0, 2 + top_bit, 3}));
  EXPECT_EQ(layout_numbers(*heads, "code"),
            (Numbers{code(2, 0, 0), code(1, 0, 1), code(2, 0, 0), code(0, 1, 1)}));
}

// Rows of 957, 51, 992 and 312 entries in tiles of 1000, from the description of the library.
TEST(FamilyTiles, MgpuCsrLimitsOfTheLibrarysExample) {
  std::vector<Triplet<double>> list;
  const std::int32_t lengths[] = {957, 51, 992, 312};
  for (std::int32_t r = 0; r < 4; ++r)
    for (std::int32_t c = 0; c < lengths[r]; ++c) list.push_back({r, c, 1.0});
  const auto csr = csr_from_triplets<double>(test_context(), 4, 992, list);
  const auto matrix = build("mgpu-csr", csr, {{"threads", "125"}, {"values", "8"}});
  EXPECT_EQ(layout_numbers(*matrix, "limits"), (Numbers{0, 1 + top_bit, 3, 4}));
  EXPECT_TRUE(layout_numbers(*matrix, "used").empty());
}

// A NaN in x reaches the rows that use it, however they are summed.
TEST(FamilyTiles, ANaNStaysInItsRows) {
  const CsrMatrix<double> csr = t8();
  const std::pair<const char*, FormatParams> formats[] = {{"merge-csr", {}},
                                                          {"cmrs", {{"height", "4"}}},
                                                          {"pcsr", small_panels},
                                                          {"csr5", small_tiles},
                                                          {"mgpu-csr", small_codes}};
  for (const auto& [format, params] : formats) {
    const auto matrix = build(format, csr, params);
    for (std::int64_t j = 0; j < 8; ++j) {
      Numbers x(8, 1.0), y(8);
      x[j] = std::numeric_limits<double>::quiet_NaN();
      matrix->apply(VectorView<const double>{x.data(), 8}, {y.data(), 8});
      for (std::int64_t r = 0; r < 8; ++r) {
        const auto row = csr.pattern.row(r);
        EXPECT_EQ(std::isnan(y[r]), std::find(row.begin(), row.end(), j) != row.end())
            << format << " row " << r << " column " << j;
      }
    }
  }
}

// Rows that threads share: a row longer than the part of a thread, rows without entries next to it, and a part that
// begins with a row. Sums are exact here, so the results equal the results of csr.
TEST(FamilyTiles, ThreadsShareRows) {
  std::vector<Triplet<double>> list;
  const auto columns = [](std::int32_t r) { return r == 40 ? 9000 : r % 7 == 3 || r > 300 ? 0 : 1 + r % 40; };
  for (std::int32_t r = 0; r < 330; ++r)
    for (std::int32_t k = 0; k < columns(r); ++k) list.push_back({r, k, 1.0 + (r + k) % 5});
  const auto csr = csr_from_triplets<double>(test_context(), 330, 9000, list);
  Numbers x(9000), y0(330);
  for (std::size_t j = 0; j < x.size(); ++j) x[j] = static_cast<double>(j % 9) - 4;
  for (std::size_t r = 0; r < y0.size(); ++r) y0[r] = static_cast<double>(r % 5);
  const auto product = [&](const char* format, const FormatParams& params, int threads) {
    Numbers y = y0;
    make_matrix(find_format(format), csr, Context::host(threads), params)
        ->apply(2.0, {x.data(), 9000}, -0.5, {y.data(), 330});
    return y;
  };
  const Numbers expected = product("csr", {{"balance", "rows"}}, 1);
  for (const int threads : {1, 2, 3, 8, 13}) {
    EXPECT_EQ(product("csr5", {}, threads), expected) << threads;
    EXPECT_EQ(product("csr5", small_tiles, threads), expected) << threads;
    EXPECT_EQ(product("csr5", {{"omega", "32"}, {"sigma", "32"}}, threads), expected) << threads;
    EXPECT_EQ(product("mgpu-csr", {}, threads), expected) << threads;
    EXPECT_EQ(product("mgpu-csr", {{"threads", "3"}, {"values", "5"}}, threads), expected) << threads;
    EXPECT_EQ(product("merge-csr", {}, threads), expected) << threads;
  }
}

// The properties by which formats differ, on T8.
struct Difference {
  const char* format;
  FormatParams params;
  std::vector<std::string> neighbours;
  std::function<bool(const Matrix&)> property;
};

// One pointer for each strip, and the row in its strip next to each column.
bool has_strips(const Matrix& matrix) {
  const auto strips = array_of(matrix, "strip_ptr"), packed = array_of(matrix, "packed");
  if (!strips || !packed || strips->size() != 5 || packed->size() != 24) return false;
  const CsrMatrix<double> csr = t8();
  for (std::int64_t r = 0; r < 8; ++r)
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
      if ((*packed)[k] != csr.pattern.col[k] + (r % 2) * top_bit) return false;
  return true;
}

// Columns of 16 bits that count from the first column of their block; together they are the columns of T8.
bool has_partitions(const Matrix& matrix) {
  const auto first = array_of(matrix, "first_col"), col = array_of(matrix, "col"),
             block_ptr = array_of(matrix, "block_ptr");
  if (!first || !col || !block_ptr || first->size() < 2) return false;
  for (const LayoutArray& array : dynamic_cast<const HasLayout&>(matrix).layout())
    if (array.name == "col" && array.type != "uint16") return false;
  Numbers counts(8), expected(8);
  for (std::size_t b = 0; b < first->size(); ++b)
    for (auto k = static_cast<std::size_t>((*block_ptr)[b]); k < (*block_ptr)[b + 1]; ++k)
      if (layout_numbers(matrix, "values")[k] != 0)
        ++counts[static_cast<std::size_t>((*first)[b] + (*col)[k])];
  for (std::int64_t k = 0; k < 24; ++k) ++expected[t8().pattern.col[k]];
  return counts == expected;
}

// Tiles of four lanes with two entries, lane after lane, with a descriptor for each lane.
bool has_transposed_tiles(const Matrix& matrix) {
  const auto desc = array_of(matrix, "tile_desc"), values = array_of(matrix, "values");
  if (!desc || !values || desc->size() != 12 || values->size() != 24) return false;
  const CsrMatrix<double> csr = t8();
  for (std::size_t k = 0; k < 24; ++k)
    if ((*values)[k / 8 * 8 + k % 2 * 4 + k % 8 / 2] != csr.values[k]) return false;
  return true;
}
// A code for each two entries, whose lowest bits mark the last entries of rows; entries as in csr.
bool has_thread_codes(const Matrix& matrix) {
  const auto code = array_of(matrix, "code"), values = array_of(matrix, "values");
  if (!code || !values || code->size() != 12) return false;
  const CsrMatrix<double> csr = t8();
  if (*values != Numbers(csr.values, csr.values + 24)) return false;
  for (std::int64_t k = 0, r = 0; k < 24; ++k) {
    while (csr.pattern.row_ptr[r + 1] <= k) ++r;
    const bool ends = static_cast<unsigned>((*code)[k / 2]) >> k % 2 & 1;
    if (ends != (k + 1 == csr.pattern.row_ptr[r + 1])) return false;
  }
  return true;
}

const std::vector<Difference>& differences() {
  static const std::vector<Difference> all = {
      {"cmrs", {{"height", "2"}}, {"csr", "merge-csr", "coo"}, has_strips},
      {"pcsr", small_panels, {"csr", "csc", "sell-c-sigma"}, has_partitions},
      {"csr5", small_tiles, {"csr", "merge-csr", "coo"}, has_transposed_tiles},
      {"mgpu-csr", small_codes, {"csr", "merge-csr", "coo"}, has_thread_codes},
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

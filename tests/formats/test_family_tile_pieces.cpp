// tile-composite and vsl: rows in tiles of columns.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/layout.hpp"
#include "tiled.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

TEST(GoldenTiled, TileCompositeOnT8) {
  const auto matrix = build("tile-composite", t8(), {{"tile", "4"}, {"work", "8"}});
  EXPECT_EQ(layout_numbers(*matrix, "piece_row"), (Numbers{5, 1, 0, 2, 4, 7, 5, 1, 4, 6, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "piece_ptr"), (Numbers{0, 1, 3, 4, 4, 6, 8, 9, 11}));
  EXPECT_EQ(layout_numbers(*matrix, "piece"), (Numbers{2, 1, 7, 3, 4, 8, 0, 6, 9, 5, 10}));
  EXPECT_EQ(layout_numbers(*matrix, "tile_work"), (Numbers{0, 3, 5}));
  EXPECT_EQ(layout_numbers(*matrix, "work_piece"), (Numbers{0, 1, 3, 6, 7, 11}));
  EXPECT_EQ(layout_numbers(*matrix, "work_slot"), (Numbers{0, 4, 9, 12, 16, 24}));
  EXPECT_EQ(layout_numbers(*matrix, "extent"), (Numbers{4, 3, 5, 1, 1, 1, 4, 2, 2, 2, 2}));
  EXPECT_EQ(layout_numbers(*matrix, "col"),
            (Numbers{0, 1, 2, 3, 1, 2, 3, 0, 1, 3, 0, 3, 4, 5, 6, 7, 4, 4, 6, 6, 5, 7, 7, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{61, 62, 63, 64, 22, 23, 24, 11, 12, 34, 51, 84,
                                                        65, 66, 67, 68, 25, 55, 77, 87, 26, 58, 78, 88}));
  EXPECT_EQ(matrix->bytes(), 24u * 12 + 11 * 12 + 9 * 8 + 3 * 4 + 6 * 12);
}

// The columns by their entries: 3 and 7 with 4, then 0, 1, 4, 6 with 3, then 2, 5. The first tile has two of them, the
// second one all others.
TEST(GoldenTiled, TileCompositeByDegreeOnT8) {
  const auto matrix = build("tile-composite", t8(), {{"tile", "2"}, {"columns", "degree"}, {"tiles", "2"}});
  EXPECT_EQ(layout_numbers(*matrix, "order"), (Numbers{3, 7, 0, 1, 4, 6, 2, 5}));
  EXPECT_EQ(layout_numbers(*matrix, "piece_row"), (Numbers{5, 7, 1, 2, 4, 6, 5, 1, 0, 4, 6, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "piece_ptr"), (Numbers{0, 1, 3, 4, 4, 6, 8, 10, 12}));
  EXPECT_EQ(layout_numbers(*matrix, "piece"), (Numbers{8, 2, 7, 3, 4, 9, 0, 6, 5, 10, 1, 11}));
  EXPECT_EQ(layout_numbers(*matrix, "tile_work"), (Numbers{0, 2, 5}));
  EXPECT_EQ(layout_numbers(*matrix, "work_piece"), (Numbers{0, 2, 6, 8, 10, 12}));
  EXPECT_EQ(layout_numbers(*matrix, "work_slot"), (Numbers{0, 4, 8, 18, 22, 24}));
  EXPECT_EQ(layout_numbers(*matrix, "extent"), (Numbers{2, 4, 1, 1, 1, 1, 6, 10, 2, 4, 1, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "col"),
            (Numbers{0, 1, 0, 1, 0, 0, 1, 1, 2, 3, 6, 4, 7, 5, 3, 6, 4, 7, 2, 3, 2, 4, 5, 5}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{64, 68, 84, 88, 24, 34, 58, 78, 61, 62, 63, 65,
                                                        66, 67, 22, 23, 25, 26, 11, 12, 51, 55, 77, 87}));
  EXPECT_EQ(matrix->bytes(), 24u * 12 + 12 * 12 + 9 * 8 + 3 * 4 + 6 * 12 + 8 * 12);
  EXPECT_TRUE(identical(t8(), matrix->to_csr()));
  // One tile of the columns with the most entries gives the same as all columns in one tile.
  EXPECT_EQ(
      layout_numbers(*build("tile-composite", t8(), {{"tile", "2"}, {"tiles", "1"}}), "tile_work").size(),
      2u);
}

TEST(GoldenTiled, VslOnT8) {
  const auto matrix = build("vsl", t8(), {{"rows", "4"}, {"columns", "4"}, {"channels", "2"}, {"pad", "2"}});
  EXPECT_EQ(layout_numbers(*matrix, "piece_ptr"), (Numbers{0, 1, 5, 6, 6, 8, 12, 13, 15}));
  EXPECT_EQ(layout_numbers(*matrix, "piece"), (Numbers{0, 1, 7, 2, 9, 8, 3, 5, 4, 10, 6, 12, 13, 11, 14}));
  EXPECT_EQ(layout_numbers(*matrix, "piece_row"), (Numbers{0, 1, 1, 4, 5, 4, 5, 1, 2, 1, 5, 7, 5, 6, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "group_ptr"),
            (Numbers{0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr"), (Numbers{0, 3, 7, 10, 15}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 1, 1, 4, 4, 0, 0, 0, 1, 4, 7, 4, 5, 6, 6,
                                                     2, 3, 3, 3, 5, 5, 2, 3, 3, 3, 7, 7, 6, 7, 6, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            (Numbers{11, 12, 22, 0, 25, 0, 51, 0,  61, 62, 55, 58, 65, 66, 67, 0,
                     23, 24, 34, 0, 26, 0, 63, 64, 84, 0,  68, 0,  77, 78, 87, 88}));
  EXPECT_EQ(matrix->bytes(), 32u * 12 + 15 * 16 + 9 * 8 + 8 + 5 * 8);
}

// With the sizes of the library each row of T8 with an entry in a channel takes 32 slots there.
TEST(Vsl, PadsARowInAChannelTo32) {
  const auto matrix = build("vsl", t8(), {{"max_fill", "1000"}});
  const Numbers row = layout_numbers(*matrix, "piece_row"), groups = layout_numbers(*matrix, "group_ptr");
  EXPECT_EQ(layout_numbers(*matrix, "values").size(), 32 * row.size());
  EXPECT_EQ(groups.back(), static_cast<double>(row.size()));
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr").size(), 17u);
  EXPECT_EQ(std::count(row.begin(), row.end(), 2.0), 1);
  const std::vector<Triplet<double>> one{{3, 5, 7.0}};
  const auto csr = csr_from_triplets<double>(test_context(), 9, 9, one);
  EXPECT_EQ(layout_numbers(*build("vsl", csr, {{"max_fill", "32"}}), "values").size(), 32u);
}

TEST(Vsl, RefusesAndReportsThePadding) {
  const Admission admission = admit(find_format("vsl"), *test_context(), t8().pattern, {}, 8);
  EXPECT_FALSE(admission.ok);
  EXPECT_GE(admission.stored_values, 24 * 8);
  EXPECT_EQ(admission.stored_values % 32, 0);
  EXPECT_NE(admission.reason.find("for 24 entries"), std::string::npos) << admission.reason;
  const auto csr = generate(test_context(), "banded", {{"n", 5000}, {"lower", 40}, {"upper", 40}});
  const Admission wide = admit(find_format("vsl"), *test_context(), csr.pattern, {}, 8);
  EXPECT_TRUE(wide.ok) << wide.reason;
  EXPECT_EQ(wide.stored_values,
            static_cast<std::int64_t>(layout_numbers(*build("vsl", csr), "values").size()));
}

// Rows of very different lengths, columns beyond two tiles of 64.
CsrMatrix<double> skewed() {
  std::vector<Triplet<double>> list;
  std::mt19937 random(11);
  for (int r = 0; r < 300; ++r)
    for (int c = 0; c < 150; ++c)
      if (r == 17 || static_cast<int>(random() % 400) < 4 + r % 7 * (r % 50 == 3 ? 30 : 1))
        list.push_back({r, c, 1.0 + c});
  return csr_from_triplets<double>(test_context(), 300, 150, list);
}

// Every entry once, in the window of columns of its tile; the pieces of a tile are ranked; a workload is CSR, without
// padding, if its longest piece has at least as many entries as it has pieces, else ELLPACK.
bool has_ranked_workloads(const Matrix& A, std::int64_t nonzeros) {
  if (!has(A, "work_piece")) return false;
  const auto numbers = [&](const char* name) { return layout_numbers(A, name); };
  const Numbers tile = numbers("tile_work"), piece = numbers("work_piece"), slot = numbers("work_slot"),
                extent = numbers("extent"), col = numbers("col");
  std::int64_t entries = 0, csr = 0, ell = 0;
  for (std::size_t t = 0; t + 1 < tile.size(); ++t) {
    double longest = 1e9;
    for (auto w = static_cast<std::size_t>(tile[t]); w < static_cast<std::size_t>(tile[t + 1]); ++w) {
      const auto first = static_cast<std::size_t>(piece[w]), end = static_cast<std::size_t>(piece[w + 1]);
      const double width = extent[first], h = static_cast<double>(end - first), slots = slot[w + 1] - slot[w];
      const bool is_csr = width >= h;
      ++(is_csr ? csr : ell);
      for (std::size_t p = first; p < end; ++p) {
        const double length = is_csr && p > first ? extent[p] - extent[p - 1] : extent[p];
        if (length > longest || length < 1) return false;
        longest = length, entries += static_cast<std::int64_t>(length);
      }
      if (slots != (is_csr ? extent[end - 1] : width * h)) return false;
      for (auto k = static_cast<std::size_t>(slot[w]); k < static_cast<std::size_t>(slot[w + 1]); ++k)
        if (static_cast<std::size_t>(col[k]) / 64 != t) return false;
    }
  }
  return entries == nonzeros && csr > 2 && ell > 2;
}

// Each piece fills whole groups of 32 slots, and the pieces of a channel follow each other by blocks.
bool has_padded_channels(const Matrix& A) {
  if (!has(A, "group_ptr") || !has(A, "block_ptr")) return false;
  const Numbers groups = layout_numbers(A, "group_ptr"), blocks = layout_numbers(A, "block_ptr");
  return layout_numbers(A, "values").size() == static_cast<std::size_t>(32 * groups.back()) &&
         blocks.size() == 17 && blocks.back() == static_cast<double>(groups.size() - 1);
}

TEST(Tiled, TileCompositeAndVslDifferFromTheirNeighbours) {
  const auto csr = skewed();
  const auto made = [&](const char* id) {
    FormatParams params = most_tolerant(find_format(id));
    if (std::string_view(id) == "tile-composite") params.set("tile", "64"), params.set("work", "200");
    return build(id, csr, params);
  };
  EXPECT_TRUE(has_ranked_workloads(*made("tile-composite"), csr.nonzeros()));
  for (const char* other : {"vsl", "shec", "csr-ell-matam", "brc", "tilespmv-adpt"})
    EXPECT_FALSE(has_ranked_workloads(*made(other), csr.nonzeros())) << other;
  EXPECT_TRUE(has_padded_channels(*made("vsl")));
  for (const char* other : {"tile-composite", "csc", "icsr", "aligned-coo", "tilespmv-adpt"})
    EXPECT_FALSE(has_padded_channels(*made(other))) << other;
}

// A piece repeats its last column in its padding: a NaN of x reaches the rows that use it.
TEST(Tiled, PaddingOfPiecesReadsNoOtherColumn) {
  const auto csr = skewed();
  for (const auto& [format, columns] :
       {std::pair{"tile-composite", "natural"}, {"tile-composite", "degree"}, {"vsl", ""}}) {
    SCOPED_TRACE(format);
    FormatParams params = most_tolerant(find_format(format));
    if (std::string_view(format) == "tile-composite")
      params.set("tile", "64"), params.set("work", "200"), params.set("columns", columns);
    const auto matrix = build(format, csr, params);
    for (std::size_t j = 0; j < 150; ++j) {
      std::vector<double> x(150, 1.0), y(300);
      x[j] = std::numeric_limits<double>::quiet_NaN();
      matrix->apply({x.data(), 150}, {y.data(), 300});
      for (std::int64_t r = 0; r < 300; ++r) {
        const auto row = csr.pattern.row(r);
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(r)]),
                  std::find(row.begin(), row.end(), static_cast<std::int32_t>(j)) != row.end())
            << r << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace protean::test

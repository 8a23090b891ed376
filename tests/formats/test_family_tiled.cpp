// Formats of tiles: which kind a tile gets, golden arrays on T8, and the property by which each format differs from its
// neighbours, which do not have it.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/tiles/tiles.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "tiled.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

// Above 1.8 million entries.
TEST(TileSelection, AutoDefersCoordinatesInLargeMatrices) {
  const auto deferred = [](const char* coo, std::int64_t nonzeros) {
    return formats::tile_rule(
               {{"selection", "paper"}, {"coo", coo}, {"te", "20"}, {"th", "100"}, {"rest", "csr"}}, nonzeros,
               8)
        .deferred;
  };
  EXPECT_FALSE(deferred("auto", 1'800'000));
  EXPECT_TRUE(deferred("auto", 1'800'001));
  EXPECT_FALSE(deferred("tiles", 1'800'001));
  EXPECT_TRUE(deferred("deferred", 1));
}

constexpr TileRule paper{TileSelection::paper, false, 20, 100, 8, false},
    code{TileSelection::code, false, 20, 100, 8, false};

TileKind kind(const TileBits& bits, const TileRule& rule) { return choose_tile(bits, rule).kind; }

TEST(TileSelection, FewScatteredEntriesAreCoordinates) {
  const auto eleven = tile(16, 16, [](int r, int c) { return (16 * r + c) % 23 == 5; });
  ASSERT_EQ(choose_tile(eleven, paper).entries, 11);
  EXPECT_EQ(kind(eleven, paper), TileKind::coo);
  // One entry in each of 11 rows: their variation is 0.67.
  EXPECT_EQ(kind(tile(16, 16, [](int r, int c) { return r < 11 && c == (5 * r) % 16; }), paper),
            TileKind::coo);
  EXPECT_EQ(kind(tile(16, 16, [](int r, int c) { return r == 3 && c < 11; }), paper), TileKind::coo);
  // The 12th entry.
  EXPECT_EQ(kind(tile(16, 16, [](int r, int c) { return r < 12 && c == (5 * r) % 16; }), paper),
            TileKind::csr);
  EXPECT_EQ(kind(tile(16, 16, [](int r, int c) { return r < 12 && c == (5 * r) % 16; }), code),
            TileKind::coo);
  EXPECT_EQ(kind(tile(16, 16, [](int r, int c) { return r < 13 && c == (5 * r) % 16; }), code),
            TileKind::csr);
}

// Eight rows of one entry each do not vary: the first rule does not take them, in a tile of eight rows.
TEST(TileSelection, AnEdgeTileWithAlikeRowsIsEll) {
  const auto edge = tile(8, 16, [](int r, int c) { return c == (3 * r) % 16; });
  const TileForm form = choose_tile(edge, paper);
  EXPECT_EQ(form.kind, TileKind::ell);
  EXPECT_EQ(form.slots, 1);
  EXPECT_EQ(kind(edge, code), TileKind::coo) << "the program asks for the number alone";
}

TEST(TileSelection, AlikeRowsAreEll) {
  const TileForm one = choose_tile(tile(16, 16, [](int r, int c) { return c == (5 * r + 2) % 16; }), paper);
  EXPECT_EQ(one.kind, TileKind::ell);
  EXPECT_EQ(one.slots, 1);
  EXPECT_EQ(one.values(), 16);
  EXPECT_EQ(one.index_bytes(), 2 + 8);
  // Rows of four and five entries: 0.11.
  const TileForm mixed =
      choose_tile(tile(16, 16, [](int r, int c) { return (c + r) % 16 < 4 + r % 2; }), paper);
  EXPECT_EQ(mixed.kind, TileKind::ell);
  EXPECT_EQ(mixed.slots, 5);
  // Rows of two and four: 0.33.
  EXPECT_EQ(kind(tile(16, 16, [](int r, int c) { return (c + r) % 16 < 2 + 2 * (r % 2); }), paper),
            TileKind::csr);
}

TEST(TileSelection, ManyEntriesAreDense) {
  const auto first = [](int n) {
    return tile(16, 16, [=](int r, int c) { return (r + c) % 16 * 16 + r < n; });
  };
  EXPECT_EQ(choose_tile(first(128), paper).entries, 128);
  EXPECT_EQ(kind(first(128), paper), TileKind::dns);
  EXPECT_NE(kind(first(127), paper), TileKind::dns);
  EXPECT_EQ(kind(first(192), code), TileKind::dns);
  EXPECT_NE(kind(first(191), code), TileKind::dns);
  // A quarter of a tile at two edges: three quarters of its 64 places.
  const auto edge = [](int n) { return tile(8, 8, [=](int r, int c) { return r * 8 + c < n; }); };
  EXPECT_EQ(kind(edge(48), code), TileKind::dns);
  EXPECT_EQ(choose_tile(edge(48), code).values(), 64);
  EXPECT_NE(kind(edge(47), code), TileKind::dns);
}

TEST(TileSelection, FullRowsAndColumns) {
  const auto row = tile(16, 16, [](int r, int) { return r == 5; });
  EXPECT_EQ(kind(row, paper), TileKind::dns_row);
  EXPECT_EQ(kind(row, code), TileKind::dns_row);
  const auto cols = tile(16, 16, [](int, int c) { return c == 2 || c == 9; });
  EXPECT_EQ(kind(cols, paper), TileKind::dns_col);
  EXPECT_EQ(choose_tile(cols, paper).slots, 2);
  // One more entry.
  EXPECT_NE(kind(tile(16, 16, [](int r, int c) { return r == 5 || (r == 6 && c == 6); }), paper),
            TileKind::dns_row);
  // Three rows of 15 columns: 16 does not divide 45.
  const auto narrow = tile(16, 15, [](int r, int) { return r < 3; });
  EXPECT_EQ(kind(narrow, paper), TileKind::dns_row);
  EXPECT_EQ(kind(narrow, code), TileKind::csr);
}

TEST(TileSelection, UnevenRowsAreHybridOfTheFewestBytes) {
  // Three rows of 14, 3 of one: the variation is 1.8.
  const auto uneven = tile(16, 16, [](int r, int c) { return r < 3 ? c < 14 : r < 6 && c == r; });
  const TileForm form = choose_tile(uneven, paper);
  EXPECT_EQ(form.kind, TileKind::hyb);
  EXPECT_EQ(form.slots, 0) << "a slot takes 16 values for 6 entries";
  EXPECT_EQ(form.tail, 45);
  EXPECT_EQ(kind(uneven, code), TileKind::csr) << "the program has no hyb";
  // 13 rows of one entry and three of 14: a slot is worth 16 values.
  const TileForm wide =
      choose_tile(tile(16, 16, [](int r, int c) { return r < 3 ? c < 14 : c == r; }), paper);
  EXPECT_EQ(wide.kind, TileKind::hyb);
  EXPECT_EQ(wide.slots, 1);
  EXPECT_EQ(wide.tail, 39);
  TileRule deferred = paper;
  deferred.deferred = true;
  EXPECT_FALSE(choose_tile(uneven, deferred).present);
  EXPECT_TRUE(
      choose_tile(tile(16, 16, [](int r, int c) { return r < 3 ? c < 14 : c == r; }), deferred).present);
  EXPECT_EQ(kind(tile(16, 16, [](int r, int c) { return r < 3 ? c < 14 : c == r; }), deferred),
            TileKind::ell);
}

TEST(TileSelection, CsrTakesAll) {
  const TileRule rule{TileSelection::csr, false, 20, 100, 8, false};
  for (const int n : {1, 16, 200, 256}) {
    const TileForm form = choose_tile(tile(16, 16, [=](int r, int c) { return r * 16 + c < n; }), rule);
    EXPECT_EQ(form.kind, TileKind::csr);
    EXPECT_EQ(form.index_bytes(), 16 + (n + 1) / 2);
  }
}

// T8 is one tile at two edges, 8 x 8.
TEST(GoldenTiled, TilespmvCsrOnT8) {
  for (const char* format : {"tilespmv-csr", "tilespmv-adpt"}) {
    SCOPED_TRACE(format);
    const auto matrix = build(format, t8());
    EXPECT_EQ(layout_numbers(*matrix, "tile_ptr"), (Numbers{0, 1}));
    EXPECT_EQ(layout_numbers(*matrix, "tile_col"), (Numbers{0}));
    EXPECT_EQ(layout_numbers(*matrix, "tile_kind"), (Numbers{0}));
    EXPECT_EQ(layout_numbers(*matrix, "tile_count"), (Numbers{23}));
    // irp, with the end of row 7 in the rows that the matrix does not have; then pairs of ja.
    EXPECT_EQ(layout_numbers(*matrix, "index"),
              (Numbers{0,  2,  7,    8,    8,    11,   19,   21,   24,   24,   24,   24,   24,   24,
                       24, 24, 0x01, 0x12, 0x34, 0x53, 0x04, 0x70, 0x12, 0x34, 0x56, 0x76, 0x73, 0x67}));
    EXPECT_EQ(layout_numbers(*matrix, "values"), layout_numbers(*build("csr", t8()), "values"));
    EXPECT_EQ(matrix->bytes(), 2u * 24 + 16 + 28 + 24 * 8);
  }
}

// With th = 50 percent T8, whose variation is 0.78, is hyb. A slot has 17/2 bytes for each of 16 rows.
TEST(GoldenTiled, HybOnT8) {
  const auto matrix = build("tilespmv-adpt", t8(), {{"th", "50"}});
  EXPECT_EQ(layout_numbers(*matrix, "tile_kind"), (Numbers{3}));
  EXPECT_EQ(layout_numbers(*matrix, "tile_slots"), (Numbers{0}));
  EXPECT_EQ(layout_numbers(*matrix, "tile_count"), (Numbers{24}));
  EXPECT_EQ(layout_numbers(*matrix, "index"),
            (Numbers{0xf7, 0,    0x00, 0x01, 0x11, 0x12, 0x13, 0x14, 0x15, 0x23, 0x40, 0x44, 0x47,
                     0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x66, 0x67, 0x73, 0x76, 0x77}));
}

TEST(GoldenTiled, DeferredOnT8) {
  const auto matrix = build("tilespmv-deferred-coo", t8(), {{"th", "50"}}), csr = build("csr", t8());
  EXPECT_EQ(layout_numbers(*matrix, "tile_ptr"), (Numbers{0, 0}));
  EXPECT_EQ(layout_numbers(*matrix, "rest_ptr"), layout_numbers(*csr, "row_ptr"));
  EXPECT_EQ(layout_numbers(*matrix, "rest_col"), layout_numbers(*csr, "col"));
  EXPECT_EQ(layout_numbers(*matrix, "rest_values"), layout_numbers(*csr, "values"));
  EXPECT_EQ(matrix->bytes(), 2u * 24 + 9 * 4 + 24 * 12);
  // As the paper has it, it is csr, and nothing is deferred.
  EXPECT_EQ(layout_numbers(*build("tilespmv-deferred-coo", t8()), "rest_col"), Numbers{});
}

// The authors' product of deferred entries: a csr5 matrix of them next to the CSR arrays.
TEST(GoldenTiled, DeferredAsCsr5) {
  const FormatParams all{{"th", "50"}, {"rest", "csr5"}};
  const auto csr5 = build("csr5", t8()), matrix = build("tilespmv-deferred-coo", t8(), all);
  EXPECT_EQ(matrix->bytes(), 2u * 24 + 9 * 4 + 24 * 12 + csr5->bytes());
  const auto csr = battery_matrix("power_law_500");
  const auto with = build("tilespmv-deferred-coo", csr, {{"rest", "csr5"}}),
             without = build("tilespmv-deferred-coo", csr);
  EXPECT_EQ(layout_numbers(*with, "rest_values"), layout_numbers(*without, "rest_values"));
  EXPECT_GT(with->bytes(), without->bytes());
  EXPECT_EQ(build("tilespmv-adpt", csr, {{"rest", "csr5"}})->bytes(), build("tilespmv-adpt", csr)->bytes())
      << "nothing is deferred";
  const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
  for (const double factor : {1.0, 3.0}) {
    CsrMatrix<double> scaled = deep_copy(test_context(), csr);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(scaled.values)[k] *= factor;
    with->update_values(scaled);
    auto y = y0;
    with->apply(-0.5, {x.data(), csr.cols()}, 2.0, {y.data(), csr.rows()});
    EXPECT_TRUE(product_is_right(scaled, -0.5, x, 2.0, y0, y)) << factor;
  }
}

// Tiles of every kind, one in each of seven tile columns and once more in an order turned by one, and a tile row at the
// edge.
CsrMatrix<double> all_kinds() {
  std::vector<Triplet<double>> list;
  const auto at = [](int kind, int r, int c) {
    switch (kind) {
      case 0:
        return (r + c) % 16 < 2 + 2 * (r % 2);
      case 1:
        return r % 5 == 0 && (c == r || c == 3);
      case 2:
        return c == (5 * r + 2) % 16 || c == (5 * r + 7) % 16;
      case 3:
        return r < 3 ? c < 14 : c == r;
      case 4:
        return (r * c) % 3 != 1;
      case 5:
        return r == 4 || r == 11;
      default:
        return c == 2 || c == 9 || c == 10;
    }
  };
  for (int r = 0; r < 40; ++r)
    for (int c = 0; c < 7 * 16 - 3; ++c)
      if (at((c / 16 + r / 16) % 7, r % 16, c % 16)) list.push_back({r, c, 1.0 + r + c / 128.0});
  return csr_from_triplets<double>(test_context(), 40, 7 * 16 - 3, list);
}

std::map<int, int> kinds_of(const Matrix& matrix) {
  std::map<int, int> count;
  for (const double kind : layout_numbers(matrix, "tile_kind")) ++count[static_cast<int>(kind)];
  return count;
}

TEST(Tilespmv, HasTilesOfAllKinds) {
  const auto csr = all_kinds();
  const auto matrix = build("tilespmv-adpt", csr);
  const auto first = layout_numbers(*matrix, "tile_kind");
  EXPECT_EQ(Numbers(first.begin(), first.begin() + 7), (Numbers{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Numbers(first.begin() + 7, first.begin() + 14), (Numbers{1, 2, 3, 4, 5, 6, 0}));
  EXPECT_TRUE(identical(csr, matrix->to_csr()));
  EXPECT_EQ(kinds_of(*build("tilespmv-csr", csr)), (std::map<int, int>{{0, 21}}));
  const auto deferred = build("tilespmv-deferred-coo", csr);
  const auto left = kinds_of(*deferred);
  EXPECT_EQ(left.count(1) + left.count(3), 0u);
  EXPECT_GT(layout_numbers(*deferred, "rest_col").size(), 40u);
  EXPECT_TRUE(identical(csr, deferred->to_csr()));
  const auto by_code = kinds_of(*build("tilespmv-adpt", csr, {{"selection", "code"}}));
  EXPECT_EQ(by_code.count(3), 0u);
}

// A full tile and two full columns in the last tile row, which has ten rows.
TEST(Tilespmv, DenseTilesAtTheLowerEdge) {
  std::vector<Triplet<double>> list;
  for (int r = 16; r < 26; ++r)
    for (int c = 0; c < 32; ++c)
      if (c < 16 || c == 18 || c == 21) list.push_back({r, c, 1.0 + r * c % 7});
  const auto csr = csr_from_triplets<double>(test_context(), 26, 32, list);
  const auto matrix = build("tilespmv-adpt", csr);
  EXPECT_EQ(layout_numbers(*matrix, "tile_kind"), (Numbers{4, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "values").size(), 160u + 20);
  std::vector<double> x(32), y(26), expected(26);
  for (std::size_t c = 0; c < x.size(); ++c) x[c] = static_cast<double>(c % 5) - 1;
  for (const Triplet<double>& one : list)
    expected[static_cast<std::size_t>(one.row)] += one.value * x[static_cast<std::size_t>(one.col)];
  matrix->apply({x.data(), 32}, {y.data(), 26});
  EXPECT_EQ(y, expected);
}

// Explicit zeros are entries, also in dns tiles.
TEST(Tilespmv, KeepsZerosThatAreEntries) {
  CsrMatrix<double> csr = deep_copy(test_context(), all_kinds());
  for (std::int64_t k = 0; k < csr.nonzeros(); k += 2) const_cast<double*>(csr.values)[k] = 0;
  for (const char* format : {"tilespmv-adpt", "tilespmv-csr", "tilespmv-deferred-coo"})
    EXPECT_TRUE(identical(csr, build(format, csr)->to_csr())) << format;
}

// A NaN of x reaches the rows that use it, and all rows of a dns tile.
TEST(Tilespmv, NanReachesRowsThatUseItAndDenseTiles) {
  const auto csr = all_kinds();
  const auto cols = static_cast<std::size_t>(csr.cols());
  // With te = 400 percent the slots of ell have rows without entries.
  for (const auto& [format, params] : {std::pair<const char*, FormatParams>{"tilespmv-adpt", {}},
                                       {"tilespmv-adpt", {{"te", "400"}}},
                                       {"tilespmv-csr", {}},
                                       {"tilespmv-deferred-coo", {}}}) {
    SCOPED_TRACE(format);
    const auto matrix = build(format, csr, params);
    const bool dense = std::string_view(format) != "tilespmv-csr";
    for (std::size_t j = 0; j < cols; ++j) {
      std::vector<double> x(cols, 1.0), y(40);
      x[j] = std::numeric_limits<double>::quiet_NaN();
      matrix->apply({x.data(), csr.cols()}, {y.data(), 40});
      for (std::int64_t r = 0; r < 40; ++r) {
        const auto row = csr.pattern.row(r);
        const bool uses = std::find(row.begin(), row.end(), static_cast<std::int32_t>(j)) != row.end();
        const bool in_dense = dense && r < 32 && (j / 16 + static_cast<std::size_t>(r) / 16) % 7 == 4;
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(r)]), uses || in_dense) << r << " " << j;
      }
    }
  }
}

bool all_tiles_csr(const Matrix& A) {
  return has(A, "tile_kind") && kinds_of(A).size() == 1 && kinds_of(A).count(0);
}

bool several_kinds_with_coordinates(const Matrix& A) {
  return has(A, "tile_kind") && kinds_of(A).size() == 7 && !has(A, "rest_ptr");
}

bool coordinates_apart(const Matrix& A) {
  return has(A, "tile_kind") && has(A, "rest_ptr") && !kinds_of(A).count(1);
}

TEST(Tiled, FormatsDifferFromTheirNeighbours) {
  struct Difference {
    const char* format;
    std::vector<const char*> neighbours;
    std::function<bool(const Matrix&)> property;
  };
  const Difference all[] = {
      {"tilespmv-csr", {"tilespmv-adpt", "tilespmv-deferred-coo", "bcsr", "csr"}, all_tiles_csr},
      {"tilespmv-adpt",
       {"tilespmv-csr", "tilespmv-deferred-coo", "bcsr", "csr"},
       several_kinds_with_coordinates},
      {"tilespmv-deferred-coo", {"tilespmv-csr", "tilespmv-adpt", "hyb", "hec"}, coordinates_apart}};
  const auto csr = all_kinds();
  for (const Difference& one : all) {
    SCOPED_TRACE(one.format);
    const auto made = [&](const char* id) { return build(id, csr, most_tolerant(find_format(id))); };
    EXPECT_TRUE(one.property(*made(one.format)));
    for (const char* neighbour : one.neighbours) EXPECT_FALSE(one.property(*made(neighbour))) << neighbour;
  }
}

}  // namespace
}  // namespace protean::test

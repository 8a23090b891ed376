// Golden arrays of the formats of blocks on the catalogue's T8 and clSpMV's C, and the property by which each format
// differs from its neighbours. Each property is also shown not to hold of the neighbours.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "core/error.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;
using Matrix = AssembledMatrix<double>;

FormatParams sized(const char* rows, const char* cols, FormatParams more = {}) {
  more.set("rows", rows), more.set("cols", cols), more.set("max_fill", "1000000");
  return more;
}
std::size_t stored(std::string_view format, const FormatParams& params) {
  return layout_numbers(*build(format, t8(), params), "values").size();
}

// The matrix C of clSpMV as its figures number it: 0 to 15 row by row in the left half, 16 to 31 in the right one. Here
// one is added to each.
CsrMatrix<double> clspmv_halves() {
  std::vector<Triplet<double>> list;
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 8; ++c) list.push_back({r, c, (c / 4) * 16.0 + r * 4 + c % 4 + 1});
  return csr_from_triplets<double>(test_context(), 4, 8, list);
}
// Groups of four neighbours of 0 .. 31, each plus one.
Numbers fours(std::initializer_list<int> firsts) {
  Numbers all;
  for (const int first : firsts)
    for (int i = 0; i < 4; ++i) all.push_back(first + i + 1);
  return all;
}

TEST(GoldenBlocks, BcooOnT8) {
  const auto matrix = build("bcoo", t8(), sized("2", "2"));
  EXPECT_EQ(layout_numbers(*matrix, "block_row"), (Numbers{0, 0, 0, 1, 2, 2, 2, 2, 3, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{0, 1, 2, 1, 0, 1, 2, 3, 1, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            layout_numbers(*build("bcsr", t8(), sized("2", "2")), "values"));
  EXPECT_EQ(matrix->bytes(), 10u * (4 * 8 + 4 + 4 + 1));
}

TEST(GoldenBlocks, BellOnT8AndOnC) {
  EXPECT_EQ(stored("bell", sized("2", "2")), 64u);
  EXPECT_EQ(stored("bell", sized("2", "4")), 64u);
  EXPECT_EQ(stored("bell", sized("4", "4")), 64u);
  const auto matrix = build("bell", clspmv_halves(), sized("2", "4"));
  // The figure has the first column of each block.
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{0, 0, 1, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), fours({0, 8, 4, 12, 16, 24, 20, 28}));
}

// Fig. 9 of clSpMV: unit 0 of all blocks, then unit 1 of all blocks. Its Col has first columns of blocks.
TEST(GoldenBlocks, BcsrInUnitsOnC) {
  const auto matrix = build("bcsr", clspmv_halves(), sized("2", "4", {{"order", "units"}}));
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr"), (Numbers{0, 2, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{0, 1, 0, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), fours({0, 16, 8, 24, 4, 20, 12, 28}));
  EXPECT_TRUE(identical(matrix->to_csr(), clspmv_halves()));
}

// All widths of units: 4 in blocks of 4 and 8 columns, else a row of the block.
TEST(GoldenBlocks, BcsrInUnitsComputesAsInBlocks) {
  const CsrMatrix<double>& csr = battery_matrix("blocks_ragged_61x47");
  const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
  for (const char* R : {"1", "2", "3", "4", "6", "8"})
    for (const char* C : {"1", "2", "3", "4", "5", "8"}) {
      SCOPED_TRACE(std::string(R) + " x " + C);
      const auto matrix = build("bcsr", csr, sized(R, C, {{"order", "units"}}));
      auto y = y0;
      matrix->apply(-0.5, {x.data(), csr.cols()}, 2.0, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y));
      EXPECT_TRUE(identical(matrix->to_csr(), csr));
      EXPECT_EQ(matrix->bytes(), build("bcsr", csr, sized(R, C))->bytes());
    }
}

TEST(GoldenBlocks, BsellpackOnT8AndOnC) {
  EXPECT_EQ(stored("bsellpack", sized("2", "2", {{"slice", "2"}})), 14u * 4);
  EXPECT_EQ(layout_numbers(*build("bsellpack", t8(), sized("2", "2", {{"slice", "2"}})), "slice_ptr"),
            (Numbers{0, 6, 14}));
  const auto matrix = build("bsellpack", clspmv_halves(), sized("1", "4", {{"slice", "2"}}));
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 4, 8}));
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), fours({0, 4, 16, 20, 8, 12, 24, 28}));
}

TEST(GoldenBlocks, BellpackOnT8) {
  const auto matrix = build("bellpack", t8(), sized("2", "2", {{"slice", "2"}}));
  EXPECT_EQ(layout_numbers(*matrix, "perm"), (Numbers{2, 0, 3, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 8, 12}));
  const Numbers values = layout_numbers(*matrix, "values");
  // Block 0 of the block rows 2 and 0, element by element.
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 8), (Numbers{51, 11, 0, 12, 61, 0, 62, 22}));
}

TEST(GoldenBlocks, BcsrChoiOnT8) {
  const auto matrix = build("bcsr-choi", t8(), sized("2", "2"));
  EXPECT_EQ(layout_numbers(*matrix, "block_ptr"), (Numbers{0, 3, 4, 8, 10}));
  const Numbers values = layout_numbers(*matrix, "values");
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 12),
            (Numbers{11, 0, 0, 12, 0, 0, 0, 23, 25, 22, 24, 26}));
}

TEST(GoldenBlocks, BcsrVerschoorOnT8) {
  const auto matrix = build("bcsr-verschoor", t8(), sized("2", "2")),
             bcsr = build("bcsr", t8(), sized("2", "2"));
  EXPECT_EQ(layout_numbers(*matrix, "border"), (Numbers{2, 0, 3, 1}));
  for (const char* array : {"block_ptr", "block_col", "values", "entries"})
    EXPECT_EQ(layout_numbers(*matrix, array), layout_numbers(*bcsr, array));
  EXPECT_EQ(matrix->bytes(), bcsr->bytes() + 4 * 4);
}

TEST(GoldenBlocks, BinBcsrOnT8) {
  const auto matrix = build("bin-bcsr", t8(), {{"size", "2"}, {"bin", "2"}, {"max_fill", "1000000"}});
  // Beside the diagonal the block rows have 2, 0, 3, 1 blocks.
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 4, 10}));
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{1, 1, 2, 1, 0, 1, 1, 1, 3, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "diagonal"),
            (Numbers{11, 0, 55, 77, 12, 34, 0, 78, 0, 0, 65, 87, 22, 0, 66, 88}));
  const Numbers values = layout_numbers(*matrix, "values");
  ASSERT_EQ(values.size(), 40u);
  EXPECT_EQ(Numbers(values.begin() + 20, values.begin() + 30), (Numbers{23, 0, 25, 0, 61, 0, 63, 0, 67, 0}));
  EXPECT_EQ(values[35], 84);  // slot 5 of the last plane
}

// 3 does not divide 8: the last block row has a row that does not exist.
TEST(GoldenBlocks, BinBcsrFillsTheLastBlockRow) {
  const auto matrix = build("bin-bcsr", t8(), {{"max_fill", "1000000"}});
  EXPECT_EQ(layout_numbers(*matrix, "diagonal").size(), 27u);
  std::vector<double> x(8, 1.0), y(9, 7.0), d(9, 7.0);
  matrix->apply(VectorView<const double>{x.data(), 8}, {y.data(), 8});
  matrix->diagonal({d.data(), 8});
  EXPECT_EQ(y, (std::vector<double>{23, 120, 34, 0, 164, 516, 155, 259, 7}));
  EXPECT_EQ(d, (std::vector<double>{11, 22, 0, 0, 55, 66, 77, 88, 7}));
}

// Blocks of R x C at random places of a grid, all full, with `count` blocks a block row (and more in some).
CsrMatrix<double> of_blocks(int R, int C, int block_rows, int count) {
  std::vector<Triplet<double>> list;
  std::mt19937 random(static_cast<unsigned>(R * 10 + C));
  for (int i = 0; i < block_rows; ++i) {
    std::vector<bool> taken(static_cast<std::size_t>(block_rows));
    for (int k = 0, wanted = count + i % 3; k < wanted; ++k) {
      const int j = k == 0 ? i : static_cast<int>(random() % static_cast<unsigned>(block_rows));
      if (taken[static_cast<std::size_t>(j)]) continue;
      taken[static_cast<std::size_t>(j)] = true;
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) list.push_back({i * R + r, j * C + c, 1.0 + r + c + j});
    }
  }
  return csr_from_triplets<double>(test_context(), block_rows * R, block_rows * C, list);
}

TEST(BcsrChoi, TheModelFindsTheBlocks) {
  for (const std::int64_t R : {2, 3, 4})
    for (const std::int64_t C : {2, 3, 4}) {
      SCOPED_TRACE(R * 10 + C);
      const auto csr = of_blocks(static_cast<int>(R), static_cast<int>(C), 400, 6);
      const auto matrix = build("bcsr-choi", csr);
      EXPECT_EQ(static_cast<std::int64_t>(layout_numbers(*matrix, "values").size()), csr.nonzeros());
      EXPECT_EQ(static_cast<std::int64_t>(layout_numbers(*matrix, "block_col").size()),
                csr.nonzeros() / (R * C));
    }
}

// Of 24 rows two are long, of full 2 x 4 blocks; the others have blocks of 2 x 2 and more entries together. bcsr takes
// what needs the fewest bytes; the model finds that all wait for the long rows.
TEST(BcsrChoi, TheModelCountsWhatWaits) {
  std::vector<Triplet<double>> list;
  for (int r = 0; r < 768; ++r) {
    if (r % 24 < 2)
      for (int c = 0; c < 64; ++c) list.push_back({r, c, 1.0});
    else
      for (int k = 0; k < 4; ++k)
        for (int c = 0; c < 2; ++c) list.push_back({r, 8 * ((r / 2 * 5 + 7 * k) % 96) + c, 1.0});
  }
  const auto csr = csr_from_triplets<double>(test_context(), 768, 768, list);
  const auto blocks = [&](const char* format) {
    return layout_numbers(*build(format, csr, {{"max_fill", "1000"}}), "block_col").size();
  };
  EXPECT_EQ(blocks("bcsr"), 32u * (32 + 11 * 4));
  EXPECT_EQ(blocks("bcsr-choi"), 32u * (16 + 11 * 4));
}

// One block row is long. It makes all 32 of its slice as long, so larger blocks take less time; but in all blocks
// together, which need the fewest bytes as 2 x 2, it counts little.
TEST(Bellpack, TheModelCountsThePaddingOfASlice) {
  std::vector<Triplet<double>> list;
  for (int r = 0; r < 768; ++r) {
    if (r < 2)
      for (int c = 0; c < 4096; ++c) list.push_back({r, c, 1.0});
    else
      for (int k = 0; k < 4; ++k)
        for (int c = 0; c < 2; ++c) list.push_back({r, 8 * ((r / 2 * 5 + 7 * k) % 96) + c, 1.0});
  }
  const auto csr = csr_from_triplets<double>(test_context(), 768, 4096, list);
  const auto area = [&](const char* format) {
    const auto matrix = build(format, csr, {{"max_fill", "1000"}});
    return layout_numbers(*matrix, "values").size() / layout_numbers(*matrix, "block_col").size();
  };
  EXPECT_EQ(area("bsellpack"), 4u);
  EXPECT_EQ(area("bellpack"), 8u);
}

bool has(const Matrix& matrix, std::string_view name) {
  for (const LayoutArray& array : dynamic_cast<const HasLayout&>(matrix).layout())
    if (array.name == name) return true;
  return false;
}
bool has_pointers_and(const Matrix& A, std::string_view other) {
  return has(A, "block_ptr") && has(A, other);
}

// The entries of block row 0 of T8: value e of its three blocks lie together.
bool interleaves_a_block_row(const Matrix& A) {
  const Numbers values = layout_numbers(A, "values");
  return has(A, "block_ptr") && values.size() > 9 && values[7] == 23 && values[8] == 25;
}
bool has_nine_planes(const Matrix& A) {
  return has(A, "diagonal") && layout_numbers(A, "diagonal").size() == 27 &&
         layout_numbers(A, "values").size() == 9 * layout_numbers(A, "block_col").size();
}
bool one_slice(const Matrix& A) {
  return !has(A, "slice_ptr") && !has(A, "block_ptr") && !has(A, "block_row");
}

TEST(Blocks, FormatsDifferFromTheirNeighbours) {
  struct Difference {
    const char* format;
    std::vector<const char*> neighbours;
    std::function<bool(const Matrix&)> property;
  };
  const Difference all[] = {
      {"bcoo", {"bcsr", "bell", "bin-bcsr", "coo"}, [](const Matrix& A) { return has(A, "block_row"); }},
      {"bell", {"bsellpack", "bellpack", "bcsr", "bcoo"}, one_slice},
      {"bsellpack",
       {"bell", "bellpack", "bcsr", "bin-bcsr"},
       [](const Matrix& A) { return has(A, "slice_ptr") && !has(A, "perm") && !has(A, "diagonal"); }},
      {"bellpack",
       {"bsellpack", "bell", "bcsr-verschoor"},
       [](const Matrix& A) { return has(A, "slice_ptr") && has(A, "perm"); }},
      {"bcsr-choi", {"bcsr", "bsr4", "bcsr-verschoor", "bcoo"}, interleaves_a_block_row},
      {"bcsr-verschoor",
       {"bcsr", "bcsr-cnc", "bcsr-xu", "bcsr-choi", "bellpack"},
       [](const Matrix& A) { return has_pointers_and(A, "border"); }},
      {"bin-bcsr", {"bsellpack", "bellpack", "bcsr", "bin-csr"}, has_nine_planes}};
  const auto made = [&](const char* id) {
    FormatParams params = most_tolerant(find_format(id));
    for (const ParamDoc& doc : settable_params(find_format(id)))
      if (doc.name == "rows" || doc.name == "cols") params.set(std::string(doc.name), "2");
    return build(id, t8(), params);
  };
  for (const Difference& one : all) {
    SCOPED_TRACE(one.format);
    EXPECT_TRUE(one.property(*made(one.format)));
    for (const char* neighbour : one.neighbours) EXPECT_FALSE(one.property(*made(neighbour))) << neighbour;
  }
}

// A dense 2 x 2 block at column 1: one block that begins there. On a grid it needs two.
CsrMatrix<double> block_off_the_grid() {
  const std::vector<Triplet<double>> list = {{1, 1, 11}, {1, 2, 12}, {2, 1, 21},
                                             {2, 2, 22}, {4, 0, 40}, {4, 4, 44}};
  return csr_from_triplets<double>(test_context(), 5, 5, list);
}

TEST(GoldenBlocks, BcooBcsrHasBlocksOffTheGrid) {
  const auto csr = block_off_the_grid();
  const auto matrix = build("bcoo-bcsr", csr);
  EXPECT_EQ(layout_numbers(*matrix, "strip_ptr"), (Numbers{0, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "local_row"), (Numbers{1}));
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{1}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{11, 12, 21, 22}));
  EXPECT_EQ(layout_numbers(*matrix, "rest_length"), (Numbers{0, 0, 0, 0, 2}));
  EXPECT_EQ(layout_numbers(*matrix, "rest_col"), (Numbers{0, 0, 0, 0, 0, 0, 0, 0, 0, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "rest_values"), (Numbers{0, 0, 0, 0, 40, 0, 0, 0, 0, 44}));
  // The block rows 0 and 1 of the grid have two blocks each, of which one entry each is not 0.
  for (const char* neighbour : {"bcoo", "bcsr"})
    EXPECT_EQ(layout_numbers(*build(neighbour, csr, sized("2", "2")), "block_col").size(), 6u) << neighbour;
}

// From the top, row 0 finds a block of three entries and leaves row 2 alone. The dynamic programme leaves row 0 alone:
// the block of rows 1 and 2 is full.
TEST(GoldenBlocks, BcooBcsrTakesTheFewestBytes) {
  const std::vector<Triplet<double>> list = {{0, 0, 1}, {1, 0, 2}, {1, 1, 3}, {2, 0, 4}, {2, 1, 5}};
  const auto csr = csr_from_triplets<double>(test_context(), 3, 3, list);
  const auto greedy = build("bcoo-bcsr", csr, {{"select", "greedy"}, {"max_fill", "1000"}});
  EXPECT_EQ(layout_numbers(*greedy, "local_row"), (Numbers{0}));
  EXPECT_EQ(layout_numbers(*greedy, "rest_length"), (Numbers{0, 0, 2}));
  const auto matrix = build("bcoo-bcsr", csr);
  EXPECT_EQ(layout_numbers(*matrix, "local_row"), (Numbers{1}));
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{0}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(layout_numbers(*matrix, "rest_length"), (Numbers{1, 0, 0}));
  EXPECT_LT(matrix->bytes(), greedy->bytes());
}

// Against all layouts of bands, one after another, on small random matrices.
std::int64_t fewest_by_search(const std::vector<std::vector<int>>& dense, int row, int R, int C, int least,
                              std::int64_t block, std::int64_t entry) {
  const int rows = static_cast<int>(dense.size()), cols = rows > 0 ? static_cast<int>(dense[0].size()) : 0;
  if (row == rows) return 0;
  std::int64_t alone = 0;
  for (const int there : dense[static_cast<std::size_t>(row)]) alone += there * entry;
  std::int64_t best = alone + fewest_by_search(dense, row + 1, R, C, least, block, entry);
  if (row + R > rows) return best;
  const std::function<std::int64_t(int)> band = [&](int from) -> std::int64_t {
    if (from >= cols) return 0;
    std::int64_t here = 0, inside = 0;
    for (int r = row; r < row + R; ++r)
      here += dense[static_cast<std::size_t>(r)][static_cast<std::size_t>(from)];
    std::int64_t cost = here * entry + band(from + 1);
    // A block that would stick out lies at the right end, and has the columns that are left.
    for (int r = row; r < row + R; ++r)
      for (int c = from; c < std::min(from + C, cols); ++c)
        inside += dense[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
    if (C <= cols && inside >= least) cost = std::min(cost, block + band(from + C));
    return cost;
  };
  return std::min(best, band(0) + fewest_by_search(dense, row + R, R, C, least, block, entry));
}

TEST(GoldenBlocks, BcooBcsrProgrammeIsTheMinimum) {
  std::mt19937 random(5);
  for (int run = 0; run < 60; ++run) {
    const int rows = 3 + static_cast<int>(random() % 4), cols = 2 + static_cast<int>(random() % 5);
    const int R = 1 + static_cast<int>(random() % 3), C = 1 + static_cast<int>(random() % 4);
    std::vector<std::vector<int>> dense(static_cast<std::size_t>(rows),
                                        std::vector<int>(static_cast<std::size_t>(cols)));
    std::vector<Triplet<double>> list;
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c)
        if (random() % 10 < 6)
          dense[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)] = 1,
          list.push_back({r, c, 1.0 + c});
    SCOPED_TRACE(std::to_string(run) + ": " + std::to_string(R) + " x " + std::to_string(C));
    const auto csr = csr_from_triplets<double>(test_context(), rows, cols, list);
    const auto matrix = build(
        "bcoo-bcsr", csr,
        {{"rows", std::to_string(R)}, {"cols", std::to_string(C)}, {"theta", "50"}, {"max_fill", "1000"}});
    const std::int64_t block = 8 * R * C + 5 + (R * C + 7) / 8, least = (50 * R * C + 99) / 100;
    std::int64_t cost = static_cast<std::int64_t>(layout_numbers(*matrix, "block_col").size()) * block;
    for (const double length : layout_numbers(*matrix, "rest_length"))
      cost += static_cast<std::int64_t>(length) * 12;
    EXPECT_EQ(cost, fewest_by_search(dense, 0, R, C, static_cast<int>(least), block, 12));
    EXPECT_TRUE(identical(matrix->to_csr(), csr));
  }
}

// Every entry lies in one block or in the rest, and every block has its share of entries.
TEST(GoldenBlocks, BcooBcsrCoversEachEntryOnce) {
  for (const char* name : {"t8", "blocks_3x3_60", "blocks_ragged_61x47", "random_257"})
    for (const std::int64_t theta : {30, 60, 100}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(theta));
      const auto& csr = battery_matrix(name);
      const auto matrix = build("bcoo-bcsr", csr,
                                {{"rows", "3"},
                                 {"cols", "2"},
                                 {"theta", std::to_string(theta)},
                                 {"strip", "7"},
                                 {"max_fill", "1000000"}});
      double covered = 0;
      for (const double byte : layout_numbers(*matrix, "entries")) {
        const int count = std::popcount(static_cast<unsigned>(byte));
        EXPECT_GE(count * 100, theta * 6);
        covered += count;
      }
      for (const double length : layout_numbers(*matrix, "rest_length")) covered += length;
      EXPECT_EQ(covered, static_cast<double>(csr.nonzeros()));
    }
}

// The presets of bcsr: sizes on the host, and a mapping of threads on a GPU.
TEST(Blocks, PresetsOfBcsr) {
  const auto area = [](const char* id, const CsrMatrix<double>& csr) {
    const auto matrix = build(id, csr, {{"max_fill", "1000"}});
    return layout_numbers(*matrix, "values").size() / layout_numbers(*matrix, "block_col").size();
  };
  const auto threes = of_blocks(3, 3, 40, 4), twos = of_blocks(2, 2, 60, 4), fours = of_blocks(4, 4, 30, 4);
  EXPECT_EQ(area("bsr4", threes), 16u);
  EXPECT_EQ(area("bcsr-xu", threes), 16u);
  EXPECT_EQ(area("bcsr", threes), 9u);
  EXPECT_EQ(area("bcsr-cnc", twos), 4u);
  EXPECT_EQ(area("bcsr-cnc", fours), 16u);
  EXPECT_NE(area("bcsr-cnc", threes), 9u);
  EXPECT_TRUE(find_format("bsr4").preset->device_kernel.empty());
  EXPECT_EQ(find_format("bcsr-cnc").preset->device_kernel, "thread");
  EXPECT_EQ(find_format("bcsr-xu").preset->device_kernel, "row-block");
}

TEST(Blocks, RefusalsSayWhy) {
  const auto& csr = battery_matrix("identity_33");
  for (const char* id : {"bcoo", "bsellpack", "bell", "bellpack", "bin-bcsr", "bcsr-choi", "bcsr-verschoor",
                         "bsr4", "bcsr-cnc", "bcsr-xu"}) {
    SCOPED_TRACE(id);
    const Admission admission = admit(find_format(id), *test_context(), csr.pattern, {}, 8);
    EXPECT_FALSE(admission.ok);
    EXPECT_NE(admission.reason.find("blocks"), std::string::npos) << admission.reason;
    EXPECT_GT(admission.bytes, 33u * 8);
  }
  EXPECT_NE(admit(find_format("bin-bcsr"), *test_context(), clspmv_c().pattern, {}, 8).reason.find("square"),
            std::string::npos);
}

}  // namespace
}  // namespace protean::test

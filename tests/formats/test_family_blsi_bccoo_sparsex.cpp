// Formats that compress coordinates or blocks to bits: golden arrays on T8 of the format catalogue, and the property by
// which each differs from its neighbours, of which it does not hold.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/queued_kernels.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;
using Matrix = AssembledMatrix<double>;

LayoutArray array_of(const Matrix& matrix, std::string_view name) {
  for (const LayoutArray& one : dynamic_cast<const HasLayout&>(matrix).layout())
    if (one.name == name) return one;
  return {};
}

Admission asked(const char* id, const CsrMatrix<double>& csr, const FormatParams& params = {}) {
  return admit(find_format(id), *test_context(), csr.pattern, params, sizeof(double));
}

// ---- blsi

TEST(GoldenBits, BlsiOnT8) {
  const auto matrix = build("blsi", t8());
  EXPECT_EQ(layout_numbers(*matrix, "index"), (Numbers{0,  1,  9,  10, 11, 12, 13, 19, 32, 36, 39, 40,
                                                       41, 42, 43, 44, 45, 46, 47, 54, 55, 59, 62, 63}));
  EXPECT_EQ(array_of(*matrix, "index").type, "uint32");
  EXPECT_EQ(matrix->bytes(), 24u * 12);
}

// One entry in the last row and column: as many bits as rows and columns need.
CsrMatrix<double> last_entry_of(std::int64_t rows, std::int64_t cols) {
  const std::vector<Triplet<double>> list = {
      {static_cast<std::int32_t>(rows - 1), static_cast<std::int32_t>(cols - 1), 2.0}};
  return csr_from_triplets<double>(test_context(), rows, cols, list);
}

TEST(Bits, BlsiTakesTheFewestBitsOfTheShape) {
  struct Expected {
    std::int64_t rows, cols;
    double index;
    const char* type;
  };
  for (const Expected& one : {Expected{1, 1, 0, "uint32"}, Expected{1, 5, 4, "uint32"},
                              Expected{5, 1, 4, "uint32"}, Expected{3, 4, 11, "uint32"},
                              Expected{3, 5, 20, "uint32"}, Expected{65536, 65536, 4294967295.0, "uint32"},
                              Expected{65536, 65537, 65535.0 * 131072 + 65536, "uint64"},
                              Expected{65537, 65536, 65536.0 * 65536 + 65535, "uint64"}}) {
    SCOPED_TRACE(std::to_string(one.rows) + " x " + std::to_string(one.cols));
    const auto csr = last_entry_of(one.rows, one.cols);
    const auto matrix = build("blsi", csr);
    EXPECT_EQ(layout_numbers(*matrix, "index"), Numbers{one.index});
    EXPECT_EQ(array_of(*matrix, "index").type, one.type);
    EXPECT_EQ(matrix->bytes(), asked("blsi", csr).bytes);
    EXPECT_TRUE(identical(csr, matrix->to_csr()));
    std::vector<double> x(static_cast<std::size_t>(one.cols), 3.0),
        y(static_cast<std::size_t>(one.rows), 7.0);
    matrix->apply({x.data(), one.cols}, {y.data(), one.rows});
    EXPECT_EQ(y.back(), 6.0);
    EXPECT_EQ(std::count(y.begin(), y.end(), 0.0), one.rows - 1);
  }
}

// The library's matrices are smaller; admit() sees only the shape.
TEST(Bits, BlsiRefusesMoreThan64Bits) {
  SparsityPattern pattern;
  pattern.rows = std::int64_t{1} << 40, pattern.cols = std::int64_t{1} << 24;
  const FormatEntry& blsi = find_format("blsi");
  EXPECT_TRUE(blsi.admit(*test_context(), pattern, {}, 8).ok);
  pattern.cols += 1;
  const Admission refused = blsi.admit(*test_context(), pattern, {}, 8);
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.reason.find("64"), std::string::npos);
}

// Exactly one word per entry gives its place: there is no other array.
bool one_word_an_entry(const Matrix& matrix) {
  const auto layout = dynamic_cast<const HasLayout&>(matrix).layout();
  return layout.size() == 2 && layout[0].numbers.size() == static_cast<std::size_t>(matrix.nonzeros()) &&
         layout[1].name == "values";
}

TEST(Bits, BlsiHasOneWordAnEntry) {
  EXPECT_TRUE(one_word_an_entry(*build("blsi", t8())));
  for (const char* neighbour : {"coo", "csr", "scoo", "bccoo", "sell-packed"})
    EXPECT_FALSE(one_word_an_entry(*build(neighbour, t8()))) << neighbour;
}

// ---- bccoo and bccoo-plus

FormatParams blocks(const char* rows, const char* cols, FormatParams more = {}) {
  more.set("rows", rows), more.set("cols", cols), more.set("max_fill", "1000000");
  return more;
}
// The first `count` flags as text.
std::string flags_of(const Matrix& matrix, std::size_t count) {
  const Numbers bytes = layout_numbers(matrix, "flags");
  std::string text;
  for (std::size_t k = 0; k < count && k / 8 < bytes.size(); ++k)
    text += static_cast<unsigned>(bytes[k / 8]) >> (k % 8) & 1 ? '1' : '0';
  return text;
}
Numbers first(Numbers all, std::size_t count) {
  all.resize(std::min(all.size(), count));
  return all;
}

TEST(GoldenBits, BccooOnT8) {
  const auto matrix = build("bccoo", t8(), blocks("2", "2"));
  // Ten blocks, and six that fill up the second tile.
  EXPECT_EQ(flags_of(*matrix, 16), "1100111010111111");
  EXPECT_EQ(layout_numbers(*matrix, "block_col"), (Numbers{0, 1, 2, 1, 0, 1, 2, 3, 1, 3, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(array_of(*matrix, "block_col").type, "uint16");
  const Numbers values = layout_numbers(*matrix, "values");
  ASSERT_EQ(values.size(), 64u);
  EXPECT_EQ(first(values, 20), (Numbers{11, 12, 0, 0, 0, 0, 0, 34, 51, 0, 0, 0, 55, 0, 0, 58, 0, 0, 77, 78}));
  EXPECT_EQ(Numbers(values.begin() + 32, values.begin() + 36), (Numbers{0, 22, 23, 24}));  // lower rows
  EXPECT_EQ(layout_numbers(*matrix, "first_row"), (Numbers{0, 3, 4}));
  EXPECT_EQ(matrix->bytes(), 16u * (4 * 8 + 2 + 1) + 2 + 3 * 4);
}

TEST(GoldenBits, BccooPlusOnT8) {
  const auto matrix = build("bccoo-plus", t8(), blocks("2", "2", {{"slices", "2"}}));
  // Stacked block rows 0 0 1 2 2 3 4 5 6 6 7; number 5 has no entry.
  EXPECT_EQ(flags_of(*matrix, 16), "1001000010011111");
  EXPECT_EQ(first(layout_numbers(*matrix, "block_col"), 11), (Numbers{0, 1, 1, 0, 1, 1, 2, 2, 2, 3, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "first_row"), (Numbers{0, 6, 8}));
  EXPECT_EQ(layout_numbers(*matrix, "entries")[7], 0.0);
  EXPECT_EQ(matrix->bytes(), 16u * (4 * 8 + 2 + 1) + 2 + 3 * 4 + 2 * 8 * 8);
}

// Lanes change the order in memory only: the first blocks of 4 tiles, then the second ones.
TEST(GoldenBits, LanesAlternate) {
  const auto plain = build("bccoo", t8(), blocks("1", "1")),
             lanes = build("bccoo", t8(), blocks("1", "1", {{"lanes", "4"}}));
  const Numbers one = layout_numbers(*plain, "block_col"), four = layout_numbers(*lanes, "block_col");
  ASSERT_EQ(four.size(), 32u);
  for (std::size_t k = 0; k < 25; ++k) EXPECT_EQ(four[k % 8 * 4 + k / 8], one[k]) << k;
  // 24 entries and a block of zeros for row 3. Flags are in the order of the blocks.
  EXPECT_EQ(flags_of(*plain, 25), "1011110001101111111010110");
  EXPECT_EQ(flags_of(*lanes, 25), flags_of(*plain, 25));
  EXPECT_TRUE(identical(t8(), lanes->to_csr()));
}

// The size of the blocks follows from the fewest bytes.
TEST(Bits, BccooFindsTheBlocks) {
  for (const int R : {1, 2, 3, 4})
    for (const int C : {1, 2, 4}) {
      SCOPED_TRACE(R * 10 + C);
      std::vector<Triplet<double>> list;
      for (int i = 0; i < 300; ++i)
        for (const int j : {i, (7 * i + 3) % 300, (11 * i + 8) % 300, (i * i + 5) % 300})
          for (int r = 0; r < R; ++r)
            for (int c = 0; c < C; ++c) list.push_back({i * R + r, j * C + c, 1.0});
      const auto csr = csr_from_triplets<double>(test_context(), 300 * R, 300 * C, list);
      const auto matrix = build("bccoo", csr);
      const auto slots = layout_numbers(*matrix, "block_col").size();
      EXPECT_EQ(layout_numbers(*matrix, "values").size(), slots * static_cast<std::size_t>(R * C));
      EXPECT_EQ(slots, static_cast<std::size_t>(csr.nonzeros() / (R * C) + 7) / 8 * 8);
    }
}

// shape counts the sizes of blocks from the one with the fewest bytes; each is another one.
TEST(Bits, ShapesOfBccooAscendInTheirBytes) {
  const auto& csr = battery_matrix("blocks_3x3_60");
  std::vector<std::size_t> bytes;
  for (const char* shape : {"1", "2", "3", "4"})
    bytes.push_back(build("bccoo", csr, {{"shape", shape}, {"max_fill", "1000000"}})->bytes());
  EXPECT_TRUE(std::is_sorted(bytes.begin(), bytes.end()));
  EXPECT_EQ(bytes[0], build("bccoo", csr, {{"max_fill", "1000000"}})->bytes());
  EXPECT_LT(bytes[0], bytes[3]);
  std::vector<std::size_t> all;
  for (const char* rows : {"1", "2", "3", "4"})
    for (const char* cols : {"1", "2", "4"}) all.push_back(build("bccoo", csr, blocks(rows, cols))->bytes());
  std::sort(all.begin(), all.end());
  all.resize(4);
  EXPECT_EQ(bytes, all);
}

TEST(Bits, AShapeThatIsNotAllowedIsRefused) {
  const Admission refused = asked("bccoo", battery_matrix("random_257"), {{"rows", "2"}, {"shape", "4"}});
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.reason.find("shape = 4, but rows and cols allow 3 sizes"), std::string::npos)
      << refused.reason;
  EXPECT_TRUE(
      asked("bccoo", battery_matrix("random_257"), {{"rows", "1"}, {"shape", "3"}, {"max_fill", "50"}}).ok);
}

// Columns of blocks that need more than 16 bits.
TEST(Bits, BccooTakes16BitsForColumnsWhereTheyFit) {
  for (const std::int64_t cols : {65536, 65537}) {
    const auto csr = last_entry_of(3, cols);
    const auto matrix = build("bccoo", csr, {{"rows", "1"}, {"cols", "1"}, {"max_fill", "1000000"}});
    EXPECT_EQ(array_of(*matrix, "block_col").type, cols > 65536 ? "int32" : "uint16");
    EXPECT_EQ(layout_numbers(*matrix, "block_col")[2], static_cast<double>(cols - 1));
    EXPECT_TRUE(identical(csr, matrix->to_csr()));
  }
}

// More slices than columns: block rows of slices without columns have a block of zeros in the last column.
TEST(Bits, BccooPlusOfMoreSlicesThanColumns) {
  const auto& csr = battery_matrix("t8");
  for (const char* slices : {"3", "5", "32"}) {
    SCOPED_TRACE(slices);
    const auto matrix =
        build("bccoo-plus", csr, blocks("4", "4", {{"slices", slices}, {"max_fill_percent", "100000"}}));
    EXPECT_TRUE(identical(csr, matrix->to_csr()));
    std::vector<double> x(8, 1.0), y(9, 7.0);
    matrix->apply({x.data(), 8}, {y.data(), 8});
    EXPECT_EQ(y, (std::vector<double>{23, 120, 34, 0, 164, 516, 155, 259, 7}));
  }
}

bool has(const Matrix& matrix, std::string_view name) { return !array_of(matrix, name).name.empty(); }
// One bit per block gives its block row: there is neither a row index nor a pointer for each block row.
bool flags_tell_rows(const Matrix& matrix) {
  return has(matrix, "flags") && !has(matrix, "block_row") && !has(matrix, "block_ptr") &&
         layout_numbers(matrix, "flags").size() * 8 == layout_numbers(matrix, "block_col").size();
}
// Block row 0 of T8 has blocks in columns 0 1 2, which two slices cut.
bool cuts_the_first_block_row(const Matrix& matrix) {
  return flags_tell_rows(matrix) && flags_of(matrix, 3) == "100";
}

TEST(Bits, BlocksDifferFromTheirNeighbours) {
  const auto made = [](const char* id) {
    FormatParams params = most_tolerant(find_format(id));
    for (const ParamDoc& doc : settable_params(find_format(id)))
      if (doc.name == "rows" || doc.name == "cols") params.set(std::string(doc.name), "2");
    return build(id, t8(), params);
  };
  for (const char* id : {"bccoo", "bccoo-plus"}) EXPECT_TRUE(flags_tell_rows(*made(id))) << id;
  for (const char* neighbour : {"bcoo", "bcsr", "bsellpack", "bin-bcsr", "blsi", "coo"})
    EXPECT_FALSE(flags_tell_rows(*made(neighbour))) << neighbour;
  EXPECT_TRUE(cuts_the_first_block_row(*made("bccoo-plus")));
  EXPECT_FALSE(cuts_the_first_block_row(*made("bccoo")));
}

TEST(Bits, RefusalsSayWhy) {
  const auto& csr = battery_matrix("identity_33");
  EXPECT_NE(
      asked("bccoo", battery_matrix("random_257"), {{"rows", "4"}, {"cols", "4"}}).reason.find("max_fill"),
      std::string::npos);
  EXPECT_TRUE(asked("bccoo", csr).ok);
  const Admission slices = asked("bccoo-plus", csr);
  EXPECT_FALSE(slices.ok);
  EXPECT_NE(slices.reason.find("slices"), std::string::npos) << slices.reason;
}

// ---- sparsex

// The units of a stream, read as the head of sparsex.cpp says, and independently of the format's reader.
struct Unit {
  int kind, size;
  int row, col;  // of the first entry
  std::vector<std::pair<int, int>> entries;
};
std::vector<Unit> units_of(const Matrix& matrix, int part_rows) {
  const Numbers stream = layout_numbers(matrix, "stream"), begin = layout_numbers(matrix, "part_begin");
  std::vector<Unit> units;
  for (std::size_t part = 0; part + 1 < begin.size(); ++part) {
    auto at = static_cast<std::size_t>(begin[part]);
    const auto end = static_cast<std::size_t>(begin[part + 1]);
    const auto byte = [&] { return static_cast<int>(stream.at(at++)); };
    const auto number = [&] {
      int value = 0, shift = 0, low;
      do { low = byte(), value += (low % 128) << shift, shift += 7; } while (low > 127);
      return value;
    };
    int row = static_cast<int>(part) * part_rows - 1, col = 0;
    while (at < end) {
      const int head = byte();
      Unit u{head % 64, byte(), 0, 0, {}};
      if (head & 128) ++row, col = 0;
      if (head & 64) row += number();
      col += number();
      u.row = row, u.col = col;
      if (u.kind < 3) {
        int c = col;
        u.entries.emplace_back(row, c);
        for (int k = 1; k < u.size; ++k) {
          int delta = 0;
          for (int i = 0; i < 1 << u.kind; ++i) delta += byte() << (8 * i);
          u.entries.emplace_back(row, c += delta);
        }
      } else if (u.kind < 7) {
        const int step = number(), down = u.kind == 3 ? 0 : step,
                  right = u.kind == 4   ? 0
                          : u.kind == 6 ? -step
                                        : step;
        for (int k = 0; k < u.size; ++k) u.entries.emplace_back(row + k * down, col + k * right);
      } else {
        for (int r = 0; r < u.kind - 8; ++r)
          for (int c = 0; c < u.size; ++c) u.entries.emplace_back(row + r, col + c);
      }
      units.push_back(u);
    }
    EXPECT_EQ(at, end);
  }
  return units;
}
// The entries that the units describe, with the values in their order, are the entries of the matrix.
void expect_lossless(const CsrMatrix<double>& csr, const Matrix& matrix, int part_rows) {
  const Numbers values = layout_numbers(matrix, "values");
  std::vector<Triplet<double>> list;
  for (const Unit& u : units_of(matrix, part_rows)) {
    const int part = u.row / part_rows;
    for (const auto& [row, col] : u.entries) {
      EXPECT_EQ(row / part_rows, part);
      ASSERT_LT(list.size(), values.size());
      const double value = values[list.size()];
      list.push_back({row, col, value});
    }
  }
  EXPECT_TRUE(identical(
      csr, csr_from_triplets<double>(test_context(), csr.rows(), csr.cols(), list, Duplicates::refuse)));
}
std::size_t entries_of_kind(const std::vector<Unit>& units, int kind) {
  std::size_t count = 0;
  for (const Unit& u : units)
    if (u.kind == kind) count += u.entries.size();
  return count;
}
double index_bytes(const char* id, const CsrMatrix<double>& csr) {
  const auto matrix = build(id, csr);
  return static_cast<double>(matrix->bytes()) / static_cast<double>(csr.nonzeros()) - 8;
}

TEST(GoldenBits, SparsexAsInItsHead) {
  const std::vector<Triplet<double>> list = {{0, 0, 1}, {0, 2, 2}, {1, 1, 3},
                                             {3, 0, 4}, {3, 1, 5}, {3, 3, 6}};
  const auto matrix = build("sparsex", csr_from_triplets<double>(test_context(), 4, 4, list));
  EXPECT_EQ(layout_numbers(*matrix, "stream"), (Numbers{128, 2, 0, 2, 128, 1, 1, 192, 3, 1, 0, 1, 2}));
  EXPECT_EQ(layout_numbers(*matrix, "part_begin"), (Numbers{0, 13}));
  EXPECT_EQ(layout_numbers(*matrix, "part_value"), (Numbers{0, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(matrix->bytes(), 13u + 2 * 16 + 6 * 8);
}

TEST(Bits, SparsexLosesNothing) {
  for (const BatteryMatrix& one : battery())
    for (const int rows : {1, 3, 128}) {
      SCOPED_TRACE(std::string(one.name) + " " + std::to_string(rows));
      const auto matrix =
          build("sparsex", one.matrix, {{"part_rows", std::to_string(rows)}, {"min_run", "2"}});
      expect_lossless(one.matrix, *matrix, rows);
    }
}

// Each kind is found in its place, in steps of 1 and 2.
TEST(Bits, SparsexFindsEachKind) {
  struct Line {
    int kind, down, right;
  };
  for (const Line& line : {Line{3, 0, 1}, Line{3, 0, 2}, Line{4, 1, 0}, Line{4, 2, 0}, Line{5, 1, 1},
                           Line{5, 2, 2}, Line{6, 1, -1}, Line{6, 2, -2}}) {
    SCOPED_TRACE(std::to_string(line.kind) + " " + std::to_string(line.down) + " " +
                 std::to_string(line.right));
    std::vector<Triplet<double>> list;
    for (int first = 0; first < 128; first += 32)
      for (int k = 0; k < 15; ++k)
        list.push_back({first + k * line.down, 1000 + 50 * first + k * line.right, 1.0 + k});
    const auto csr = csr_from_triplets<double>(test_context(), 160, 9000, list);
    const auto matrix = build("sparsex", csr);
    const auto units = units_of(*matrix, 128);
    EXPECT_EQ(units.size(), 4u);
    EXPECT_EQ(entries_of_kind(units, line.kind), 60u);
    expect_lossless(csr, *matrix, 128);
  }
  for (const int height : {2, 3, 4, 6, 8}) {
    SCOPED_TRACE(height);
    // Two columns: neither rows nor columns of 6 and more are runs of 4, except in the higher blocks.
    std::vector<Triplet<double>> list;
    for (int i = 0; i < 10; ++i)
      for (int r = 0; r < height; ++r)
        for (int c = 0; c < 5; ++c) list.push_back({i * height + r, (i * 37 % 90) * 6 + c, 1.0 + i + r + c});
    const auto csr = csr_from_triplets<double>(test_context(), 10 * height, 600, list);
    const auto matrix = build("sparsex", csr);
    EXPECT_EQ(entries_of_kind(units_of(*matrix, 128), 8 + height), 50u * static_cast<std::size_t>(height));
    expect_lossless(csr, *matrix, 128);
  }
}

// Differences of 255, 256, 65535 and 65536 columns.
TEST(Bits, SparsexTakesTheFewestBytesForADifference) {
  std::vector<Triplet<double>> list;
  int col = 0, row = 0;
  for (const int delta : {255, 256, 65535, 65536}) {
    const int first = 3 * row * row;  // no line
    list.push_back({row, first, 1}), list.push_back({row++, first + delta, 2});
  }
  for (const int delta : {1, 300, 2, 70000}) list.push_back({row, col += delta, 3});
  const auto csr = csr_from_triplets<double>(test_context(), row + 1, 80000, list);
  const auto matrix = build("sparsex", csr);
  std::string kinds;
  for (const Unit& u : units_of(*matrix, 128)) kinds += std::to_string(u.kind) + std::to_string(u.size) + " ";
  // The last row: columns 1 301 | 303 70303.
  EXPECT_EQ(kinds, "02 12 12 22 12 22 ");
  expect_lossless(csr, *matrix, 128);
}

bool under_a_fifth_of_a_byte(const char* id) {
  std::vector<Triplet<double>> list;
  for (int r = 0; r < 3000; ++r)
    for (int c = std::max(0, r - 2); c <= std::min(2999, r + 2); ++c)
      list.push_back({r, c, 1.0 / (1 + r + c)});  // not exact in float
  return index_bytes(id, csr_from_triplets<double>(test_context(), 3000, 3000, list)) < 0.2;
}
TEST(Bits, SparsexNeedsNextToNoIndexOnABand) {
  EXPECT_TRUE(under_a_fifth_of_a_byte("sparsex"));
  for (const char* neighbour : {"csr", "sell-packed", "blsi", "bccoo"})
    EXPECT_FALSE(under_a_fifth_of_a_byte(neighbour)) << neighbour;
  // Blocks of 3 x 3 as well, and never much more than csr.
  EXPECT_LT(index_bytes("sparsex", battery_matrix("blocks_3x3_60")), 1.5);
  for (const char* name : {"random_257", "power_law_500"})
    EXPECT_LT(index_bytes("sparsex", battery_matrix(name)), index_bytes("csr", battery_matrix(name))) << name;
}

// In deterministic mode the units of a row come in the order of its columns, and lie in one row each.
TEST(Bits, SparsexKeepsRowsInOrderInDeterministicMode) {
  HostOptions options;
  options.deterministic = true;
  const ContextPtr context = Context::host(2, options);
  for (const BatteryMatrix& one : battery()) {
    SCOPED_TRACE(one.name);
    const auto matrix = make_matrix(find_format("sparsex"), one.matrix, context);
    std::pair<int, int> last{-1, -1};
    for (const Unit& u : units_of(*matrix, 128))
      for (const auto& entry : u.entries) {
        EXPECT_LT(last, entry);
        last = entry;
      }
  }
}

// ---- on a GPU

// The launches of a product, and the same bits in 20 products.
TEST(BitsOnADevice, ProductsHaveTheirLaunchesAndAFixedOrder) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  struct Case {
    const char* id;
    double n;
    std::size_t launches;
  };
  // The larger matrix has too many carries for one block of threads.
  for (const auto& [id, n, launches] :
       {Case{"blsi", 24, 2}, Case{"bccoo", 24, 1}, Case{"bccoo-plus", 24, 2}, Case{"sparsex", 24, 1},
        Case{"bccoo", 64, 2}, Case{"bccoo-plus", 64, 3}}) {
    SCOPED_TRACE(std::string(id) + " n " + std::to_string(n));
    const CsrMatrix<double> csr = placed(context, generate(test_context(), "poisson-3d", {{"n", n}}));
    const Placed<double> x(context, sample_vector<double>(csr.cols(), 5));
    const auto matrix = make_matrix(find_format(id), csr, context);
    Numbers first;
    for (int product = 0; product < 20; ++product) {
      Placed<double> y(context, Numbers(static_cast<std::size_t>(csr.rows()), 0.0));
      matrix->apply(x.read(), y.view());
      if (product == 0) first = y.fetch();
      EXPECT_EQ(y.fetch(), first);
    }
    Placed<double> y(context, Numbers(static_cast<std::size_t>(csr.rows()), 1.0));
    EXPECT_EQ(queued_kernels(context, [&] { matrix->apply(2.0, x.read(), 0.5, y.view()); }).size(), launches);
  }
}

// A host takes any number of lanes, a GPU only the lanes of a warp.
TEST(BitsOnADevice, BccooTakesALaneForEachThreadOfAWarp) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  const CsrMatrix<double> csr = placed(context, t8());
  EXPECT_TRUE(admit(find_format("bccoo"), *context, csr.pattern, blocks("1", "1", {{"lanes", "32"}}), 8).ok);
  const Admission refused =
      admit(find_format("bccoo"), *context, csr.pattern, blocks("1", "1", {{"lanes", "4"}}), 8);
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.reason.find("32"), std::string::npos);
}

}  // namespace
}  // namespace protean::test

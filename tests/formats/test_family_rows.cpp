// Formats on the arrays of csr with a map of rows of their own: the rules of the literature for threads a row, the
// tables on T8, and for each format the property that no neighbour has.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/rows/rows.hpp"
#include "formats/row/rules.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/guarded_array.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

// An array of the layout; nothing when the format has none of this name.
std::optional<Numbers> array_of(const AssembledMatrix<double>& matrix, std::string_view name) {
  const auto* shown = dynamic_cast<const HasLayout*>(&matrix);
  if (!shown) return std::nullopt;
  for (const LayoutArray& array : shown->layout())
    if (array.name == name) return array.numbers;
  return std::nullopt;
}

std::string type_of(const AssembledMatrix<double>& matrix, std::string_view name) {
  for (const LayoutArray& array : dynamic_cast<const HasLayout&>(matrix).layout())
    if (array.name == name) return std::string(array.type);
  return {};
}

// Rows of these lengths; row r begins at column r modulo the space that is left.
CsrMatrix<double> of_lengths(const std::vector<std::int64_t>& lengths, std::int64_t cols) {
  std::int64_t nonzeros = 0;
  for (const std::int64_t length : lengths) nonzeros += length;
  const auto rows = static_cast<std::int64_t>(lengths.size());
  CsrBuilder<double> builder(test_context(), rows, cols, nonzeros);
  std::int64_t k = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t length = lengths[static_cast<std::size_t>(r)], first = r % (cols - length + 1);
    for (std::int64_t i = 0; i < length; ++i, ++k)
      builder.col()[k] = static_cast<std::int32_t>(first + i),
      builder.values()[k] = 0.25 * static_cast<double>(1 + (r + 3 * i) % 7);
    builder.set_row_ptr(r + 1, k);
  }
  return builder.freeze();
}
CsrMatrix<double> equal_rows(std::int64_t length) {
  return of_lengths(std::vector<std::int64_t>(64, length), 300);
}
// 600 short rows of varying length, many without entries, and two that hold most of the entries.
CsrMatrix<double> two_giant_rows() {
  std::vector<std::int64_t> lengths;
  for (std::int64_t r = 0; r < 600; ++r)
    lengths.push_back(r == 17 ? 30000 : r == 400 ? 9000 : r % 7 * (r % 3));
  return of_lengths(lengths, 31000);
}

// ---- Threads a row -------------------------------------------------------------------------------------------------

// T as a preset of csr fixes or chooses it.
int lanes_of(const char* id, const CsrMatrix<double>& csr) {
  const Preset& preset = *find_format(id).preset;
  if (preset.device_kernel == "elzein-rendell")  // the kernel chooses, unless a parameter says it
    return formats::elzein_rendell_lanes(csr.rows(), csr.nonzeros());
  FormatParams params;
  for (const FixedParam& one : preset.fixed) params.set(std::string(one.name), std::string(one.value));
  if (preset.choose) preset.choose(*test_context(), csr.pattern, params);
  return static_cast<int>(params.integer("T"));
}
const std::vector<const char*> in_groups = {"csr-scalar",         "csr-vector",    "csr-guo-wang",
                                            "csr-elzein-rendell", "csr-yoshizawa", "csr-mukunoki"};

TEST(RowFamily, ThreadsARowOnT8AndOnLongerRows) {
  const CsrMatrix<double> mean3 = t8();  // mean 3, the longest row has 8
  const std::vector<int> expected[] = {{1, 32, 16, 1, 8, 2}, {1, 32, 16, 32, 16, 8}, {1, 32, 32, 32, 32, 32}};
  const CsrMatrix<double> matrices[] = {mean3, equal_rows(12), equal_rows(100)};
  for (int m = 0; m < 3; ++m)
    for (std::size_t i = 0; i < in_groups.size(); ++i)
      EXPECT_EQ(lanes_of(in_groups[i], matrices[m]), expected[m][i]) << in_groups[i] << " matrix " << m;
}

TEST(RowFamily, NoTwoPresetsHaveTheSameThreads) {
  const CsrMatrix<double> matrices[] = {t8(), equal_rows(1), equal_rows(12), equal_rows(30),
                                        two_giant_rows()};
  std::set<std::vector<int>> seen;
  for (const char* id : in_groups) {
    std::vector<int> lanes;
    for (const auto& csr : matrices) lanes.push_back(lanes_of(id, csr));
    EXPECT_TRUE(seen.insert(lanes).second) << id << " is an alias of another preset";
    EXPECT_EQ(find_format(id).preset->device_kernel,
              std::string_view(id) == "csr-elzein-rendell" ? "elzein-rendell" : "cooperative");
    EXPECT_EQ(find_format(id).preset->host_kernel, "native");
  }
  EXPECT_EQ(find_format("csr-gridification").preset->device_kernel, "gridification");
}

TEST(RowFamily, RulesAtTheirBorders) {
  using namespace formats;
  EXPECT_EQ(guo_wang_lanes(10, 240), 16);
  EXPECT_EQ(guo_wang_lanes(10, 241), 32);
  EXPECT_EQ(elzein_rendell_lanes(10, 79), 1);
  EXPECT_EQ(elzein_rendell_lanes(10, 80), 32);
  const std::pair<std::int64_t, int> longest[] = {{0, 1}, {1, 1}, {2, 2}, {3, 4}, {8, 8}, {9, 16}, {33, 32}};
  for (const auto& [length, lanes] : longest) EXPECT_EQ(yoshizawa_lanes(length), lanes) << length;
  const std::pair<std::int64_t, int> means[] = {{0, 1},  {10, 1}, {19, 1},    {20, 2},
                                                {39, 2}, {40, 4}, {10000, 32}};
  for (const auto& [entries, lanes] : means) EXPECT_EQ(mukunoki_lanes(10, entries), lanes) << entries;
  const std::pair<std::int64_t, int> wang[] = {{0, 1}, {10, 2}, {11, 4}, {30, 4}, {31, 8}, {310, 32}};
  for (const auto& [entries, lanes] : wang) EXPECT_EQ(wang_lanes(10, entries), lanes) << entries;
  const std::pair<std::int64_t, int> light[] = {{0, 2},  {24, 2},  {26, 4},  {44, 4},
                                                {46, 8}, {644, 8}, {646, 32}};
  for (const auto& [entries, lanes] : light) EXPECT_EQ(lightspmv_lanes(10, entries), lanes) << entries;
  EXPECT_EQ(wang_lanes(8, 24), 4);
  for (const auto rule : {guo_wang_lanes, elzein_rendell_lanes, mukunoki_lanes, wang_lanes, lightspmv_lanes})
    EXPECT_LE(rule(0, 0), 16) << "no rows";
}

// A thread or a warp, whatever the mean is; `measured` tries both.
TEST(RowFamily, LanesOfElZeinAndRendellAreAThreadOrAWarp) {
  const FormatEntry& entry = find_format("csr-elzein-rendell");
  EXPECT_THROW((void)resolve_params(entry, {{"lanes", "8"}}), BadArgument);
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  const CsrMatrix<double> rows = upload(device, equal_rows(100));
  for (const char* lanes : {"auto", "1", "32", "measured"}) {
    const auto matrix = make_matrix(entry, rows, device, {{"lanes", lanes}});
    const std::string found = matrix->params().word("lanes");
    if (std::string_view(lanes) == "measured") {
      EXPECT_TRUE(found == "1" || found == "32") << found;
    } else {
      EXPECT_EQ(found, lanes);
    }
  }
}

TEST(RowFamily, TheLongestRow) {
  EXPECT_EQ(formats::longest_row(*test_context(), t8().pattern), 8);
  EXPECT_EQ(formats::longest_row(*test_context(), two_giant_rows().pattern), 30000);
  EXPECT_EQ(formats::longest_row(*test_context(), battery_matrix("zero_7x7").pattern), 0);
  const ContextPtr device = test_context(Space::device);
  if (device) { EXPECT_EQ(formats::longest_row(*device, upload(device, two_giant_rows()).pattern), 30000); }
}

// A kernel's parameters appear only where the kernel is.
TEST(RowFamily, ThreadsARowAreNoParameterOfTheHostsKernel) {
  for (const char* id : in_groups) {
    EXPECT_FALSE(build(id, t8())->params().has("T")) << id;
    EXPECT_EQ(build(id, t8())->params().word("balance"), "rows") << id;
  }
}

// ---- Tables --------------------------------------------------------------------------------------------------------

TEST(RowFamily, GuoGroppOnT8) {
  const CsrMatrix<double> source = t8();
  const auto matrix = build("csr-guo-gropp", source);
  EXPECT_EQ(array_of(*matrix, "row_list"), (Numbers{3, 2, 0, 6, 4, 7, 1, 5}));
  EXPECT_EQ(array_of(*matrix, "range_ptr"), (Numbers{0, 4, 6, 8, 8, 8, 8}));
  EXPECT_EQ(array_of(*matrix, "col"), array_of(*build("csr", t8()), "col")) << "values are not moved";
  EXPECT_EQ(matrix->to_csr().values, source.values) << "the caller's own array";
  const auto longer = build("csr-guo-gropp", two_giant_rows());
  const Numbers list = *array_of(*longer, "row_list"), ptr = *array_of(*longer, "range_ptr");
  const auto csr = two_giant_rows();
  for (std::size_t range = 0; range < 6; ++range)
    for (double p = ptr[range]; p < ptr[range + 1]; ++p) {
      const std::int64_t length =
          csr.pattern.row_length(static_cast<std::int64_t>(list[static_cast<std::size_t>(p)]));
      if (range > 0) { EXPECT_GT(length, std::int64_t{1} << range); }
      if (range < 5) { EXPECT_LE(length, std::int64_t{2} << range); }
    }
  EXPECT_EQ(list[598], 400);
  EXPECT_EQ(list[599], 17);
}

TEST(RowFamily, AcsrOnT8) {
  const auto matrix = build("acsr", t8());
  EXPECT_EQ(array_of(*matrix, "row_list"), (Numbers{0, 2, 6, 4, 7, 1, 5, 3}));
  EXPECT_EQ(array_of(*matrix, "bin_ptr"), (Numbers{0, 3, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8}));
  const auto giants = build("acsr", t8(), {{"bin_max", "2"}});
  EXPECT_EQ(array_of(*giants, "row_list"), (Numbers{0, 2, 6, 4, 7, 1, 5, 3}));
  EXPECT_EQ(array_of(*giants, "bin_ptr"), (Numbers{0, 3, 5, 7, 8})) << "rows 1 and 5 are longer than 4";
}

TEST(RowFamily, BlocksOfRowsOnT8) {
  EXPECT_EQ(array_of(*build("csr-stream", t8(), {{"S", "8"}}), "block_ptr"), (Numbers{0, 4, 5, 6, 8}));
  EXPECT_EQ(array_of(*build("csr-adaptive", t8(), {{"S", "8"}}), "block_ptr"), (Numbers{0, 4, 5, 6, 8}));
  EXPECT_EQ(array_of(*build("csr-adaptive", t8(), {{"S", "6"}}), "block_ptr"), (Numbers{0, 1, 4, 5, 6, 8}));
  EXPECT_EQ(array_of(*build("csr-adaptive", t8(), {{"S", "1"}}), "block_ptr"),
            (Numbers{0, 1, 2, 4, 5, 6, 7, 8}));
  EXPECT_EQ(array_of(*build("csr-adaptive", t8()), "block_ptr"), (Numbers{0, 8}));
}

TEST(RowFamily, BlocksOfRowsHaveAtMost256RowsAndEndWithASection) {
  const auto empty = of_lengths(std::vector<std::int64_t>(5000, 0), 3);
  const Numbers blocks = *array_of(*build("csr-stream", empty), "block_ptr");
  ASSERT_EQ(blocks.size(), 21u);
  for (std::size_t b = 0; b < 19; ++b) EXPECT_EQ(blocks[b], 256.0 * static_cast<double>(b));
  EXPECT_EQ(blocks[20], 5000);
  // 100 rows of 10 entries are 1000, so the block before row 4096 is shorter than the others.
  const auto tens = of_lengths(std::vector<std::int64_t>(4300, 10), 50);
  const Numbers cut = *array_of(*build("csr-stream", tens), "block_ptr");
  EXPECT_EQ(cut[1], 102);
  EXPECT_TRUE(std::find(cut.begin(), cut.end(), 4096) != cut.end());
}

// A matrix of 20000 rows whose lengths vary, some of them long.
CsrMatrix<double> varied() {
  std::vector<std::int64_t> lengths;
  for (std::int64_t r = 0; r < 20000; ++r)
    lengths.push_back(r % 1000 == 7 ? 1500 : (r * 37 + r * r / 3) % 41 * (r % 3));
  return of_lengths(lengths, 1600);
}

// As many rows as fit, and not one less.
TEST(RowFamily, BlocksOfRowsAreFull) {
  const CsrMatrix<double> csr = varied();
  const auto& row_ptr = csr.pattern.row_ptr;
  for (const std::int64_t most : {1, 7, 100, 1024, 2048}) {
    const std::vector<std::int32_t> first = formats::row_blocks(csr.pattern, most).first;
    ASSERT_EQ(first.front(), 0);
    ASSERT_EQ(first.back(), csr.rows());
    for (std::size_t b = 0; b + 1 < first.size(); ++b) {
      const std::int64_t begin = first[b], end = first[b + 1];
      ASSERT_LT(begin, end);
      ASSERT_EQ(begin / formats::block_section, (end - 1) / formats::block_section);
      ASSERT_LE(end - begin, formats::block_rows_most);
      if (end - begin > 1) { ASSERT_LE(row_ptr[end] - row_ptr[begin], most); }
      if (end % formats::block_section != 0 && end < csr.rows() && end - begin < formats::block_rows_most) {
        ASSERT_GT(row_ptr[end + 1] - row_ptr[begin], most) << "row " << end << " has room in its block";
      }
    }
  }
}

// Shares have every entry once, and end where a block ends or within a row longer than 50.
TEST(RowFamily, SharesOfBlocksHaveEveryEntryOnce) {
  const CsrMatrix<double> csr = two_giant_rows();
  const formats::RowBlocks blocks = formats::row_blocks(csr.pattern, 25);
  for (const int parts : {1, 2, 3, 8, 100}) {
    const auto shares = formats::shares_of_blocks(csr.pattern, blocks, parts, 50);
    ASSERT_EQ(shares.size(), static_cast<std::size_t>(parts));
    std::int64_t row = 0, k = 0;
    bool cut = false;
    for (const formats::RowShare& share : shares) {
      EXPECT_EQ(share.row_begin, row);
      EXPECT_EQ(share.k_begin, k);
      row = share.row_end, k = share.k_end;
      EXPECT_GE(k, csr.pattern.row_ptr[row]);
      if (k > csr.pattern.row_ptr[row]) {
        cut = true;
        EXPECT_GT(csr.pattern.row_length(row), 50);
        EXPECT_LE(k, csr.pattern.row_ptr[row + 1]);
      } else {
        EXPECT_TRUE(std::binary_search(blocks.first.begin(), blocks.first.end(), row)) << row;
      }
    }
    EXPECT_EQ(row, csr.rows());
    EXPECT_EQ(k, csr.nonzeros());
    EXPECT_EQ(cut, parts > 1);
  }
}

TEST(RowFamily, RangesOfEqualEntriesOnT8) {
  for (const char* id : {"balanced-csr", "vectorized-csr"}) {
    EXPECT_EQ(array_of(*build(id, t8(), {{"parts", "2"}}), "border"), (Numbers{0, 5, 8})) << id;
    // Entries 8 and 16: row 4 begins at 8, as does row 3; row 6 begins at 19 and row 5 at 11.
    EXPECT_EQ(array_of(*build(id, t8(), {{"parts", "3"}}), "border"), (Numbers{0, 3, 6, 8})) << id;
    EXPECT_EQ(array_of(*build(id, t8()), "border"), (Numbers{0, 8})) << id << ": too small for two threads";
  }
}

TEST(RowFamily, LengthsInPlaceOfPointersOnT8) {
  const auto matrix = build("csr-wang", t8());
  // The last row of a group of 32 ends where the group ends.
  EXPECT_EQ(array_of(*matrix, "length"), (Numbers{2, 5, 1, 0, 3, 8, 2}));
  EXPECT_EQ(type_of(*matrix, "length"), "uint16");
  EXPECT_EQ(array_of(*matrix, "group_ptr"), (Numbers{0, 24}));
  EXPECT_EQ(matrix->bytes(), 24u * 12 + 7 * 2 + 2 * 4);
  const auto groups = build("csr-wang", equal_rows(12));
  EXPECT_EQ(array_of(*groups, "group_ptr"), (Numbers{0, 384, 768}));
  EXPECT_EQ(array_of(*groups, "length")->size(), 62u);
  // 65535 is the longest row whose length has two bytes.
  for (const std::int64_t longest : {65535, 65536}) {
    const auto csr = of_lengths({longest, 1}, 70000);
    const auto A = build("csr-wang", csr);
    EXPECT_EQ(type_of(*A, "length"), longest == 65535 ? "uint16" : "uint32");
    EXPECT_EQ((*array_of(*A, "length"))[0], static_cast<double>(longest));
    const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(2, 2);
    auto y = y0;
    A->apply(2.0, {x.data(), csr.cols()}, -1.0, {y.data(), 2});
    EXPECT_TRUE(product_is_right(csr, 2.0, x, -1.0, y0, y));
  }
}

// In no matrix are lengths larger than the pointers that they stand for, not even where they have four bytes.
TEST(RowFamily, LengthsInPlaceOfPointersAreNeverLargerThanCsr) {
  std::vector<CsrMatrix<double>> all;
  for (const BatteryMatrix& one : battery()) all.push_back(one.matrix);
  for (const std::int64_t rows : {1, 2, 31, 32, 33, 63, 64, 65, 100})
    for (const std::int64_t longest : {std::int64_t{3}, std::int64_t{66000}}) {
      std::vector<std::int64_t> lengths(static_cast<std::size_t>(rows), 1);
      lengths[static_cast<std::size_t>(rows / 2)] = longest;
      all.push_back(of_lengths(lengths, 70000));
    }
  for (const CsrMatrix<double>& csr : all) {
    SCOPED_TRACE(csr.rows());
    const std::size_t before = allocated_bytes();
    const auto A = build("csr-wang", csr);
    EXPECT_LE(A->bytes(), csr.bytes());
    EXPECT_EQ(allocated_bytes() - before, A->bytes());
    EXPECT_TRUE(identical(A->to_csr(), csr));
  }
}

TEST(RowFamily, AlignedRowsOnT8) {
  const auto four = build("icsr", t8(), {{"align", "4"}});
  EXPECT_EQ(array_of(*four, "row_ptr"), (Numbers{0, 4, 12, 16, 16, 20, 28, 32, 36}));
  EXPECT_EQ(array_of(*four, "col"), (Numbers{0, 1, 1, 1, 1, 2, 3, 4, 5, 5, 5, 5, 3, 3, 3, 3, 0, 4,
                                             7, 7, 0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 7, 7, 3, 6, 7, 7}));
  EXPECT_EQ(array_of(*four, "values"),
            (Numbers{11, 12, 0,  0,  22, 23, 24, 25, 26, 0,  0,  0,  34, 0, 0,  0,  51, 55,
                     58, 0,  61, 62, 63, 64, 65, 66, 67, 68, 77, 78, 0,  0, 84, 87, 88, 0}));
  EXPECT_EQ(array_of(*build("csr-halfwarp-aligned", t8()), "values")->size(), 112u);
  EXPECT_EQ(array_of(*build("icsr", t8()), "values")->size(), 224u);
  try {
    (void)build("icsr", t8(), {{"max_fill", "9"}});
    FAIL() << "224 slots for 24 entries";
  } catch (const FormatRefused& refusal) {
    EXPECT_NE(refusal.reason().find("224"), std::string::npos) << refusal.reason();
  }
}

// Padding reads what its row reads: NaN in x reaches no other row.
TEST(RowFamily, PaddingOfAlignedRowsCarriesNoNaN) {
  const auto matrix = build("icsr", t8());
  Numbers x(8, 1.0), y(8);
  x[0] = std::numeric_limits<double>::quiet_NaN();
  matrix->apply(VectorView<const double>{x.data(), 8}, {y.data(), 8});
  for (const int r : {1, 2, 3, 6, 7}) EXPECT_TRUE(std::isfinite(y[static_cast<std::size_t>(r)])) << r;
  for (const int r : {0, 4, 5}) EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(r)])) << r;
}

// ---- What no neighbour has -----------------------------------------------------------------------------------------

// True for a row whose entries are added one after another, each product rounded or not.
bool adds_in_order(const AssembledMatrix<double>& matrix) {
  const CsrMatrix<double> csr = matrix.to_csr();
  const Numbers x(static_cast<std::size_t>(csr.cols()), 1.0 / 3);
  Numbers y(static_cast<std::size_t>(csr.rows()));
  matrix.apply({x.data(), csr.cols()}, {y.data(), csr.rows()});
  bool rounded = true, fused = true;
  for (std::int64_t r = 0; r < csr.rows(); ++r) {
    double sum = 0, other = 0;
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k) {
      volatile const double product = csr.values[k] * x[0];
      sum += product, other = std::fma(csr.values[k], x[0], other);
    }
    rounded = rounded && y[static_cast<std::size_t>(r)] == sum,
    fused = fused && y[static_cast<std::size_t>(r)] == other;
  }
  return rounded || fused;
}
bool refuses_long_rows(const char* id) {
  try {
    (void)build(id, two_giant_rows());
    return false;
  } catch (const FormatRefused& refusal) {
    EXPECT_NE(refusal.reason().find("30000"), std::string::npos) << refusal.reason();
    return true;
  }
}

// The greatest common divisor of the row pointers is `align` in a matrix with rows of 3 and `more` entries.
bool rows_begin_at_multiples(const char* id, std::int64_t align, std::int64_t more) {
  const auto matrix = build(id, of_lengths({3, more, 3, 0, 3}, 100));
  std::int64_t divisor = 0;
  if (!array_of(*matrix, "row_ptr")) return false;
  const Numbers begins = *array_of(*matrix, "row_ptr");
  for (const double begin : begins) divisor = std::gcd(divisor, static_cast<std::int64_t>(begin));
  return divisor == align;
}

struct Mark {
  const char* format;
  std::function<bool(const char*)> holds;  // of the format with this id
};
const std::vector<Mark>& marks() {
  const auto shows = [](const char* id, const CsrMatrix<double>& csr, std::string_view name,
                        const Numbers& numbers) { return array_of(*build(id, csr), name) == numbers; };
  static const std::vector<Mark> all = {
      {"csr-guo-gropp",
       [=](const char* id) {
         return shows(id, t8(), "row_list", {3, 2, 0, 6, 4, 7, 1, 5});
       }},
      {"acsr",
       [=](const char* id) {
         return shows(id, t8(), "row_list", {0, 2, 6, 4, 7, 1, 5, 3});
       }},
      {"csr-stream", refuses_long_rows},
      {"csr-adaptive",
       [=](const char* id) {
         if (find_format(id).params.empty() || find_format(id).params.front().name != "S" ||
             refuses_long_rows(id))
           return false;
         const Numbers blocks = *array_of(*build(id, two_giant_rows(), {{"S", "8"}}), "block_ptr");
         return std::find(blocks.begin(), blocks.end(), 17) != blocks.end() &&
                std::find(blocks.begin(), blocks.end(), 18) != blocks.end();
       }},
      {"balanced-csr",
       [](const char* id) {
         const auto matrix =
             build(id, id == std::string_view("csr-stream") ? equal_rows(100) : two_giant_rows());
         return array_of(*matrix, "border") && adds_in_order(*matrix);
       }},
      {"vectorized-csr",
       [](const char* id) {
         const auto matrix =
             build(id, id == std::string_view("csr-stream") ? equal_rows(100) : two_giant_rows());
         return array_of(*matrix, "border") && !adds_in_order(*matrix);
       }},
      {"csr-wang", [](const char* id) { return array_of(*build(id, t8()), "length").has_value(); }},
      {"icsr", [](const char* id) { return rows_begin_at_multiples(id, 32, 32); }},
      {"csr-halfwarp-aligned", [](const char* id) { return rows_begin_at_multiples(id, 16, 48); }},
  };
  return all;
}

TEST(RowFamily, EachFormatHasAPropertyThatNoNeighbourHas) {
  for (const Mark& one : marks())
    for (const Mark& other : marks()) {
      const bool same = one.format == std::string_view(other.format);
      EXPECT_EQ(one.holds(other.format), same) << "the property of " << one.format << " in " << other.format;
    }
}

// ---- Products ------------------------------------------------------------------------------------------------------

struct Form {
  const char* format;
  FormatParams params;
};
const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"csr-guo-gropp", {}},
      {"acsr", {}},
      {"acsr", {{"bin_max", "1"}}},
      {"acsr", {{"bin_max", "4"}}},
      {"lightspmv", {}},
      {"csr-adaptive", {}},
      {"csr-adaptive", {{"S", "1"}}},
      {"csr-adaptive", {{"S", "100"}}},
      {"balanced-csr", {{"parts", "9"}}},
      {"vectorized-csr", {{"parts", "9"}}},
      {"csr-wang", {}},
  };
  return all;
}

// Long rows are cut among threads, and every piece is added once, whatever the number of threads is.
// The kernel naive adds the entries of a row one after another; native does not.
TEST(RowFamily, TheNaiveKernelAddsInOrder) {
  const CsrMatrix<double> csr = equal_rows(100);
  const auto with = [&](const char* kernel) {
    return make_matrix(find_format("csr"), csr, test_context(), {}, kernel);
  };
  EXPECT_TRUE(adds_in_order(*with("naive")));
  EXPECT_FALSE(adds_in_order(*with("native")));
  EXPECT_EQ(with("naive")->bytes(), csr.bytes());
  const ContextPtr deterministic = Context::host(1, {.deterministic = true});
  EXPECT_THROW(make_matrix(find_format("csr"), csr, deterministic, {}, "naive"), FormatRefused);
}

TEST(RowFamily, GiantRowsForAnyNumberOfThreads) {
  const CsrMatrix<double> csr = two_giant_rows();
  const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
  for (const Form& form : forms())
    for (const int threads : {1, 2, 3, 7, 12}) {
      SCOPED_TRACE(std::string(form.format) + " " + std::to_string(threads));
      const auto A = make_matrix(find_format(form.format), csr, Context::host(threads), form.params);
      auto y = y0;
      A->apply(-0.5, {x.data(), csr.cols()}, 2.0, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y));
    }
}

// More rows than a processor remembers the lengths of, empty ones among them: entries are multiplied eight at a time,
// also those of the rows that follow, and never beyond the arrays.
template <class T>
void expect_right_products_of_uneven_rows() {
  constexpr std::int64_t rows = 30011, cols = 5000;
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col;
  std::vector<T> values;
  std::vector<bool> has_first;  // an entry in column 0
  std::mt19937 random(7);
  for (std::int64_t r = 0; r < rows; ++r) {
    const int length = r % 11 == 3 ? 0 : static_cast<int>(random() % (r % 50 == 9 ? 40 : 12));
    std::set<std::int32_t> in_row;
    while (std::ssize(in_row) < length)
      in_row.insert(r % 4 == 1 && in_row.empty() ? 0 : static_cast<std::int32_t>(1 + random() % (cols - 1)));
    has_first.push_back(in_row.contains(0));
    for (const std::int32_t c : in_row)
      col.push_back(c), values.push_back(static_cast<T>(static_cast<int>(random() % 200) - 100) / 16);
    row_ptr.push_back(std::ssize(col));
  }
  const GuardedArray<const std::int32_t> guarded_col("col", col, Border::end);
  const GuardedArray<const T> guarded_values("values", values, Border::end);
  const std::vector<std::int32_t> row_ptr32(row_ptr.begin(), row_ptr.end());
  const CsrMatrix<T> csr = csr_view(rows, cols, row_ptr32.data(), guarded_col.data(), guarded_values.data());
  ASSERT_TRUE(formats::rows_uneven(csr.pattern));
  const auto x = sample_vector<T>(cols, 1), y0 = sample_vector<T>(rows, 2);
  auto infinite = x;
  infinite[0] = std::numeric_limits<T>::infinity();
  for (const char* id : {"csr", "vectorized-csr", "lightspmv", "csr-adaptive"})
    for (const int threads : {1, 2, 7}) {
      SCOPED_TRACE(std::string(id) + " " + std::to_string(threads));
      const auto A = make_matrix(find_format(id), csr, Context::host(threads));
      auto y = y0;
      A->apply(T(-0.5), {x.data(), cols}, T(2), {y.data(), rows});
      EXPECT_TRUE(product_is_right(csr, T(-0.5), x, T(2), y0, y));
      y.assign(rows, std::numeric_limits<T>::quiet_NaN());
      A->apply(VectorView<const T>{x.data(), cols}, {y.data(), rows});
      EXPECT_TRUE(product_is_right(csr, T(1), x, T(0), y0, y));
      // Infinity in x reaches the rows that have an entry there, and no others.
      A->apply(VectorView<const T>{infinite.data(), cols}, {y.data(), rows});
      for (std::size_t r = 0; r < y.size(); ++r)
        ASSERT_TRUE(has_first[r] || std::isfinite(y[r])) << "row " << r;
    }
}

TEST(RowFamily, ManyRowsOfVaryingLength) {
  expect_right_products_of_uneven_rows<double>();
  expect_right_products_of_uneven_rows<float>();
}

TEST(RowFamily, AcsrAndAdaptiveCutAGiantRowAndTheOthersDoNot) {
  const CsrMatrix<double> csr = of_lengths({40000, 1, 2}, 40000);
  const Numbers x(40000, 1.0 / 3);
  const auto first_sum = [&](const char* id, int threads, bool deterministic) {
    Numbers y(3);
    make_matrix(find_format(id), csr, Context::host(threads, {.deterministic = deterministic}))
        ->apply(VectorView<const double>{x.data(), 40000}, {y.data(), 3});
    return y[0];
  };
  for (const char* id :
       {"csr-guo-gropp", "lightspmv", "balanced-csr", "vectorized-csr", "csr-wang", "acsr", "csr-adaptive"}) {
    const bool cuts = id == std::string_view("acsr") || id == std::string_view("csr-adaptive");
    EXPECT_EQ(first_sum(id, 1, false) != first_sum(id, 3, false), cuts) << id;
    EXPECT_EQ(first_sum(id, 1, true), first_sum(id, 3, true)) << id;
    EXPECT_EQ(first_sum(id, 3, true), first_sum("csr", 2, true)) << id;
  }
}

// Nothing but the tables is allocated, and admit() knows their bytes.
TEST(RowFamily, OnlyTablesAreAllocated) {
  const CsrMatrix<double> csr = two_giant_rows();
  for (const Form& form : forms()) {
    if (!find_format(form.format).traits.uses_source) continue;  // csr-wang has arrays of its own
    SCOPED_TRACE(form.format);
    const std::size_t before = allocated_bytes();
    const auto A = build(form.format, csr, form.params);
    EXPECT_EQ(allocated_bytes() - before, A->bytes() - csr.bytes());
    EXPECT_EQ(A->bytes(), admit(A->entry(), *test_context(), csr.pattern, form.params, 8).bytes);
    EXPECT_EQ(A->to_csr().values, csr.values);
  }
}

// On a device the tables are the same as on the host, where the bytes show it, and products with every row length are
// right for all parameters.
TEST(RowFamilyOnADevice, GiantRows) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  for (const CsrMatrix<double>& csr :
       {two_giant_rows(), varied(), of_lengths({40000, 1, 2}, 40000), of_lengths({0, 0, 5000, 0}, 5001), t8(),
        of_lengths(std::vector<std::int64_t>(5000, 0), 3)}) {
    const auto source = placed(context, csr);
    const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
    const Placed<double> px(context, x);
    for (const Form& form : forms()) {
      SCOPED_TRACE(form.format);
      const auto A = make_matrix(find_format(form.format), source, context, form.params);
      EXPECT_EQ(A->bytes(), admit(A->entry(), *context, source.pattern, form.params, 8).bytes);
      Placed<double> y(context, y0), again(context, y0);
      A->apply(-0.5, px.read(), 2.0, y.view());
      A->apply(-0.5, px.read(), 2.0, again.view());
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y.fetch()));
      EXPECT_EQ(y.fetch(), again.fetch());
    }
  }
}

TEST(RowFamilyOnADevice, GroupsOfThreadsOfEverySize) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  const CsrMatrix<double> csr = two_giant_rows();
  const auto source = placed(context, csr);
  const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
  const Placed<double> px(context, x);
  for (const char* T : {"1", "2", "4", "8", "16", "32"})
    for (const char* block : {"32", "128", "512"})
      for (const char* repeat : {"1", "3"}) {
        const FormatParams params{{"T", T}, {"block", block}, {"repeat", repeat}};
        const auto A = make_matrix(find_format("csr"), source, context, params, "cooperative");
        EXPECT_EQ(A->params().word("T"), T);
        Placed<double> y(context, y0);
        A->apply(-0.5, px.read(), 2.0, y.view());
        EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y.fetch())) << T << " " << block << " " << repeat;
      }
  // As many blocks as on the host.
  const CsrMatrix<double> lengths = varied();
  const auto there = placed(context, lengths);
  // No row is longer than 2 S, so csr-adaptive shares none.
  for (const char* id : {"csr-stream", "csr-adaptive"})
    for (const char* S : {"1500", "2048"})
      EXPECT_EQ(admit(find_format(id), *context, there.pattern, {{"S", S}}, 8).bytes,
                admit(find_format(id), *test_context(), lengths.pattern, {{"S", S}}, 8).bytes);
  const auto streamed = make_matrix(find_format("csr-stream"), there, context, {{"S", "2048"}});
  const auto xs = sample_vector<double>(lengths.cols(), 1), ys = sample_vector<double>(lengths.rows(), 2);
  const Placed<double> pxs(context, xs);
  Placed<double> y_streamed(context, ys);
  streamed->apply(-0.5, pxs.read(), 2.0, y_streamed.view());
  EXPECT_TRUE(product_is_right(lengths, -0.5, xs, 2.0, ys, y_streamed.fetch()));
  // The counter of rows is LightSpMV's own.
  EXPECT_EQ(make_matrix(find_format("lightspmv"), source, context)->bytes(), csr.bytes() + 8);
  for (const char* level : {"warp", "vector"}) {
    const auto A = make_matrix(find_format("lightspmv"), source, context, {{"level", level}});
    for (int product = 0; product < 3; ++product) {
      Placed<double> y(context, y0);
      A->apply(-0.5, px.read(), 2.0, y.view());
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y.fetch())) << level << product;
    }
  }
}

// Lengths around the borders of tiles, for each number of steps that a block of threads makes: rows that a tile cannot
// hold at once, at its beginning and its end, behind each other and between empty ones.
TEST(RowFamilyOnADevice, BlocksOfWholeRows) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  using Lengths = std::vector<std::int64_t>;
  std::vector<Lengths> all;
  for (const std::int64_t rows : {1, 3000, 40000, 150000, 300000}) all.push_back(Lengths(rows, 5));
  all.push_back(Lengths(20000, 60));  // of long rows
  for (const std::int64_t longest :
       {96, 97, 128, 192, 256, 257, 384, 385, 512, 768, 769, 1000, 2999, 3000, 3001})
    for (const std::int64_t at : {0, 1, 63, 1000, 1999}) {
      Lengths lengths(2000, 3);
      lengths[at] = longest;
      all.push_back(lengths);
      std::fill(lengths.begin(), lengths.end(), 0);
      lengths[at] = lengths[1500] = longest;
      all.push_back(lengths);
    }
  Lengths uneven(100000);
  for (std::size_t r = 0; r < uneven.size(); ++r) uneven[r] = r % 997 == 5 ? 1500 : r % 13 == 0 ? 0 : r % 11;
  all.push_back(uneven);
  all.push_back(Lengths(3000, 700));
  all.push_back({});
  all.push_back(Lengths(40000, 0));
  for (const Lengths& lengths : all) {
    const std::int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    const auto rows = static_cast<std::int64_t>(lengths.size());
    SCOPED_TRACE(std::to_string(rows) + " rows, the longest " + std::to_string(longest));
    const CsrMatrix<double> csr = of_lengths(lengths, std::max(rows, longest));
    const auto source = placed(context, csr);
    const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
    const Placed<double> px(context, x);
    for (const char* balance : {"blocks", "auto"}) {
      SCOPED_TRACE(balance);
      const auto A = make_matrix(find_format("csr"), source, context, {{"balance", balance}});
      EXPECT_EQ(A->bytes(), admit(A->entry(), *context, source.pattern, {{"balance", balance}}, 8).bytes);
      Placed<double> y(context, y0), again(context, y0);
      A->apply(-0.5, px.read(), 2.0, y.view());
      A->apply(-0.5, px.read(), 2.0, again.view());
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y.fetch()));
      EXPECT_EQ(y.fetch(), again.fetch());
      if (csr.rows() != csr.cols() || csr.rows() == 0) continue;
      Placed<double> fused(context, Numbers(csr.rows(), std::numeric_limits<double>::quiet_NaN())),
          dot(context, {0});
      apply_dot<double>(*A, px.read(), fused.view(), dot.data());
      const Numbers product = fused.fetch();
      EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, y0, product));
      double expected = 0, size = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        expected += x[i] * product[i], size += std::abs(x[i] * product[i]);
      EXPECT_NEAR(dot.fetch()[0], expected, 1e-12 * size);
    }
  }
}

// Which division `auto` takes: the arrays that it adds show it.
TEST(RowFamilyOnADevice, TheDivisionOfCsrByTheLengthsOfItsRows) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  if (context->simulated()) GTEST_SKIP() << "the divisions are those of a GPU";
  using Lengths = std::vector<std::int64_t>;
  const auto added = [&](const Lengths& lengths, const char* balance) {
    const CsrMatrix<double> csr =
        of_lengths(lengths, std::max(std::ssize(lengths), *std::max_element(lengths.begin(), lengths.end())));
    return make_matrix(find_format("csr"), placed(context, csr), context, {{"balance", balance}})->bytes() -
           csr.bytes();
  };
  EXPECT_EQ(added(Lengths(3000, 5), "auto"), 0U) << "few rows, which groups take at once";
  EXPECT_EQ(added(Lengths(3000, 1), "auto"), 0U);
  EXPECT_EQ(added(Lengths(30000, 70), "auto"), 0U) << "long rows of the same length";
  Lengths uneven(5000, 5);
  uneven[77] = 400;
  for (const Lengths& lengths : {Lengths(300000, 5), uneven}) {
    EXPECT_GT(added(lengths, "auto"), 0U);
    EXPECT_EQ(added(lengths, "auto"), added(lengths, "blocks"));
    EXPECT_NE(added(lengths, "auto"), added(lengths, "merge"));
  }
  uneven[77] = 4000;                  // one block would work on it when all others have ended
  const Lengths large(7'000'000, 5);  // 450 MB, more than four times the second-level cache
  Lengths falling(100'000);  // neighbours are alike, but a group of threads takes the first row in 100 steps
  for (std::size_t i = 0; i < falling.size(); ++i)
    falling[i] = 40 + std::llround(5000 * std::exp(-static_cast<double>(i) / 500));
  for (const Lengths& lengths : {uneven, large, falling})
    EXPECT_EQ(added(lengths, "auto"), added(lengths, "merge"));
}

}  // namespace
}  // namespace protean::test

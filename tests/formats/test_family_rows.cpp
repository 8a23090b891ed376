// Formats on the arrays of csr with their own map of rows: the rules of the literature for threads a row, the tables on
// T8, and for each format the property that no neighbour has.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/rows/rows.hpp"
#include "formats/row/rules.hpp"
#include "gtest/gtest.h"
#include "row_family.hpp"
#include "support/battery.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

std::string type_of(const AssembledMatrix<double>& matrix, std::string_view name) {
  for (const LayoutArray& array : dynamic_cast<const HasLayout&>(matrix).layout())
    if (array.name == name) return std::string(array.type);
  return {};
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

// The parameters of a kernel appear only where the kernel is.
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
  // The last row of a group of 32 ends at the end of the group.
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

// In no matrix are lengths larger than the pointers that they stand for, not even if they have four bytes.
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

}  // namespace
}  // namespace protean::test

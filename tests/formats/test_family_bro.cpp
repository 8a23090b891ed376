// Formats whose columns or rows are coded in few bits: the codec, golden arrays on the catalogue's T8, and the property
// by which each format differs from its neighbours, which is also shown not to hold of the neighbour.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/bits/bits.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"

namespace protean::test {
namespace {

using formats::bits_of;
using formats::field_at;
using formats::FieldReader;
using formats::FieldWriter;
using formats::symbols_of;

std::uint32_t random_of_width(std::mt19937& random, int width) {
  return width == 0 ? 0u : static_cast<std::uint32_t>(random()) >> (32 - width);
}

TEST(BitStreams, TheWidthOfANumberIsThePlaceOfItsHighestBit) {
  EXPECT_EQ(bits_of(0), 0);
  for (int bit = 0; bit < 32; ++bit) {
    const std::uint32_t power = std::uint32_t{1} << bit;
    EXPECT_EQ(bits_of(power), bit + 1);
    EXPECT_EQ(bits_of(power | (power - 1)), bit + 1);
  }
  EXPECT_EQ(symbols_of(0), 0);
  EXPECT_EQ(symbols_of(1), 1);
  EXPECT_EQ(symbols_of(32), 1);
  EXPECT_EQ(symbols_of(33), 2);
}

// Random widths from 0 to 32 for all lanes, with neighbours on both sides that must stay as they are.
TEST(BitStreams, WhatIsWrittenIsReadInEveryLane) {
  constexpr std::uint32_t untouched = 0xdeadbeef;
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t lanes = 1 + static_cast<std::int64_t>(random() % 9);
    const auto fields = static_cast<std::size_t>(random() % 90);
    const int widest = 1 + static_cast<int>(random() % 33);  // 33: all widths
    std::vector<int> widths(fields);
    std::int64_t bits = 0;
    for (int& width : widths) bits += width = static_cast<int>(random() % static_cast<unsigned>(widest));
    std::vector<std::vector<std::uint32_t>> numbers(static_cast<std::size_t>(lanes));
    const std::int64_t size = symbols_of(bits) * lanes;
    std::vector<std::uint32_t> symbols(static_cast<std::size_t>(size) + 2, untouched);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      FieldWriter writer(symbols.data() + 1 + lane, lanes);
      for (const int width : widths) {
        numbers[static_cast<std::size_t>(lane)].push_back(random_of_width(random, width));
        writer.put(numbers[static_cast<std::size_t>(lane)].back(), width);
      }
      writer.finish();
    }
    ASSERT_EQ(symbols.front(), untouched);
    ASSERT_EQ(symbols.back(), untouched);
    // Exactly as many as predicted: a reader of the last field is within them, which AddressSanitizer checks.
    const std::vector<std::uint32_t> exact(symbols.begin() + 1, symbols.end() - 1);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      FieldReader reader(exact.data() + lane, lanes);
      std::int64_t bit = 0;
      for (std::size_t i = 0; i < fields; ++i) {
        const std::uint32_t written = numbers[static_cast<std::size_t>(lane)][i];
        ASSERT_EQ(reader.take(widths[i]), written) << "field " << i << " of lane " << lane;
        ASSERT_EQ(field_at(exact.data() + lane, lanes, bit, widths[i]), written);
        bit += widths[i];
      }
    }
  }
}

// The streams of rows 0 to 3 of T8 in bro-ell: 3 + 1 + 1 + 1 + 1 bits, highest bit first.
TEST(BitStreams, FieldsBeginAtTheHighestBit) {
  const std::vector<int> widths{3, 1, 1, 1, 1};
  const std::vector<std::vector<std::uint32_t>> steps{
      {1, 1, 0, 0, 0}, {2, 1, 1, 1, 1}, {4, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
  std::vector<std::uint32_t> symbols(4);
  for (std::size_t lane = 0; lane < 4; ++lane) {
    FieldWriter writer(symbols.data() + lane, 4);
    for (std::size_t i = 0; i < 5; ++i) writer.put(steps[lane][i], widths[i]);
    writer.finish();
  }
  EXPECT_EQ(symbols, (std::vector<std::uint32_t>{0b0011000u << 25, 0b0101111u << 25, 0b1000000u << 25, 0}));
}

using Numbers = std::vector<double>;

Numbers array(const AssembledMatrix<double>& matrix, std::string_view name) {
  if (const auto* shown = dynamic_cast<const HasLayout*>(&matrix))
    for (const LayoutArray& one : shown->layout())
      if (one.name == name) return one.numbers;
  return {};
}
std::vector<std::uint32_t> symbols_named(const AssembledMatrix<double>& matrix, std::string_view name) {
  const Numbers numbers = array(matrix, name);
  return {numbers.begin(), numbers.end()};
}
std::int64_t at(const Numbers& numbers, std::int64_t i) {
  return static_cast<std::int64_t>(numbers.at(static_cast<std::size_t>(i)));
}
using Columns = std::vector<std::int32_t>;

// Slices of h rows: the columns of each position, from the arrays alone. Nothing when a width is not the least for its
// slot.
std::vector<Columns> decode_slices(const AssembledMatrix<double>& matrix, std::int64_t h) {
  const Numbers col_ptr = array(matrix, "col_ptr"), bit_alloc = array(matrix, "bit_alloc"),
                symbol_ptr = array(matrix, "symbol_ptr");
  const auto symbols = symbols_named(matrix, "symbols");
  if (col_ptr.empty() || symbol_ptr.size() != col_ptr.size()) return {};
  std::vector<Columns> found(static_cast<std::size_t>(matrix.rows()));
  std::vector<std::uint32_t> widest(bit_alloc.size());
  for (std::int64_t p = 0; p < matrix.rows(); ++p) {
    const std::int64_t s = p / h, lanes = std::min(h, matrix.rows() - s * h);
    FieldReader reader(symbols.data() + h * at(symbol_ptr, s) + p % h, lanes);
    std::int32_t col = -1;
    for (std::int64_t k = at(col_ptr, s); k < at(col_ptr, s + 1); ++k) {
      const std::uint32_t step = reader.take(static_cast<int>(at(bit_alloc, k)));
      widest[static_cast<std::size_t>(k)] |= step;
      if (step > 0) found[static_cast<std::size_t>(p)].push_back(col += static_cast<std::int32_t>(step));
    }
  }
  for (std::size_t k = 0; k < widest.size(); ++k)
    if (bits_of(widest[k]) != bit_alloc[k]) return {};
  return found;
}
// Rows, each with one width, which is the least.
std::vector<Columns> decode_rows(const AssembledMatrix<double>& matrix, const std::string& prefix) {
  const Numbers row_ptr = array(matrix, prefix + "row_ptr"),
                row_symbol = array(matrix, prefix + "row_symbol"), width = array(matrix, prefix + "width");
  const auto symbols = symbols_named(matrix, prefix + "symbols");
  if (row_symbol.empty() || row_symbol.size() != row_ptr.size()) return {};
  std::vector<Columns> found(static_cast<std::size_t>(matrix.rows()));
  for (std::int64_t p = 0; p < matrix.rows(); ++p) {
    const std::int64_t length = at(row_ptr, p + 1) - at(row_ptr, p);
    if (length == 0) continue;
    const std::uint32_t* stream = symbols.data() + at(row_symbol, p);
    Columns& cols = found[static_cast<std::size_t>(p)];
    cols.push_back(static_cast<std::int32_t>(*stream));
    std::uint32_t all = 0;
    for (std::int64_t i = 0; i + 1 < length; ++i) {
      const int bits = static_cast<int>(at(width, p));
      const std::uint32_t step = field_at(stream + 1, 1, i * bits, bits);
      all |= step;
      cols.push_back(cols.back() + static_cast<std::int32_t>(step));
    }
    if (bits_of(all) != at(width, p)) return {};
  }
  return found;
}
// The rows of coordinates in intervals of W lanes and q steps, each with the least width.
Numbers decode_coordinates(const AssembledMatrix<double>& matrix, const std::string& prefix, std::int64_t W,
                           std::int64_t q) {
  const Numbers base = array(matrix, prefix + "base"), width = array(matrix, prefix + "width"),
                begin = array(matrix, prefix + "interval_symbol"), col = array(matrix, prefix + "col");
  const auto symbols = symbols_named(matrix, prefix + "symbols");
  Numbers rows(base.size() * static_cast<std::size_t>(W * q));
  for (std::int64_t i = 0; i < std::ssize(base); ++i) {
    std::uint32_t all = 0;
    for (std::int64_t lane = 0; lane < W; ++lane) {
      FieldReader reader(symbols.data() + at(begin, i) + lane, W);
      double row = base[static_cast<std::size_t>(i)];
      for (std::int64_t k = 0; k < q; ++k) {
        const std::uint32_t step = reader.take(static_cast<int>(at(width, i)));
        all |= step;
        rows[static_cast<std::size_t>((i * q + k) * W + lane)] = row += step;
      }
    }
    if (bits_of(all) != at(width, i)) return {};
  }
  for (std::size_t k = col.size(); k < rows.size(); ++k)
    if (rows[k] != rows[col.size() - 1]) return {};  // padding is the last row
  rows.resize(std::min(rows.size(), col.size()));
  return rows;
}

std::vector<Columns> columns_of(const CsrMatrix<double>& csr) {
  std::vector<Columns> found;
  for (std::int64_t r = 0; r < csr.rows(); ++r) {
    const auto row = csr.pattern.row(r);
    found.emplace_back(row.begin(), row.end());
  }
  return found;
}
Numbers rows_of(const CsrMatrix<double>& csr) {
  Numbers rows;
  for (std::int64_t r = 0; r < csr.rows(); ++r)
    rows.insert(rows.end(), static_cast<std::size_t>(csr.pattern.row_length(r)), static_cast<double>(r));
  return rows;
}
// Lengths with a heavy tail, in a random order, with empty rows; the columns of a row lie near each other.
CsrMatrix<double> skewed(std::int64_t rows, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Triplet<double>> triplets;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t most = random() % 9 == 0 ? 60 : 6,
                       count = static_cast<std::int64_t>(random()) % (most + 1);
    std::set<std::int64_t> cols;
    for (std::int64_t k = 0; k < count; ++k)
      cols.insert((r + static_cast<std::int64_t>(random() % 100)) % rows);
    for (const std::int64_t c : cols)
      triplets.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(c),
                          1 + static_cast<double>((r * 31 + c * 7) % 97) / 8});
  }
  return csr_from_triplets<double>(test_context(), rows, rows, triplets);
}

constexpr const char* ids[] = {"bro-ell", "bro-csr", "bro-coo", "bro-hyb", "bro-hybr", "bro-hybr-s"};
FormatParams tolerant(std::string_view id) {
  const bool padded = id == "bro-ell" || id == "sell" || id == "sell-c-sigma";
  return padded ? FormatParams{{"max_fill", "1000000"}} : FormatParams{};
}

// Lossless for the greatest difference that there can be, one of 31 bits.
TEST(Bro, ColumnsOf31BitsComeBack) {
  const std::int64_t cols = std::numeric_limits<std::int32_t>::max();
  const auto last = static_cast<std::int32_t>(cols - 1);
  const auto csr = csr_from_triplets<double>(
      test_context(), 5, cols,
      std::vector<Triplet<double>>{
          {0, 0, 1}, {0, last, 2}, {2, last, 3}, {4, 0, 4}, {4, 1, 5}, {4, last, 6}});
  for (const char* id : ids) EXPECT_TRUE(identical(csr, build(id, csr, tolerant(id))->to_csr())) << id;
}

TEST(Bro, EllOnT8) {
  const auto matrix = build("bro-ell", t8(), {{"h", "4"}});
  EXPECT_EQ(array(*matrix, "col_ptr"), (Numbers{0, 5, 13}));
  EXPECT_EQ(array(*matrix, "bit_alloc"), (Numbers{3, 1, 1, 1, 1, 3, 3, 2, 1, 1, 1, 1, 1}));
  EXPECT_EQ(array(*matrix, "symbol_ptr"), (Numbers{0, 1, 2}));
  // One symbol per row, 32 bytes; SELL-4 has 208 bytes of columns.
  EXPECT_EQ(symbols_named(*matrix, "symbols"),
            (std::vector<std::uint32_t>{0b0011000u << 25, 0b0101111u << 25, 0b1000000u << 25, 0,
                                        0b0011001100000u << 19, 0b0010010111111u << 19,
                                        0b1110010000000u << 19, 0b1000110100000u << 19}));
  EXPECT_EQ(array(*matrix, "values"),
            (Numbers{11, 22, 34, 0,  12, 23, 0,  0,  0,  24, 0,  0,  0, 25, 0, 0,  0, 26,
                     0,  0,  51, 61, 77, 84, 55, 62, 78, 87, 58, 63, 0, 88, 0, 64, 0, 0,
                     0,  65, 0,  0,  0,  66, 0,  0,  0,  67, 0,  0,  0, 68, 0, 0}));
  EXPECT_EQ(matrix->bytes(), 52u * 8 + 32 + 13 + 3 * 16);
  // The last slice has the rows that are left.
  EXPECT_EQ(array(*build("bro-ell", t8(), {{"h", "5"}}), "values").size(), 5u * 5 + 3 * 8);
}

TEST(Bro, CsrOnT8) {
  const auto matrix = build("bro-csr", t8());
  EXPECT_EQ(array(*matrix, "row_ptr"), (Numbers{0, 2, 7, 8, 8, 11, 19, 21, 24}));
  EXPECT_EQ(array(*matrix, "width"), (Numbers{1, 1, 0, 0, 3, 1, 1, 2}));
  EXPECT_EQ(array(*matrix, "row_symbol"), (Numbers{0, 2, 4, 5, 5, 7, 9, 11, 13}));
  EXPECT_EQ(symbols_named(*matrix, "symbols"),
            (std::vector<std::uint32_t>{0, 1u << 31, 1, 0xfu << 28, 3, 0, 0b100011u << 26, 0, 0x7fu << 25, 6,
                                        1u << 31, 3, 0b1101u << 28}));
  EXPECT_EQ(matrix->bytes(), 24u * 8 + 13 * 4 + 8 + 2 * 9 * 4);
}

TEST(Bro, CooOnT8) {
  const auto matrix = build("bro-coo", t8(), {{"W", "4"}, {"q", "2"}});
  EXPECT_EQ(array(*matrix, "base"), (Numbers{0, 4, 5}));
  EXPECT_EQ(array(*matrix, "width"), (Numbers{1, 1, 2}));
  EXPECT_EQ(array(*matrix, "interval_symbol"), (Numbers{0, 4, 8, 12}));
  EXPECT_EQ(symbols_named(*matrix, "symbols"),
            (std::vector<std::uint32_t>{1u << 30, 1u << 30, 1u << 31, 3u << 30, 1u << 30, 1u << 30, 1u << 30,
                                        1u << 31, 1u << 28, 2u << 28, 2u << 28, 5u << 28}));
  EXPECT_EQ(decode_coordinates(*matrix, "", 4, 2), rows_of(t8()));
  EXPECT_EQ(array(*matrix, "col"), array(*build("coo", t8()), "col"));
  EXPECT_EQ(matrix->bytes(), 24u * 12 + 12 * 4 + 3 * 5 + 4 * 8);
}

TEST(Bro, SumsOnT8) {
  const auto hyb = build("bro-hyb", t8(), {{"h", "4"}, {"W", "4"}, {"q", "2"}});  // K = 3 is the rule's
  EXPECT_EQ(array(*hyb, "bit_alloc"), (Numbers{3, 1, 1, 3, 3, 2}));
  EXPECT_EQ(array(*hyb, "values"), (Numbers{11, 22, 34, 0,  12, 23, 0,  0,  0,  24, 0, 0,
                                            51, 61, 77, 84, 55, 62, 78, 87, 58, 63, 0, 88}));
  EXPECT_EQ(decode_coordinates(*hyb, "tail_", 4, 2), (Numbers{1, 1, 5, 5, 5, 5, 5}));
  EXPECT_EQ(array(*hyb, "tail_col"), (Numbers{4, 5, 3, 4, 5, 6, 7}));
  EXPECT_EQ(array(*hyb, "tail_values"), (Numbers{25, 26, 64, 65, 66, 67, 68}));

  const auto hybr = build("bro-hybr", t8(), {{"h", "4"}});
  EXPECT_EQ(array(*hybr, "values"), array(*hyb, "values"));
  EXPECT_EQ(array(*hybr, "tail_row_ptr"), (Numbers{0, 0, 2, 2, 2, 2, 7, 7, 7}));
  EXPECT_EQ(array(*hybr, "tail_width"), (Numbers{0, 1, 0, 0, 0, 1, 0, 0}));
  EXPECT_TRUE(array(*hybr, "perm").empty());

  const auto sorted = build("bro-hybr-s", t8(), {{"h", "4"}});
  EXPECT_EQ(array(*sorted, "perm"), (Numbers{5, 1, 4, 7, 0, 6, 2, 3}));
  EXPECT_EQ(array(*sorted, "values"),
            (Numbers{61, 22, 51, 84, 62, 23, 55, 87, 63, 24, 58, 88, 11, 77, 34, 0, 12, 78, 0, 0}));
  EXPECT_EQ(array(*sorted, "tail_row_ptr"), (Numbers{0, 5, 7, 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(sorted->bytes(), 20u * 8 + 32 + 5 + 3 * 16 + 8 * 4 + 7 * 8 + 4 * 4 + 8 + 2 * 9 * 4);

  // Without a tail a sum is bro-ell.
  const auto whole = build("bro-hyb", t8(), {{"h", "4"}, {"K", "8"}});
  EXPECT_TRUE(array(*whole, "tail_base").empty());
  EXPECT_EQ(whole->bytes(), build("bro-ell", t8(), {{"h", "4"}})->bytes());
}

// Padding reads nothing of x: a NaN there reaches the rows that use it, and no row without entries.
TEST(Bro, ANaNOfXReachesOnlyTheRowsThatUseIt) {
  const CsrMatrix<double> csr = skewed(333, 4);
  const std::int64_t n = csr.rows();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const char* id : ids) {
    const auto matrix = build(id, csr, tolerant(id));
    for (const std::int64_t j : {std::int64_t{0}, std::int64_t{1}, n / 2, n - 1}) {
      std::vector<double> x(static_cast<std::size_t>(n), 1.0), y(static_cast<std::size_t>(n), nan);
      x[static_cast<std::size_t>(j)] = nan;
      matrix->apply({x.data(), n}, {y.data(), n});
      for (std::int64_t r = 0; r < n; ++r) {
        const auto row = csr.pattern.row(r);
        const bool uses = std::find(row.begin(), row.end(), j) != row.end();
        ASSERT_EQ(std::isnan(y[static_cast<std::size_t>(r)]), uses)
            << id << ", row " << r << ", column " << j;
      }
    }
  }
}

// What each format codes, from its arrays alone.
using Property = std::function<bool(const AssembledMatrix<double>&, const CsrMatrix<double>&)>;
bool codes_slots(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr) {
  return decode_slices(matrix, 32) == columns_of(csr);
}
bool codes_rows(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr) {
  return decode_rows(matrix, "") == columns_of(csr);
}
bool codes_coordinates(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr) {
  const Numbers col = array(matrix, "col");
  return decode_coordinates(matrix, "", 32, 32) == rows_of(csr) &&
         std::equal(col.begin(), col.end(), csr.pattern.col, csr.pattern.col + csr.nonzeros());
}
// The first entries of each row in slices as wide as hyb's ELLPACK; the others in the place that `tail` gives.
bool cuts_as_hyb(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr,
                 const std::function<std::vector<Columns>(const AssembledMatrix<double>&)>& tail) {
  const std::int64_t K = std::ssize(array(*build("hyb", csr), "ell_values")) / csr.rows();
  const Numbers perm = array(matrix, "perm");
  const std::vector<Columns> first = decode_slices(matrix, 32), rest = tail(matrix), all = columns_of(csr);
  if (first.size() != all.size() || rest.size() != all.size()) return false;
  for (std::size_t p = 0; p < all.size(); ++p) {
    const Columns& row = all[perm.empty() ? p : static_cast<std::size_t>(perm[p])];
    const auto middle = row.begin() + std::min<std::int64_t>(K, std::ssize(row));
    if (first[p] != Columns(row.begin(), middle) || rest[p] != Columns(middle, row.end())) return false;
  }
  return true;
}
bool has_coordinates_behind(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr) {
  return cuts_as_hyb(matrix, csr, [](const AssembledMatrix<double>& of) {
    std::vector<Columns> found;
    const Numbers rows = decode_coordinates(of, "tail_", 32, 32), col = array(of, "tail_col");
    if (rows.empty()) return found;
    found.resize(static_cast<std::size_t>(of.rows()));
    for (std::size_t k = 0; k < rows.size(); ++k)
      found[static_cast<std::size_t>(rows[k])].push_back(static_cast<std::int32_t>(col[k]));
    return found;
  });
}
bool has_rows_behind(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr) {
  return array(matrix, "perm").empty() &&
         cuts_as_hyb(matrix, csr, [](const auto& of) { return decode_rows(of, "tail_"); });
}
bool has_sorted_rows_behind(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr) {
  const Numbers perm = array(matrix, "perm");
  return !perm.empty() && std::is_sorted(perm.begin(), perm.end(), [&](double a, double b) {
    const std::int64_t of_a = csr.pattern.row_length(static_cast<std::int64_t>(a)),
                       of_b = csr.pattern.row_length(static_cast<std::int64_t>(b));
    return of_a > of_b || (of_a == of_b && a < b);
  }) && cuts_as_hyb(matrix, csr, [](const auto& of) { return decode_rows(of, "tail_"); });
}

TEST(Bro, EachFormatHasItsPropertyAndNoNeighbourHasIt) {
  const std::pair<const char*, Property> properties[] = {
      {"bro-ell", codes_slots},       {"bro-csr", codes_rows},
      {"bro-coo", codes_coordinates}, {"bro-hyb", has_coordinates_behind},
      {"bro-hybr", has_rows_behind},  {"bro-hybr-s", has_sorted_rows_behind}};
  constexpr const char* neighbours[] = {"bro-ell",    "bro-csr", "bro-coo",     "bro-hyb",      "bro-hybr",
                                        "bro-hybr-s", "sell",    "sell-packed", "sell-c-sigma", "csr",
                                        "coo",        "hyb",     "coadell"};
  for (const unsigned seed : {1u, 2u}) {
    const CsrMatrix<double> csr = skewed(seed == 1 ? 1000 : 333, seed);
    for (const auto& [id, property] : properties)
      for (const char* other : neighbours) {
        const auto matrix = build(other, csr, tolerant(other));
        EXPECT_EQ(property(*matrix, csr), std::string_view(other) == id)
            << "property of " << id << ", " << other;
      }
  }
}

// The bits of an index, without values. On a band they are few.
TEST(Bro, IndicesTakeFewBits) {
  std::vector<Triplet<double>> triplets;
  constexpr std::int32_t rows = 4096;
  for (std::int32_t r = 0; r < rows; ++r)
    for (std::int32_t c = std::max(0, r - 10); c <= std::min(rows - 1, r + 10); c += 2)
      triplets.push_back({r, c, 1.0 + r % 7});
  const auto band = csr_from_triplets<double>(test_context(), rows, rows, triplets);
  const auto bits = [&](const char* id) {
    const auto matrix = build(id, band);
    const Admission admitted = admit(find_format(id), *test_context(), band.pattern, {}, 8);
    return static_cast<double>(matrix->bytes() - static_cast<std::size_t>(admitted.stored_values) * 8) * 8 /
           static_cast<double>(band.nonzeros());
  };
  EXPECT_LT(bits("bro-ell"), 5);  // 12 bits of the first column, 2 of each other one
  EXPECT_LT(bits("bro-hybr"), 5);
  EXPECT_LT(bits("bro-csr"), 14);  // 2 bits, and three numbers a row
  EXPECT_LT(bits("bro-coo"), 35);  // 2 bits of a row, 32 of a column
  EXPECT_GT(bits("bro-coo"), 32);
  EXPECT_GT(bits("sell"), 32);
  EXPECT_GT(bits("coadell"), 14);
}

// Sorted rows need no more bits than rows in a random order.
TEST(Bro, SortingSavesBits) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    const CsrMatrix<double> csr = skewed(800, seed);
    const auto bits = [&](const char* id, const char* K) {
      const auto matrix = build(id, csr, {{"K", K}});
      return std::pair{array(*matrix, "symbols").size() + array(*matrix, "tail_symbols").size(),
                       array(*matrix, "values").size()};
    };
    for (const char* K : {"-1", "6", "1000"}) {
      EXPECT_LE(bits("bro-hybr-s", K).first, bits("bro-hybr", K).first) << K;
      EXPECT_LT(bits("bro-hybr-s", K).second, bits("bro-hybr", K).second) << K;
    }
  }
}

}  // namespace
}  // namespace protean::test

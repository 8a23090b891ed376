#include "core/identical.hpp"
#include "core/io/matrix_market.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "core/repeated_entries.hpp"
#include "gtest/gtest.h"
#include "matrix_market.hpp"
#include "support/battery.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

CsrMatrix<double> parse(std::string_view text, const ReadOptions& options = {}) {
  return read_matrix_market_text(test_context(), "text", text, options);
}

TEST(MatrixMarket, ReadsCoordinates) {
  EXPECT_EQ(
      dense(parse(
          "%%MatrixMarket matrix coordinate real general\n% c\n\n3 4 4\n3 1 -2.5\n1 1 1e2\n2 4 0\n1 3 .5\n")),
      "100 . 0.5 . / . . . 0 / -2.5 . . . / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 -7\n2 1 +9\n")),
            "-7 . / 9 . / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n2 1\n")),
            ". 1 / 1 . / ");
  EXPECT_EQ(
      dense(parse("%%MatrixMarket matrix coordinate real symmetric\n3 3 4\n1 1 1\n2 1 2\n3 3 3\n3 1 4\n")),
      "1 2 4 / 2 . . / 4 . 3 / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 2 5\n2 2 6\n")),
            ". 5 / 5 6 / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n2 1\n2 2\n")),
            ". 1 / 1 1 / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n2 1 2\n3 2 -3\n")),
            ". -2 . / 2 . 3 / . -3 . / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix coordinate real general\n0 0 0\n")), "");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix coordinate real general\n2 0 0\n")), "/ / ");
}

// SciPy writes such zeros. They are stored zeros, as anywhere else.
TEST(MatrixMarket, TheDiagonalOfASkewSymmetricMatrixMayHoldZeros) {
  const std::string banner = "%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 ";
  EXPECT_EQ(dense(parse(banner + "3\n1 1 0\n2 1 2\n3 3 -0.0\n")), "0 -2 . / 2 . . / . . -0 / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix coordinate integer skew-symmetric\n1 1 1\n1 1 0\n")), "0 / ");
  for (const char* value : {"1e-300", "nan"}) try {
      parse(banner + "1\n2 2 " + value + "\n", {.allow_not_finite = true});
      ADD_FAILURE() << value;
    } catch (const BadFile& e) {
      EXPECT_EQ(e.line(), 3);
      EXPECT_NE(std::string(e.what()).find("has only zeros there"), std::string::npos) << e.what();
    }
}

TEST(MatrixMarket, ReadsArraysColumnByColumn) {
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n0\n6\n")),
            "1 3 0 / 2 4 6 / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix array integer symmetric\n3 3\n1\n2\n3\n4\n5\n6\n")),
            "1 2 3 / 2 4 5 / 3 5 6 / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n")),
            ". -1 -2 / 1 . -3 / 2 3 . / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix array real skew-symmetric\n1 1\n")), ". / ");
  EXPECT_EQ(dense(parse("%%MatrixMarket matrix array real general\n0 3\n")), "");
}

TEST(MatrixMarket, AcceptsWhatOtherProgramsWrite) {
  // CR LF, leading blanks, tabs, plus signs, Fortran exponents, comments and empty lines between, upper case,
  // no last line end, leading zeros.
  EXPECT_EQ(
      dense(parse(
          "%%matrixmarket MATRIX Coordinate REAL General\r\n%\r\n  2\t2  3 \r\n  1 1 +1.5D+2\r\n\r\n% x\r\n"
          "\t002  1  -2.5d-1 \r\n2 +2 1E0")),
      "150 . / -0.25 1 / ");
}

TEST(MatrixMarket, AddsRepeatedEntriesInTheirOrderOrRefuses) {
  const std::string text = std::string(general) + "2 2 5\n1 1 1e16\n2 2 1\n1 1 1\n% \n1 1 -1e16\n1 2 1\n";
  EXPECT_EQ(dense(parse(text)), fmt::format("{} 1 / . 1 / ", (1e16 + 1) - 1e16));
  try {
    parse(text, {.duplicates = Duplicates::refuse});
    FAIL();
  } catch (const BadFile& e) {
    EXPECT_EQ(e.line(), 5);
    EXPECT_NE(std::string(e.what()).find("entry (1, 1) is given twice"), std::string::npos) << e.what();
  }
}

// Lines and columns count without the mark.
TEST(MatrixMarket, TheMarkOfUtf8IsSkippedAndUtf16IsNamed) {
  const std::string text = std::string(general) + "2 2 1\n2 1 7\n";
  EXPECT_EQ(dense(parse("\xef\xbb\xbf" + text)), ". . / 7 . / ");
  const auto refused = [](const std::string& bytes) { return message_of<BadFile>([&] { parse(bytes); }); };
  EXPECT_EQ(refused("\xef\xbb\xbf%MatrixMarket\n").find("text:1:1: "), 0u);
  EXPECT_NE(refused("\xef\xbb\xbf").find("the file is empty"), std::string::npos);
  std::string little, big;
  for (const char c : text) little += c, little += '\0', big += '\0', big += c;
  EXPECT_NE(refused("\xff\xfe" + little).find("iconv -f UTF-16 "), std::string::npos);
  EXPECT_NE(refused("\xfe\xff" + big).find("iconv -f UTF-16 "), std::string::npos);
  EXPECT_NE(refused(little).find("iconv -f UTF-16LE "), std::string::npos);
  EXPECT_NE(refused(big).find("iconv -f UTF-16BE "), std::string::npos);
}

struct Bad {
  std::string_view text;
  int line, column;
  std::string_view message;
};

TEST(MatrixMarket, SaysWhatIsWrongAndWhere) {
  const Bad cases[] = {
      {"", 0, 0, "empty"},
      {"hello world\n", 1, 1, "begins with '%%MatrixMarket matrix'"},
      {"%MatrixMarket matrix coordinate real general\n1 1 0\n", 1, 1, "'%MatrixMarket'"},
      {"%%MatrixMarket vector coordinate real general\n", 1, 16, "the object is 'vector'"},
      {"%%MatrixMarket matrix sparse real general\n", 1, 23, "the layout is 'sparse'"},
      {"%%MatrixMarket matrix coordinate complex general\n", 1, 34, "complex"},
      {"%%MatrixMarket matrix coordinate real hermitian\n", 1, 39, "hermitian"},
      {"%%MatrixMarket matrix coordinate double general\n", 1, 34, "real, integer or pattern"},
      {"%%MatrixMarket matrix coordinate real diagonal\n", 1, 39, "general, symmetric"},
      {"%%MatrixMarket matrix array pattern general\n", 1, 29, "real or integer for an array"},
      {"%%MatrixMarket matrix coordinate pattern skew-symmetric\n", 1, 42, "for a pattern"},
      {"%%MatrixMarket matrix coordinate\n", 1, 33, "banner ends before the field"},
      {"%%MatrixMarket matrix coordinate real general extra\n", 1, 47, "'extra'"},
      {"%%MatrixMarket matrix coordinate real general\n% only\n", 2, 0,
       "ends before the line with the sizes"},
      {"%%MatrixMarket matrix coordinate real general\n2 2\n", 2, 4, "'rows columns entries'"},
      {"%%MatrixMarket matrix array real general\n2 2 2\n", 2, 5, "'rows columns'"},
      {"%%MatrixMarket matrix coordinate real general\n2 x 1\n", 2, 3, "number of columns is 'x'"},
      {"%%MatrixMarket matrix coordinate real general\n-2 2 1\n", 2, 1, "cannot be negative"},
      {"%%MatrixMarket matrix coordinate real general\n2 +-2 0\n", 2, 3, "not a whole number"},
      {"%%MatrixMarket matrix coordinate real general\n3000000000 2 1\n", 2, 1, "at most 2147483647"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 99999999999999999999\n", 2, 5,
       "at most 9223372036854775807"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 9223372036854775808\n", 2, 5,
       "at most 9223372036854775807"},
      {"%%MatrixMarket matrix coordinate real general\n9223372036854775807 2 1\n", 2, 1,
       "at most 2147483647"},
      {"%%MatrixMarket matrix coordinate real general\n2147483648 2 1\n", 2, 1, "at most 2147483647"},
      {"%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n1 1 1\n", 2, 1, "symmetric matrix is square"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1\n", 3, 1, "indices count from 1"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 000 1\n", 3, 3, "indices count from 1"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 -1 1\n", 3, 3, "cannot be negative"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n", 3, 1, "allowed is 1 to 2"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 18446744073709551617 1\n", 3, 3,
       "allowed is 1 to 2"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 00018446744073709551617 1\n", 3, 3,
       "allowed is 1 to 2"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 0000000000000000000003 1\n", 3, 3,
       "allowed is 1 to 2"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 00000000000000000000 1\n", 3, 3,
       "indices count from 1"},
      {"%%MatrixMarket matrix coordinate real general\n1 2147483647 1\n1 2147483648 1\n", 3, 3,
       "allowed is 1 to 2147483647"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1.0 1 1\n", 3, 1, "not a whole number"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n% c\n\n 1 x 1\n", 6, 4,
       "the column is 'x'"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 abc\n", 3, 5, "'abc' is not a number"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1.5x\n", 3, 5, "'1.5x' is not a number"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1e\n", 3, 5, "'1e' is not a number"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 +-1\n", 3, 5, "'+-1' is not a number"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 nan\n", 3, 5, "only finite"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 -Inf\n", 3, 5, "only finite"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1e999\n", 3, 5, "too large for double"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 -1D999\n", 3, 5, "too large for double"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 2", 4, 4,
       "the line ends where a value"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2", 4, 2,
       "the line ends where the column"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1 1\n", 3, 7,
       "'1' after row, column and value"},
      {"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1 1\n", 3, 5, "'1' after row and column"},
      {"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 1.5\n", 3, 5, "not a whole number"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n2 2 1\n", 4, 0,
       "after 2 of the 3 entries"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n% c\n  2 2 1\n1 2 1\n", 5, 3,
       "one entry more"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n2 2 1\nx\n", 4, 1, "one entry more"},
      {"%%MatrixMarket matrix coordinate real general\n0 0 1\n1 1 1\n", 3, 1, "this matrix has no rows"},
      {"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n", 5, 0, "after 3 of the 4 entries"},
      {"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n5\n", 7, 1, "one entry more than the 4"},
      {"%%MatrixMarket matrix array real general\n1 2\n1 2\n", 3, 3, "one entry is allowed on a line"},
      {"%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 1\n2 1 5\n1 3 5\n", 5, 1,
       "one triangle only"},
      {"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n", 3, 1, "on the diagonal"},
      {std::string_view("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 \0\n", 58), 3, 5,
       "'?' is not a number"},
  };
  for (const Bad& bad : cases) {
    for (int threads : {1, 3}) try {
        read_matrix_market_text(Context::host(threads), "text", bad.text);
        ADD_FAILURE() << "accepted: " << bad.text;
      } catch (const BadFile& e) {
        EXPECT_EQ(e.line(), bad.line) << bad.text << e.what();
        EXPECT_EQ(e.column(), bad.column) << bad.text << e.what();
        EXPECT_NE(std::string(e.what()).find(bad.message), std::string::npos) << bad.text << e.what();
      }
  }
}

// A number may have more digits than a 64-bit integer if the additional ones are leading zeros.
TEST(MatrixMarket, IndicesAndIntegersAtTheirBorders) {
  const std::string zeros(30, '0');
  EXPECT_EQ(dense(parse(std::string(general) + "2 2 2\n" + zeros + "2 1 1\n1 " + zeros + "2 3\n")),
            ". 3 / 1 . / ");
  EXPECT_EQ(parse(std::string(general) + "1 2147483647 1\n1 2147483647 3\n").pattern.col[0], 2147483646);
  const auto value = [](const std::string& text) {
    return parse("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 " + text + "\n").values[0];
  };
  EXPECT_EQ(value("999999999999999999"), 999999999999999999.0);
  EXPECT_EQ(value("-9223372036854775808"), -0x1p63);
  EXPECT_EQ(value("18446744073709551617"), 0x1p64);
  EXPECT_EQ(value(zeros + "7"), 7.0);
}

TEST(MatrixMarket, RepeatedEntriesThatAddUpToInfinityAreNamed) {
  const std::string text = std::string(general) + "2 2 4\n1 1 1e308\n2 1 1e308\n2 2 1\n2 1 1e308\n";
  for (int threads : {1, 3}) try {
      (void)read_matrix_market_text(Context::host(threads), "text", text);
      FAIL();
    } catch (const BadFile& e) {
      EXPECT_EQ(e.line(), 6);
      EXPECT_NE(std::string(e.what()).find("entry (2, 1)"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("too large for double precision"), std::string::npos) << e.what();
    }
  EXPECT_TRUE(std::isinf(parse(text, {.allow_not_finite = true}).values[1]));
  // Of a symmetric file the message names the entry that is in the file, not its mirror image.
  try {
    parse("%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n2 1 1e308\n2 1 1e308\n");
    FAIL();
  } catch (const BadFile& e) {
    EXPECT_EQ(e.line(), 4) << e.what();
    EXPECT_NE(std::string(e.what()).find("entry (2, 1)"), std::string::npos) << e.what();
  }
}

// A damaged header must not cost minutes for empty rows.
TEST(MatrixMarket, HeadersOfNearlyEmptyMatricesAreRefused) {
  const std::size_t peak = peak_allocated_bytes();
  for (const char* sizes : {"2147483647 2147483647 1", "20000000 2 100", "2 20000000 1000000"}) try {
      parse(std::string(general) + sizes + "\n1 1 1\n");
      ADD_FAILURE() << sizes;
    } catch (const BadFile& e) {
      EXPECT_EQ(e.line(), 2);
      EXPECT_NE(std::string(e.what()).find("empty"), std::string::npos) << e.what();
    }
  EXPECT_EQ(peak_allocated_bytes(), peak);
  EXPECT_EQ(parse(std::string(general) + "100000 100000 1\n1 1 1\n").nonzeros(), 1);
}

TEST(MatrixMarket, NotFiniteValuesAreReadWhenAllowed) {
  const auto a = parse(std::string(general) + "2 2 2\n1 1 NaN\n2 2 -inf\n", {.allow_not_finite = true});
  EXPECT_TRUE(std::isnan(a.values[0]));
  EXPECT_EQ(a.values[1], -std::numeric_limits<double>::infinity());
  EXPECT_THROW(parse(std::string(general) + "2 2 1\n1 1 1e999\n", {.allow_not_finite = true}), BadFile);
}

TEST(MatrixMarket, SizesThatCannotFitAreRefusedBeforeAllocating) {
  const std::size_t peak = peak_allocated_bytes();
  EXPECT_THROW(parse(std::string(general) + "2 2 1000000000000000\n1 1 1\n"), OutOfMemory);
  EXPECT_THROW(
      parse(
          "%%MatrixMarket matrix coordinate real symmetric\n20000000 20000000 9223372036854775807\n1 1 1\n"),
      OutOfMemory);
  EXPECT_THROW(parse("%%MatrixMarket matrix array real general\n2000000000 2000000000\n"), OutOfMemory);
  EXPECT_THROW(parse(std::string(general) + "1000 1000 10000\n", {.memory_limit = 10000}), OutOfMemory);
  EXPECT_EQ(peak_allocated_bytes(), peak);
}

TEST(MatrixMarket, RoundTripOfTheBatteryIsBitForBit) {
  const Folder folder;
  for (const std::string suffix : {".mtx", ".mtx.gz", ".mtx.xz"})
    for (const BatteryMatrix& entry : battery()) {
      if (entry.matrix.pattern.row_ptr.p64) continue;  // text does not keep the width of row pointers
      const std::string path = folder / (entry.name + suffix);
      write_matrix_market(*test_context(), path, entry.matrix, "two\nlines");
      EXPECT_TRUE(identical(read_matrix_market(test_context(), path), entry.matrix)) << path;
    }
  EXPECT_EQ(folder.files(), 3 * battery().size() - 3);  // nothing temporary is left
  EXPECT_EQ(slurp(folder / "identity_33.mtx")
                .substr(0, 70)
                .find("%%MatrixMarket matrix coordinate real general\n% two\n"),
            0u);
  EXPECT_EQ(slurp(folder / "identity_33.mtx.gz").substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(slurp(folder / "identity_33.mtx.xz").substr(1, 4), "7zXZ");
}

TEST(MatrixMarket, RoundTripKeepsEveryBitOfAValue) {
  const std::int32_t row_ptr[] = {0, 8}, col[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const double values[] = {0.1,
                           -0.0,
                           5e-324,
                           1.7976931348623157e308,
                           2.2250738585072014e-308,
                           1.0 / 3,
                           123456789012345678.0,
                           -9007199254740993.0};
  const Folder folder;
  const auto a = csr_view(1, 8, row_ptr, col, values);
  write_matrix_market(*test_context(), folder / "a.mtx", a);
  EXPECT_TRUE(identical(a, read_matrix_market(test_context(), folder / "a.mtx")));
}

TEST(MatrixMarket, Vectors) {
  const Folder folder;
  Vector<double> v(test_context(), 5);
  for (int i = 0; i < 5; ++i) v[i] = 1.0 / (i + 1);
  for (const std::string name : {"v.mtx", "v.mtx.gz"}) {
    write_vector_market(folder / name, v);
    const auto w = read_vector_market(test_context(), folder / name);
    ASSERT_EQ(w.size(), 5);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(w[i], v[i]);
  }
  const auto read = [&](const std::string& text) {
    std::ofstream(folder / "t.mtx") << text;
    return read_vector_market(test_context(), folder / "t.mtx");
  };
  const auto sparse = read("%%MatrixMarket matrix coordinate real general\n4 1 2\n4 1 9\n2 1 -1\n");
  ASSERT_EQ(sparse.size(), 4);
  EXPECT_EQ(sparse[0], 0.0);
  EXPECT_EQ(sparse[1], -1.0);
  EXPECT_EQ(sparse[3], 9.0);
  EXPECT_EQ(read("%%MatrixMarket matrix array integer general\n1 3\n1\n2\n3\n")[2], 3.0);
  EXPECT_EQ(read("%%MatrixMarket matrix array real general\n0 1\n").size(), 0);
  EXPECT_THROW(read("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n"), BadFile);
  EXPECT_THROW(read("%%MatrixMarket matrix array real general\n3 1\n1\n2\n"), BadFile);
}

TEST(MatrixMarket, RepeatedEntriesAreAddedInTheFilesOrderInRowsOfAnyLength) {
  for (const int triples : numbers_of_triples) {
    std::string text = fmt::format("%%MatrixMarket matrix coordinate real general\n1 2 {}\n", 6 * triples);
    for (const Triplet<double>& entry : entries_whose_sum_shows_their_order(triples))
      text += fmt::format("1 {} {}\n", entry.col + 1, entry.value);
    const auto a = read_matrix_market_text(test_context(), "text", text);
    ASSERT_EQ(a.nonzeros(), 2);
    EXPECT_EQ(a.values[0], triples);
    EXPECT_EQ(a.values[1], triples);
  }
}

}  // namespace
}  // namespace protean::test

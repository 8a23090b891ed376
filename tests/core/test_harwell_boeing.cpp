// Harwell-Boeing and Rutherford-Boeing files: what is read, what is refused and where, and the Fortran formats in them.
#include <fmt/format.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <string>

#include "core/io/fortran_format.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/vector_file.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

CsrMatrix<double> parse(std::string_view text, const ReadOptions& options = {}) {
  return read_matrix_market_text(test_context(), "text", text, options);
}

std::string dense(const CsrMatrix<double>& a) {
  std::string text;
  for (std::int64_t r = 0; r < a.rows(); ++r) {
    std::int64_t k = a.pattern.row_ptr[r];
    for (std::int64_t c = 0; c < a.cols(); ++c) {
      const bool stored = k < a.pattern.row_ptr[r + 1] && a.pattern.col[k] == c;
      text += stored ? fmt::format("{} ", a.values[k++]) : ". ";
    }
    text += "/ ";
  }
  return text;
}

// A file whose lines of numbers are given. `lines`: what line 2 says; `sizes`: what follows the type.
struct File {
  std::string type = "RUA", sizes = "2 2 3 0", formats = "(10I6)          (10I6)          (5E15.8)";
  std::string lines = "3 1 1 1 0", right_sides, pointers, indices, values;
  std::string text() const {
    return "a title that may be anything: %%MatrixMarket                            KEY     \n" + lines +
           "\n" + type + "           " + sizes + "\n" + formats + "\n" + right_sides + pointers + indices +
           values;
  }
};

// [4 . / -1 5], column by column.
File small() {
  File file;
  file.pointers = "     1     3     4\n";
  file.indices = "     1     2     2\n";
  file.values = " 4.00000000E+00-1.00000000E+00 5.00000000E+00\n";
  return file;
}

TEST(HarwellBoeing, ReadsTypesOfBothCollections) {
  EXPECT_EQ(dense(parse(small().text())), "4 . / -1 5 / ");
  File file = small();
  file.type = "rua",
  file.lines = "             3             1             1             1";  // Rutherford-Boeing
  EXPECT_EQ(dense(parse(file.text())), "4 . / -1 5 / ");
  file.type = "RSA";
  EXPECT_EQ(dense(parse(file.text())), "4 -1 / -1 5 / ");
  file.type = "ISA", file.formats = "(10I6) (10I6) (3I4)", file.values = "   4  -1   5\n";
  EXPECT_EQ(dense(parse(file.text())), "4 -1 / -1 5 / ");
  file.type = "PSA", file.lines = "2 1 1 0", file.values.clear();
  EXPECT_EQ(dense(parse(file.text())), "1 1 / 1 1 / ");
  file.formats = "(10I6) (10I6)", file.type = "pua";
  EXPECT_EQ(dense(parse(file.text())), "1 . / 1 1 / ");
  file = small();
  file.type = "RRA", file.sizes = "3 2 3 0";
  EXPECT_EQ(dense(parse(file.text())), "4 . / -1 5 / . . / ");
  // A symmetric file may hold the upper triangle instead, and rows in any order.
  file = small();
  file.type = "RSA", file.pointers = "     1     2     4\n", file.indices = "     1     2     1\n";
  EXPECT_EQ(dense(parse(file.text())), "4 5 / 5 -1 / ");
  // A skew-symmetric one may hold zeros on the diagonal.
  file = small();
  file.type = "RZA", file.values = " 0.00000000E+00-1.00000000E+00 0.00000000E+00\n";
  EXPECT_EQ(dense(parse(file.text())), "0 1 / -1 0 / ");
  file.sizes = "0 0 0 0", file.pointers = "     1\n", file.indices = file.values = "\n";
  EXPECT_EQ(dense(parse(file.text())), "");
}

TEST(HarwellBoeing, NumbersStandInColumnsWithoutBlanks) {
  File file = small();
  file.pointers = "134\n", file.indices = "122\n",
  file.values = "4.000000000E+00-1.00000000E+00\n-5.00000000E-01\n";
  file.formats = "(3I1)(40I1)(1P,2E15.8)", file.lines = "4 1 1 2 0";
  EXPECT_EQ(dense(parse(file.text())), "4 . / -1 -0.5 / ");
}

// SciPy writes numbers of 24 characters under a format of 25, so that the columns drift to the left.
TEST(HarwellBoeing, LinesThatAreNarrowerThanTheirFormatAreReadByWords) {
  File file = small();
  file.formats = "(40I2)          (40I2)          (3E25.16)           ";
  file.pointers = " 1 3 4\n", file.indices = " 1 2 2\n";
  file.values = "  4.0000000000000000E+00  4.0000000000000001E-10 -1.0000000000000000E+00\n";
  EXPECT_EQ(dense(parse(file.text())), "4 . / 4e-10 -1 / ");
  file.values = " 4.0000000000000001E+100 -1.0000000000000000E+00 4.0000000000000001E+100\n";
  EXPECT_EQ(dense(parse(file.text())), "4e+100 . / -1 4e+100 / ");
  // With as many words as numbers only.
  file.values = "  4.0000000000000000E+00  4.0000000000000001E-10 -1.0000000000000000E+00 1\n";
  EXPECT_THROW(parse(file.text()), BadFile);
  file.values = "  4.0000000000000000E+00  4.0000000000000001E-10-1.0000000000000000E+00\n";
  EXPECT_THROW(parse(file.text()), BadFile);
}

TEST(HarwellBoeing, NumbersOfFortranInTheirForms) {
  const auto value = [](const std::string& format, const std::string& number) {
    File file = small();
    file.sizes = "1 1 1 0", file.formats = "(10I6) (10I6) " + format;
    file.pointers = "     1     2\n", file.indices = "     1\n", file.values = number + "\n";
    return parse(file.text()).values[0];
  };
  EXPECT_EQ(value("(5E15.8)", " 1.50000000E+03"), 1500);
  EXPECT_EQ(value("(1P5E16.9)", " 1.500000000E+03"), 1500);
  EXPECT_EQ(value("(1P, 5E16.9)", " 1.500000000e+03"), 1500);
  EXPECT_EQ(value("(4D20.12)", " -1.500000000000D-03"), -0.0015);
  EXPECT_EQ(value("(4d20.12)", "   1.500000000000d3\r"), 1500);
  EXPECT_EQ(value("(3E24.16E3)", "  1.5000000000000000-103"), 1.5e-103);
  EXPECT_EQ(value("(3G24.16)", "  1.5000000000000000+103"), 1.5e103);
  EXPECT_EQ(value("(5E15.8)", "     1.5E 03   "), 1500) << "a blank instead of a sign";
  EXPECT_EQ(value("(3(1X,E23.16))", "  1.5"), 1.5);
  EXPECT_EQ(value("(2X,8F8.3)", "##   1.25"), 1.25);
  EXPECT_EQ(value("(8F8.3)", "  +1.25"), 1.25);
  EXPECT_EQ(value("(8ES12.4)", "  .5"), 0.5);
  EXPECT_EQ(value("(8F8.0)", "       7"), 7);
  EXPECT_EQ(value("(8F8.3)", "       0"), 0);
}

// Each is wrong in one place, which is named with line and column.
TEST(HarwellBoeing, SaysWhatIsWrongAndWhere) {
  struct Bad {
    std::string File::*part;
    std::string text;
    int line, column;
    std::string_view message;
  };
  const Bad cases[] = {
      {&File::lines, "3 1 1", 2, 0, "five numbers of lines"},
      {&File::lines, "3 1 1 99999999999999999999 0", 2, 7, "not a whole number"},
      {&File::type, "RUE", 3, 1, "Add them up with the program that wrote the file"},
      {&File::type, "CUA", 3, 1, "the matrix is complex; only real matrices can be read"},
      {&File::type, "RHA", 3, 1, "hermitian, hence complex"},
      {&File::type, "QUA", 3, 1, "stand in another file"},
      {&File::type, "PUA", 3, 1, "is a pattern, but line 2 says that there are lines of values"},
      {&File::type, "RZA", 6, 1, "a skew-symmetric matrix has only zeros there"},
      {&File::sizes, "2 2", 3, 0, "the numbers of rows, columns and entries"},
      {&File::sizes, "2 2 x 0", 3, 19, "the number of entries is 'x'"},
      {&File::sizes, "2 2 -3 0", 3, 19, "cannot be negative"},
      {&File::sizes, "3000000000 2 3 0", 3, 15, "at most 2147483647 are supported"},
      {&File::sizes, "2147483647 2147483647 3 0", 3, 0, "nearly only empty rows"},
      {&File::sizes, "2 2 4 0", 5, 0, "the last pointer is 4; it must be 5, since line 3 states 4 entries"},
      {&File::sizes, "2 2 2 0", 5, 18, "the pointer of column 3 is '4'; allowed is 3 to 3"},
      {&File::sizes, "2 3 3 0", 5, 19, "there is no number here, but 1 of the 4 pointers must still come"},
      {&File::sizes, "1 2 3 0", 6, 12, "the row is '2'; allowed is 1 to 1"},
      {&File::formats, "(10I6)          (10I6)", 4, 23, "ends where the format of the values should be"},
      {&File::formats, "10I6 (10I6) (5E15.8)", 4, 1, "where a format in brackets should be"},
      {&File::formats, "(10I6) (10I6) (5E15.8", 4, 15,
       "'(5E15.8', which is not a format of numbers in columns"},
      {&File::formats, "(10I6) (10A6) (5E15.8)", 4, 8, "not a format of numbers in columns"},
      {&File::formats, "(10I6) (10I6) (99999E99.8)", 4, 15, "not a format of numbers in columns"},
      {&File::formats, "(10I6) (10I6) (5E14.8)", 7, 43,
       "'+00' behind the last number that the format '(5E14.8)' has"},
      {&File::formats, "(2I5) (10I6) (5E15.8)", 5, 1, "there is no number here, but 3 of the 3 pointers"},
      {&File::pointers, "     0     3     4\n", 5, 6, "the first pointer is '0'; it must be 1"},
      {&File::pointers, "     1     5     4\n", 5, 12, "the pointer of column 2 is '5'; allowed is 1 to 4"},
      {&File::pointers, "     1     3     2\n", 5, 18, "the pointer of column 3 is '2'; allowed is 3 to 4"},
      {&File::pointers, "     1\t    3     4\n", 5, 7, "a tab; the numbers of such a file stand in columns"},
      {&File::indices, "     0     2     2\n", 6, 6, "indices count from 1, allowed is 1 to 2"},
      {&File::indices, "     1     2     3\n", 6, 18, "the row is '3'; allowed is 1 to 2"},
      {&File::indices, "     1     2   1.5\n", 6, 16, "'1.5' is not a whole number"},
      {&File::indices, "     1     2     2     2\n", 6, 24, "'2' behind the last number"},
      {&File::values, " 4.00000000E+00-1.00000000E+00\n", 7, 31, "1 of the 3 values must still come"},
      {&File::values, " 4.00000000E+00-1.00000000E+00 5.0000x000E+00\n", 7, 32,
       "is not a number (columns 31 to 45"},
      {&File::values, " 4.00000000E+00-1.00000000E+00***************\n", 7, 31, "is not a number"},
      {&File::values, " 4.00000000E+00-1.00000000E+00            NaN\n", 7, 43,
       "only finite numbers are allowed"},
      {&File::values, " 4.00000000E+00-1.00000000E+00 1.0000000E+999\n", 7, 32, "too large for double"},
      {&File::values, " 4.00000000E+00-1.00000000E+00              5\n", 7, 45, "has no decimal point"},
      {&File::values, "", 6, 0, "the file ends after 0 of the 3 values; it may have been cut off"},
      {&File::values, small().values + "\n more\n", 9, 2, "'more' behind the last number of the 3 entries"},
  };
  for (const Bad& bad : cases) {
    File file = small();
    file.*bad.part = bad.text;
    for (const int threads : {1, 3}) try {
        (void)read_matrix_market_text(Context::host(threads), "text", file.text());
        ADD_FAILURE() << "accepted: " << file.text();
      } catch (const BadFile& e) {
        EXPECT_EQ(e.line(), bad.line) << bad.text << "\n" << e.what();
        EXPECT_EQ(e.column(), bad.column) << bad.text << "\n" << e.what();
        EXPECT_NE(std::string(e.what()).find(bad.message), std::string::npos) << bad.text << "\n" << e.what();
      }
  }
  File file = small();
  file.type = "RSA", file.sizes = "3 2 3 0";
  EXPECT_THROW(parse(file.text()), BadFile) << "not square";
  file.sizes = "2 2 3 0", file.pointers = "     1     3     4\n", file.indices = "     1     2     1\n";
  try {
    parse(file.text());
    ADD_FAILURE() << "both triangles";
  } catch (const BadFile& e) {
    EXPECT_EQ(e.line(), 6);
    EXPECT_EQ(e.column(), 13);
    EXPECT_NE(std::string(e.what()).find("write U as the second letter of the type"), std::string::npos)
        << e.what();
  }
  file = small();
  file.formats = "(10I6) (10I6) (1P5F15.8)", file.values = "     4.00000000     5.00000000     6.00000000\n";
  try {
    parse(file.text());
    ADD_FAILURE() << "a scale factor without an exponent";
  } catch (const BadFile& e) {
    EXPECT_NE(std::string(e.what()).find("Fortran would divide it by 10^1"), std::string::npos) << e.what();
  }
}

TEST(HarwellBoeing, AFileThatIsCutOffIsRefusedWhereverThatIs) {
  const std::string whole = small().text();
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    EXPECT_THROW(parse(part), BadFile) << part;
  }
  EXPECT_EQ(dense(parse(whole.substr(0, whole.size() - 1))), "4 . / -1 5 / ") << "without the last line end";
  // Within the last number, which would be another one.
  try {
    parse(whole.substr(0, whole.size() - 8));
    ADD_FAILURE();
  } catch (const BadFile& e) {
    EXPECT_NE(std::string(e.what()).find(":7:32: the file ends within '5.00000'"), std::string::npos)
        << e.what();
  }
}

TEST(HarwellBoeing, RepeatedEntriesAreAddedOrNamed) {
  File file = small();
  file.indices = "     2     2     2\n";
  EXPECT_EQ(dense(parse(file.text())), ". . / 3 5 / ");
  const auto message = [&](const ReadOptions& options) {
    return message_of<BadFile>([&] { parse(file.text(), options); });
  };
  EXPECT_EQ(message({.duplicates = Duplicates::refuse}).find("text:6:7: entry (2, 1) is given twice"), 0u)
      << message({.duplicates = Duplicates::refuse});
  file.type = "RSA";
  EXPECT_EQ(message({.duplicates = Duplicates::refuse}).find("text:6:7: entry (2, 1) is given twice"), 0u)
      << message({.duplicates = Duplicates::refuse});
  file.values = " 1.0000000E+308 1.0000000E+308 5.00000000E+00\n";
  EXPECT_NE(message({}).find("too large for double precision"), std::string::npos) << message({});
  EXPECT_EQ(message({.allow_not_finite = true}), "");
}

TEST(HarwellBoeing, CountsThatNobodyCanHoldTakeNoMemory) {
  const std::size_t peak = peak_allocated_bytes();
  File file = small();
  for (const char* sizes :
       {"2 2 1000000000000000 0", "2 2 9223372036854775807 0", "2147483647 2147483647 3 0"}) {
    file.sizes = sizes;
    EXPECT_THROW(parse(file.text()), Error) << sizes;
  }
  file.sizes = "1000 1000 900000 0", file.pointers = std::string("     1     3     4\n");
  EXPECT_THROW(parse(file.text()), BadFile);
  EXPECT_EQ(peak_allocated_bytes(), peak);
  file = small();
  EXPECT_THROW(parse(file.text(), {.memory_limit = 40}), OutOfMemory);
  file.values += std::string(std::size_t{65} << 20, '\n');
  try {
    parse(file.text());
    ADD_FAILURE() << "blank lines without end";
  } catch (const BadFile& e) {
    EXPECT_NE(std::string(e.what()).find("for the 3 entries that line 3 states"), std::string::npos)
        << e.what();
  }
}

TEST(HarwellBoeing, AnyNameAndCompressionWillDo) {
  const Folder folder;
  std::ofstream(folder / "a.txt") << small().text();
  EXPECT_EQ(dense(read_matrix(test_context(), folder / "a.txt")), "4 . / -1 5 / ");
  std::ofstream(folder / "marked.rua") << "\xef\xbb\xbf" << small().text();
  EXPECT_EQ(dense(read_matrix(test_context(), folder / "marked.rua")), "4 . / -1 5 / ");
  const auto message = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return message_of<BadFile>([&] { read_matrix(test_context(), folder / name); });
  };
  // By its name it should be one.
  File file = small();
  file.type = "XYZ";
  EXPECT_NE(message("a.rsa", file.text()).find("a.rsa:3:1: the type is 'XYZ'"), std::string::npos);
  // Compressed, whatever the name.
  for (const std::string name : {"c.rsa.gz", "c"}) {
    const gzFile gz = gzopen((folder / name).c_str(), "wb");
    file = small(), file.type = "RSA";
    gzputs(gz, file.text().c_str());
    gzclose(gz);
    EXPECT_EQ(dense(read_matrix(test_context(), folder / name)), "4 -1 / -1 5 / ") << name;
  }
  EXPECT_EQ(message("b.rsa", "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n"), "");
}

TEST(HarwellBoeing, RightHandSidesAreReadAsVectors) {
  const Folder folder;
  File file = small();
  file.lines = "6 1 1 1 2", file.formats += "            (3F8.3)";
  file.right_sides = "FGX                        2             0\n";
  // Guesses and solutions begin on separate lines.
  file.values += "   1.000   2.000   3.000\n   4.000\n";
  for (const char* more : {"9", "8"}) file.values += fmt::format("{0:>8}{0:>8}{0:>8}\n{0:>8}\n", more);
  const std::string path = folder / "a.rua";
  std::ofstream(path) << file.text();
  EXPECT_EQ(dense(read_matrix(test_context(), path)), "4 . / -1 5 / ") << "the vectors are left out";
  const VectorColumns b = read_vectors(test_context(), path);
  EXPECT_EQ(b.columns, 2);
  ASSERT_EQ(b.entries.size(), 4);
  for (int k = 0; k < 4; ++k) EXPECT_EQ(b.entries[k], k + 1);
  const auto message = [&]() {
    std::ofstream(path) << file.text();
    return message_of<BadFile>([&] { (void)read_vector(test_context(), path); });
  };
  EXPECT_NE(message().find(":5: 2 right-hand sides; one vector is needed here"), std::string::npos)
      << message();
  file.right_sides = "M                          1             3\n";
  EXPECT_NE(message().find(":5: the right-hand sides are sparse"), std::string::npos) << message();
  file.right_sides = "F                          9             0\n";
  std::ofstream(path) << file.text();
  EXPECT_THROW((void)read_vectors(test_context(), path), BadFile) << "numbers are missing";
  file = small();
  EXPECT_NE(message().find("without right-hand sides"), std::string::npos) << message();
  file.lines = "3 1 1 1 1";
  EXPECT_NE(message().find(":4"), std::string::npos) << message();
}

TEST(FortranFormat, FieldsOfALine) {
  using namespace io_detail;
  const auto fields = [](std::string_view text) {
    std::string found;
    for (const FortranField& field : parse_fortran_format(text).fields)
      found += fmt::format("{}+{}.{} ", field.begin, field.width, field.digits);
    return found;
  };
  EXPECT_EQ(fields("(3I6)"), "0+6.0 6+6.0 12+6.0 ");
  EXPECT_EQ(fields("( 2 e 15.8 )"), "0+15.8 15+15.8 ");
  EXPECT_EQ(fields("(2(1X,I3))"), "1+3.0 5+3.0 ");
  EXPECT_EQ(fields("(2X,I3,1X,I2)"), "2+3.0 6+2.0 ");
  EXPECT_EQ(parse_fortran_format("(-2P,3F6.1)").scale, -2);
  EXPECT_EQ(parse_fortran_format("(3(1PE16.9))").fields.size(), 3u);
  for (const char* bad :
       {"", "(", "()", "10I6", "(10I6", "(I6,)", "(0I6)", "(I0)", "(I)", "(2X)", "(A6)", "(3I6)x", "(3(I6)",
        "(1001X,I6)", "(500I6)", "(E15.)", "(I6/I6)", "(((I6)))", "(2I6,2(I6))"})
    EXPECT_THROW((void)parse_fortran_format(bad), FortranError) << bad;
}

}  // namespace
}  // namespace protean::test

#include "core/io/matrix_market_parse.hpp"

#include <fast_float/fast_float.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/error.hpp"

namespace protean::io_detail {
namespace {

constexpr std::int64_t largest_index = std::numeric_limits<std::int32_t>::max();

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }
bool ends_word(char c) noexcept { return is_blank(c) || c == '\n'; }
const char* skip_blanks(const char* p) noexcept {
  while (is_blank(*p)) ++p;
  return p;
}
unsigned digit(char c) noexcept { return static_cast<unsigned>(static_cast<unsigned char>(c)) - '0'; }

// The word at p for a message: in quotes, shortened, with ? for bytes that cannot be printed.
std::string word_at(const char* p) {
  std::string word;
  for (; !ends_word(*p) && word.size() < 32; ++p)
    word += std::isprint(static_cast<unsigned char>(*p)) ? *p : '?';
  return ends_word(*p) ? "'" + word + "'" : "'" + word + "...'";
}

// Reads one piece of text and knows its position in it.
class Scanner {
 public:
  explicit Scanner(const Piece& piece) : p_(piece.begin()), end_(piece.end()) {}

  // Moves to the first character of the next data line, past empty and comment lines. False at the end.
  bool next_line() {
    while (p_ < end_) {
      p_ = skip_blanks(p_);
      if (*p_ == '\n') {
        ++p_, ++lines_;
      } else if (*p_ == '%') {
        p_ = static_cast<const char*>(std::memchr(p_, '\n', static_cast<std::size_t>(end_ - p_))) + 1;
        ++lines_;
      } else {
        return true;
      }
    }
    return false;
  }

  // Reads a whole number from 1 to `most`, which must end at a blank or at the end of the line. Returns it
  // less one.
  std::int32_t index(std::int64_t most, const char* what) {
    const char* start = p_;
    if (*p_ == '+') ++p_;
    const char* first = p_;
    std::uint64_t value = 0;
    while (digit(*p_) <= 9) value = value * 10 + digit(*p_++);
    if (p_ == first || !ends_word(*p_)) bad_index(start, what);
    if (p_ - first > 18 || value - 1 >= static_cast<std::uint64_t>(most)) {
      while (*first == '0' && p_ - first > 1) ++first;  // leading zeros are allowed
      if (p_ - first > 18 || value - 1 >= static_cast<std::uint64_t>(most)) index_outside(start, most, what);
    }
    return static_cast<std::int32_t>(value - 1);
  }

  double real(bool allow_not_finite) {
    const char* start = p_;
    double value;
    if (*p_ == '+' && p_[1] != '-') ++p_;
    const auto result = fast_float::from_chars(p_, end_, value);
    if (result.ec == std::errc() && ends_word(*result.ptr)) {
      p_ = result.ptr;
    } else {
      value = fortran_real(start);
    }
    if (!(std::abs(value) <= std::numeric_limits<double>::max())) not_finite(start, allow_not_finite);
    return value;
  }

  double integer() {
    const char* start = p_;
    const bool negative = *p_ == '-';
    if (negative || *p_ == '+') ++p_;
    const char* first = p_;
    std::int64_t value = 0;
    while (digit(*p_) <= 9 && p_ - first < 18) value = value * 10 + digit(*p_++);
    if (p_ > first && ends_word(*p_)) return static_cast<double>(negative ? -value : value);
    while (digit(*p_) <= 9) ++p_;
    if (p_ == first || !ends_word(*p_)) {
      if (*start == '\n') fail(start, "the line ends where a value should be");
      fail(start,
           fmt::format("{} is not a whole number, as the banner's 'integer' demands; say 'real' there for "
                       "other numbers",
                       word_at(start)));
    }
    p_ = start;
    return real(false);  // more than 18 digits: correctly rounded to a double
  }

  // Skips the blanks between two words of a line.
  void blank() noexcept { p_ = skip_blanks(p_); }
  void end_line(const char* what) {
    p_ = skip_blanks(p_);
    if (*p_ != '\n') fail(p_, fmt::format("{} after {}; one entry is allowed on a line", word_at(p_), what));
    ++p_, ++lines_;
  }

  [[noreturn]] void fail(const char* at, std::string message) const {
    throw ParseError{at, std::move(message), 0};
  }
  const char* at() const noexcept { return p_; }
  std::int64_t lines() const noexcept { return lines_; }

 private:
  [[noreturn]] void bad_index(const char* start, const char* what) const {
    if (*start == '\n') fail(start, fmt::format("the line ends where the {} should be", what));
    if (*start == '-') fail(start, fmt::format("the {} is {}; it cannot be negative", what, word_at(start)));
    fail(start, fmt::format("the {} is {}, which is not a whole number", what, word_at(start)));
  }
  [[noreturn]] void index_outside(const char* start, std::int64_t most, const char* what) const {
    if (most == 0)
      fail(start, fmt::format("the {} is {}; this matrix has no {}s", what, word_at(start), what));
    const bool zero = word_at(start).find_first_of("123456789") == std::string::npos;
    fail(start, fmt::format("the {} is {}; {}allowed is 1 to {}", what, word_at(start),
                            zero ? "indices count from 1, " : "", most));
  }
  void not_finite(const char* start, bool allowed) const {
    const bool spelled = std::isalpha(static_cast<unsigned char>(*skip_sign(start)));
    if (!spelled) fail(start, fmt::format("the value {} is too large for double precision", word_at(start)));
    if (!allowed)
      fail(start, fmt::format("the value is {}; only finite numbers are allowed", word_at(start)));
  }
  static const char* skip_sign(const char* p) noexcept { return *p == '+' || *p == '-' ? p + 1 : p; }

  // Reads 1.5D+03, as Fortran writes it. Anything else is an error.
  double fortran_real(const char* start) {
    if (*start == '\n') fail(start, "the line ends where a value should be");
    std::array<char, 128> word{};
    std::size_t size = 0;
    const char* p = start;
    if (*p == '+' && p[1] != '-') ++p;
    for (; !ends_word(*p) && size < word.size(); ++p) word[size++] = *p == 'D' || *p == 'd' ? 'e' : *p;
    double value = 0;
    const auto result = fast_float::from_chars(word.data(), word.data() + size, value);
    if (size == 0 || result.ec != std::errc() || result.ptr != word.data() + size || !ends_word(*p))
      fail(start, fmt::format("{} is not a number", word_at(start)));
    p_ = p;
    return value;
  }

  const char *p_, *end_;
  std::int64_t lines_ = 0;
};

template <class Item, Header::Field field>
PieceResult coordinate_lines(const Header& header, const Piece& piece, bool mirror, Item* out) {
  Scanner scan(piece);
  PieceResult result;
  Item* const begin = out;
  try {
    while (scan.next_line()) {
      const char* start = scan.at();
      Item item{};
      item.row = scan.index(header.rows, "row");
      scan.blank();
      item.col = scan.index(header.cols, "column");
      if constexpr (field != Header::Field::pattern) {
        scan.blank();
        item.value = field == Header::Field::integer ? scan.integer() : scan.real(header.allow_not_finite);
      }
      scan.end_line(field == Header::Field::pattern ? "row and column" : "row, column and value");
      *out++ = item;
      if (header.mirrored()) {
        if (item.row == item.col) {
          if constexpr (field != Header::Field::pattern)
            if (header.symmetry == Header::Symmetry::skew && item.value != 0)
              scan.fail(start, std::string(diagonal_of_skew));
        } else {
          std::int64_t& first = item.row > item.col ? result.first_lower : result.first_upper;
          if (first < 0) first = result.entries;
          if (mirror) {
            std::swap(item.row, item.col);
            if (header.symmetry == Header::Symmetry::skew) item.flip_sign();
            *out++ = item;
          }
        }
      }
      ++result.entries;
    }
  } catch (ParseError& error) {
    error.entries_before = result.entries;
    throw;
  }
  result.items = out - begin;
  result.lines = scan.lines();
  return result;
}

// The words of a header line.
std::vector<std::string_view> words_of(const char* p) {
  std::vector<std::string_view> words;
  while (true) {
    p = skip_blanks(p);
    if (*p == '\n') return words;
    const char* start = p;
    while (!ends_word(*p)) ++p;
    words.emplace_back(start, static_cast<std::size_t>(p - start));
  }
}

std::string lower_case(std::string_view word) {
  std::string result(word);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Reads the header line by line.
class HeaderReader {
 public:
  HeaderReader(LineSource& source, Header& header) : source_(source), header_(header) {}

  void read() {
    if (!next_line()) fail(0, "the file is empty; a Matrix Market file begins with '%%MatrixMarket'");
    banner();
    while (true) {
      if (!next_line()) fail(0, "the file ends before the line with the sizes");
      const char* p = skip_blanks(line_);
      if (*p != '%' && *p != '\n') break;
    }
    sizes();
    header_.size_line = header_.lines;
    source_.put_back(piece_, static_cast<std::size_t>(next_ - piece_.begin()));
    source_.allow(most_text(header_.entries),
                  fmt::format("for the {} entries that line {} {}", header_.entries, header_.size_line,
                              header_.coordinate ? "states" : "demands"));
  }

 private:
  bool next_line() {
    if (!next_ || next_ == piece_.end()) {
      if (!source_.next(piece_)) return false;
      next_ = piece_.begin();
    }
    line_ = next_;
    next_ =
        static_cast<const char*>(std::memchr(line_, '\n', static_cast<std::size_t>(piece_.end() - line_))) +
        1;
    ++header_.lines;
    return true;
  }

  [[noreturn]] void fail(const char* at, const std::string& message) const {
    throw BadFile(source_.name(), header_.lines, at ? at - line_ + 1 : 0, message);
  }
  [[noreturn]] void fail(int, const std::string& message) const { fail(nullptr, message); }

  void banner() {
    const std::vector<std::string_view> words = words_of(line_);
    if (words.empty() || lower_case(words[0]) != "%%matrixmarket") {
      const bool tar = piece_.size > 262 && std::string_view(piece_.begin() + 257, 5) == "ustar";
      const bool binary = std::string_view(piece_.begin(), piece_.size).starts_with("\x89PBIN");
      fail(line_,
           tar      ? "this is a tar archive; unpack it (tar xf) and give the .mtx file in it"
           : binary ? "this is a .pbin file, which cannot be read as text or through a pipe; give its path"
                    : fmt::format(
                          "a Matrix Market file begins with '%%MatrixMarket matrix'; this one begins with {}",
                          word_at(skip_blanks(line_))));
    }
    const auto choose = [&](std::size_t i, const char* what, std::string_view allowed) {
      if (words.size() <= i)
        fail(next_ - 1, fmt::format("the banner ends before the {}; allowed is {}", what, allowed));
      return lower_case(words[i]);
    };
    const auto refuse = [&](std::size_t i, const char* what, std::string_view allowed) {
      fail(words[i].data(),
           fmt::format("the {} is {}; allowed is {}", what, word_at(words[i].data()), allowed));
    };
    constexpr std::string_view objects = "matrix", layouts = "coordinate or array",
                               fields = "real, integer or pattern",
                               symmetries = "general, symmetric or skew-symmetric";
    if (choose(1, "object", objects) != "matrix") refuse(1, "object", objects);
    const std::string layout = choose(2, "layout", layouts), field = choose(3, "field", fields);
    if (layout != "coordinate" && layout != "array") refuse(2, "layout", layouts);
    header_.coordinate = layout == "coordinate";
    if (field == "complex")
      fail(words[3].data(),
           "the matrix is complex; only real matrices can be read (real, integer or pattern)");
    if (field == "real")
      header_.field = Header::Field::real;
    else if (field == "integer")
      header_.field = Header::Field::integer;
    else if (field == "pattern" && header_.coordinate)
      header_.field = Header::Field::pattern;
    else
      refuse(3, "field", header_.coordinate ? fields : "real or integer for an array");
    const std::string symmetry = choose(4, "symmetry", symmetries);
    if (symmetry == "hermitian")
      fail(words[4].data(), "the matrix is hermitian, hence complex; only real matrices can be read");
    if (symmetry == "general")
      header_.symmetry = Header::Symmetry::general;
    else if (symmetry == "symmetric")
      header_.symmetry = Header::Symmetry::symmetric;
    else if (symmetry == "skew-symmetric" && header_.field != Header::Field::pattern)
      header_.symmetry = Header::Symmetry::skew;
    else
      refuse(4, "symmetry",
             header_.field == Header::Field::pattern ? "general or symmetric for a pattern" : symmetries);
    if (words.size() > 5)
      fail(words[5].data(), fmt::format("{} after the banner's symmetry", word_at(words[5].data())));
  }

  std::int64_t size(std::string_view word, const char* what) const {
    std::int64_t value = 0;
    const char* const shown = word.data();
    if (word.starts_with('+') && !word.starts_with("+-")) word.remove_prefix(1);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc::invalid_argument || end != word.data() + word.size())
      fail(shown, fmt::format("the number of {} is {}, which is not a whole number", what, word_at(shown)));
    if (*shown == '-')
      fail(shown, fmt::format("the number of {} is {}; it cannot be negative", what, word_at(shown)));
    if (error == std::errc::result_out_of_range)
      fail(shown, fmt::format("the number of {} is {}; at most {} are supported", what, word_at(shown),
                              std::numeric_limits<std::int64_t>::max()));
    return value;
  }

  void sizes() {
    const std::vector<std::string_view> words = words_of(line_);
    const std::size_t wanted = header_.coordinate ? 3 : 2;
    const char* form = header_.coordinate ? "'rows columns entries'" : "'rows columns'";
    if (words.size() < wanted)
      fail(next_ - 1, fmt::format("the line with the sizes ends too early; it reads {}", form));
    if (words.size() > wanted)
      fail(words[wanted].data(),
           fmt::format("{} after the sizes; the line reads {}", word_at(words[wanted].data()), form));
    header_.rows = size(words[0], "rows"), header_.cols = size(words[1], "columns");
    for (int i = 0; i < 2; ++i)
      if ((i == 0 ? header_.rows : header_.cols) > largest_index)
        fail(words[i].data(),
             fmt::format("{} {}; at most {} are supported", i == 0 ? header_.rows : header_.cols,
                         i == 0 ? "rows" : "columns", largest_index));
    if (header_.mirrored() && header_.rows != header_.cols)
      fail(words[0].data(),
           fmt::format("{} x {}: a {} matrix is square", header_.rows, header_.cols,
                       header_.symmetry == Header::Symmetry::skew ? "skew-symmetric" : "symmetric"));
    const std::int64_t n = header_.rows;
    if (header_.coordinate)
      header_.entries = size(words[2], "entries");
    else if (header_.symmetry == Header::Symmetry::general)
      header_.entries = n * header_.cols;
    else
      header_.entries = header_.symmetry == Header::Symmetry::skew ? n * (n - 1) / 2 : n * (n + 1) / 2;
  }

  LineSource& source_;
  Header& header_;
  Piece piece_;
  const char *line_ = nullptr, *next_ = nullptr;
};

}  // namespace

Header read_header(LineSource& source, bool allow_not_finite) {
  Header header;
  header.allow_not_finite = allow_not_finite;
  HeaderReader(source, header).read();
  return header;
}

PieceResult parse_coordinate(const Header& header, const Piece& piece, bool mirror, ValueItem* out) {
  return header.field == Header::Field::integer
             ? coordinate_lines<ValueItem, Header::Field::integer>(header, piece, mirror, out)
             : coordinate_lines<ValueItem, Header::Field::real>(header, piece, mirror, out);
}
PieceResult parse_coordinate(const Header& header, const Piece& piece, bool mirror, PatternItem* out) {
  return coordinate_lines<PatternItem, Header::Field::pattern>(header, piece, mirror, out);
}

PieceResult parse_array(const Header& header, const Piece& piece, double* out) {
  Scanner scan(piece);
  PieceResult result;
  try {
    while (scan.next_line()) {
      out[result.entries] =
          header.field == Header::Field::integer ? scan.integer() : scan.real(header.allow_not_finite);
      scan.end_line("the value");
      ++result.entries;
    }
  } catch (ParseError& error) {
    error.entries_before = result.entries;
    throw;
  }
  result.items = result.entries, result.lines = scan.lines();
  return result;
}

Position position_of(const Piece& piece, const char* at) {
  Position position{1, 1};
  for (const char* p = piece.begin(); p < at; ++p) {
    ++position.column;
    if (*p == '\n') ++position.line, position.column = 1;
  }
  return position;
}

const char* entry_in(const Piece& piece, std::int64_t entry) {
  const char* p = piece.begin();
  while (p < piece.end()) {
    p = skip_blanks(p);
    if (*p != '\n' && *p != '%' && entry-- == 0) return p;
    p = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(piece.end() - p))) + 1;
  }
  return piece.end();
}

}  // namespace protean::io_detail

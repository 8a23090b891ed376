#include "core/io/harwell_boeing_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace protean::io_detail {
namespace {

constexpr std::int64_t largest_index = std::numeric_limits<std::int32_t>::max();

char capital(char c) noexcept { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }

class LayoutReader {
 public:
  explicit LayoutReader(Cards& cards) : cards_(cards) {}

  Layout read(bool allow_not_finite) {
    layout_.header.allow_not_finite = allow_not_finite;
    cards_.require("its title");
    cards_.require("the numbers of lines");
    lines();
    cards_.require("type and sizes");
    type();
    cards_.require("the formats");
    formats();
    if (right_side_lines_ > 0) {
      cards_.require("the line on the right-hand sides");
      right_sides();
    }
    return std::move(layout_);
  }

 private:
  std::int64_t count(std::string_view word, std::string_view what) const {
    std::int64_t value = 0;
    try {
      value = whole_in(word);
    } catch (const FortranError& error) {
      cards_.fail(word, fmt::format("the number of {} is {}, which {}", what, shown(word), error.what()));
    }
    if (value < 0)
      cards_.fail(word, fmt::format("the number of {} is {}; it cannot be negative", what, shown(word)));
    return value;
  }

  void lines() {
    const std::vector<std::string_view> words = words_of(cards_.line());
    constexpr std::array<std::string_view, 5> what = {"lines", "lines of pointers", "lines of row indices",
                                                      "lines of values", "lines of right-hand sides"};
    if (words.size() < 4 || words.size() > 5)
      cards_.fail(0, fmt::format("the second line of a Harwell-Boeing file has five numbers of lines, of a "
                                 "Rutherford-Boeing file four; this one has {} words",
                                 words.size()));
    for (std::size_t k = 0; k < words.size(); ++k) {
      const std::int64_t value = count(words[k], what[k]);
      if (k == 3) value_lines_ = value;
      if (k == 4) right_side_lines_ = value;
    }
  }

  void type() {
    const std::vector<std::string_view> words = words_of(cards_.line());
    constexpr std::string_view allowed =
        "a type has three letters: R, I or P (real, integer, pattern), then U, R, S or Z (unsymmetric, "
        "rectangular, symmetric, skew-symmetric), then A (assembled), such as RUA";
    if (words.empty()) cards_.fail(0, fmt::format("the line has no type; {}", allowed));
    const std::string_view type = words[0];
    if (!is_type(type)) cards_.fail(type, fmt::format("the type is {}; {}", shown(type), allowed));
    if (words.size() < 4 || words.size() > 5)
      cards_.fail(0, fmt::format("after the type come the numbers of rows, columns and entries, and one of "
                                 "element matrices; this line has {} words",
                                 words.size()));
    letters(type);
    Header& header = layout_.header;
    header.rows = count(words[1], "rows"), header.cols = count(words[2], "columns");
    header.entries = count(words[3], "entries");
    header.size_line = cards_.number();
    for (int k = 0; k < 2; ++k)
      if ((k == 0 ? header.rows : header.cols) > largest_index)
        cards_.fail(words[static_cast<std::size_t>(k) + 1],
                    fmt::format("{} {}; at most {} are supported", k == 0 ? header.rows : header.cols,
                                k == 0 ? "rows" : "columns", largest_index));
    if (header.mirrored() && header.rows != header.cols)
      cards_.fail(words[1],
                  fmt::format("{} x {}: a {} matrix is square", header.rows, header.cols,
                              header.symmetry == Header::Symmetry::skew ? "skew-symmetric" : "symmetric"));
    if (layout_.has_values && value_lines_ == 0 && header.entries > 0)
      cards_.fail(type,
                  fmt::format("the type {} has values, but line 2 says that there are no lines of them; "
                              "with P as the first letter each entry is read as 1",
                              shown(type)));
    if (!layout_.has_values && value_lines_ > 0)
      cards_.fail(type,
                  fmt::format("the type {} is a pattern, but line 2 says that there are lines of values; "
                              "with R as the first letter they are read",
                              shown(type)));
  }

  void letters(std::string_view type) {
    Header& header = layout_.header;
    const char values = capital(type[0]), symmetry = capital(type[1]);
    if (capital(type[2]) == 'E')
      cards_.fail(type, fmt::format("the type {} is a sum of element matrices; only assembled ones are read "
                                    "(A). Add them up with the program that wrote the file, and save the sum "
                                    "as Matrix Market",
                                    shown(type)));
    if (values == 'C') cards_.fail(type, "the matrix is complex; only real matrices can be read (R, I or P)");
    if (symmetry == 'H')
      cards_.fail(type, "the matrix is hermitian, hence complex; only real matrices can be read");
    if (values == 'Q')
      cards_.fail(type, fmt::format("the values of type {} stand in another file; save matrix and values as "
                                    "one file, of type R",
                                    shown(type)));
    layout_.has_values = values != 'P';
    header.field = values == 'P'   ? Header::Field::pattern
                   : values == 'I' ? Header::Field::integer
                                   : Header::Field::real;
    header.symmetry = symmetry == 'S'   ? Header::Symmetry::symmetric
                      : symmetry == 'Z' ? Header::Symmetry::skew
                                        : Header::Symmetry::general;
    if (!layout_.has_values && symmetry == 'Z')
      cards_.fail(type, fmt::format("the type {} is a skew-symmetric pattern, which leaves the signs open; "
                                    "allowed for a pattern are PUA, PRA and PSA",
                                    shown(type)));
  }

  // The formats stand one after the other, each in brackets. Blanks may stand inside of them.
  std::vector<std::string_view> in_brackets() const {
    const std::string_view line = cards_.line();
    std::vector<std::string_view> groups;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
      const std::size_t begin = at;
      int open = 0;
      do {
        if (line[at] == '(') ++open;
        if (line[at] == ')') --open;
        ++at;
      } while (open > 0 && at < line.size());
      groups.push_back(line.substr(begin, at - begin));
      if (line[begin] != '(')
        cards_.fail(groups.back(),
                    fmt::format("{} where a format in brackets should be", shown(line.substr(begin))));
    }
    return groups;
  }

  void formats() {
    const std::vector<std::string_view> groups = in_brackets();
    const auto format = [&](std::size_t k, const char* what) {
      if (k >= groups.size())
        cards_.fail(cards_.line().size() + 1,
                    fmt::format("the line ends where the format of the {} should be", what));
      try {
        return parse_fortran_format(groups[k]);
      } catch (const FortranError& error) {
        cards_.fail(groups[k], fmt::format("the format of the {} is {}, which {}", what, shown(groups[k]),
                                           error.what()));
      }
    };
    layout_.pointers = format(0, "pointers"), layout_.indices = format(1, "row indices");
    if (layout_.has_values && layout_.header.entries > 0) layout_.values = format(2, "values");
    // The format of values may stand before it in a pattern, too.
    if (right_side_lines_ > 0)
      layout_.right_sides = format(layout_.has_values || groups.size() > 3 ? 3 : 2, "right-hand sides");
  }

  // "F", "FGX": full, with guesses, with solutions. Then the number of vectors.
  void right_sides() {
    const std::string_view line = cards_.line();
    const std::vector<std::string_view> words = words_of(line.substr(std::min<std::size_t>(3, line.size())));
    layout_.full_vectors = !line.empty() && capital(line[0]) == 'F';
    layout_.vectors_line = cards_.number();
    if (words.empty())
      cards_.fail(
          0, "the line has a type (F, or FGX with guesses and solutions) and the number of right-hand sides");
    layout_.vectors = count(words[0], "right-hand sides");
  }

  Cards& cards_;
  Layout layout_;
  std::int64_t value_lines_ = 0, right_side_lines_ = 0;
};

}  // namespace

bool is_one_of(char c, std::string_view letters) noexcept {
  return letters.find(capital(c)) != std::string_view::npos;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0;;) {
    at = line.find_first_not_of(" \t", at);
    if (at == std::string_view::npos) return words;
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
}

bool is_type(std::string_view word) noexcept {
  return word.size() == 3 && is_one_of(word[0], "RCPIQ") && is_one_of(word[1], "USHZR") &&
         is_one_of(word[2], "AE");
}

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 32;
  std::string word;
  for (const char c : text.substr(0, longest)) word += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return "'" + word + (text.size() > longest ? "...'" : "'");
}

Layout layout_of(Cards& cards, bool allow_not_finite) { return LayoutReader(cards).read(allow_not_finite); }

}  // namespace protean::io_detail

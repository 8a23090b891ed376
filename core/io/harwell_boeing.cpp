#include "core/io/harwell_boeing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/io/fortran_format.hpp"
#include "core/io/matrix_market_pieces.hpp"

namespace protean::io_detail {
namespace {

constexpr std::int64_t largest_index = std::numeric_limits<std::int32_t>::max();

char capital(char c) noexcept { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }
bool is_one_of(char c, std::string_view letters) noexcept {
  return letters.find(capital(c)) != std::string_view::npos;
}

bool is_type(std::string_view word) noexcept {
  return word.size() == 3 && is_one_of(word[0], "RCPIQ") && is_one_of(word[1], "USHZR") &&
         is_one_of(word[2], "AE");
}

// In quotes, shortened, with ? for bytes that cannot be printed.
std::string shown(std::string_view text) {
  constexpr std::size_t longest = 32;
  std::string word;
  for (const char c : text.substr(0, longest)) word += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return "'" + word + (text.size() > longest ? "...'" : "'");
}

// What line 3 and line 4 say, and how much there is of it.
struct Layout {
  Header header;
  bool has_values = false;
  FortranFormat pointers, indices, values, right_sides;
  std::int64_t vectors = 0,
               vectors_line = 0;  // right-hand sides, and the line that states them; 0: there is none
  bool full_vectors = false;
};

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

// Reads a file line by line.
class Cards {
 public:
  Cards(const Input& input, LineSource& source) : input_(input), source_(source) {}

  // Goes to the next line. False at the end of the file.
  bool next() {
    if (!next_ || next_ == piece_.end()) {
      if (!source_.next(piece_)) return false;
      next_ = piece_.begin();
    }
    const char* const begin = next_;
    const auto* const end =
        static_cast<const char*>(std::memchr(begin, '\n', static_cast<std::size_t>(piece_.end() - begin)));
    next_ = end + 1;
    line_ = {begin, static_cast<std::size_t>(end - begin)};
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    ++number_;
    return true;
  }
  void require(const char* what) {
    if (!next()) fail(0, fmt::format("the file ends before {}; it may have been cut off", what));
  }

  std::string_view line() const noexcept { return line_; }
  std::int64_t number() const noexcept { return number_; }

  // `column` counts from 1; 0: the line as a whole.
  [[noreturn]] void fail(std::size_t column, const std::string& message) const {
    io_detail::fail(input_, {number_, static_cast<std::int64_t>(column)}, message);
  }
  [[noreturn]] void fail(std::string_view part, const std::string& message) const {
    fail(static_cast<std::size_t>(part.data() - line_.data()) + 1, message);
  }

  // Numbers in the next lines: visit(text of a number, field) of each.
  template <class Visit>
  void numbers(const FortranFormat& format, std::int64_t count, const char* what, const Visit& visit) {
    const auto of_line = static_cast<std::int64_t>(format.fields.size());
    for (std::int64_t done = 0; done < count;) {
      if (!next())
        fail(0,
             fmt::format("the file ends after {} of the {} {}; it may have been cut off", done, count, what));
      if (const std::size_t tab = line_.find('\t'); tab != std::string_view::npos)
        fail(tab + 1, "a tab; the numbers of such a file stand in columns, so write blanks");
      const auto wanted = static_cast<std::size_t>(std::min(of_line, count - done));
      if (!divide(format, wanted)) {
        const std::size_t empty = static_cast<std::size_t>(
            std::find(texts_.begin(), texts_.end(), std::string_view()) - texts_.begin());
        if (empty < wanted)
          fail(static_cast<std::size_t>(format.fields[empty].begin) + 1,
               fmt::format("there is no number here, but {} of the {} {} must still come; the format is {}",
                           count - done - static_cast<std::int64_t>(empty), count, what, shown(format.text)));
        if (!behind_.empty())
          fail(behind_, fmt::format("{} behind the last number that the format {} has on this line",
                                    shown(behind_), shown(format.text)));
      }
      for (std::size_t k = 0; k < wanted; ++k) number_in(texts_[k], format, format.fields[k], visit);
      done += static_cast<std::int64_t>(wanted);
    }
  }

 private:
  // Divides the line into the texts of numbers, by the columns of the format. Where that cuts a number or leaves a
  // field empty, and there are as many words as numbers, these are taken: the lines of SciPy are narrower than its
  // formats say. False if there are neither.
  bool divide(const FortranFormat& format, std::size_t wanted) {
    texts_.clear();
    bool good = true;
    for (std::size_t k = 0; k < wanted; ++k) {
      const std::string_view text = in_field(line_, format.fields[k]);
      const std::size_t blank = text.find(' ');
      good = good && !text.empty() && (blank == std::string_view::npos || is_one_of(text[blank - 1], "EDQ"));
      texts_.push_back(text);
    }
    const FortranField& last = format.fields[wanted - 1];
    behind_ = line_.substr(std::min(static_cast<std::size_t>(last.begin + last.width), line_.size()));
    behind_.remove_prefix(std::min(behind_.find_first_not_of(' '), behind_.size()));
    if (good && behind_.empty()) return true;
    std::vector<std::string_view> words = words_of(line_);
    if (words.size() != wanted) return false;
    texts_ = std::move(words);
    return true;
  }

  template <class Visit>
  void number_in(std::string_view text, const FortranFormat& format, const FortranField& field,
                 const Visit& visit) const {
    if (is_cut() && line_.size() < static_cast<std::size_t>(field.begin + field.width))
      fail(text,
           fmt::format("the file ends within {}, which fills columns {} to {}; it may have been cut off",
                       shown(text), field.begin + 1, field.begin + field.width));
    try {
      visit(text, field);
    } catch (const FortranError& error) {
      fail(text, fmt::format("{} {} (columns {} to {}, by the format {})", shown(text), error.what(),
                             field.begin + 1, field.begin + field.width, shown(format.text)));
    }
  }

  // The last line of the file, without a line end.
  bool is_cut() const { return next_ == piece_.end() && source_.added_line_end(); }

  const Input& input_;
  LineSource& source_;
  Piece piece_;
  const char* next_ = nullptr;
  std::string_view line_;
  std::int64_t number_ = 0;
  std::vector<std::string_view> texts_;  // of the numbers in the line
  std::string_view behind_;              // what follows the last field
};

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

// The columns of a file as they stand there.
struct Columns {
  std::vector<std::int64_t> begin;  // cols + 1
  std::vector<std::int32_t> row;
  std::vector<double> value;    // empty for a pattern
  std::int64_t index_line = 0;  // the first one with row indices
};

// The place of the row index of entry k.
Position index_place(const Columns& columns, const Layout& layout, std::int64_t k) {
  const std::vector<FortranField>& fields = layout.indices.fields;
  const auto of_line = static_cast<std::int64_t>(fields.size());
  return {columns.index_line + k / of_line, fields[static_cast<std::size_t>(k % of_line)].begin + 1};
}

double finite(const Cards& cards, std::string_view text, double value, bool allow_not_finite) {
  if (!allow_not_finite && !std::isfinite(value))
    cards.fail(text, fmt::format("the value is {}; only finite numbers are allowed", shown(text)));
  return value;
}

class ColumnReader {
 public:
  ColumnReader(const Input& input, Cards& cards, const Layout& layout)
      : input_(input), cards_(cards), layout_(layout), header_(layout.header) {}

  Columns read() {
    pointers();
    columns_.index_line = cards_.number() + 1;
    indices();
    if (layout_.has_values) values();
    check_symmetry();
    return std::move(columns_);
  }

 private:
  void pointers() {
    std::vector<std::int64_t>& begin = columns_.begin;
    cards_.numbers(
        layout_.pointers, header_.cols + 1, "pointers", [&](std::string_view text, const FortranField&) {
          const std::int64_t value = whole_in(text), before = begin.empty() ? 1 : begin.back() + 1;
          if (begin.empty() ? value != 1 : (value < before || value > header_.entries + 1))
            cards_.fail(text,
                        begin.empty()
                            ? fmt::format("the first pointer is {}; it must be 1", shown(text))
                            : fmt::format("the pointer of column {} is {}; allowed is {} to {}, from the one "
                                          "before to the number of entries and 1",
                                          begin.size() + 1, shown(text), before, header_.entries + 1));
          begin.push_back(value - 1);
        });
    if (begin.back() != header_.entries)
      cards_.fail(0, fmt::format("the last pointer is {}; it must be {}, since line {} states {} entries",
                                 begin.back() + 1, header_.entries + 1, header_.size_line, header_.entries));
  }

  void indices() {
    cards_.numbers(layout_.indices, header_.entries, "row indices",
                   [&](std::string_view text, const FortranField&) {
                     const std::int64_t row = whole_in(text);
                     if (row < 1 || row > header_.rows)
                       cards_.fail(text, fmt::format("the row is {}; {}allowed is 1 to {}", shown(text),
                                                     row == 0 ? "indices count from 1, " : "", header_.rows));
                     columns_.row.push_back(static_cast<std::int32_t>(row - 1));
                   });
  }

  void values() {
    cards_.numbers(
        layout_.values, header_.entries, "values", [&](std::string_view text, const FortranField& field) {
          columns_.value.push_back(
              finite(cards_, text, real_in(text, field, layout_.values), header_.allow_not_finite));
        });
  }

  // One triangle only, and no diagonal in a skew-symmetric matrix.
  void check_symmetry() const {
    if (!header_.mirrored()) return;
    std::int64_t lower = -1, upper = -1;
    for (std::int64_t c = 0; c < header_.cols; ++c)
      for (std::int64_t k = columns_.begin[c]; k < columns_.begin[c + 1]; ++k) {
        const std::int64_t row = columns_.row[k];
        if (row > c && lower < 0) lower = k;
        if (row < c && upper < 0) upper = k;
        if (row == c && header_.symmetry == Header::Symmetry::skew && columns_.value[k] != 0)
          fail(input_, index_place(columns_, layout_, k), std::string(diagonal_of_skew));
      }
    if (lower < 0 || upper < 0) return;
    fail(input_, index_place(columns_, layout_, std::max(lower, upper)),
         both_triangles(header_, upper > lower, "write U as the second letter of the type"));
  }

  const Input& input_;
  Cards& cards_;
  const Layout& layout_;
  const Header& header_;
  Columns columns_;
};

template <class Item>
Item item_of(const Columns& columns, std::int64_t k, std::int32_t column) {
  if constexpr (std::is_same_v<Item, PatternItem>)
    return {columns.row[k], column};
  else
    return {columns.row[k], column, columns.value[k]};
}

// The entries, and those of the other half of a symmetric matrix, in the order of the file.
template <class Item>
std::vector<ItemPiece<Item>> pieces_of(const Columns& columns, const Header& header, const Buckets& buckets) {
  constexpr std::int64_t most = std::int64_t{1} << 20;  // entries of a piece
  std::vector<ItemPiece<Item>> pieces;
  PageArray<Item> scratch(std::min(most, header.entries) * (header.mirrored() ? 2 : 1));
  std::int64_t count = 0, entries = 0;
  const auto flush = [&] {
    ItemPiece<Item>& piece = pieces.emplace_back();
    piece.number = static_cast<std::int64_t>(pieces.size()) - 1;
    piece.result.items = count, piece.result.entries = entries;
    store(piece, buckets, scratch.data());
    count = entries = 0;
  };
  for (std::int64_t c = 0; c < header.cols; ++c)
    for (std::int64_t k = columns.begin[c]; k < columns.begin[c + 1]; ++k) {
      Item item = item_of<Item>(columns, k, static_cast<std::int32_t>(c));
      scratch.data()[count++] = item;
      if (header.mirrored() && item.row != item.col) {
        std::swap(item.row, item.col);
        if (header.symmetry == Header::Symmetry::skew) item.flip_sign();
        scratch.data()[count++] = item;
      }
      if (++entries == most) flush();
    }
  if (entries > 0) flush();
  return pieces;
}

template <class Item>
CsrMatrix<double> matrix_of(const ContextPtr& context, const Input& input, const Layout& layout,
                            const Columns& columns, const ReadOptions& options) {
  const Header& header = layout.header;
  const Buckets buckets(header.rows);
  Assembled result =
      assemble(context, header, buckets, pieces_of<Item>(columns, header, buckets), options.duplicates);
  // The message gives the place of the second row index of the entry.
  const auto refuse = [&](EntryPlace entry, std::string_view why) {
    if (header.mirrored() && std::find(columns.row.begin() + columns.begin[entry.col],
                                       columns.row.begin() + columns.begin[entry.col + 1],
                                       entry.row) == columns.row.begin() + columns.begin[entry.col + 1])
      std::swap(entry.row, entry.col);
    std::int64_t k = columns.begin[entry.col];
    for (int seen = columns.row[k] == entry.row ? 1 : 0; seen < 2;)
      seen += columns.row[++k] == entry.row ? 1 : 0;
    fail(input, index_place(columns, layout, k),
         fmt::format("entry ({}, {}) {}", entry.row + 1, entry.col + 1, why));
  };
  if (result.repeated && options.duplicates == Duplicates::refuse) refuse(*result.repeated, given_twice);
  if (result.overflow && !options.allow_not_finite) refuse(*result.overflow, sum_too_large);
  return result.matrix;
}

Layout read_layout(const Input& input, Cards& cards, LineSource& source, const ReadOptions& options) {
  Layout layout = LayoutReader(cards).read(options.allow_not_finite);
  const Header& header = layout.header;
  check_rows(input, header);
  // Of an entry: its index and value in vectors that have grown, its item, and what the matrix has.
  constexpr double item_bytes = 24 + sizeof(ValueItem) + 12;
  check_memory(input, header,
               static_cast<double>(header.entries) * (header.mirrored() ? 2 : 1) +
                   static_cast<double>(header.cols) * 8 / item_bytes,
               item_bytes, 8, options);
  source.allow(most_text(header.entries + header.cols),
               fmt::format("for the {} entries that line {} states", header.entries, header.size_line));
  return layout;
}

}  // namespace

bool is_harwell_boeing(std::string_view text) noexcept {
  std::array<std::string_view, 3> lines;
  for (std::string_view& line : lines) {
    const std::size_t end = text.find('\n');
    if (&line != &lines[2] && end == std::string_view::npos) return false;
    line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return lines[1].find_first_of("0123456789") != std::string_view::npos &&
         lines[1].find_first_not_of("0123456789 \t\r") == std::string_view::npos &&
         is_type(lines[2].substr(0, 3)) && lines[2].size() > 4 && (lines[2][3] == ' ' || lines[2][3] == '\t');
}

bool is_harwell_boeing_name(std::string_view path) noexcept {
  for (const std::string_view compressed : {".gz", ".xz"})
    if (path.ends_with(compressed)) path.remove_suffix(compressed.size());
  const std::string_view name = path.substr(path.rfind('/') + 1), ending = name.substr(name.rfind('.') + 1);
  return name.size() > ending.size() && (is_type(ending) || ending == "rb" || ending == "hb");
}

bool begins_as_harwell_boeing(LineSource& source) {
  Piece piece;
  if (!source.next(piece)) return false;
  const std::string_view text(piece.begin(), piece.size);
  const bool is_one = is_harwell_boeing(text.substr(0, harwell_boeing_bytes)) ||
                      (is_harwell_boeing_name(source.name()) && !text.starts_with("%%"));
  source.put_back(piece, 0);
  return is_one;
}

CsrMatrix<double> read_harwell_boeing(const ContextPtr& context, const Input& input, LineSource& source,
                                      const ReadOptions& options) {
  Cards cards(input, source);
  const Layout layout = read_layout(input, cards, source, options);
  const Columns columns = ColumnReader(input, cards, layout).read();
  while (layout.vectors_line == 0 && cards.next())
    if (const std::size_t more = cards.line().find_first_not_of(" \t"); more != std::string_view::npos)
      cards.fail(more + 1, fmt::format("{} behind the last number of the {} entries that line {} states",
                                       shown(cards.line().substr(more)), layout.header.entries,
                                       layout.header.size_line));
  return layout.has_values ? matrix_of<ValueItem>(context, input, layout, columns, options)
                           : matrix_of<PatternItem>(context, input, layout, columns, options);
}

VectorColumns read_right_hand_sides(const ContextPtr& context, const Input& input, LineSource& source,
                                    const ReadOptions& options, bool several) {
  Cards cards(input, source);
  const Layout layout = read_layout(input, cards, source, options);
  const std::int64_t rows = layout.header.rows, vectors = layout.vectors;
  const auto refuse = [&](std::int64_t line, const std::string& message) { fail(input, {line, 0}, message); };
  if (layout.vectors_line == 0 || vectors == 0)
    refuse(2, "this is a matrix without right-hand sides; give a Matrix Market or .npy file of a vector");
  if (!layout.full_vectors)
    refuse(
        layout.vectors_line,
        "the right-hand sides are sparse or of element matrices; only full ones (F) are read. Save them as "
        "Matrix Market");
  if (vectors != 1 && !several)
    refuse(layout.vectors_line, fmt::format("{} right-hand sides; one vector is needed here", vectors));
  check_memory(input, layout.header, static_cast<double>(rows) * static_cast<double>(vectors), 24, 0,
               options);
  source.allow(most_text(layout.header.entries + layout.header.cols + rows * vectors),
               fmt::format("for {} right-hand sides", vectors));
  (void)ColumnReader(input, cards, layout).read();
  std::vector<double> numbers;
  cards.numbers(layout.right_sides, rows * vectors, "numbers of right-hand sides",
                [&](std::string_view text, const FortranField& field) {
                  numbers.push_back(finite(cards, text, real_in(text, field, layout.right_sides),
                                           options.allow_not_finite));
                });
  VectorColumns result{Vector<double>(context, rows * vectors), vectors};
  std::copy(numbers.begin(), numbers.end(), result.entries.data());
  return result;
}

}  // namespace protean::io_detail

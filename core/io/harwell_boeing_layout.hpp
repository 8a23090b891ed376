// Private: the header lines of a Harwell-Boeing file.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/io/fortran_format.hpp"
#include "core/io/harwell_boeing.hpp"
#include "core/io/matrix_market_pieces.hpp"

namespace protean::io_detail {

// In quotes, shortened, with ? for bytes that cannot be printed.
std::string shown(std::string_view text);
// Whether c is one of the letters, whatever its case.
bool is_one_of(char c, std::string_view letters) noexcept;
// The words of a line, between blanks and tabs.
std::vector<std::string_view> words_of(std::string_view line);
// Whether a word is a type of line 3, such as RUA.
bool is_type(std::string_view word) noexcept;

// What line 3 and line 4 say, and how much there is of it.
struct Layout {
  Header header;
  bool has_values = false;
  FortranFormat pointers, indices, values, right_sides;
  std::int64_t vectors = 0,
               vectors_line = 0;  // right-hand sides, and the line that states them; 0: there is none
  bool full_vectors = false;
};

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
  // Divides the line into the texts of numbers, by the columns of the format. If that cuts a number or leaves a field
  // empty, and there are as many words as numbers, the words are taken: the lines of SciPy are narrower than its
  // formats say. False if neither fits.
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

// Reads lines 1 to 4, or 5 with right-hand sides, and leaves `cards` behind them. Throws BadFile.
Layout layout_of(Cards& cards, bool allow_not_finite);

}  // namespace protean::io_detail

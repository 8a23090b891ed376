#include "core/io/fortran_format.hpp"

#include <fast_float/fast_float.h>
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>

namespace protean::io_detail {
namespace {

constexpr int most_columns = 1000;  // of a line; lines of such files have 80
constexpr int widest = 100;         // a field; a double has 17 digits

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// Reads a format from left to right.
class FormatParser {
 public:
  explicit FormatParser(std::string_view text) {
    format_.text = text;
    for (const char c : text)
      if (c != ' ') rest_ += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }

  FortranFormat parse() {
    if (!take('(')) bad();
    take_scale();
    const std::size_t first = at_;
    const int count = number(1);
    if (take('(')) {  // one group with a count, such as (3(1X,E25.16))
      const std::size_t begin = at_;
      for (int k = 0; k < count; ++k) at_ = begin, items();
      if (!take(')')) bad();
    } else {
      at_ = first;
      items();
    }
    if (!take(')') || at_ != rest_.size() || format_.fields.empty()) bad();
    return std::move(format_);
  }

 private:
  [[noreturn]] void bad() const {
    throw FortranError(
        "is not a format of numbers in columns; such are (10I6), (5E15.8), (1P,4D20.12) and (3(1X,E25.16))");
  }
  bool take(char c) noexcept { return at_ < rest_.size() && rest_[at_] == c && (++at_, true); }

  int number(int otherwise) {
    int value = 0;
    const std::size_t begin = at_;
    for (; at_ < rest_.size() && is_digit(rest_[at_]); ++at_) {
      value = value * 10 + (rest_[at_] - '0');
      if (value > most_columns) bad();
    }
    if (at_ == begin) return otherwise;
    if (value == 0) bad();
    return value;
  }

  // kP, with or without a comma after it.
  void take_scale() {
    std::size_t end = at_;
    const bool negative = end < rest_.size() && rest_[end] == '-';
    if (end < rest_.size() && (rest_[end] == '+' || negative)) ++end;
    const std::size_t digits = end;
    while (end < rest_.size() && is_digit(rest_[end])) ++end;
    if (end == digits || end - digits > 2 || end == rest_.size() || rest_[end] != 'P') return;
    int value = 0;
    (void)std::from_chars(rest_.data() + digits, rest_.data() + end, value);
    format_.scale = negative ? -value : value;
    at_ = end + 1;
    (void)take(',');
  }

  void items() {
    do {
      take_scale();
      item(number(1));
    } while (take(','));
  }

  void item(int count) {
    if (take('X')) {
      column_ += count;
      if (column_ > most_columns) bad();
      return;
    }
    bool real = true;
    if (take('I'))
      real = false;
    else if (take('E'))
      (void)(take('S') || take('N'));
    else if (!take('D') && !take('F') && !take('G'))
      bad();
    FortranField field;
    field.width = number(0);
    if (field.width == 0 || field.width > widest) bad();
    if (take('.')) field.digits = digits();
    if (!real) field.digits = 0;  // of Iw.m: the fewest digits that are written
    if (take('E')) (void)digits();
    for (; count > 0; --count) {
      field.begin = column_;
      column_ += field.width;
      if (column_ > most_columns) bad();
      format_.fields.push_back(field);
    }
  }

  int digits() {
    int value = 0;
    const std::size_t begin = at_;
    for (; at_ < rest_.size() && is_digit(rest_[at_]) && at_ - begin < 3; ++at_)
      value = value * 10 + (rest_[at_] - '0');
    if (at_ == begin) bad();
    return value;
  }

  FortranFormat format_;
  std::string rest_;  // the text without blanks, in capitals
  std::size_t at_ = 0;
  int column_ = 0;
};

// With the exponent as C writes it: 1.5D+03, 1.5 E 03 and 1.5-103 have an 'e' before it and no blank in it.
std::string with_exponent(std::string_view text) {
  std::string number;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    const char before = number.empty() ? ' ' : number.back();
    if (c == 'D' || c == 'd' || c == 'Q' || c == 'q' || c == 'E') {
      number += 'e';
    } else if (c == ' ' && before == 'e') {  // the sign of old compilers
    } else if (c == '+' || c == '-') {
      if (is_digit(before) || before == '.') number += 'e';
      if (c == '-' || number.empty() || before != 'e') number += c;
    } else {
      number += c;
    }
  }
  return number;
}

}  // namespace

FortranFormat parse_fortran_format(std::string_view text) { return FormatParser(text).parse(); }

std::string_view in_field(std::string_view line, const FortranField& field) noexcept {
  const auto begin = static_cast<std::size_t>(field.begin);
  if (begin >= line.size()) return {};
  std::string_view text = line.substr(begin, static_cast<std::size_t>(field.width));
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::int64_t whole_in(std::string_view text) {
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.starts_with("+"))
    throw FortranError("is not a whole number");
  return value;
}

double real_in(std::string_view text, const FortranField& field, const FortranFormat& format) {
  const auto read = [](std::string_view number, double& value) {
    const auto result = fast_float::from_chars(number.data(), number.data() + number.size(), value);
    return result.ec != std::errc::invalid_argument && result.ptr == number.data() + number.size();
  };
  double value = 0;
  if (!read(text, value)) {
    std::string number = with_exponent(text);
    if (number.starts_with('+') && !number.starts_with("+-")) number.erase(0, 1);
    if (!read(number, value)) throw FortranError("is not a number");
  }
  if (std::isnan(value)) return value;
  if (std::isinf(value)) {
    if (text.find_first_of("0123456789") != std::string_view::npos)
      throw FortranError("is too large for double precision");
    return value;
  }
  if (value == 0) return value;
  if (field.digits > 0 && text.find('.') == std::string_view::npos)
    throw FortranError(
        fmt::format("has no decimal point, and Fortran would put one before its last digits (.{} in the "
                    "format); write the point",
                    field.digits));
  if (format.scale != 0 && text.find_first_of("eEdDqQ+-", 1) == std::string_view::npos)
    throw FortranError(
        fmt::format("has no exponent, and Fortran would divide it by 10^{} ({}P in the format); write an "
                    "exponent, or leave the scale factor out of the format",
                    format.scale, format.scale));
  return value;
}

}  // namespace protean::io_detail

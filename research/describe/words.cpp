// Words of a description: names, numbers, signs.
#include "research/describe/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.hpp"

namespace protean::research {

Words::Words(std::string_view text, std::string file) : file_(std::move(file)) {
  int number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    read_line(text.substr(0, end), number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void Words::read_line(std::string_view text, int number) {
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  text = text.substr(0, text.find('#'));
  Line line;
  line.number = number;
  std::size_t at = 0;
  while (at < text.size() && text[at] == ' ') ++at;
  line.indent = static_cast<int>(at);
  const auto word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  while (at < text.size()) {
    const int column = static_cast<int>(at) + 1;
    const char c = text[at];
    if (c == ' ') {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    if (std::isdigit(static_cast<unsigned char>(c))) {
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      // A name of a format may have a minus; in an expression it is one only between spaces.
      const bool of_format = line.tokens.size() == 1 && line.tokens[0].text == "format";
      while (end < text.size() && word(text[end]) && (text[end] != '-' || of_format)) ++end;
    } else if (const std::string_view two = text.substr(at, 2);
               two == ".." || two == "<=" || two == ">=" || two == "==" || two == "!=" || two == "+=") {
      end = at + 2;
    } else if (std::string_view("+-*/%()[],:<>=").find(c) == std::string_view::npos) {
      fail(number, column,
           fmt::format("a description has no {}",
                       c == '\t' ? "tabs; indent by spaces" : fmt::format("'{}'", c)));
    }
    // Expressions are computed by recursion over their parts.
    if (line.tokens.size() >= 1000) fail(number, column, "a line has at most 1,000 words and signs");
    line.tokens.push_back({std::string(text.substr(at, end - at)), column});
    at = end;
  }
  if (!line.tokens.empty()) lines_.push_back(std::move(line));
}

void Words::fail(int line, int column, const std::string& message) const {
  throw BadFile(file_, line, column, message);
}

void Words::fail_here(const std::string& message) const { fail(lines_[at_].number, token().column, message); }

const Line& Words::start_line() {
  next_ = 0;
  return lines_[at_];
}

Token Words::token() const {
  const Line& line = lines_[at_];
  if (next_ < line.tokens.size()) return line.tokens[next_];
  const Token& last = line.tokens.back();
  return {"", last.column + static_cast<int>(last.text.size())};
}

std::string Words::next() {
  std::string text = token().text;
  ++next_;
  return text;
}

bool Words::accept(std::string_view text) {
  if (peek() != text) return false;
  ++next_;
  return true;
}

void Words::expect(std::string_view text) {
  if (!accept(text))
    fail_here(fmt::format("'{}' is expected here{}", text,
                          peek().empty() ? ", where the line ends" : fmt::format(", not '{}'", peek())));
}

void Words::end_of_line() const {
  if (!peek().empty()) fail_here(fmt::format("'{}' is too much here", peek()));
}

bool Words::is_name(const std::string& text) {
  return !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_');
}

bool Words::is_number(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0]));
}

std::string Words::name() {
  if (!is_name(peek())) fail_here("a name is expected here");
  return next();
}

std::int64_t Words::number() {
  if (!is_number(peek())) fail_here("a number is expected here");
  if (peek().size() > 9) fail_here("the number is above 999,999,999");
  return std::stoll(next());
}

}  // namespace protean::research

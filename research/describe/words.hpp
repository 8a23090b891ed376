// The words of a description, line by line, of which parse.cpp makes statements.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace protean::research {

struct Token {
  std::string text;  // empty: the end of the line
  int column = 0;
};

struct Line {
  int number = 0, indent = 0;
  std::vector<Token> tokens;
};

// Reads the words of the line at_ one after another. Errors are BadFile, with the place of the next word.
class Words {
 public:
  Words(std::string_view text, std::string file);

 protected:
  [[noreturn]] void fail(int line, int column, const std::string& message) const;
  [[noreturn]] void fail_here(const std::string& message) const;

  // The line at_, from its first word.
  const Line& start_line();
  Token token() const;
  std::string peek() const { return token().text; }
  std::string next();
  bool accept(std::string_view text);
  void expect(std::string_view text);
  void end_of_line() const;
  static bool is_name(const std::string& text);
  static bool is_number(const std::string& text);
  std::string name();
  std::int64_t number();

  std::string file_;
  std::vector<Line> lines_;
  std::size_t at_ = 0, next_ = 0;

 private:
  void read_line(std::string_view text, int number);
};

}  // namespace protean::research

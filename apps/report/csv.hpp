// Fields of CSV files.
#pragma once
#include <string>
#include <string_view>

namespace protean::apps {

// The text in quotation marks, in one line.
inline std::string csv_field(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c == '\n' ? ' ' : c);
  return result + "\"";
}

}  // namespace protean::apps

#include "core/error.hpp"

#include <fmt/format.h>

namespace protean {
namespace {

std::string place(const std::string& file, std::int64_t line, std::int64_t column) {
  if (line <= 0) return file;
  if (column <= 0) return fmt::format("{}:{}", file, line);
  return fmt::format("{}:{}:{}", file, line, column);
}

}  // namespace

BadFile::BadFile(const std::string& file, std::int64_t line, std::int64_t column, const std::string& message,
                 SourceLocation where)
    : Error(place(file, line, column) + ": " + message, where), file_(file), line_(line), column_(column) {}

FormatRefused::FormatRefused(std::string_view format, std::string_view reason, std::size_t bytes,
                             SourceLocation where)
    : Error(fmt::format("format '{}' refused: {}", format, reason), where),
      format_(format),
      reason_(reason),
      bytes_(bytes) {}

}  // namespace protean

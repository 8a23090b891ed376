#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace protean {
namespace {

std::string place(const std::string& file, std::int64_t line, std::int64_t column) {
  if (line <= 0) return file;
  if (column <= 0) return fmt::format("{}:{}", file, line);
  return fmt::format("{}:{}:{}", file, line, column);
}

// A name in capitals is the same name.
char lower(char c) noexcept { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] =
          std::min({row[j] + 1, row[j - 1] + 1, diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
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

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t longest = 100;  // what is longer is no name with a mistake in it
  const std::string_view name = word.size() > longest ? std::string_view() : nearest_name(word, candidates);
  return name.empty() ? std::string() : fmt::format(" Did you mean '{}'?", name);
}

std::string human_bytes(std::size_t bytes) {
  constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace protean

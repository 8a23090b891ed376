#include "core/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "core/error.hpp"

namespace protean {
namespace {

// A name in capitals is the same name.
char lower(char c) noexcept { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// What turns one word into another. Letters that change places are typed more often than a wrong one.
constexpr std::size_t edit = 4, exchange = 3;

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1), above(b.size() + 1), two_above(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j * edit;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above), above.swap(row);
    row[0] = i * edit;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto same = [&](std::size_t k, std::size_t l) { return lower(a[k - 1]) == lower(b[l - 1]); };
      row[j] = std::min({above[j] + edit, row[j - 1] + edit, above[j - 1] + (same(i, j) ? 0 : edit)});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j))
        row[j] = std::min(row[j], two_above[j - 2] + exchange);
    }
  }
  return row[b.size()];
}

// Names that differ in nothing else are the same: ILU(0) and ilu0, SELL_P and sell-p.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::string_view("-_ ()").find(c) == std::string_view::npos) letters += lower(c);
  return letters;
}

// The candidate that equals `word` in other letters, or that has this other name; empty if there is none.
std::string_view known_name(std::string_view word, std::span<const std::string_view> candidates) {
  struct OtherName {
    std::string_view theirs, ours;
  };
  static constexpr OtherName other_names[] = {
#define PROTEAN_OTHER_NAME(theirs, ours) {theirs, ours},
#include "core/other_names.def"
#undef PROTEAN_OTHER_NAME
  };
  const std::string letters = letters_of(word);
  if (letters.empty()) return {};
  for (const std::string_view candidate : candidates)
    if (letters_of(candidate) == letters) return candidate;
  for (const auto& [theirs, ours] : other_names)
    if (letters_of(theirs) == letters)
      if (const auto found = std::find(candidates.begin(), candidates.end(), ours); found != candidates.end())
        return *found;
  return {};
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best = known_name(word, candidates);
  if (!best.empty()) return best;
  std::size_t best_distance = edit * std::max<std::size_t>(2, word.size() / 3) + 1;
  for (std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string detail::did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t longest = 100;  // what is longer is not a name with a mistake in it
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

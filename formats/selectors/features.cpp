#include "formats/selectors/features.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace protean {
namespace {

// Least, largest, mean and deviation of whole numbers.
struct Spread {
  double least = std::numeric_limits<double>::infinity(), largest = 0, sum = 0, squares = 0;
  std::int64_t count = 0;
  void add(std::int64_t number) {
    const auto x = static_cast<double>(number);
    least = std::min(least, x), largest = std::max(largest, x), sum += x, squares += x * x, ++count;
  }
  double smallest() const { return count > 0 ? least : 0; }
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
  double deviation() const {
    if (count == 0) return 0;
    const double m = mean();
    return std::sqrt(std::max(0.0, squares / static_cast<double>(count) - m * m));
  }
};

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// A diagonal is a true one with an entry in this part of its places.
constexpr double true_diagonal = 0.5;

}  // namespace

std::size_t feature_index(std::string_view name) {
  const auto* const found = std::find(feature_names.begin(), feature_names.end(), name);
  if (found == feature_names.end())
    throw BadArgument("there is no feature '" + std::string(name) + "' of a pattern");
  return static_cast<std::size_t>(found - feature_names.begin());
}

double PatternFeatures::operator[](std::string_view name) const {
  const auto* const found = std::find(feature_names.begin(), feature_names.end(), name);
  return found == feature_names.end() ? 0 : values[static_cast<std::size_t>(found - feature_names.begin())];
}

PatternFeatures features_of(const SparsityPattern& pattern) {
  const std::int64_t rows = pattern.rows, cols = pattern.cols;
  Spread lengths, runs, sizes;
  std::vector<std::int32_t> on_diagonal(static_cast<std::size_t>(rows + cols), 0);
  std::int64_t empty = 0, changes = 0, before = -1;
  double span = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto row = pattern.row(i);
    const std::int64_t length = std::ssize(row);
    lengths.add(length);
    changes += before >= 0 && length != before;
    before = length;
    if (row.empty()) {
      ++empty;
      runs.add(0);
      continue;
    }
    span += static_cast<double>(row.back() - row.front() + 1) / static_cast<double>(cols);
    std::int64_t begun = 0, found = 0;
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int32_t col = row[static_cast<std::size_t>(k)];
      ++on_diagonal[static_cast<std::size_t>(col - i + rows - 1)];
      if (k + 1 < length && row[static_cast<std::size_t>(k + 1)] == col + 1) continue;
      sizes.add(k + 1 - begun);
      begun = k + 1, ++found;
    }
    runs.add(found);
  }
  std::int64_t diagonals = 0, full = 0;
  for (std::int64_t d = 0; d < rows + cols; ++d) {
    const std::int64_t entries = on_diagonal[static_cast<std::size_t>(d)];
    if (entries == 0) continue;
    ++diagonals;
    // Places of the diagonal with offset o = d - (rows - 1).
    const std::int64_t offset = d - (rows - 1);
    const std::int64_t places = offset >= 0 ? std::min(rows, cols - offset) : std::min(rows + offset, cols);
    full += static_cast<double>(entries) >= true_diagonal * static_cast<double>(places);
  }
  double logs = 0, least = 0;
  std::int64_t filled = rows - empty;
  if (filled > 0) {
    least = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < rows; ++i)
      if (const std::int64_t n = pattern.row_length(i); n > 0)
        least = std::min(least, static_cast<double>(n));
    for (std::int64_t i = 0; i < rows; ++i)
      if (const std::int64_t n = pattern.row_length(i); n > 0)
        logs += std::log(static_cast<double>(n) / least);
  }
  const auto m = static_cast<double>(rows), n = static_cast<double>(cols),
             entries = static_cast<double>(pattern.nonzeros), with = static_cast<double>(filled);
  PatternFeatures result;
  result.values = {m,
                   n,
                   entries,
                   ratio(entries, m * n),
                   lengths.mean(),
                   lengths.deviation(),
                   lengths.largest,
                   lengths.smallest(),
                   ratio(static_cast<double>(empty), m),
                   ratio(static_cast<double>(changes), m),
                   static_cast<double>(diagonals),
                   static_cast<double>(full),
                   ratio(static_cast<double>(full), static_cast<double>(diagonals)),
                   ratio(entries, static_cast<double>(diagonals) * m),
                   ratio(entries, lengths.largest * m),
                   logs > 0 ? 1 + with / logs : 0,
                   runs.smallest(),
                   runs.largest,
                   runs.mean(),
                   runs.deviation(),
                   sizes.smallest(),
                   sizes.largest,
                   sizes.mean(),
                   sizes.deviation(),
                   ratio(span, with),
                   static_cast<double>(pattern.bytes()) + 8 * entries};
  return result;
}

}  // namespace protean

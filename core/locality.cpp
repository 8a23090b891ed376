#include "core/locality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/parallel.hpp"

namespace protean {
namespace {

constexpr std::int64_t samples = 16;

// Counts different numbers below `size`; clear() takes no time.
class Marks {
 public:
  explicit Marks(std::int64_t size) : mark_(static_cast<std::size_t>(size), 0) {}
  // True the first time since clear().
  bool add(std::int64_t number) { return std::exchange(mark_[number], now_) != now_; }
  void clear() { ++now_; }

 private:
  std::vector<std::int32_t> mark_;
  std::int32_t now_ = 1;
};

std::int64_t lines_of(std::int64_t cols) { return (cols + line_entries - 1) / line_entries; }

// What lies around a row.
struct Ball {
  std::int64_t rows = 0;                // nearest first, at most lines_rows of them
  std::int64_t outside = 0;             // columns that they read and that are none of them
  bool whole = false;                   // its connected part ends within it
  double radius = 0, inner_radius = 0;  // levels that hold its rows, and the first inner_rows of them
};
constexpr std::int64_t inner_rows = lines_rows / 8;

Ball ball(const SparsityPattern& pattern, std::int32_t start, Marks& known, std::vector<std::int32_t>& rows) {
  known.clear(), rows.clear();
  rows.push_back(start), (void)known.add(start);
  Ball found;
  std::int64_t done = 0, level_begin = 0, level_end = 1, level = 0;
  const auto radius = [&] {  // a part of a level counts as that
    return static_cast<double>(level) +
           static_cast<double>(done - level_begin) /
               static_cast<double>(std::max<std::int64_t>(level_end - level_begin, 1));
  };
  for (; done < static_cast<std::int64_t>(rows.size()) && done < lines_rows; ++done) {
    if (done == level_end) level_begin = done, level_end = static_cast<std::int64_t>(rows.size()), ++level;
    if (done == inner_rows) found.inner_radius = radius();
    const std::int32_t row = rows[done];  // push_back() moves the array
    for (const std::int32_t col : pattern.row(row))
      if (known.add(col)) rows.push_back(col);
  }
  found.rows = done, found.outside = static_cast<std::int64_t>(rows.size()) - done;
  found.whole = found.outside == 0, found.radius = radius();
  return found;
}

// Levels of a search from one end of the part to the other, if the part has `rows` rows: a ball of r levels has c r^d rows,
// where c and d are those of this ball.
double levels_of(const Ball& ball, std::int64_t rows) {
  if (ball.whole || ball.rows <= inner_rows) return 2 * ball.radius + 1;
  const double growth = std::max(ball.radius / std::max(ball.inner_radius, 1.0), 1.01);
  const double dimension = std::max(
      1.0, std::log(static_cast<double>(ball.rows) / static_cast<double>(inner_rows)) / std::log(growth));
  return 2 * ball.radius *
             std::pow(static_cast<double>(rows) / static_cast<double>(ball.rows), 1 / dimension) +
         1;
}

}  // namespace

Locality locality(const Context& context, const SparsityPattern& pattern, std::span<const std::int32_t> order,
                  std::span<const std::int32_t> place) {
  const bool ordered = !order.empty();
  if (ordered && (pattern.rows != pattern.cols || static_cast<std::int64_t>(order.size()) != pattern.rows ||
                  place.size() != order.size()))
    throw ShapeMismatch(fmt::format("the pattern is {} x {}, the order is of {} rows", pattern.rows,
                                    pattern.cols, order.size()));
  const std::int64_t stretches = (pattern.rows + lines_rows - 1) / lines_rows;
  const int parts = useful_parts(context, pattern.nonzeros);
  std::vector<Locality> found(static_cast<std::size_t>(parts));
  parallel(parts, [&](int part, int) {
    Marks lines(lines_of(pattern.cols));
    Locality mine;
    const Range range = even_range(stretches, part, parts);
    for (std::int64_t stretch = range.begin; stretch < range.end; ++stretch) {
      lines.clear();
      const std::int64_t end = std::min(pattern.rows, (stretch + 1) * lines_rows);
      for (std::int64_t i = stretch * lines_rows; i < end; ++i) {
        std::int64_t least = i;
        for (const std::int32_t col : pattern.row(ordered ? order[i] : i)) {
          const std::int64_t j = ordered ? place[col] : col;
          mine.bandwidth = std::max(mine.bandwidth, std::abs(i - j));
          least = std::min(least, j);
          mine.lines += lines.add(j / line_entries);
        }
        mine.profile += i - least;
      }
    }
    found[part] = mine;
  });
  Locality all;
  for (const Locality& part : found) {
    all.bandwidth = std::max(all.bandwidth, part.bandwidth);
    all.profile += part.profile, all.lines += part.lines;
  }
  return all;
}

OrderForecast forecast_order(const SparsityPattern& pattern, std::size_t value_bytes) {
  OrderForecast forecast;
  const std::int64_t n = pattern.rows;
  if (n == 0 || n != pattern.cols) return forecast;
  Marks lines(lines_of(n)), known(n);
  std::vector<std::int32_t> rows;
  std::int64_t now_lines = 0, now_rows = 0, ball_rows = 0;
  double reached = 0;
  const std::int64_t stretches = (n + lines_rows - 1) / lines_rows, count = std::min(samples, stretches);
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t begin = stretches * s / count * lines_rows, end = std::min(n, begin + lines_rows);
    lines.clear();
    for (std::int64_t i = begin; i < end; ++i)
      for (const std::int32_t col : pattern.row(i)) now_lines += lines.add(col / line_entries);
    now_rows += end - begin;
    const Ball around = ball(pattern, static_cast<std::int32_t>(begin), known, rows);
    reached += static_cast<double>(around.rows) / line_entries + static_cast<double>(around.outside);
    ball_rows += around.rows;
    forecast.levels = std::max(forecast.levels, levels_of(around, n));
  }
  forecast.lines_now = static_cast<double>(now_lines) / static_cast<double>(now_rows);
  forecast.lines_reached = std::min(forecast.lines_now, reached / static_cast<double>(ball_rows));
  const double length = static_cast<double>(pattern.nonzeros) / static_cast<double>(n);
  forecast.csr_bytes =
      length * static_cast<double>(4 + value_bytes) + static_cast<double>(pattern.row_ptr.width());
  forecast.line_bytes = line_weight * line_entries * static_cast<double>(value_bytes);
  forecast.product_ratio = forecast.ratio(forecast.csr_bytes);
  return forecast;
}

std::string lines_text(const OrderForecast& forecast) {
  return fmt::format("rows now read {:.2g} lines of x each, and with near rows together {:.2g}",
                     forecast.lines_now, forecast.lines_reached);
}

}  // namespace protean

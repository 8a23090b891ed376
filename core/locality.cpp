#include "core/locality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/transfer.hpp"

namespace protean {
namespace {

// Stretches and balls: their number, so that they have about that many entries.
constexpr std::int64_t least_samples = 4, most_samples = 16, sampled_entries = 200000;
constexpr std::size_t columns_between_checkpoints = 4096;
constexpr double deep_below = 0.97;  // with a smaller ratio an order is worth a closer look

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

// The same for a few of many numbers. Its memory grows with the numbers in it.
class NumberSet {
 public:
  // True the first time.
  bool add(std::int32_t number) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    std::int32_t& slot = slot_of(number);
    if (slot == number) return false;
    slot = number, ++size_;
    return true;
  }
  void clear() { std::fill(slots_.begin(), slots_.end(), -1), size_ = 0; }

 private:
  std::int32_t& slot_of(std::int32_t number) {
    std::size_t i = static_cast<std::uint32_t>(number) * std::size_t{0x9E3779B97F4A7C15} >> shift_;
    while (slots_[i] >= 0 && slots_[i] != number) i = (i + 1) % slots_.size();
    return slots_[i];
  }
  void grow() {
    std::vector<std::int32_t> before(2 * slots_.size(), -1);
    before.swap(slots_), --shift_;
    for (const std::int32_t number : before)
      if (number >= 0) slot_of(number) = number;
  }
  std::vector<std::int32_t> slots_ = std::vector<std::int32_t>(1024, -1);
  int shift_ = 54;
  std::size_t size_ = 0;
};

// Most levels of a ball. A graph that needs more for so few rows is nearly a path.
constexpr int most_levels = 192;

// The rows around one row, nearest first. It grows level by level: frontier() are the rows whose columns the next call
// of expand() brings, in that order. `known` is a set that is empty, and the ball's own while it grows.
template <class Set>
class Ball {
 public:
  Ball(std::int32_t start, Set& known) : known_(&known), rows_{start} { (void)known.add(start); }

  std::span<const std::int32_t> frontier(std::int64_t most_rows) const {
    const std::int64_t level_end = std::min(std::ssize(rows_), most_rows);
    if (level_end <= done() || std::ssize(levels_) > most_levels) return {};
    return {rows_.data() + done(), rows_.data() + level_end};
  }
  // `rows` rows of the frontier are expanded. They are all rows of a level, or the last rows that are expanded.
  void expand(std::int64_t rows, std::span<const std::int32_t> columns) {
    sizes_.push_back(std::ssize(rows_) - done()), levels_.push_back(done() + rows);
    // The end of a solve waits for this work, so it often asks whether it is still wanted.
    for (std::size_t first = 0; first < columns.size(); first += columns_between_checkpoints) {
      detail::checkpoint();
      for (const std::int32_t col :
           columns.subspan(first, std::min<std::size_t>(columns_between_checkpoints, columns.size() - first)))
        if (known_->add(col)) rows_.push_back(col);
    }
  }

  std::int32_t start() const { return rows_.front(); }
  std::int64_t done() const { return levels_.back(); }
  // Columns that these rows read and that are not among these rows.
  std::int64_t outside() const { return std::ssize(rows_) - done(); }

  // Levels that hold the first `rows` rows; a part of a level counts as that.
  double radius(std::int64_t rows) const {
    const auto level = std::lower_bound(levels_.begin() + 1, levels_.end(), rows) - levels_.begin();
    return static_cast<double>(level - 1) +
           static_cast<double>(rows - levels_[level - 1]) / static_cast<double>(sizes_[level]);
  }
  // Levels of a search from one end of the part to the other, if the part has `rows` rows: a ball of r levels has c r^d
  // rows, with c and d as in this ball.
  double levels(std::int64_t rows) const {
    const double outer = radius(done());
    const std::int64_t inner_rows = done() / 8;
    if (outside() == 0 || inner_rows < 2) return 2 * outer + 1;
    const double growth = std::max(outer / std::max(radius(inner_rows), 1.0), 1.01);
    const double dimension = std::max(
        1.0, std::log(static_cast<double>(done()) / static_cast<double>(inner_rows)) / std::log(growth));
    return 2 * outer * std::pow(static_cast<double>(rows) / static_cast<double>(done()), 1 / dimension) + 1;
  }

 private:
  Set* known_;
  std::vector<std::int32_t> rows_;
  std::vector<std::int64_t> levels_{0}, sizes_{0};  // rows expanded after each level, and rows of it
};

// Reads rows of a pattern in memory of a context.
class Reader {
 public:
  Reader(const Context& context, const SparsityPattern& pattern) : context_(context), pattern_(pattern) {}

  // Grows each ball to `most_rows` rows, one level of all balls at a time.
  template <class Set>
  void grow(std::span<Ball<Set>> balls, std::int64_t most_rows) {
    std::vector<Ball<Set>*> growing;
    do {
      detail::checkpoint();
      growing.clear(), wanted_.clear();
      for (Ball<Set>& ball : balls)
        if (const auto rows = ball.frontier(most_rows); !rows.empty())
          growing.push_back(&ball), wanted_.insert(wanted_.end(), rows.begin(), rows.end());
      detail::read_rows(context_, pattern_, wanted_, read_);
      std::size_t first = 0;
      for (Ball<Set>* ball : growing) {
        const std::size_t count = ball->frontier(most_rows).size();
        ball->expand(static_cast<std::int64_t>(count),
                     std::span(read_.columns.data() + read_.begin[first],
                               read_.columns.data() + read_.begin[first + count]));
        first += count;
      }
    } while (!growing.empty());
  }
  // The rows come in stretches of `stretch` rows. Returns the sum over all stretches of the lines of x that a stretch
  // reads.
  template <class Set>
  std::int64_t lines(std::span<const std::int32_t> rows, std::int64_t stretch, Set& lines) {
    detail::read_rows(context_, pattern_, rows, read_);
    std::int64_t count = 0;
    for (std::int64_t first = 0; first < std::ssize(rows); first += stretch) {
      detail::checkpoint();
      const std::int64_t end = std::min(first + stretch, std::ssize(rows));
      lines.clear();
      for (std::int64_t k = read_.begin[first]; k < read_.begin[end]; ++k) {
        if (k % static_cast<std::int64_t>(columns_between_checkpoints) == 0) detail::checkpoint();
        count += lines.add(static_cast<std::int32_t>(read_.columns[k] / line_entries));
      }
    }
    return count;
  }

 private:
  const Context& context_;
  const SparsityPattern& pattern_;
  std::vector<std::int32_t> wanted_;
  detail::RowsRead read_;
};

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

OrderForecast forecast_order(const Context& context, const SparsityPattern& pattern,
                             std::size_t value_bytes) {
  OrderForecast forecast;
  const std::int64_t n = pattern.rows;
  if (n == 0 || n != pattern.cols) return forecast;
  const bool on_device = context.space() == Space::device;
  Reader reader(context, pattern);
  const double length = static_cast<double>(pattern.nonzeros) / static_cast<double>(n);
  const std::int64_t stretches = (n + lines_rows - 1) / lines_rows,
                     wanted = std::llround(sampled_entries / (lines_rows * std::max(length, 1.0))),
                     count = std::min(std::clamp(wanted, least_samples, most_samples), stretches);
  std::vector<std::int32_t> starts, followed;  // followed: rows that follow each other
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t begin = stretches * s / count * lines_rows, end = std::min(n, begin + lines_rows);
    for (std::int64_t row = begin; row < end; ++row) followed.push_back(static_cast<std::int32_t>(row));
    starts.push_back(static_cast<std::int32_t>(begin));
  }
  double lines_now = 0, reached = 0, ball_rows = 0;
  std::int32_t deepest = 0;
  const auto consider = [&](const auto& ball) {
    reached += static_cast<double>(ball.done()) / line_entries + static_cast<double>(ball.outside());
    ball_rows += static_cast<double>(ball.done());
    if (const double levels = ball.levels(n); levels > forecast.levels)
      forecast.levels = levels, deepest = ball.start();
  };
  if (on_device) {
    // Each reading waits for the device, so all balls grow together.
    NumberSet lines;
    lines_now = static_cast<double>(reader.lines(followed, lines_rows, lines));
    std::vector<NumberSet> known(starts.size());
    std::vector<Ball<NumberSet>> balls;
    for (std::size_t k = 0; k < starts.size(); ++k) balls.emplace_back(starts[k], known[k]);
    reader.grow(std::span(balls), lines_rows);
    for (const Ball<NumberSet>& ball : balls) consider(ball);
  } else {
    Marks lines(lines_of(n)), known(n);
    lines_now = static_cast<double>(reader.lines(followed, lines_rows, lines));
    for (const std::int32_t start : starts) {
      known.clear();
      Ball<Marks> ball(start, known);
      reader.grow(std::span(&ball, 1), lines_rows);
      consider(ball);
    }
  }
  forecast.lines_now = lines_now / static_cast<double>(followed.size());
  forecast.lines_reached = std::min(forecast.lines_now, reached / ball_rows);
  forecast.csr_bytes =
      length * static_cast<double>(4 + value_bytes) + static_cast<double>(pattern.row_ptr.width());
  forecast.line_bytes = line_weight * line_entries * static_cast<double>(value_bytes);
  forecast.product_ratio = forecast.ratio(forecast.csr_bytes);
  if (on_device && forecast.product_ratio < deep_below) {
    NumberSet known;
    Ball<NumberSet> deep(deepest, known);
    reader.grow(std::span(&deep, 1), deep_rows);
    forecast.levels = deep.levels(n);
  }
  return forecast;
}

OrderForecast forecast_order(const SparsityPattern& pattern, std::size_t value_bytes) {
  return forecast_order(*Context::host(1), pattern, value_bytes);
}

std::string detail::lines_text(const OrderForecast& forecast) {
  return fmt::format("rows now read {:.2g} lines of x each, and with near rows together {:.2g}",
                     forecast.lines_now, forecast.lines_reached);
}

}  // namespace protean

#include "operators/policy/forecast.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace protean {
namespace {

constexpr std::size_t most_points = 2048;
constexpr int groups = 20;         // number of mean points whose slopes median_slope() computes
constexpr std::int64_t least = 8;  // iterations before the first forecast
// Chosen with the recorded solves of tests/operators/test_forecast.cpp.
constexpr double low_factor = 0.5, high_factor = 4, low_share_of_done = 1.5;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void ResidualForecast::add(std::int64_t iteration, double residual) {
  last_ = iteration;
  if (first_ < 0) first_ = iteration;
  const double value = std::log(residual);
  if (!std::isfinite(value)) return;
  const auto at = static_cast<double>(iteration);
  if (pending_ == 0) open_ = {0, 0, value};
  ++pending_;
  open_.iteration += (at - open_.iteration) / pending_;
  open_.mean += (value - open_.mean) / pending_;
  open_.smallest = std::min(open_.smallest, value);
  if (pending_ < stride_) return;
  points_.push_back(open_);
  pending_ = 0;
  if (points_.size() == most_points) merge_neighbours();
}

void ResidualForecast::merge_neighbours() {
  for (std::size_t i = 0; i < most_points / 2; ++i) {
    const Point &a = points_[2 * i], &b = points_[2 * i + 1];
    points_[i] = {(a.iteration + b.iteration) / 2, (a.mean + b.mean) / 2, std::min(a.smallest, b.smallest)};
  }
  points_.resize(most_points / 2);
  stride_ *= 2;
}

// The smallest log residual up to this iteration.
double ResidualForecast::smallest_before(double iteration) const {
  double smallest = std::numeric_limits<double>::infinity();
  for (const Point& point : points_) {
    if (point.iteration > iteration) break;
    smallest = std::min(smallest, point.smallest);
  }
  return smallest;
}

// Median slope per iteration of the points from this iteration on; 0 if there are fewer than three.
double ResidualForecast::median_slope(double from) const {
  const auto begin = static_cast<std::size_t>(
      std::lower_bound(points_.begin(), points_.end(), from,
                       [](const Point& point, double bound) { return point.iteration < bound; }) -
      points_.begin());
  const std::size_t count = points_.size() - begin;
  if (count < 3) return 0;
  const std::size_t used = std::min<std::size_t>(count, groups);
  std::array<Point, groups> mean{};
  for (std::size_t g = 0; g < used; ++g) {
    const std::size_t first = begin + count * g / used, end = begin + count * (g + 1) / used;
    for (std::size_t i = first; i < end; ++i)
      mean[g].iteration += points_[i].iteration, mean[g].mean += points_[i].mean;
    mean[g].iteration /= static_cast<double>(end - first), mean[g].mean /= static_cast<double>(end - first);
  }
  std::vector<double> slopes;
  slopes.reserve(used * (used - 1) / 2);
  for (std::size_t i = 0; i < used; ++i)
    for (std::size_t j = i + 1; j < used; ++j)
      slopes.push_back((mean[j].mean - mean[i].mean) / (mean[j].iteration - mean[i].iteration));
  return median(slopes);
}

Forecast ResidualForecast::remaining(double goal, std::int64_t max_iterations) const {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto done = static_cast<double>(last_ - std::max<std::int64_t>(first_, 0));
  const auto most = static_cast<double>(std::max<std::int64_t>(max_iterations - last_, 0));
  const double longest = low_share_of_done * done;
  if (last_ < 0 || last_ - first_ < least || points_.size() < 4) return {0, 0, infinity, false};
  const auto now = static_cast<double>(last_);
  double smallest = smallest_before(now);
  if (pending_ > 0) smallest = std::min(smallest, open_.smallest);
  const double distance = smallest - std::log(goal);  // infinite for a goal of 0
  if (distance <= 0) return {0, 0, 0, true};

  std::array<double, 4> estimates{};
  std::size_t next = 0;
  for (const double window : {0.5, 0.25}) {
    const double from = now - window * done;
    const double fall = smallest_before(from) - smallest;
    estimates[next++] = fall > 0 ? distance * (now - from) / fall : infinity;
    const double slope = median_slope(from);
    estimates[next++] = slope < 0 ? distance / -slope : infinity;
  }
  std::sort(estimates.begin(), estimates.end());
  // The median. If it is infinite, the second smallest: two finite estimates of four are enough.
  double likely = (estimates[1] + estimates[2]) / 2;
  if (!std::isfinite(likely)) likely = estimates[1];
  const double low = std::min({low_factor * estimates[0], longest, most});
  if (!std::isfinite(likely)) return {low, 0, infinity, false};
  return {low, std::min(likely, most), std::min(high_factor * estimates[3], most), true};
}

}  // namespace protean

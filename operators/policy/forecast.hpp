// Forecasts how many more iterations a solve needs, from its residuals so far.
#pragma once
#include <cstdint>
#include <vector>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// A number of iterations with its uncertainty. `known` is false at the beginning of a solve, and while the residual
// does not fall. Then likely is 0 and high is infinite; low is still a valid lower estimate.
struct Forecast {
  double low = 0, likely = 0, high = 0;
  bool known = false;
};

// Collects (iteration, residual) and extrapolates log(residual) over the iterations. Residuals of Krylov
// methods oscillate (CG minimises another norm, BiCGStab none) and stagnate. They fall fast at first if the
// initial error is smooth, and faster at the end (superlinear convergence). So the slope is estimated in four
// ways, and the spread of the estimates is the uncertainty. Over the last half and over the last quarter of
// the iterations:
//   - the fall of the smallest residual so far, which oscillation does not affect,
//   - the median of the slopes of all pairs of points (Theil 1950, Sen 1968), which outliers do not affect.
// Each gives (log smallest - log goal) / slope iterations. `likely` is their median. `low` is half of the
// smallest, and at most 1.5 times the iterations done. `high` is four times the largest.
// tests/operators/test_forecast.cpp checks how often recorded solves stay within these limits.
class ResidualForecast {
 public:
  // Iterations in increasing order. Residuals of 0, NaN or infinity are ignored. Time O(1) amortised. At most
  // 2048 points are stored; beyond that, neighbouring points are merged.
  void add(std::int64_t iteration, double residual);
  // Iterations after the last one added until the residual is `goal` or less, at most max_iterations - last.
  // Time O(points + 20^2).
  Forecast remaining(double goal, std::int64_t max_iterations) const;

  std::int64_t last_iteration() const noexcept { return last_; }

 private:
  struct Point {
    double iteration, mean,
        smallest;  // mean iteration, mean and smallest log residual of `stride_` additions
  };
  void merge_neighbours();
  double smallest_before(double iteration) const;
  double median_slope(double from) const;

  std::vector<Point> points_;
  std::int64_t first_ = -1, last_ = -1;
  int stride_ = 1, pending_ = 0;
  Point open_{};  // the point that collects the next additions
};

}  // namespace protean

// How many iterations a solve still needs, from the residuals it has had.
#pragma once
#include <cstdint>
#include <vector>

namespace protean {

// A number of iterations with its uncertainty. `known` is false while there is nothing to go by, or where the
// residual does not fall: low is then what may be counted on all the same, likely is 0, high is infinite.
struct Forecast {
  double low = 0, likely = 0, high = 0;
  bool known = false;
};

// Collects (iteration, residual) and extrapolates log(residual) against the iteration. Residuals of Krylov
// methods wiggle (CG minimises another norm, BiCGStab none), stand still for long, fall fast at first where
// the start was smooth, and faster at the end (superlinear convergence); so the slope is estimated four ways
// and what they disagree on is the uncertainty. Over the last half and the last quarter of the run:
//   - the fall of the smallest residual so far, an envelope that wiggles do not touch,
//   - the median of the slopes of all pairs of points (Theil 1950, Sen 1968), which outliers do not touch.
// Each gives (log smallest - log goal) / slope. `likely` is their median, `low` half of the least and never
// more than 1.5 times the iterations done (a solve that has lasted k is counted on for at most 1.5 k more),
// `high` four times the largest. How far that holds on recorded solves is checked in
// tests/operators/test_forecast.cpp.
class ResidualForecast {
 public:
  // Iterations in increasing order. Residuals of 0, NaN or infinity are passed over. Time O(1) amortised, at
  // most 2048 points are kept: beyond that, neighbours are merged into one.
  void add(std::int64_t iteration, double residual);
  // Iterations from the last one added until the residual is `goal` or less, never more than
  // max_iterations - last. Time O(points + 32^2).
  Forecast remaining(double goal, std::int64_t max_iterations) const;

  std::int64_t last_iteration() const noexcept { return last_; }

 private:
  struct Point {
    double iteration, mean, smallest;  // of log residual, over `stride_` additions
  };
  void merge_neighbours();
  double smallest_before(double iteration) const;
  double median_slope(double from) const;

  std::vector<Point> points_;
  std::int64_t first_ = -1, last_ = -1;
  int stride_ = 1, pending_ = 0;
  Point open_{};  // being filled
};

}  // namespace protean

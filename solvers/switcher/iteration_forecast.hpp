// How many iterations a solve, and the solves after it, still need. Private to solvers/.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "operators/policy/forecast.hpp"
#include "solvers/auto_switch_options.hpp"
#include "solvers/solve_report.hpp"

namespace protean::detail {

class IterationForecast {
 public:
  // Begins a solve.
  void begin(const AutoSwitchOptions& options) {
    residuals_ = {}, last_ = -1, residual_ = 0, goal_ = options.goal, absolute_goal_ = options.absolute_goal;
    most_ = options.max_iterations, expected_ = options.expected_iterations;
    following_ = options.following_iterations;
  }
  // The first call of the observer, from which the baseline of the residuals is known.
  void first(const IterationInfo& info) {
    first_residual_ = info.relative_residual;
    if (info.relative_residual > 0)
      goal_ = std::max(goal_, absolute_goal_ * info.relative_residual / info.residual);
  }
  void add(const IterationInfo& info) {
    if (info.iteration != last_) residuals_.add(info.iteration, info.relative_residual);
    last_ = info.iteration, residual_ = info.relative_residual;
  }
  std::int64_t last() const noexcept { return last_; }
  // Iterations of this solve in which the residual is likely to fall to a tenth; infinite if nobody knows.
  double per_tenth() const {
    const Forecast left = residuals_.remaining(goal_, most_);
    if (!left.known || !(residual_ > goal_)) return std::numeric_limits<double>::infinity();
    return std::max(left.likely / std::log10(residual_ / goal_), 1.0);
  }
  // The same, or those in which it has fallen to a tenth so far if they are more: a few good iterations before the end
  // say nothing of the solve.
  double per_tenth_at_most() const {
    const double likely = per_tenth();
    return residual_ > 0 && residual_ < first_residual_
               ? std::max(likely, static_cast<double>(last_) / std::log10(first_residual_ / residual_))
               : likely;
  }

  Forecast remaining() const {
    Forecast result = residuals_.remaining(goal_, most_);
    // What earlier solves took is a better forecast than the first residuals of this one.
    const double left = static_cast<double>(expected_ - std::max<std::int64_t>(last_, 0));
    if (2 * left >= static_cast<double>(expected_) && left > 0) result = {left / 2, left, 2 * left, true};
    // As many again are likely, and half of them are taken for certain.
    if (result.known)
      result.low += following_ / 2, result.likely += following_, result.high += 4 * following_;
    return result;
  }

 private:
  ResidualForecast residuals_;
  std::int64_t last_ = -1, most_ = 0, expected_ = 0;
  double goal_ = 0, absolute_goal_ = 0, following_ = 0;
  double first_residual_ = 0, residual_ = 0;  // relative
};

}  // namespace protean::detail

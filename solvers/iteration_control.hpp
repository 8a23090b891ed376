// The one place that reads a method's scalars and decides whether to go on. Private to solvers/.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "solvers/method.hpp"

namespace protean::detail {

// What one reading of the signals says.
struct Verdict {
  double residual = 0;                     // 2-norm of the recurrence residual
  bool reached = false;                    // it is small enough: b - A x is worth computing
  StopReason event = StopReason::running;  // breakdown, indefinite, not finite
  std::string detail;
};

class IterationControl {
 public:
  IterationControl(const StoppingRule& rule, double rhs_norm, double initial_residual)
      : rule_(rule),
        baseline_(rule.baseline == Baseline::rhs ? rhs_norm : initial_residual),
        tolerance_(std::max(rule.relative_tolerance * baseline_, rule.absolute_tolerance)),
        too_large_(rule.divergence * std::max(baseline_, initial_residual)) {
    restart(initial_residual, 0);
  }

  double baseline() const noexcept { return baseline_; }
  double tolerance() const noexcept { return tolerance_; }
  double relative(double residual) const noexcept {
    return baseline_ > 0 ? residual / baseline_
                         : (residual > 0 ? std::numeric_limits<double>::infinity() : residual);
  }

  // Which tolerance a true residual meets; running when none.
  StopReason satisfied(double residual) const noexcept {
    if (residual <= rule_.relative_tolerance * baseline_) return StopReason::relative_tolerance;
    if (residual <= rule_.absolute_tolerance) return StopReason::absolute_tolerance;
    return StopReason::running;
  }

  // The recurrence begins anew from a true residual.
  void restart(double residual, std::int64_t iteration) noexcept {
    goal_ = tolerance_;
    smallest_ = residual;
    smallest_at_ = iteration;
  }
  // The true residual is a little larger than the recurrence's: aim lower and go on.
  void aim_lower(double recurrence, double truth) noexcept {
    goal_ = 0.9 * recurrence * (tolerance_ / truth);
  }

  template <class T>
  Verdict read(const Signals<T>& signals) const {
    Verdict verdict;
    const double squared = static_cast<double>(*signals.residual_squared);
    verdict.residual = std::sqrt(squared);
    if (!std::isfinite(squared) || squared < 0) {
      verdict.event = StopReason::not_finite;
      verdict.detail = fmt::format("r . r = {}", squared);
    }
    for (const Guard<T>& guard : signals.guards)
      if (!std::isfinite(*guard.value) && verdict.event != StopReason::not_finite) {
        verdict.event = StopReason::not_finite;
        verdict.detail = fmt::format("{} = {}", guard.meaning, *guard.value);
      }
    if (verdict.event != StopReason::running) return verdict;
    verdict.reached = verdict.residual <= goal_;
    for (const Guard<T>& guard : signals.guards) {
      const double value = static_cast<double>(*guard.value);
      const double scale = guard.scale_a ? std::sqrt(static_cast<double>(*guard.scale_a)) *
                                               std::sqrt(static_cast<double>(*guard.scale_b))
                                         : 0;
      const bool good = guard.test == Test::positive ? value > 0 : std::abs(value) > guard.factor * scale;
      if (good) continue;
      verdict.event = guard.reason;
      verdict.detail = fmt::format("{} = {:.3g}", guard.meaning, value);
      break;
    }
    return verdict;
  }

  // Limits that end a solve whatever its numbers are worth; running when none is reached.
  StopReason limit(const IterationInfo& info, std::string& detail) {
    if (info.residual > too_large_) {
      detail = fmt::format("residual {:.3g}, {:.3g} times the limit's baseline", info.residual,
                           info.residual / (too_large_ / rule_.divergence));
      return StopReason::divergence;
    }
    if (info.residual < smallest_) smallest_ = info.residual, smallest_at_ = info.iteration;
    if (rule_.stagnation_window > 0 && info.iteration - smallest_at_ >= rule_.stagnation_window) {
      detail =
          fmt::format("no residual below {:.3g} in {} iterations", smallest_, info.iteration - smallest_at_);
      return StopReason::stagnation;
    }
    if (info.iteration >= rule_.max_iterations) {
      detail = fmt::format("{} iterations", info.iteration);
      return StopReason::max_iterations;
    }
    if (info.seconds >= rule_.max_seconds) {
      detail = fmt::format("{:.3g} s of {:.3g} s", info.seconds, rule_.max_seconds);
      return StopReason::time_limit;
    }
    return StopReason::running;
  }

 private:
  StoppingRule rule_;
  double baseline_, tolerance_, too_large_;
  double goal_ = 0, smallest_ = 0;
  std::int64_t smallest_at_ = 0;
};

}  // namespace protean::detail

#include "solvers/iteration_control.hpp"

#include <fmt/format.h>

#include <cmath>

namespace protean::detail {

template <class T>
Verdict IterationControl::read(const Signals<T>& signals) const {
  Verdict verdict;
  const double squared = static_cast<double>(*signals.residual_squared);
  verdict.residual = std::sqrt(squared);
  verdict.value = squared;
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
  // With r = 0 the other scalars are 0 as well, which is not a breakdown.
  if (squared == 0) return verdict;
  for (const Guard<T>& guard : signals.guards) {
    const double value = static_cast<double>(*guard.value);
    const double squares[] = {guard.scale_a ? static_cast<double>(*guard.scale_a) : 0,
                              guard.scale_a ? static_cast<double>(*guard.scale_b) : 0};
    const double scale = std::sqrt(squares[0]) * std::sqrt(squares[1]);
    const bool good = guard.test == Test::positive ? value > 0 : std::abs(value) > guard.factor * scale;
    if (good) continue;
    verdict.event = guard.reason;
    verdict.value = value;
    verdict.detail = fmt::format("{} = {:.3g}", guard.meaning, value);
    verdict.overflow = !std::isfinite(scale);
    if (verdict.overflow)
      verdict.detail +=
          fmt::format(", and the squared norms beside it are {:.3g} and {:.3g}", squares[0], squares[1]);
    break;
  }
  return verdict;
}

StopReason IterationControl::limit(const IterationInfo& info, std::string& detail) {
  if (info.residual > too_large_) {
    detail = fmt::format("residual {:.3g}, {:.3g} times the larger of baseline and initial residual",
                         info.residual, info.residual / (too_large_ / rule_.divergence));
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

template Verdict IterationControl::read<float>(const Signals<float>&) const;
template Verdict IterationControl::read<double>(const Signals<double>&) const;

}  // namespace protean::detail

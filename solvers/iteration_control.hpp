// Reads the scalars of a method and decides whether the solve goes on. No other code does. Private to
// solvers/.
#pragma once
#include <algorithm>
#include <limits>
#include <string>

#include "solvers/method.hpp"

namespace protean::detail {

// The result of one reading of the signals.
struct Verdict {
  double residual = 0;                     // 2-norm of the recurrence residual
  bool reached = false;                    // the residual reached the goal: b - A x must be computed
  StopReason event = StopReason::running;  // or breakdown, indefinite_..., not_finite
  std::string detail;
  double value = 0;       // the scalar that failed its test; the squared residual if no scalar failed
  bool overflow = false;  // the scalar is finite, and counts as zero only next to norms whose squares are not
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
  // b - A x is computed when the recurrence residual is at most goal(). Above too_large() the solve diverges.
  double goal() const noexcept { return goal_; }
  double too_large() const noexcept { return too_large_; }
  double relative(double residual) const noexcept {
    return baseline_ > 0 ? residual / baseline_
                         : (residual > 0 ? std::numeric_limits<double>::infinity() : residual);
  }

  // The tolerance that a true residual satisfies; running when none.
  StopReason satisfied(double residual) const noexcept {
    if (residual <= rule_.relative_tolerance * baseline_) return StopReason::relative_tolerance;
    if (residual <= rule_.absolute_tolerance) return StopReason::absolute_tolerance;
    return StopReason::running;
  }

  // The recurrence starts again from a true residual.
  void restart(double residual, std::int64_t iteration) noexcept {
    goal_ = tolerance_;
    smallest_ = residual;
    smallest_at_ = iteration;
  }
  // The true residual is a little larger than the residual of the recurrence: lowers the goal, so that the solve goes
  // on.
  void aim_lower(double recurrence, double truth) noexcept {
    goal_ = 0.9 * recurrence * (tolerance_ / truth);
  }

  template <class T>
  Verdict read(const Signals<T>& signals) const;

  // Limits of divergence, stagnation, iterations and time; running when none is reached.
  StopReason limit(const IterationInfo& info, std::string& detail);

 private:
  StoppingRule rule_;
  double baseline_, tolerance_, too_large_;
  double goal_ = 0, smallest_ = 0;
  std::int64_t smallest_at_ = 0;
};

// The verdict on scalars that the host cannot read. read(place, guard, which) returns the number at a place: of the
// squared residual with guard -1, of a guard its value (0) and its two scales (1, 2).
template <class T, class Read>
Verdict read_elsewhere(const IterationControl& control, Signals<T> signals, Read&& read) {
  constexpr std::size_t most = 8;
  T numbers[most][3] = {};
  Guard<T> guards[most] = {};
  const T squared = read(signals.residual_squared, -1, 0);
  for (std::size_t g = 0; g < signals.guards.size(); ++g) {
    guards[g] = signals.guards[g];
    const T** const places[] = {&guards[g].value, &guards[g].scale_a, &guards[g].scale_b};
    for (int which = 0; which < 3; ++which)
      if (const T*& place = *places[which]) {
        numbers[g][which] = read(place, static_cast<int>(g), which);
        place = &numbers[g][which];
      }
  }
  signals.residual_squared = &squared, signals.guards = {guards, signals.guards.size()};
  return control.read(signals);
}

}  // namespace protean::detail

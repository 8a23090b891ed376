// When a solve ends, and why.
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

namespace protean {

// Positive: converged, b - Ax computed and small enough. Negative: not.
enum class StopReason : int {
  running = 0,
  relative_tolerance = 1,
  absolute_tolerance = 2,
  zero_right_hand_side = 3,  // b = 0: x = 0 is exact
  max_iterations = -1,
  time_limit = -2,
  interrupted = -3,  // the observer asked for it
  breakdown = -4,
  indefinite_operator = -5,
  indefinite_preconditioner = -6,
  not_finite = -7,
  stagnation = -8,
  divergence = -9,
};

constexpr bool converged(StopReason reason) noexcept { return static_cast<int>(reason) > 0; }
// "max-iterations"
std::string_view to_string(StopReason reason) noexcept;
// One or two sentences for a person: what happened and what to try. Never empty for a negative reason.
std::string_view advice(StopReason reason) noexcept;

// What the residual is compared with.
enum class Baseline : unsigned char { rhs, initial_residual };

struct StoppingRule {
  double relative_tolerance = 1e-8;  // ||b - A x|| <= relative_tolerance * ||baseline||, 2-norms
  double absolute_tolerance = 0;     // or ||b - A x|| <= absolute_tolerance
  std::int64_t max_iterations = 10000;
  double max_seconds = std::numeric_limits<double>::infinity();
  double divergence = 1e8;  // stop when the residual exceeds this times the baseline; infinity: never
  std::int64_t stagnation_window =
      0;  // stop when this many iterations bring no new smallest residual; 0: off
  Baseline baseline = Baseline::rhs;
};

}  // namespace protean

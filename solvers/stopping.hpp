// When a solve ends, and why.
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// Positive: converged, b - A x was computed and is small enough. Negative: not converged.
enum class StopReason : int {
  running = 0,
  relative_tolerance = 1,
  absolute_tolerance = 2,
  zero_right_hand_side = 3,  // b = 0: x = 0 is exact
  max_iterations = -1,
  time_limit = -2,
  interrupted = -3,  // the observer returned false
  breakdown = -4,
  indefinite_operator = -5,
  indefinite_preconditioner = -6,
  not_finite = -7,
  stagnation = -8,
  divergence = -9,
  underflow = -10,          // squares of the numbers are below the range of the type
  inconsistent = -12,       // A is singular, and b has a part in its null space above the tolerance
  negative_definite = -11,  // cg: no positive curvature, and all diagonal entries are negative
};

constexpr bool converged(StopReason reason) noexcept { return static_cast<int>(reason) > 0; }
// "max-iterations"
std::string_view to_string(StopReason reason) noexcept;

// The norm with which the residual is compared.
enum class Baseline : unsigned char { rhs, initial_residual };

struct StoppingRule {
  // ||b - A x|| <= relative_tolerance * ||baseline||, in [0, 1); norms by SolverOptions::residual_norm
  double relative_tolerance = 1e-8;
  double absolute_tolerance = 0;  // or ||b - A x|| <= absolute_tolerance; finite
  std::int64_t max_iterations = 10000;
  // Limits the iterations; in SystemSolver, LinearSystem and solve() also the setup of the preconditioner before them.
  double max_seconds = std::numeric_limits<double>::infinity();
  // Stop when the residual exceeds this number times the larger of baseline and initial residual; infinity: never.
  double divergence = 1e8;
  // Stop when this many iterations bring no new smallest residual; 0: never.
  std::int64_t stagnation_window = 0;
  Baseline baseline = Baseline::rhs;
};

}  // namespace protean

#include "solvers/stopping.hpp"

namespace protean {

std::string_view to_string(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::running:
      return "running";
    case StopReason::relative_tolerance:
      return "relative-tolerance";
    case StopReason::absolute_tolerance:
      return "absolute-tolerance";
    case StopReason::zero_right_hand_side:
      return "zero-right-hand-side";
    case StopReason::max_iterations:
      return "max-iterations";
    case StopReason::time_limit:
      return "time-limit";
    case StopReason::interrupted:
      return "interrupted";
    case StopReason::breakdown:
      return "breakdown";
    case StopReason::indefinite_operator:
      return "indefinite-operator";
    case StopReason::indefinite_preconditioner:
      return "indefinite-preconditioner";
    case StopReason::not_finite:
      return "not-finite";
    case StopReason::stagnation:
      return "stagnation";
    case StopReason::divergence:
      return "divergence";
    case StopReason::underflow:
      return "underflow";
    case StopReason::negative_definite:
      return "negative-definite";
    case StopReason::inconsistent:
      return "inconsistent";
  }
  return "unknown";
}

}  // namespace protean

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
  }
  return "unknown";
}

std::string_view advice(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::running:
      return "The solve has not ended.";
    case StopReason::relative_tolerance:
      return "The true residual meets the relative tolerance.";
    case StopReason::absolute_tolerance:
      return "The true residual meets the absolute tolerance.";
    case StopReason::zero_right_hand_side:
      return "The right-hand side is zero, so x = 0 is the exact solution.";
    case StopReason::max_iterations:
      return "The limit of iterations was reached. Allow more, use a better preconditioner, or ask for less "
             "accuracy.";
    case StopReason::time_limit:
      return "The time limit was reached. Allow more time, or use a better preconditioner or a faster "
             "format.";
    case StopReason::interrupted:
      return "The solve was interrupted. x is the last iterate; start again from it.";
    case StopReason::breakdown:
      return "The method divided by something that is zero. Try another method (gmres rarely breaks down), "
             "another "
             "initial guess, or check whether the matrix is singular.";
    case StopReason::indefinite_operator:
      return "p . A p was not positive, so the matrix is not symmetric positive definite and cg does not "
             "apply. Use "
             "gmres or bicgstab, or check signs and boundary conditions.";
    case StopReason::indefinite_preconditioner:
      return "r . M^-1 r was not positive, so the preconditioner is not symmetric positive definite (Jacobi: "
             "a "
             "negative diagonal entry). Use gmres or bicgstab, or no preconditioner.";
    case StopReason::not_finite:
      return "An infinite or undefined number appeared. Check matrix, right-hand side and initial guess, and "
             "their "
             "scale: squares of the entries must fit the type.";
    case StopReason::stagnation:
      return "The residual no longer falls. The tolerance may be below what this precision can reach for "
             "this matrix; "
             "else try another method, a larger restart, or a better preconditioner.";
    case StopReason::divergence:
      return "The residual grew beyond the limit. Try another method (gmres does not diverge) or a "
             "preconditioner.";
  }
  return "An unknown reason.";
}

}  // namespace protean

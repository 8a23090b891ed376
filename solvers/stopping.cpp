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
      return "The limit of iterations was reached. Allow more, take a better preconditioner (symmetric "
             "positive definite matrix: ic0, or amg where it is built in; other matrices: ilu0; block-jacobi "
             "where a node has several unknowns), or ask for less accuracy.";
    case StopReason::time_limit:
      return "The time limit was reached. Allow more time, take a better preconditioner (symmetric positive "
             "definite matrix: ic0, or amg where it is built in; other matrices: ilu0; block-jacobi where a "
             "node has several unknowns), or a faster format.";
    case StopReason::interrupted:
      return "The solve was interrupted. x is the last iterate; start again from it.";
    case StopReason::breakdown:
      return "The method had to divide by zero. Try another method (gmres rarely breaks down) or another "
             "initial guess, or check whether the matrix is singular.";
    case StopReason::indefinite_operator:
      return "p . A p was not positive, so the matrix is not symmetric positive definite and cg does not "
             "apply. Use minres where the matrix is symmetric, else gmres or bicgstab, or check signs and "
             "boundary conditions. If the matrix is negative definite, solve -A x = -b.";
    case StopReason::indefinite_preconditioner:
      return "r . M^-1 r was not positive, so the preconditioner is not symmetric positive definite (Jacobi: "
             "a negative diagonal entry). Use gmres or bicgstab, or no preconditioner. If the matrix is "
             "negative definite, solve -A x = -b.";
    case StopReason::not_finite:
      return "An infinite or undefined number appeared. Check matrix, right-hand side and initial guess for "
             "such numbers, and for very large ones: the squares of the entries must be finite, too. Where "
             "they overflow, multiply A and b by the same small factor (x stays the same), so that their "
             "entries come near 1, or use double precision instead of single. In a problem file: "
             "matrix.scale.";
    case StopReason::stagnation:
      return "The residual no longer decreases. The tolerance may be too small for this precision and this "
             "matrix. Otherwise take another method, a larger restart, or a better preconditioner (symmetric "
             "positive definite matrix: ic0, or amg where it is built in; other matrices: ilu0).";
    case StopReason::divergence:
      return "The residual grew beyond the limit. Take another method (the residuals of minres, for "
             "symmetric matrices, and of gmres do not grow), or a preconditioner (symmetric positive "
             "definite matrix: ic0, or amg where it is built in; other matrices: ilu0).";
    case StopReason::underflow:
      return "The numbers are so small that products of two of them are zero in this precision. Multiply A "
             "and b by the same factor (x stays the same), so that their entries come near 1, or use double "
             "precision instead of single. In a problem file: matrix.scale.";
    case StopReason::inconsistent:
      return "The matrix is singular, and b has a part in its null space, so that no x solves the system. "
             "Check b: for a Neumann problem the sources and the fluxes at the boundary must balance, so the "
             "entries of b add up to zero. Subtract that part from b for the solution of least squares.";
    case StopReason::negative_definite:
      return "The matrix seems to be negative definite: all its diagonal entries are negative. The method "
             "needs a positive definite matrix or preconditioner. Solve -A x = -b, which has the same x. In "
             "a problem file: matrix.scale: -1.";
  }
  return "An unknown reason.";
}

}  // namespace protean

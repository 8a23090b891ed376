#include "solvers/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::detail {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_of_gmres(std::string_view method) { return is_one_of(method, {"gmres", "fgmres"}); }

// "a", "a or b", "a, b or c"
std::string one_of(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i)
    text += (i == 0 ? "" : i + 1 < items.size() ? ", " : " or ") + items[i];
  return text;
}

bool in_reach(std::string_view preconditioner) {
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == preconditioner) return entry.unavailable.empty();
  return false;
}

// Whether the preconditioner in use takes each unknown alone, or a few of them together.
bool is_weak(const Circumstances& of) {
  return of.preconditioner.empty() ||
         is_one_of(of.preconditioner, {"none", "auto", "jacobi", "spai0", "block-jacobi"});
}

// Stronger ones than that in use, for symmetric positive definite matrices or for any.
std::vector<std::string> stronger(const Circumstances& of, bool definite) {
  std::vector<std::string> names;
  const std::string factors = definite ? "ic" : "ilu";
  if (of.preconditioner == factors)
    names.push_back(fmt::format("{} with a larger fill", factors));
  else if (of.preconditioner == factors + "0")
    names.push_back(fmt::format("{} with fill 1 or 2", factors));
  else
    names.push_back(factors + "0");
  if (definite && of.preconditioner != "amg" && in_reach("amg")) names.emplace_back("amg");
  if (of.preconditioner == "amg") names.emplace_back("amg with another smoother or setup");
  if (is_weak(of) && of.preconditioner != "block-jacobi")
    names.emplace_back("block-jacobi if a node has several unknowns");
  return names;
}

// "take preconditioner ic0, amg or block-jacobi if a node has several unknowns"
std::string better_preconditioner(const Circumstances& of) {
  const bool symmetric_method = find_solver(of.method).symmetric;
  if (of.method == "minres" && !of.positive_diagonal.value_or(true))
    return std::string(of.preconditioner == "fields" ? "name the fields and their inner preconditioners"
                                                     : "take preconditioner fields") +
           " (ic0 and jacobi are not positive definite for this matrix, whose diagonal entries are not all positive), "
           "take gmres with ilu0";
  if (symmetric_method || of.symmetric.value_or(false))
    return "take preconditioner " + one_of(stronger(of, true));
  return fmt::format(
      "take preconditioner {} (and if the matrix is symmetric positive definite, method cg with {})",
      one_of(stronger(of, false)), in_reach("amg") ? "ic0 or amg" : "ic0");
}

std::string take_another_method(const Circumstances& of) {
  return fmt::format(
      "The matrix is not symmetric, and {} needs a symmetric one: take method gmres, bicgstab or idr, with "
      "preconditioner ilu0.",
      of.method);
}

std::string take_another_preconditioner(const Circumstances& of) {
  const bool symmetric = find_solver(of.method).symmetric;
  std::vector<std::string> others;
  for (const char* const name : {symmetric ? "ic0" : "ilu0", "jacobi"})
    if (of.preconditioner != name) others.emplace_back(name);
  others.emplace_back("none");
  return fmt::format("Preconditioner {} is useless for this matrix: {}. Take another one: {}.",
                     of.preconditioner, of.preconditioner_fault, one_of(others));
}

}  // namespace

bool depends_on_symmetry(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::max_iterations:
    case StopReason::time_limit:
    case StopReason::stagnation:
    case StopReason::divergence:
    case StopReason::breakdown:
    case StopReason::indefinite_operator:
    case StopReason::indefinite_preconditioner:
      return true;
    default:
      return false;
  }
}

bool may_be_inconsistent(StopReason reason) noexcept {
  return depends_on_symmetry(reason) && reason != StopReason::indefinite_preconditioner;
}

bool blames_preconditioner(StopReason reason) noexcept {
  return depends_on_symmetry(reason) || reason == StopReason::not_finite ||
         reason == StopReason::inconsistent;
}

std::string_view advice_for_any_method(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::interrupted:
      return "The solve was interrupted. x is the last iterate; start again from it.";
    case StopReason::breakdown:
      return "The method had to divide by zero. Try another method (gmres rarely breaks down) or another "
             "initial guess, or check whether the matrix is singular.";
    case StopReason::indefinite_operator:
      return "p . A p was not positive, so the matrix is not symmetric positive definite and cg does not "
             "apply. Use minres if the matrix is symmetric, else gmres or bicgstab, or check signs and "
             "boundary conditions. If the matrix is negative definite, solve -A x = -b.";
    case StopReason::indefinite_preconditioner:
      return "r . M^-1 r was not positive, so the preconditioner is not symmetric positive definite (Jacobi: "
             "a negative diagonal entry). Use gmres or bicgstab, or no preconditioner. If the matrix is "
             "negative definite, solve -A x = -b.";
    case StopReason::not_finite:
      return "An infinite or undefined number appeared. Check matrix, right-hand side and initial guess for "
             "such numbers, and for very large ones: the squares of the entries must be finite, too. If "
             "they overflow, multiply A and b by the same small factor (x stays the same), so that their "
             "entries come near 1, or use double precision instead of single. In a problem file: "
             "matrix.scale.";
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
    case StopReason::stagnation:
      return "The residual no longer decreases. The tolerance may be too small for this precision and this "
             "matrix: then "
             "ask for less accuracy. Otherwise take another method or a better preconditioner.";
    case StopReason::divergence:
      return "The residual grew beyond the limit. Take another method (the residuals of minres, for symmetric "
             "matrices, "
             "and of gmres do not grow), or a better preconditioner.";
    default:
      return {};
  }
}

std::string advice_for(StopReason reason, const Circumstances& of) {
  if (converged(reason)) return {};
  if (!of.preconditioner_fault.empty()) return take_another_preconditioner(of);
  if (of.x_not_determined)
    return "x is not finite, and no equation shows it: the matrix is singular. Remove the unknowns that no "
           "equation has, or give them one, such as x_i = 0 by a 1 on the diagonal.";
  const bool symmetric_method = find_solver(of.method).symmetric;
  if (depends_on_symmetry(reason) && symmetric_method && !of.symmetric.value_or(true))
    return take_another_method(of);
  // What is left to try if a method for any matrix has failed.
  const std::string tries = symmetric_method         ? ""
                            : is_of_gmres(of.method) ? ", try a larger restart or method idr"
                            : of.method == "idr"     ? ", try method gmres"
                                                     : ", try method idr";
  switch (reason) {
    case StopReason::max_iterations:
      return fmt::format("The limit of iterations was reached. Allow more, {}{}, or ask for less accuracy.",
                         better_preconditioner(of), tries);
    case StopReason::time_limit:
      return fmt::format("The time limit was reached. Allow more time, {}{}, or take a faster format.",
                         better_preconditioner(of), tries);
    case StopReason::stagnation:
      return fmt::format(
          "The residual no longer decreases. The tolerance may be too small for this precision and this "
          "matrix: then ask for less accuracy. Otherwise {}{}.",
          better_preconditioner(of), tries.empty() ? ", or try another method" : tries);
    case StopReason::divergence:
      if (is_of_gmres(of.method))
        return fmt::format(
            "The residual grew beyond the limit. Check whether the products "
            "with the matrix are right; else {}.",
            better_preconditioner(of));
      return fmt::format("The residual grew beyond the limit. Take method {}, or {}.",
                         is_one_of(of.method, {"cg", "fcg"}) ? "minres, whose residuals do not grow"
                         : of.method == "idr"                ? "gmres, whose residuals do not grow"
                                                             : "gmres, whose residuals do not grow, or idr",
                         better_preconditioner(of));
    case StopReason::breakdown:
      if (is_of_gmres(of.method))
        return "The method had to divide by zero. The matrix may be singular: check it with protean inspect. "
               "Otherwise try another initial guess.";
      return fmt::format(
          "The method had to divide by zero. Take method {} down, try another initial guess, or check "
          "whether the matrix is singular.",
          is_one_of(of.method, {"cg", "fcg"})               ? "minres, which rarely breaks"
          : is_one_of(of.method, {"bicgstab", "bicgstab2"}) ? "gmres or idr, which rarely break"
                                                            : "gmres, which rarely breaks");
    case StopReason::indefinite_operator:
      if (!of.symmetric) break;
      return fmt::format(
          "p . A p was not positive, so the matrix, which is symmetric, is not positive definite, and {} "
          "does not apply. Take method minres, or check signs and boundary conditions. If the matrix is "
          "negative definite, solve -A x = -b.",
          of.method);
    case StopReason::indefinite_preconditioner:
      if (!of.symmetric) break;
      return fmt::format(
          "r . M^-1 r was not positive, so preconditioner {} is not symmetric positive definite{}. Take {}no "
          "preconditioner, or method gmres. If the matrix is negative definite, solve -A x = -b.",
          of.preconditioner,
          of.preconditioner == "jacobi" && !of.positive_diagonal.value_or(true)
              ? ": the matrix has a diagonal entry that is not positive"
              : "",
          of.positive_diagonal.value_or(false) && of.preconditioner != "jacobi" ? "jacobi, " : "");
    default:
      break;
  }
  return std::string(advice_for_any_method(reason));
}

}  // namespace protean::detail

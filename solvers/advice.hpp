// What to do after a solve that has not converged, in its circumstances. Private to solvers/.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/context.hpp"
#include "solvers/stopping.hpp"

namespace protean::detail {

struct Circumstances {
  std::string_view method;
  std::string_view preconditioner;  // its name; empty without one
  // Of the matrix, if that is known.
  std::optional<bool> symmetric, positive_diagonal;
  std::string_view preconditioner_fault = {};  // fault_of_preconditioner(); empty: none is known
  bool x_not_determined = false;               // x is not finite, and no residual shows it
};

// Whether a method for symmetric matrices may end so because the matrix is not symmetric.
bool depends_on_symmetry(StopReason reason) noexcept;

// Whether it may end so because no x solves the system.
bool may_be_inconsistent(StopReason reason) noexcept;
// Whether it may end so because the preconditioner is useless.
bool blames_preconditioner(StopReason reason) noexcept;

// The same without the circumstances, for reasons that follow from the numbers alone; empty for the others.
std::string_view advice_for_any_method(StopReason reason) noexcept;

// Names the preconditioners and methods of this build that fit. Empty when converged.
std::string advice_for(StopReason reason, const Circumstances& of);

}  // namespace protean::detail

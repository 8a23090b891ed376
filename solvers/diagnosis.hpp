// Norms outside of the range of squares, and the cause behind a scalar that should have been positive or
// nonzero. Private to solvers/.
#pragma once
#include <string>

#include "solvers/iteration_control.hpp"
#include "solvers/method.hpp"

namespace protean::detail {

// ||v||. Where the sum of squares overflows or underflows in T, v is scaled for it and scaled back. NaN and
// infinity only where v holds one. `number`: one entry of workspace in the space of v.
template <class T>
double norm(const Context& context, VectorView<T> v, Vector<T>& number);

struct Diagnosis {
  StopReason reason;
  std::string detail;
};

// A solve ends with `reason`, which the scalars of the last verdict gave; b - A x is in method.scratch().
// Returns the reason behind it where that is another one, else `reason` and `detail` as they are:
//   underflow           the scalar is zero only because products of two norms are below the range of T; or the
//                       solve diverged after it began with such norms: initial_residual is ||b - A x0||, and ||A M^-1 r||
//                       is taken in the same ratio to it as at the end
//   negative_definite   cg: the first curvature is negative, and all diagonal entries are, as far as A knows
//                       its diagonal (HasDiagonal)
// With not_finite the detail says so where products of two norms are above the range of T.
// first: no scalar before the last one was good. Overwrites all vectors of the method but x; may compute one
// product.
template <class T>
Diagnosis diagnose(Method<T>& method, const System<T>& system, Vector<T>& number, const Verdict& verdict,
                   bool first, double initial_residual, StopReason reason, std::string detail);

}  // namespace protean::detail

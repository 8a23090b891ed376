// The weights of SolverOptions::residual_norm. Private to solvers/.
#pragma once
#include "core/vector.hpp"
#include "solvers/method.hpp"

namespace protean::detail {

// weights := the diagonal of W = D^-1, in the caller's order and in the space of A. Returns the largest |1 / w_i|.
// number: one entry of workspace. Throws BadArgument if A does not know its diagonal D.
template <class T>
double make_weights(const LinearOperator<T>& A, const SolverOptions& options, Vector<T>& weights,
                    Vector<T>& number);

}  // namespace protean::detail

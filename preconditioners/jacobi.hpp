// Private to preconditioners/.
#pragma once
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {
template <class T>
std::unique_ptr<Preconditioner<T>> make_jacobi(const LinearOperator<T>& A,
                                               const PreconditionerOptions& options);
}

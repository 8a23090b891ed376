// The makers behind make_preconditioner(), one for each file of this folder. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <memory>

#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

template <class T>
using MadePreconditioner = std::unique_ptr<Preconditioner<T>>;

template <class T>
MadePreconditioner<T> make_jacobi(const LinearOperator<T>& A, const PreconditionerOptions& options);
template <class T>
MadePreconditioner<T> make_block_jacobi(const LinearOperator<T>& A, const PreconditionerOptions& options);
template <class T>
MadePreconditioner<T> make_spai0(const LinearOperator<T>& A, const PreconditionerOptions& options);
template <class T>
MadePreconditioner<T> make_gauss_seidel(const LinearOperator<T>& A, const PreconditionerOptions& options);
template <class T>
MadePreconditioner<T> make_ssor(const LinearOperator<T>& A, const PreconditionerOptions& options);
// symmetric: Cholesky factors, else LU; fill: the largest level of fill that is kept.
template <class T>
MadePreconditioner<T> make_incomplete(const LinearOperator<T>& A, const PreconditionerOptions& options,
                                      bool symmetric, std::int64_t fill);
template <class T>
MadePreconditioner<T> make_chebyshev(const LinearOperator<T>& A, const PreconditionerOptions& options);
// Only in a build with hypre.
template <class T>
MadePreconditioner<T> make_amg(const LinearOperator<T>& A, const PreconditionerOptions& options);

}  // namespace protean::detail

// Whether a matrix is symmetric, asked by several parts of a solve and looked at once. Private.
#pragma once
#include <optional>

#include "core/csr.hpp"
#include "operators/linear_operator.hpp"

namespace protean::detail {

// What is known of A at its present revision: whether asymmetry() of its rows is at most symmetry_tolerance. The last
// few operators that were looked at are remembered. Several threads may ask.
template <class T>
std::optional<bool> known_symmetry(const LinearOperator<T>& A);
template <class T>
void remember_symmetry(const LinearOperator<T>& A, bool symmetric);

// The same, looked at if it is not known. csr: the sorted rows of A, in host memory.
template <class T>
bool is_symmetric_matrix(const LinearOperator<T>& A, const Context& host, const CsrMatrix<T>& csr);

}  // namespace protean::detail

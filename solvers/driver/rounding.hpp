// Products with rounded values in a solve (operators/given_matrix.hpp). Private to solvers/driver.
#pragma once
#include <string>

#include "operators/given_matrix.hpp"
#include "operators/linear_operator.hpp"

namespace protean::detail {

// The matrix that was given if products of A are with rounded values, else null.
template <class T>
const LinearOperator<T>* given_matrix_of(const LinearOperator<T>& A) {
  const HasGivenMatrix<T>* const rounds = A.abilities().given_matrix.get();
  return rounds ? rounds->given_matrix() : nullptr;
}

// From now on A computes with that matrix. False if it does so already.
template <class T>
bool leave_rounding(const LinearOperator<T>& A, const std::string& why) {
  if (!given_matrix_of(A)) return false;
  A.abilities().given_matrix->leave_rounding(why);
  return true;
}

}  // namespace protean::detail

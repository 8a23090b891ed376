// Blocks of dense matrices, for what the recipes of preconditioner fields are by definition.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "preconditioners/dense_reference.hpp"

namespace protean::test {

using Rows = std::vector<std::int64_t>;
struct Rect {  // a dense matrix of any shape
  std::int64_t rows, cols;
  std::vector<long double> a;
  Rect(std::int64_t m, std::int64_t n) : rows(m), cols(n), a(static_cast<std::size_t>(m * n)) {}
  long double& operator()(std::int64_t i, std::int64_t j) { return a[i * cols + j]; }
  long double operator()(std::int64_t i, std::int64_t j) const { return a[i * cols + j]; }
};
inline Rect part(const Dense& A, const Rows& rows, const Rows& cols) {
  Rect made(std::ssize(rows), std::ssize(cols));
  for (std::int64_t i = 0; i < made.rows; ++i)
    for (std::int64_t j = 0; j < made.cols; ++j) made(i, j) = A(rows[i], cols[j]);
  return made;
}
inline void put(Dense& A, const Rows& rows, const Rows& cols, const Rect& block) {
  for (std::int64_t i = 0; i < block.rows; ++i)
    for (std::int64_t j = 0; j < block.cols; ++j) A(rows[i], cols[j]) = block(i, j);
}
inline Rect operator*(const Rect& A, const Rect& B) {
  Rect made(A.rows, B.cols);
  for (std::int64_t i = 0; i < A.rows; ++i)
    for (std::int64_t k = 0; k < A.cols; ++k)
      for (std::int64_t j = 0; j < B.cols; ++j) made(i, j) += A(i, k) * B(k, j);
  return made;
}
inline Rect operator*(long double factor, Rect A) {
  for (long double& one : A.a) one *= factor;
  return A;
}
inline Rect operator-(Rect A, const Rect& B) {
  for (std::size_t k = 0; k < A.a.size(); ++k) A.a[k] -= B.a[k];
  return A;
}
inline Dense square(const Rect& A) {
  Dense made(A.rows);
  made.a = A.a;
  return made;
}
inline Rect rect(const Dense& A) {
  Rect made(A.n, A.n);
  made.a = A.a;
  return made;
}
inline Rect inverse_of(const Rect& A) { return rect(inverse(square(A))); }
inline Rect diagonal_of(const Rect& A) {
  Rect made(A.rows, A.cols);
  for (std::int64_t i = 0; i < A.rows; ++i) made(i, i) = A(i, i);
  return made;
}

// M of the preconditioner of this name for the block, as a matrix.
inline Rect matrix_of(std::string_view id, const Rect& block, const PreconditionerOptions& options = {}) {
  const auto A = assembled(sparse(square(block)));
  return inverse_of(rect(dense_inverse(*ready<double>(id, *A, options))));
}

}  // namespace protean::test

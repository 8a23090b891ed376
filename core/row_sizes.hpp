// The sizes of the rows of A x = b, and which of them a norm of b - A x cannot see. Private.
#pragma once
#include <cstdint>
#include <vector>

#include "core/csr.hpp"

namespace protean::detail {

// sum_j |a_ij| over the rows with an entry that is not 0.
struct RowSizes {
  double smallest = 0, largest = 0;  // 0 without such rows
  std::int64_t rows = 0;             // that have one
  std::int64_t below = 0;            // how many of them have at most `limit` times the largest
};
// For matrices in host memory. One pass, and a value a row.
RowSizes row_sizes(const Context& context, const CsrMatrix<double>& matrix, double limit);

// The rows that the test ||W (b - A x)|| <= tolerance does not see, and whose equation is not met: w_i t_i <= tolerance
// with t_i = |b_i| + sum_j |a_ij| |x_j|, but |b_i - sum_j a_ij x_j| > t_i / 100.
struct UnseenRows {
  std::int64_t count = 0, first = -1;
  double largest = 0;  // w_i t_i of them
};
// W is D^-1 with `weighted`, D the diagonal of A (1 for a zero), else 1. The matrix is square, all in host memory.
// One pass, and a value a row.
UnseenRows unseen_rows(const Context& context, const CsrMatrix<double>& matrix, const double* b,
                       const double* x, double tolerance, bool weighted);
// ||D^-1 b||
double weighted_norm(const Context& context, const CsrMatrix<double>& matrix, const double* b);

}  // namespace protean::detail

// The inverse of a small dense matrix, which may be singular. Private to preconditioners/.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace protean::detail {

// a := its inverse, by Gauss-Jordan elimination with complete pivoting; n x n, row after row. Pivots up to `smallest`
// are not taken: what is left of A then, the block S, is taken for zero, and A X A = A within S (an inner inverse;
// Ben-Israel and Greville, Generalized Inverses, 2nd ed., Springer 2003, section 1.2). Entries off the diagonal
// count half: if A is symmetric and semidefinite, they are never larger than entries on it except for rounding, which
// must not decide. So there all pivots are on the diagonal, and X is symmetric and semidefinite within rounding.
// Returns the rank.
//
// instead: 0, and the rows and columns that are left get zeros in X. Otherwise X is the inverse of A with the number
// `instead` on the diagonal of S, if S has the same rows and columns: X = [A11^-1 0; 0 0] + W W^T / instead, where the
// columns of W are mapped to zero within S. So if A is positive definite and S was too small to be distinguished from
// rounding, X is positive definite, too, for a positive number.
inline std::int64_t invert_dense(std::vector<double>& a, std::int64_t n, double smallest,
                                 double instead = 0) {
  const auto at = [&](std::int64_t i, std::int64_t j) -> double& {
    return a[static_cast<std::size_t>(i * n + j)];
  };
  // Rows and columns are exchanged in a; row k of a is row row[k] of the matrix.
  std::vector<std::int64_t> row(static_cast<std::size_t>(n)), col(row.size());
  std::iota(row.begin(), row.end(), 0), std::iota(col.begin(), col.end(), 0);
  std::int64_t rank = 0;
  for (; rank < n; ++rank) {
    const std::int64_t k = rank;
    std::int64_t pivot_row = k, pivot_col = k;
    double largest = -1;
    for (std::int64_t i = k; i < n; ++i)
      if (std::abs(at(i, i)) > largest) largest = std::abs(at(i, i)), pivot_row = pivot_col = i;
    for (std::int64_t i = k; i < n; ++i)
      for (std::int64_t j = k; j < n; ++j)
        if (const double half = 0.5 * std::abs(at(i, j)); half > largest)
          largest = half, pivot_row = i, pivot_col = j;
    if (!(largest > smallest)) break;
    if (pivot_row != k) {
      std::swap_ranges(&at(k, 0), &at(k, 0) + n, &at(pivot_row, 0));
      std::swap(row[static_cast<std::size_t>(k)], row[static_cast<std::size_t>(pivot_row)]);
    }
    if (pivot_col != k) {
      for (std::int64_t i = 0; i < n; ++i) std::swap(at(i, k), at(i, pivot_col));
      std::swap(col[static_cast<std::size_t>(k)], col[static_cast<std::size_t>(pivot_col)]);
    }
    const double inverse = 1 / at(k, k);
    at(k, k) = 1;
    for (std::int64_t j = 0; j < n; ++j) at(k, j) *= inverse;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = at(i, k);
      if (factor == 0) continue;
      at(i, k) = 0;
      for (std::int64_t j = 0; j < n; ++j) at(i, j) -= factor * at(k, j);
    }
  }
  // The leading block is the leading block of the inverse; the entry of its row i and column j belongs to col[i] and
  // row[j].
  std::vector<double> result(a.size(), 0);
  for (std::int64_t i = 0; i < rank; ++i)
    for (std::int64_t j = 0; j < rank; ++j)
      result[static_cast<std::size_t>(col[static_cast<std::size_t>(i)] * n +
                                      row[static_cast<std::size_t>(j)])] = at(i, j);
  if (instead != 0 && std::equal(row.begin() + rank, row.end(), col.begin() + rank))
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t q = rank; q < n; ++q) {
          const double left = i < rank ? -at(i, q) : static_cast<double>(i == q);
          sum += left * (j < rank ? at(q, j) : static_cast<double>(j == q));
        }
        result[static_cast<std::size_t>(col[static_cast<std::size_t>(i)] * n +
                                        row[static_cast<std::size_t>(j)])] += sum / instead;
      }
  a = std::move(result);
  return rank;
}

}  // namespace protean::detail

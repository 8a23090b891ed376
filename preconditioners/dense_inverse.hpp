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
// are not taken: the rows and columns that are left then get zeros, so that A X A = A within rounding (an inner
// inverse; Ben-Israel and Greville, Generalized Inverses, 2nd ed., Springer 2003, section 1.2). Of equal pivots one on
// the diagonal is taken first, so where A is symmetric and semidefinite X is symmetric within rounding. Returns the
// rank.
inline std::int64_t invert_dense(std::vector<double>& a, std::int64_t n, double smallest) {
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
        if (std::abs(at(i, j)) > largest) largest = std::abs(at(i, j)), pivot_row = i, pivot_col = j;
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
  // The leading block is that of the inverse; the entry of its row i and column j belongs to col[i] and row[j].
  std::vector<double> result(a.size(), 0);
  for (std::int64_t i = 0; i < rank; ++i)
    for (std::int64_t j = 0; j < rank; ++j)
      result[static_cast<std::size_t>(col[static_cast<std::size_t>(i)] * n +
                                      row[static_cast<std::size_t>(j)])] = at(i, j);
  a = std::move(result);
  return rank;
}

}  // namespace protean::detail

// The vectors of the products of a solve: one vector, or the vectors of several right-hand sides. Private to solvers/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "solvers/multi_method.hpp"

namespace protean::detail {

// In a solve by MultiSolver a product is here what multiplies the vectors of all columns that run: one pass over the
// matrix, or a product for each column, whose vector is copied out of the others and back.
struct ProductColumns {
  bool several = false;                 // a solve by MultiSolver, also if one column is left
  std::int64_t running = 1, width = 1;  // columns that have not ended, and the lanes in which they lie

  static ProductColumns of_solve(std::int64_t columns) noexcept {
    return columns > 0 ? ProductColumns{true, columns, multi_width(columns)} : ProductColumns{};
  }
  bool operator==(const ProductColumns&) const = default;

  // As how many products LinearOperator::products() counts it.
  std::int64_t counted(bool one_pass) const noexcept { return one_pass ? width : running; }
  // Bytes that it moves for a matrix of `bytes`: the matrix, x and y, as CostModel counts them for one vector. A copy
  // of one lane moves whole cache lines: of X once, of Y twice, since a line is read before a part of it is written.
  double traffic(std::size_t bytes, std::int64_t rows, bool one_pass) const noexcept {
    constexpr double value = 8, line = 64;
    const auto matrix = static_cast<double>(bytes), n = static_cast<double>(rows);
    if (width == 1) return matrix + 2 * value * n;
    const auto lanes = static_cast<double>(width);
    if (one_pass) return matrix + 2 * value * lanes * n;
    return static_cast<double>(running) * (matrix + 4 * value * n + 3 * std::min(value * lanes, line) * n);
  }
};

}  // namespace protean::detail

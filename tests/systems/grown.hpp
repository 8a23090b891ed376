// A system for tests of kept ones, whose second values make a preconditioner of the first ones useless.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {

inline constexpr MultiShape columns_shape{VectorLayout::columns, 0};

// A grid, and values of its pattern with which the smoothers of an amg of the first ones are not positive definite.
struct Grown {
  explicit Grown(std::int32_t points = 40) {
    std::vector<Triplet<double>> first, then;
    for (std::int32_t i = 0; i < points; ++i)
      for (std::int32_t j = 0; j < points; ++j) {
        const std::int32_t at = i * points + j;
        const auto add = [&](std::int32_t to, double before, double after) {
          first.push_back({at, to, before}), then.push_back({at, to, after});
        };
        if (i > 0) add(at - points, -1, -1e3);
        if (j > 0) add(at - 1, -1, -1);
        add(at, 4.01, 2002.01 + 1e3 * ((i * 7 + j * 3) % 11));
        if (j + 1 < points) add(at + 1, -1, -1);
        if (i + 1 < points) add(at + points, -1, -1e3);
      }
    n = std::int64_t{points} * points;
    csr = csr_from_triplets<double>(test_context(), n, n, first);
    grown = csr_from_triplets<double>(test_context(), n, n, then);
    for (std::int64_t i = 0; i < n; ++i) b.push_back(std::sin(static_cast<double>(i + 1)));
  }
  SolveResult solve(LinearSystem<double>& system, SolveObserver* observer = nullptr, double guess = 0) {
    x.assign(b.size(), guess);
    return system.solve({b.data(), n}, {x.data(), n}, observer);
  }
  // For this many right-hand sides.
  MultiSolveResult solve_columns(LinearSystem<double>& system, std::int64_t count,
                                 MultiSolveObserver* observer = nullptr,
                                 std::span<const StoppingRule> rules = {}) {
    const Columns<double> from = right_hand_sides(count);
    const ContextPtr& context = system.matrix().context();
    PlacedColumns<double> B(context, from, n, columns_shape),
        X(context, Columns<double>(from.size(), std::vector<double>(b.size(), 0.0)), n, columns_shape);
    MultiSolveResult result = system.multi_solve(B.read(), X.view(), observer, rules);
    solutions = X.fetch();
    return result;
  }
  Columns<double> right_hand_sides(std::int64_t count) const {
    Columns<double> from = sample_columns<double>(n, count, 1);
    from[0] = b;
    return from;
  }
  std::int64_t n = 0;
  CsrMatrix<double> csr, grown;
  std::vector<double> b, x;
  Columns<double> solutions;
};

// The matrix with other diagonal entries, so that A 1 = 0.
inline CsrMatrix<double> with_zero_row_sums(const CsrMatrix<double>& of) {
  std::vector<Triplet<double>> entries;
  for (std::int64_t r = 0; r < of.rows(); ++r) {
    const auto row = static_cast<std::int32_t>(r);
    double sum = 0;
    for (std::int64_t k = of.pattern.row_ptr[r]; k < of.pattern.row_ptr[r + 1]; ++k)
      if (of.pattern.col[k] != r)
        entries.push_back({row, of.pattern.col[k], of.values[k]}), sum -= of.values[k];
    entries.push_back({row, row, sum});
  }
  return csr_from_triplets<double>(test_context(), of.rows(), of.rows(), entries);
}

// A clock (Stopwatch). By it an iteration of the solve takes as long as its products, and a setup nothing.
inline const LinearOperator<double>* counted_matrix = nullptr;
inline double products() { return counted_matrix ? static_cast<double>(counted_matrix->products()) : 0; }

}  // namespace protean::test

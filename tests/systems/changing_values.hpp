// A matrix whose values change from solve to solve.
#pragma once
#include <algorithm>
#include <vector>

#include "core/generate/generate.hpp"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {

// A matrix whose values change in a sequence, with its right-hand side.
struct Sequence {
  explicit Sequence(const CsrMatrix<double>& matrix)
      : csr(matrix),
        n(csr.rows()),
        values(csr.values, csr.values + csr.nonzeros()),
        b(sample_vector<double>(n, 3)),
        x(b.size(), 0.0) {}
  explicit Sequence(double points = 60) : Sequence(generate(test_context(), "poisson-2d", {{"n", points}})) {}

  CsrMatrix<double> current() const { return with_values(csr, values.data()); }
  // More weight on the diagonal: symmetric and positive definite as before, with other iterations.
  void change(double factor) {
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
        if (csr.pattern.col[k] == r) values[static_cast<std::size_t>(k)] *= factor;
  }
  SolveResult solve(LinearSystem<double>& system) {
    x.assign(x.size(), 0.0);
    return system.solve({b.data(), n}, {x.data(), n});
  }
  double residual() const { return relative_residual_of(current(), b, x); }

  CsrMatrix<double> csr;
  std::int64_t n;
  std::vector<double> values, b, x;
};

// The same rows, last column first.
struct RowsReversed {
  explicit RowsReversed(const CsrMatrix<double>& sorted)
      : col(sorted.pattern.col, sorted.pattern.col + sorted.nonzeros()),
        values(sorted.values, sorted.values + sorted.nonzeros()) {
    for (std::int64_t r = 0; r < sorted.rows(); ++r) {
      const std::int64_t begin = sorted.pattern.row_ptr[r], end = sorted.pattern.row_ptr[r + 1];
      std::reverse(col.begin() + begin, col.begin() + end);
      std::reverse(values.begin() + begin, values.begin() + end);
    }
    csr =
        csr_view<double>(sorted.rows(), sorted.cols(), sorted.pattern.row_ptr.p32, col.data(), values.data());
  }
  std::vector<std::int32_t> col;
  std::vector<double> values;
  CsrMatrix<double> csr;
};

// A table that promises a tenth of the time in `format`.
inline MachineTable promise(const Sequence& one, const char* format) {
  MachineTable table;
  table.matrices = {{"promise",
                     Space::host,
                     one.csr.rows(),
                     one.csr.nonzeros(),
                     {{"csr", one.csr.bytes(), 1e-3, 0}, {format, one.csr.bytes(), 1e-4, 1e-4}}}};
  return table;
}

}  // namespace protean::test

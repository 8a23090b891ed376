// One system, solved in one call.
#pragma once
#include <vector>

#include "core/generate/generate.hpp"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {

struct Solving {
  CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 200}});
  std::int64_t n = csr.rows();
  std::vector<double> b = sample_vector<double>(n, 3), x = std::vector<double>(b.size(), 0.0);

  SolveResult operator()(SolveSettings settings = {}) {
    if (!settings.context) settings.context = test_context();
    x.assign(x.size(), 0.0);
    return solve(csr, {b.data(), n}, {x.data(), n}, settings);
  }
  double residual() const { return relative_residual_of(csr, b, x); }
};

}  // namespace protean::test

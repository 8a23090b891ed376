// Solves with multigrid by aggregation.
#pragma once
#include <cstdint>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "protean.hpp"
#include "solvers/systems.hpp"

namespace protean::test {

inline CsrMatrix<double> poisson(const char* kind, double n) {
  return generate(test_context(), kind, {{"n", n}});
}

inline SolveReport solved(const CsrMatrix<double>& csr, const char* method, const Preconditioner<double>& M,
                          const LinearOperator<double>& A, SolverOptions options = {}) {
  const std::vector<double> ones(static_cast<std::size_t>(csr.rows()), 1.0);
  std::vector<double> b(ones.size()), x(ones.size());
  A.apply(view(ones), view(b));
  options.stopping.relative_tolerance = 1e-8, options.stopping.max_iterations = 1000;
  const SolveReport report =
      make_solver<double>(method, options)->solve(A, view(std::as_const(b)), view(x), &M);
  EXPECT_TRUE(report.converged()) << method << ' ' << to_string(report.reason) << ' ' << report.detail;
  return report;
}
inline std::int64_t iterations(const CsrMatrix<double>& csr, const char* method, const char* id,
                               const PreconditionerOptions& options = {}) {
  const auto A = assembled(csr);
  return solved(csr, method, *ready<double>(id, *A, options), *A).iterations;
}

}  // namespace protean::test

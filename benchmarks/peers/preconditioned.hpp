// Preconditioned solves by other libraries, each as its users would write them. One thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/csr.hpp"

namespace protean::bench {

struct PreconditionedSolve {
  std::string method, preconditioner;  // cg, gmres (30), bicgstab; jacobi, ic0, ilu0
  double tolerance = 1e-8;             // of the 2-norm of the residual, relative to that of b
  int max_iterations = 20000;
};

struct PreconditionedResult {
  std::string what;  // the library's name of its preconditioner, where it is not the same
  std::int64_t iterations = 0;
  double setup_seconds = 0, solve_seconds = 0;
};

// x := the solution of A x = b from 0, A square. Nothing where the library is not in this build or has no such solve.
std::optional<PreconditionedResult> eigen_preconditioned(const CsrMatrix<double>& A,
                                                         const std::vector<double>& b,
                                                         const PreconditionedSolve& wanted,
                                                         std::vector<double>& x);
std::optional<PreconditionedResult> petsc_preconditioned(const CsrMatrix<double>& A,
                                                         const std::vector<double>& b,
                                                         const PreconditionedSolve& wanted,
                                                         std::vector<double>& x);

}  // namespace protean::bench

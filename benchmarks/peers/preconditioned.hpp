// Preconditioned solves by other libraries, each as its users would write them. One thread, except amgcl.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "core/csr.hpp"

namespace protean::bench {

struct PreconditionedSolve {
  std::string method, preconditioner;  // cg, gmres (30), bicgstab; jacobi, ic0, ilu0
  double tolerance = 1e-8;             // of the 2-norm of the residual, relative to the norm of b
  int max_iterations = 20000;
};

struct PreconditionedResult {
  std::string what;  // the library's name of its preconditioner, if it is not the same
  std::int64_t iterations = 0;
  double setup_seconds = 0, solve_seconds = 0;
};

// x := the solution of A x = b from 0, A square. Nothing if the library is not in this build or has no such solve.
std::optional<PreconditionedResult> eigen_preconditioned(const CsrMatrix<double>& A,
                                                         const std::vector<double>& b,
                                                         const PreconditionedSolve& wanted,
                                                         std::vector<double>& x);
std::optional<PreconditionedResult> petsc_preconditioned(const CsrMatrix<double>& A,
                                                         const std::vector<double>& b,
                                                         const PreconditionedSolve& wanted,
                                                         std::vector<double>& x);

// Two fields of a matrix.
struct TwoFields {
  std::vector<std::int32_t> field_of_row;    // 0 or 1
  std::int64_t unknowns = 1;                 // of a node of field 0, in consecutive rows
  bool constant = false;                     // the matrix maps constants of field 1 to zero
  const CsrMatrix<double>* schur = nullptr;  // positive definite, in place of |S|; null: selfp
  std::string inner = "gamg";                // a peer's name of the preconditioner of field 1, or of S
};
// The same by fgmres with PCFIELDSPLIT, gamg for field 0. wanted.preconditioner: lower (multiplicative), schur-upper or
// schur-full.
std::optional<PreconditionedResult> petsc_fieldsplit(const CsrMatrix<double>& A, const std::vector<double>& b,
                                                     const TwoFields& fields,
                                                     const PreconditionedSolve& wanted,
                                                     std::vector<double>& x);

// The same by fgmres with amgcl. wanted.preconditioner: schur-upper or schur-full, with inner amg, spai0 or ilu0 (ilu0
// of field 0, spai0 of S), or cpr for rows of two fields in turn. Solver and setup use OpenMP's threads.
std::optional<PreconditionedResult> amgcl_fields(const CsrMatrix<double>& A, const std::vector<double>& b,
                                                 const TwoFields& fields, const PreconditionedSolve& wanted,
                                                 std::vector<double>& x);

// Times of incomplete factors without fill, the shortest of those measured within `seconds` each.
struct FactorTimes {
  std::string what;       // the library's name of its factors, if they differ from ic0 or ilu0
  double setup = 0;       // of a new matrix
  double refactor = 0;    // for new values in the same pattern
  double apply = 0;       // z := M^-1 r
  double difference = 0;  // of z from ours, relative in the 2-norm; set by the caller
};
// kind: ic0 or ilu0. z := M^-1 r.
std::optional<FactorTimes> eigen_factors(const CsrMatrix<double>& A, const std::string& kind, double seconds,
                                         const std::vector<double>& r, std::vector<double>& z);
std::optional<FactorTimes> petsc_factors(const CsrMatrix<double>& A, const std::string& kind, double seconds,
                                         const std::vector<double>& r, std::vector<double>& z);

// The shortest time of f(), called for `seconds` and at least 3 times.
template <class F>
double shortest(double seconds, F f) {
  const auto begin = Clock::now();
  double best = 1e300;
  for (int k = 0; k < 3 || seconds_since(begin) < seconds; ++k) {
    const auto start = Clock::now();
    f();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

}  // namespace protean::bench

#include "benchmarks/peers/preconditioned.hpp"

#if defined(PROTEAN_HAVE_PETSC)
#include <fmt/format.h>
#include <petscksp.h>

#include <stdexcept>

#include "benchmarks/common/clock.hpp"

namespace protean::bench {
namespace {

void require_success(PetscErrorCode code, const char* what) {
  if (code != 0)
    throw std::runtime_error(fmt::format("PETSc: {} failed with code {}", what, static_cast<int>(code)));
}

struct Handles {
  Mat matrix = nullptr;
  Vec x = nullptr, b = nullptr;
  KSP ksp = nullptr;
  ~Handles() { KSPDestroy(&ksp), MatDestroy(&matrix), VecDestroy(&x), VecDestroy(&b); }
};

}  // namespace

std::optional<PreconditionedResult> petsc_preconditioned(const CsrMatrix<double>& A,
                                                         const std::vector<double>& b,
                                                         const PreconditionedSolve& wanted,
                                                         std::vector<double>& x) {
  const SparsityPattern& p = A.pattern;
  if (!p.row_ptr.p32) return std::nullopt;
  require_success(PetscInitializeNoArguments(), "PetscInitialize");
  const auto n = static_cast<PetscInt>(p.rows);
  Handles h;
  const auto indices = [](const std::int32_t* v) { return const_cast<PetscInt*>(v); };
  require_success(MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, n, n, indices(p.row_ptr.p32), indices(p.col),
                                            const_cast<double*>(A.values), &h.matrix),
                  "MatCreateSeqAIJWithArrays");
  if (wanted.method == "cg")
    require_success(MatSetOption(h.matrix, MAT_SYMMETRIC, PETSC_TRUE), "MatSetOption");
  require_success(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, n, x.data(), &h.x), "VecCreate");
  require_success(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, n, b.data(), &h.b), "VecCreate");
  require_success(KSPCreate(PETSC_COMM_SELF, &h.ksp), "KSPCreate");
  require_success(KSPSetOperators(h.ksp, h.matrix, h.matrix), "KSPSetOperators");
  require_success(KSPSetType(h.ksp, wanted.method == "cg"         ? KSPCG
                                    : wanted.method == "bicgstab" ? KSPBCGS
                                                                  : KSPGMRES),
                  "KSPSetType");
  // The norm of b - A x, as ours: of its default sides PETSc takes the preconditioned one.
  if (wanted.method != "cg") require_success(KSPSetPCSide(h.ksp, PC_RIGHT), "KSPSetPCSide");
  require_success(KSPSetNormType(h.ksp, KSP_NORM_UNPRECONDITIONED), "KSPSetNormType");
  require_success(KSPSetTolerances(h.ksp, wanted.tolerance, 1e-300, 1e300, wanted.max_iterations),
                  "KSPSetTolerances");
  PC pc = nullptr;
  require_success(KSPGetPC(h.ksp, &pc), "KSPGetPC");
  require_success(PCSetType(pc, wanted.preconditioner == "jacobi" ? PCJACOBI
                                : wanted.preconditioner == "ic0"  ? PCICC
                                                                  : PCILU),
                  "PCSetType");
  PreconditionedResult result;
  auto begin = Clock::now();
  require_success(KSPSetUp(h.ksp), "KSPSetUp");
  result.setup_seconds = seconds_since(begin);
  begin = Clock::now();
  require_success(KSPSolve(h.ksp, h.b, h.x), "KSPSolve");
  result.solve_seconds = seconds_since(begin);
  PetscInt iterations = 0;
  require_success(KSPGetIterationNumber(h.ksp, &iterations), "KSPGetIterationNumber");
  result.iterations = iterations;
  return result;
}

std::optional<FactorTimes> petsc_factors(const CsrMatrix<double>& A, const std::string& kind, double seconds,
                                         const std::vector<double>& r, std::vector<double>& z) {
  const SparsityPattern& p = A.pattern;
  if (!p.row_ptr.p32) return std::nullopt;
  require_success(PetscInitializeNoArguments(), "PetscInitialize");
  const auto n = static_cast<PetscInt>(p.rows);
  Handles h;
  const auto indices = [](const std::int32_t* v) { return const_cast<PetscInt*>(v); };
  require_success(MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, n, n, indices(p.row_ptr.p32), indices(p.col),
                                            const_cast<double*>(A.values), &h.matrix),
                  "MatCreateSeqAIJWithArrays");
  if (kind == "ic0") require_success(MatSetOption(h.matrix, MAT_SYMMETRIC, PETSC_TRUE), "MatSetOption");
  require_success(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, n, z.data(), &h.x), "VecCreate");
  require_success(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, n, r.data(), &h.b), "VecCreate");
  FactorTimes times;
  const auto factor = [&](PC& pc) {
    require_success(PCCreate(PETSC_COMM_SELF, &pc), "PCCreate");
    require_success(PCSetOperators(pc, h.matrix, h.matrix), "PCSetOperators");
    require_success(PCSetType(pc, kind == "ic0" ? PCICC : PCILU), "PCSetType");
    require_success(PCSetUp(pc), "PCSetUp");
  };
  times.setup = shortest(seconds, [&] {
    PC pc = nullptr;
    factor(pc);
    PCDestroy(&pc);
  });
  PC pc = nullptr;
  factor(pc);
  times.refactor = shortest(seconds, [&] {
    // Tells PETSc that the values are new.
    double* values = nullptr;
    require_success(MatSeqAIJGetArray(h.matrix, &values), "MatSeqAIJGetArray");
    require_success(MatSeqAIJRestoreArray(h.matrix, &values), "MatSeqAIJRestoreArray");
    require_success(PCSetUp(pc), "PCSetUp");
  });
  times.apply = shortest(seconds, [&] { require_success(PCApply(pc, h.b, h.x), "PCApply"); });
  PCDestroy(&pc);
  return times;
}

}  // namespace protean::bench
#else
std::optional<protean::bench::FactorTimes> protean::bench::petsc_factors(const CsrMatrix<double>&,
                                                                         const std::string&, double,
                                                                         const std::vector<double>&,
                                                                         std::vector<double>&) {
  return std::nullopt;
}
std::optional<protean::bench::PreconditionedResult> protean::bench::petsc_preconditioned(
    const CsrMatrix<double>&, const std::vector<double>&, const PreconditionedSolve&, std::vector<double>&) {
  return std::nullopt;
}
#endif

// Protean with PETSc's interfaces, for a program that links both libraries. It is all headers: this one, and those next
// to it that it includes.
//
//   protean_petsc::KSPRegisterProtean  registers the KSP type "protean": our methods in PETSc's KSP, with its PC,
//                                      tolerances, monitors and options
//   protean_petsc::PCRegisterProtean   registers the PC type "protean" (pc.hpp): our preconditioners, also of several
//                                      fields, whose rows are index sets (PCProteanSetFieldIS())
//   protean_petsc::MatCreateProtean    a Mat in any of our formats, made of one of type seqaij, for PETSc's own solvers
//   protean_petsc::csr_view            the arrays of a Mat of type seqaij, not copied
//
// For PETSc with real double scalars and 32-bit indices, on the host. Our solvers use threads and one MPI rank; if
// there are more, -ksp_type fgmres -pc_type bjacobi -sub_ksp_type protean solves the block of each rank. Functions
// return PETSc's error codes, so PetscCall() is the way to call them. None of our exceptions passes through PETSc: it
// becomes an error of PETSc with its text. A KSP type must know the members of a KSP, hence a private header of PETSc,
// which its installation contains.
#pragma once
#include <petscversion.h>

#include <protean/protean.hpp>

#if PETSC_VERSION_LT(3, 18, 0)
#error "protean_ksp.hpp needs PETSc 3.18 or later"
#endif

#include "csr.hpp"
#include "ksp.hpp"
#include "matrix.hpp"
#include "options.hpp"
#include "pc.hpp"

namespace protean_petsc {

// Registers the type. Once, after PetscInitialize() and before KSPSetType() or KSPSetFromOptions(): then -ksp_type
// protean.
//
// These parts of PETSc's interface are used:
//   KSPSetOperators       Amat of type seqaij: in the format that is asked for, else in the one that promises the
//                         shortest solve. Made by MatCreateProtean(): that one. Any other type: products by MatMult().
//                         New values and patterns are noticed by themselves
//   PC                    z := M^-1 r by PCApply(). cg, fcg and minres need a symmetric one, as PETSc's do. Methods
//                         that may have it on either side have it on the right. fcg and fgmres are for a PC that
//                         changes in a solve
//   KSPSetTolerances      converged when  ||b - A x|| <= max(rtol ||b||, abstol)  in the 2-norm. The residual is
//                         computed from x, not by the recurrence. This is KSP_NORM_UNPRECONDITIONED. PETSc's default
//                         norm of cg, bcgs and gmres is the norm of M^-1 (b - A x), so the same rtol means another
//                         accuracy there. Other norms are refused, except KSP_NORM_NONE, which does maxits
//                         iterations. divtol: as in PETSc, from the larger one of ||b|| and the initial residual
//   KSPConvergedDefaultSetUIRNorm, SetUMIRNorm, SetConvergedMaxits     have effect
//   KSPSetConvergenceTest is asked in each iteration with the residual of the recurrence, and decides alone
//   KSPMonitorSet, KSPSetResidualHistory    in each iteration, with the 2-norm of the residual of the recurrence
//   KSPGetResidualNorm, KSPGetIterationNumber    of the x that is returned
//   KSPGetConvergedReason our named reasons: KSPProteanGetReport() has them, and a text what to do. max-iterations:
//                         DIVERGED_ITS; divergence: DTOL; indefinite-operator, negative-definite: INDEFINITE_MAT;
//                         indefinite-preconditioner: INDEFINITE_PC; not-finite: NANORINF (PC_FAILED if the PC says
//                         so); inconsistent: NULL; breakdown, stagnation, underflow: BREAKDOWN
//   KSPSetInitialGuessNonzero, KSPSetInitialGuessKnoll, KSPSetDiagonalScale    as in PETSc
//   MatSetNullSpace       cg, fcg, minres: as Solver::set_null_space(). Others: it is taken out of M^-1 r, as in PETSc
//   KSPBuildSolution, KSPBuildResidual    after a solve; in a monitor with cg, fcg, minres, bicgstab and idr
//   refused               KSPSolveTranspose, KSPSetComputeSingularValues, KSPSetComputeRitz, more than one rank
inline PetscErrorCode KSPRegisterProtean() {
  PetscCall(KSPRegister(KSPPROTEAN, detail::ksp_create));
  return PetscErrorCode(0);
}

// Sets what the options of the command line set, for programs. Wrong names and ranges are an error, and nothing has
// changed then.
inline PetscErrorCode KSPProteanSetOptions(KSP ksp, const Options& options) {
  PetscCall(detail::require_type(ksp));
  return detail::guarded(detail::comm_of(ksp), [&] { detail::set_options(ksp, options); });
}

// The report of the last solve; it is valid until the next one, or KSPDestroy().
inline PetscErrorCode KSPProteanGetReport(KSP ksp, const protean::SolveReport** report) {
  PetscCall(detail::require_type(ksp));
  *report = &detail::data_of(ksp).report;
  return PetscErrorCode(0);
}

// The operator that solves use, null before KSPSetUp(): its format, bytes, products.
inline PetscErrorCode KSPProteanGetOperator(KSP ksp, const protean::LinearOperator<double>** A) {
  PetscCall(detail::require_type(ksp));
  return detail::guarded(detail::comm_of(ksp), [&] {
    Mat mat = nullptr;
    detail::must(PCGetOperators(ksp->pc, &mat, nullptr));
    const detail::Matrix* matrix = mat ? detail::matrix_in(mat) : nullptr;
    if (!matrix) matrix = detail::data_of(ksp).matrix.get();
    *A = matrix ? &matrix->get() : nullptr;
  });
}

}  // namespace protean_petsc

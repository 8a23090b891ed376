// How a KSP ends: tolerances, monitors, reasons, errors, and systems that are special.
#include "petsc_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace petsc_check {
namespace {

PetscErrorCode never(KSP, PetscInt iteration, PetscReal, KSPConvergedReason* reason, void* count) {
  ++*static_cast<int*>(count);
  *reason = iteration == 7 ? KSP_CONVERGED_STEP_LENGTH : KSP_CONVERGED_ITERATING;
  return PetscErrorCode(0);
}

}  // namespace

void tolerances() {
  Problem s(20);
  s.ours("cg");
  const double size = norm(s.b);
  ok(KSPSetTolerances(s.ksp, 1e-4, 1e-50, 1e5, 500));
  expect(s.solve() == KSP_CONVERGED_RTOL && s.residual() <= 1e-4 * size && s.residual() > 1e-7 * size,
         "rtol");
  ok(KSPSetTolerances(s.ksp, 1e-12, 1e-2, 1e5, 500));
  expect(s.solve() == KSP_CONVERGED_ATOL && s.residual() <= 1e-2 && s.residual() > 1e-6, "abstol");
  ok(KSPSetTolerances(s.ksp, 1e-12, 1e-50, 1e5, 3));
  expect(s.solve() == KSP_DIVERGED_ITS && s.iterations() == 3 &&
             s.report().reason == protean::StopReason::max_iterations,
         "maxits");
  ok(KSPConvergedDefaultSetConvergedMaxits(s.ksp, PETSC_TRUE));
  expect(s.solve() == KSP_CONVERGED_ITS && s.iterations() == 3, "KSPConvergedDefaultSetConvergedMaxits()");

  // A guess that is nearly right: relative to b no iteration is needed, relative to the first residual some are.
  Problem g(20);
  g.ours("cg");
  ok(KSPSetTolerances(g.ksp, 1e-6, 1e-50, 1e5, 500));
  ok(g.solve() > 0 ? PetscErrorCode(0) : PETSC_ERR_LIB);
  const double first = g.residual();
  ok(KSPSetInitialGuessNonzero(g.ksp, PETSC_TRUE));
  expect(g.solve() == KSP_CONVERGED_RTOL && g.iterations() == 0 && g.residual() == first,
         "KSPSetInitialGuessNonzero() begins at x");
  ok(KSPConvergedDefaultSetUIRNorm(g.ksp));
  ok(KSPSetTolerances(g.ksp, 1e-2, 1e-50, 1e5, 500));
  expect(g.solve() > 0 && g.iterations() > 0 && g.residual() <= 1e-2 * first,
         "KSPConvergedDefaultSetUIRNorm()");
  const double second = g.residual();
  Problem m(20);
  m.ours("cg");
  ok(VecCopy(g.x, m.x));
  ok(KSPConvergedDefaultSetUMIRNorm(m.ksp)), ok(KSPSetInitialGuessNonzero(m.ksp, PETSC_TRUE));
  ok(KSPSetTolerances(m.ksp, 1e-2, 1e-50, 1e5, 500));
  expect(m.solve() == KSP_CONVERGED_RTOL && m.iterations() > 0 && m.residual() <= 1e-2 * second,
         "KSPConvergedDefaultSetUMIRNorm()");
  ok(KSPSetInitialGuessNonzero(g.ksp, PETSC_FALSE)), ok(VecSet(g.x, 1e10));
  expect(g.solve() > 0 && g.residual() <= 1e-2 * norm(g.b), "without it the old x is no guess");

  Problem k(20);
  k.ours("cg", PCJACOBI);
  ok(KSPSetTolerances(k.ksp, 1e-2, 1e-50, 1e5, 40));
  ok(KSPSetNormType(k.ksp, KSP_NORM_NONE));
  expect(k.solve() == KSP_CONVERGED_ITS && k.iterations() == 40, "KSP_NORM_NONE does maxits iterations");
  ok(KSPSetNormType(k.ksp, KSP_NORM_UNPRECONDITIONED));
  int count = 0;
  ok(KSPSetConvergenceTest(k.ksp, never, &count, nullptr));
  expect(k.solve() == KSP_CONVERGED_STEP_LENGTH && k.iterations() == 7 && count == 8,
         "a convergence test of the program");
  ok(KSPSetConvergenceTest(k.ksp, KSPConvergedSkip, nullptr, nullptr));
  expect(k.solve() == KSP_CONVERGED_ITS && k.iterations() == 40, "KSPConvergedSkip()");

  for (const KSPNormType norm_type : {KSP_NORM_NATURAL, KSP_NORM_PRECONDITIONED}) {
    Problem p(6);
    p.ours("cg");
    ok(KSPSetNormType(p.ksp, norm_type));
    expect_error([&] { return KSPSolve(p.ksp, p.b, p.x); }, PETSC_ERR_SUP, KSPNormTypes[norm_type],
                 "a norm that the KSP does not have");
  }
  Problem left(6);
  left.ours("cg"), ok(KSPSetPCSide(left.ksp, PC_LEFT));
  expect(left.solve() > 0, "cg with PC_LEFT");
  Problem wrong(6);
  wrong.ours("gmres"), ok(KSPSetPCSide(wrong.ksp, PC_LEFT));
  expect_error([&] { return KSPSolve(wrong.ksp, wrong.b, wrong.x); }, PETSC_ERR_SUP, "right-preconditioned",
               "gmres with PC_LEFT");
}

namespace {
struct Watched {
  std::vector<PetscInt> iterations;
  std::vector<double> norms;
  bool look = false;   // at b - A x
  double largest = 0;  // difference between its norm and the one that the monitor is told, relative to b
  double scale = 1;
  int fail_at = -1;
};
PetscErrorCode watch(KSP ksp, PetscInt iteration, PetscReal rnorm, void* data) {
  auto& seen = *static_cast<Watched*>(data);
  seen.iterations.push_back(iteration), seen.norms.push_back(rnorm);
  if (iteration == seen.fail_at) SETERRQ(PETSC_COMM_SELF, PETSC_ERR_USER, "the monitor has had enough");
  if (seen.look) {
    Vec r = nullptr;
    double value = 0;
    PetscCall(KSPBuildResidual(ksp, nullptr, nullptr, &r));
    PetscCall(VecNorm(r, NORM_2, &value));
    PetscCall(VecDestroy(&r));
    seen.largest = std::max(seen.largest, std::abs(value - rnorm) / seen.scale);
  }
  return PetscErrorCode(0);
}

}  // namespace

void monitors() {
  for (const char* method : {"cg", "fcg", "minres", "bicgstab", "idr", "gmres", "fgmres", "bicgstab2"}) {
    Problem s(16);
    s.ours(method, PCJACOBI);
    Watched seen;
    ok(KSPMonitorSet(s.ksp, watch, &seen, nullptr));
    std::vector<double> history(3000, -1);
    ok(KSPSetResidualHistory(s.ksp, history.data(), static_cast<PetscInt>(history.size()), PETSC_TRUE));
    bool good = s.solve() > 0;
    PetscInt kept = 0;
    ok(KSPGetResidualHistory(s.ksp, nullptr, &kept));
    good = good && static_cast<PetscInt>(seen.iterations.size()) == s.iterations() + 1 &&
           kept == s.iterations() + 1;
    for (std::size_t k = 0; k < seen.iterations.size(); ++k)
      good = good && seen.iterations[k] == static_cast<PetscInt>(k) && seen.norms[k] == history[k];
    good = good && std::abs(seen.norms.front() - norm(s.b)) <= 1e-12 * norm(s.b) &&
           seen.norms.back() <= 1.01e-10 * norm(s.b);
    expect(good, std::string("a monitor of ") + method + " is called in each of " +
                     std::to_string(s.iterations()) + " iterations");
    // b - A x in a monitor: of x itself, or refused.
    const bool has_x = std::string(method) != "gmres" && std::string(method) != "fgmres" &&
                       std::string(method) != "bicgstab2";
    seen = {}, seen.look = true, seen.scale = norm(s.b);
    if (has_x) {
      good = s.solve() > 0;
      char text[100];
      std::snprintf(text, sizeof text, "KSPBuildResidual() in a monitor of %s: %.1e apart", method,
                    seen.largest);
      expect(good && seen.largest < 1e-9 && seen.iterations.size() > 5, text);
    } else {
      expect_error([&] { return KSPSolve(s.ksp, s.b, s.x); }, PETSC_ERR_SUP,
                   "has no x between two iterations", method);
    }
  }
  // After a solve it is there for all.
  Problem s(10, 0.3);
  s.ours("gmres", PCILU);
  ok(s.solve() > 0 ? PetscErrorCode(0) : PETSC_ERR_LIB);
  Vec r = nullptr, same = nullptr;
  ok(KSPBuildResidual(s.ksp, nullptr, nullptr, &r)), ok(KSPBuildSolution(s.ksp, nullptr, &same));
  expect(std::abs(norm(r) - s.residual()) <= 1e-13 * norm(s.b) && same == s.x,
         "KSPBuildResidual() after a solve");
  ok(VecDestroy(&r));
  protean_petsc::Options ordered;
  ordered.method = "cg", ordered.matrix.order = "rcm";
  Problem o(10);
  o.ours(ordered);
  Watched seen;
  seen.look = true;
  ok(KSPMonitorSet(o.ksp, watch, &seen, nullptr));
  expect_error([&] { return KSPSolve(o.ksp, o.b, o.x); }, PETSC_ERR_SUP, "has no x between two iterations",
               "KSPBuildResidual() in another order");

  // An error of a monitor is the error of the solve, and the KSP can be used again.
  Problem e(10);
  e.ours("cg");
  Watched failing;
  failing.fail_at = 3;
  ok(KSPMonitorSet(e.ksp, watch, &failing, nullptr));
  expect_error([&] { return KSPSolve(e.ksp, e.b, e.x); }, PETSC_ERR_USER, "the monitor has had enough",
               "an error of a monitor");
  expect(failing.iterations.size() == 4, "the solve ended there");
  failing.fail_at = -1;
  expect(e.solve() > 0, "and again");

  // Whatever a function of the program throws is an error of PETSc, too.
  const auto number = [](KSP, PetscInt iteration, PetscReal, void*) {
    if (iteration == 3) throw 42;
    return PetscErrorCode(0);
  };
  const auto text = [](KSP, PetscInt iteration, PetscReal, void*) {
    if (iteration == 3) throw std::runtime_error("the monitor throws");
    return PetscErrorCode(0);
  };
  const auto test = [](KSP, PetscInt iteration, PetscReal, KSPConvergedReason* reason, void*) {
    if (iteration == 3) throw "a text";
    *reason = KSP_CONVERGED_ITERATING;
    return PetscErrorCode(0);
  };
  const auto product = [](Mat, Vec, Vec) -> PetscErrorCode { throw 42; };
  Problem t(10);
  t.ours("cg");
  ok(KSPMonitorSet(t.ksp, number, nullptr, nullptr));
  expect_error([&] { return KSPSolve(t.ksp, t.b, t.x); }, PETSC_ERR_LIB, "not a std::exception",
               "a monitor that throws a number");
  ok(KSPMonitorCancel(t.ksp)), ok(KSPMonitorSet(t.ksp, text, nullptr, nullptr));
  expect_error([&] { return KSPSolve(t.ksp, t.b, t.x); }, PETSC_ERR_LIB, "the monitor throws",
               "a monitor that throws an exception");
  Problem c(10);
  c.ours("cg");
  ok(KSPSetConvergenceTest(c.ksp, test, nullptr, nullptr));
  expect_error([&] { return KSPSolve(c.ksp, c.b, c.x); }, PETSC_ERR_LIB, "not a std::exception",
               "a convergence test that throws a text");
  Mat shell = nullptr;
  ok(MatCreateShell(PETSC_COMM_SELF, 9, 9, 9, 9, nullptr, &shell));
  ok(MatShellSetOperation(
      shell, MATOP_MULT,
      reinterpret_cast<void (*)(void)>(static_cast<PetscErrorCode (*)(Mat, Vec, Vec)>(product))));
  Problem m(shell);
  m.ours("cg");
  expect_error([&] { return KSPSolve(m.ksp, m.b, m.x); }, PETSC_ERR_LIB, "not a std::exception",
               "a product that throws a number");
}

namespace {
PetscErrorCode negative(PC, Vec r, Vec z) {
  PetscCall(VecCopy(r, z));
  PetscCall(VecScale(z, -1));
  return PetscErrorCode(0);
}
PetscErrorCode refuses(PC, Vec, Vec) { SETERRQ(PETSC_COMM_SELF, PETSC_ERR_USER, "the PC does not want to"); }

// The diagonal matrix with these entries.
Mat diagonal(const std::vector<double>& entries) {
  Mat A = nullptr;
  const auto n = static_cast<PetscInt>(entries.size());
  ok(MatCreateSeqAIJ(PETSC_COMM_SELF, n, n, 2, nullptr, &A));
  for (PetscInt i = 0; i < n; ++i)
    ok(MatSetValue(A, i, i, entries[static_cast<std::size_t>(i)], INSERT_VALUES));
  ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  return A;
}

}  // namespace

// Before all other errors: PETSc counts how deep solves are nested, and an error leaves that count one too high.
void error_if_not_converged() {
  Problem s(10);
  s.ours("cg");
  ok(KSPSetTolerances(s.ksp, 1e-12, 1e-50, 1e5, 2)), ok(KSPSetErrorIfNotConverged(s.ksp, PETSC_TRUE));
  expect_error([&] { return KSPSolve(s.ksp, s.b, s.x); }, PETSC_ERR_NOT_CONVERGED, "DIVERGED_ITS",
               "an error where maxits are not enough");
}

void reasons() {
  {
    Problem s(diagonal({1, -2, 3}));
    s.ours("cg");
    expect(s.solve() == KSP_DIVERGED_INDEFINITE_MAT &&
               s.report().reason == protean::StopReason::indefinite_operator,
           "cg with an indefinite matrix");
    s.ours("minres");
    expect(s.solve() > 0 && s.residual() <= 1.01e-10 * norm(s.b), "minres with an indefinite matrix");
  }
  {
    Problem s(diagonal({-1, -2, -3}));
    s.ours("cg");
    expect(s.solve() == KSP_DIVERGED_INDEFINITE_MAT &&
               s.report().reason == protean::StopReason::negative_definite,
           "cg with a negative definite matrix");
  }
  {
    Problem s(5);
    s.ours("cg", PCSHELL);
    ok(PCShellSetApply(s.pc(), negative));
    expect(s.solve() == KSP_DIVERGED_INDEFINITE_PC, "a negative PC");
    ok(PCShellSetApply(s.pc(), refuses));
    expect_error([&] { return KSPSolve(s.ksp, s.b, s.x); }, PETSC_ERR_USER, "the PC does not want to",
                 "an error of a PC");
    ok(PCSetType(s.pc(), PCJACOBI));
    expect(s.solve() > 0, "the KSP works after it");
  }
  {
    Problem s(5);
    s.ours("gmres");
    ok(VecSetValue(s.b, 2, NAN, INSERT_VALUES)), ok(VecAssemblyBegin(s.b)), ok(VecAssemblyEnd(s.b));
    expect(s.solve() == KSP_DIVERGED_NANORINF, "NaN in b");
  }
  {
    Problem s(5);
    s.ours("cg");
    ok(VecSet(s.b, 0)), ok(VecSet(s.x, 3)), ok(KSPSetInitialGuessNonzero(s.ksp, PETSC_TRUE));
    expect(s.solve() == KSP_CONVERGED_ATOL && norm(s.x) == 0 && s.iterations() == 0 && s.told() == 0,
           "b = 0");
  }
  {
    // A zero pivot that ilu(0) does not mend.
    Mat A = nullptr;
    ok(MatCreateSeqAIJ(PETSC_COMM_SELF, 2, 2, 2, nullptr, &A));
    for (PetscInt i = 0; i < 2; ++i)
      for (PetscInt j = 0; j < 2; ++j) ok(MatSetValue(A, i, j, i == j ? 0 : 1, INSERT_VALUES));
    ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
    Problem s(A);
    s.ours("gmres", PCILU);
    ok(PCFactorSetShiftType(s.pc(), MAT_SHIFT_NONE));
    expect(s.solve() == KSP_DIVERGED_PC_FAILED && s.iterations() == 0, "a PC whose setup fails");
    ok(KSPSetErrorIfNotConverged(s.ksp, PETSC_TRUE));
    expect_error([&] { return KSPSolve(s.ksp, s.b, s.x); }, PETSC_ERR_NOT_CONVERGED, "PC_FAILED",
                 "KSPSetErrorIfNotConverged()");
  }
  {
    Problem s(5);
    s.ours("gmres");
    expect_error([&] { return KSPSolveTranspose(s.ksp, s.b, s.x); }, PETSC_ERR_SUP, "transpose",
                 "KSPSolveTranspose()");
    Problem t(5);
    t.ours("cg");
    ok(KSPSetComputeSingularValues(t.ksp, PETSC_TRUE));
    expect_error([&] { return KSPSolve(t.ksp, t.b, t.x); }, PETSC_ERR_SUP, "no singular values",
                 "singular values");
    Problem u(5);
    ok(KSPSetType(u.ksp, KSPCG));
    expect_error([&] { return protean_petsc::KSPProteanSetOptions(u.ksp, {}); }, PETSC_ERR_ARG_WRONG,
                 "not of type protean", "options for another KSP");
  }
  {
    Mat A = nullptr;
    ok(MatCreateSeqAIJ(PETSC_COMM_SELF, 3, 4, 1, nullptr, &A));
    ok(MatSetValue(A, 0, 0, 1, INSERT_VALUES));
    ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
    KSP ksp = nullptr;
    Vec x = nullptr, b = nullptr;
    ok(MatCreateVecs(A, &x, &b)), ok(KSPCreate(PETSC_COMM_SELF, &ksp));
    ok(KSPSetOperators(ksp, A, A)), ok(KSPSetType(ksp, protean_petsc::KSPPROTEAN));
    PC pc = nullptr;
    ok(KSPGetPC(ksp, &pc)), ok(PCSetType(pc, PCNONE));
    expect_error([&] { return KSPSolve(ksp, b, x); }, PETSC_ERR_ARG_SIZ, "3 x 4", "a matrix of 3 x 4");
    ok(KSPDestroy(&ksp)), ok(MatDestroy(&A)), ok(VecDestroy(&x)), ok(VecDestroy(&b));
  }
}

void special_systems() {
  {
    Mat A = nullptr;
    ok(MatCreateSeqAIJ(PETSC_COMM_SELF, 0, 0, 0, nullptr, &A));
    ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
    Problem s(A);
    s.ours("cg", PCJACOBI);
    expect(s.solve() > 0 && s.iterations() == 0, "a system without rows");
    Mat B = nullptr;
    ok(protean_petsc::MatCreateProtean(A, &B, {.format = "sell-packed"}));
    ok(MatMult(B, s.x, s.b)), ok(MatDestroy(&B));
  }
  {
    // Rows without entries: nothing but b = 0 has a solution there.
    Mat A = nullptr;
    ok(MatCreateSeqAIJ(PETSC_COMM_SELF, 60, 60, 2, nullptr, &A));
    for (PetscInt i = 0; i < 60; ++i)
      if (i % 7 != 3) ok(MatSetValue(A, i, i, 2 + i, INSERT_VALUES));
    ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
    Problem s(A);
    for (PetscInt i = 3; i < 60; i += 7) ok(VecSetValue(s.b, i, 0, INSERT_VALUES));
    ok(VecAssemblyBegin(s.b)), ok(VecAssemblyEnd(s.b));
    for (PCType pc : {PCNONE, PCJACOBI}) {
      s.ours("cg", pc);
      expect(s.solve() > 0 && s.residual() <= 1.01e-10 * norm(s.b),
             std::string("rows without entries, ") + pc);
    }
    protean_petsc::Options packed;
    packed.method = "cg", packed.matrix.format = "sell-packed";
    s.ours(packed, PCJACOBI);
    expect(s.solve() > 0 && s.residual() <= 1.01e-10 * norm(s.b), "rows without entries in sell-packed");
  }
  {
    // -u'' with Neumann conditions: constant vectors are the null space.
    const PetscInt n = 80;
    Mat A = nullptr;
    ok(MatCreateSeqAIJ(PETSC_COMM_SELF, n, n, 3, nullptr, &A));
    for (PetscInt i = 0; i < n; ++i) {
      if (i > 0) ok(MatSetValue(A, i, i - 1, -1, INSERT_VALUES));
      if (i + 1 < n) ok(MatSetValue(A, i, i + 1, -1, INSERT_VALUES));
      ok(MatSetValue(A, i, i, i == 0 || i + 1 == n ? 1 : 2, INSERT_VALUES));
    }
    ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
    Problem s(A);
    MatNullSpace constant = nullptr;
    ok(MatNullSpaceCreate(PETSC_COMM_SELF, PETSC_TRUE, 0, nullptr, &constant));
    ok(MatNullSpaceRemove(constant, s.b));
    ok(MatSetNullSpace(A, constant));
    for (const auto& [method, pc] : {std::pair{"cg", PCNONE},
                                     {"cg", PCJACOBI},
                                     {"minres", PCNONE},
                                     {"gmres", PCNONE},
                                     {"gmres", PCSOR}}) {
      s.ours(method, pc);
      double sum = 0;
      const bool good = s.solve() > 0;
      ok(VecSum(s.x, &sum));
      char text[120];
      std::snprintf(text, sizeof text, "a null space, %s with %s: sum of x %.1e, %d iterations", method, pc,
                    sum, static_cast<int>(s.iterations()));
      expect(good && s.residual() <= 1.01e-10 * norm(s.b) && std::abs(sum) < 1e-6 * norm(s.x), text);
    }
    ok(VecShift(s.b, 0.5));
    s.ours("cg");
    expect(s.solve() == KSP_DIVERGED_NULL && s.report().reason == protean::StopReason::inconsistent,
           "b outside of the range");
    ok(MatNullSpaceDestroy(&constant));
  }
}

}  // namespace petsc_check

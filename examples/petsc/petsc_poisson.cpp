// A program of PETSc's with the solvers of Protean: -laplace u = f in a square by finite differences, as in tutorial
// ex2 of its KSP. One line registers the type "protean"; the rest are PETSc's calls and options:
//
//   petsc_poisson -ksp_type protean -ksp_protean_method cg -pc_type icc -ksp_monitor -ksp_view
//   petsc_poisson -ksp_type cg -pc_type icc                                      PETSc's own
//   petsc_poisson -ksp_type protean -ksp_protean_format sell-packed -ksp_protean_order rcm
//
// Without options the system is solved four times: by PETSc's cg, by our cg on PETSc's arrays, by our cg in another
// format with new values of the matrix, and by PETSc's cg with our products.
//
// usage: petsc_poisson [-n points along a side] [options of PETSc]
#include <cmath>
#include <cstdio>
#include <string>

#include <protean/petsc/protean_ksp.hpp>

namespace {

constexpr char help[] = "A Poisson problem by PETSc's KSP with the solvers of Protean.\n\n";

// The five-point matrix times `factor`, on n x n points.
PetscErrorCode fill(Mat A, PetscInt n, double factor) {
  for (PetscInt row = 0; row < n * n; ++row) {
    const PetscInt i = row / n, j = row % n;
    PetscInt cols[5], count = 0;
    double values[5];
    const auto add = [&](bool inside, PetscInt col, double value) {
      if (inside) cols[count] = col, values[count++] = factor * value;
    };
    add(i > 0, row - n, -1), add(j > 0, row - 1, -1), add(true, row, 4);
    add(j + 1 < n, row + 1, -1), add(i + 1 < n, row + n, -1);
    PetscCall(MatSetValues(A, 1, &row, count, cols, values, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  return PetscErrorCode(0);
}

struct System {
  Mat A = nullptr;
  Vec x = nullptr, b = nullptr, exact = nullptr;
};

// Solves, prints one line and returns whether the solution is right.
PetscErrorCode solve(const char* what, KSP ksp, System& s, bool& good) {
  PetscCall(KSPSolve(ksp, s.b, s.x));
  PetscInt iterations = 0;
  KSPConvergedReason reason = KSP_CONVERGED_ITERATING;
  double error = 0, size = 0;
  PetscCall(KSPGetIterationNumber(ksp, &iterations));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(VecAXPY(s.x, -1, s.exact));
  PetscCall(VecNorm(s.x, NORM_2, &error));
  PetscCall(VecNorm(s.exact, NORM_2, &size));
  std::printf("%-44s %4d iterations, %s, relative error %.1e\n", what, static_cast<int>(iterations),
              KSPConvergedReasons[reason], error / size);
  good = good && reason > 0 && error <= 1e-6 * size;
  return PetscErrorCode(0);
}

PetscErrorCode run(bool& good) {
  PetscCall(protean_petsc::KSPRegisterProtean());  // the line that is added
  PetscInt n = 40;
  PetscCall(PetscOptionsGetInt(nullptr, nullptr, "-n", &n, nullptr));
  System s;
  PetscCall(MatCreate(PETSC_COMM_WORLD, &s.A));
  PetscCall(MatSetSizes(s.A, PETSC_DECIDE, PETSC_DECIDE, n * n, n * n));
  PetscCall(MatSetFromOptions(s.A));
  PetscCall(MatSeqAIJSetPreallocation(s.A, 5, nullptr));
  PetscCall(MatSetUp(s.A));
  PetscCall(fill(s.A, n, 1));
  PetscCall(MatCreateVecs(s.A, &s.x, &s.b));
  PetscCall(VecDuplicate(s.x, &s.exact));
  for (PetscInt k = 0; k < n * n; ++k)
    PetscCall(VecSetValue(s.exact, k, 1 + std::sin(0.1 * k), INSERT_VALUES));
  PetscCall(VecAssemblyBegin(s.exact));
  PetscCall(VecAssemblyEnd(s.exact));
  PetscCall(MatMult(s.A, s.exact, s.b));

  KSP ksp = nullptr;
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, s.A, s.A));
  PetscCall(KSPSetTolerances(ksp, 1e-10, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscBool chosen = PETSC_FALSE;
  PetscCall(PetscOptionsHasName(nullptr, nullptr, "-ksp_type", &chosen));
  PC pc = nullptr;
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCICC));
  if (chosen) {
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(solve("as the options say", ksp, s, good));
  } else {
    PetscCall(KSPSetType(ksp, KSPCG));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(solve("PETSc's cg", ksp, s, good));

    PetscCall(KSPSetType(ksp, protean_petsc::KSPPROTEAN));
    protean_petsc::Options options;
    options.method = "cg";
    PetscCall(protean_petsc::KSPProteanSetOptions(ksp, options));
    PetscCall(solve("protean, cg on PETSc's arrays", ksp, s, good));

    options.matrix.format = "sell-packed";
    PetscCall(protean_petsc::KSPProteanSetOptions(ksp, options));
    PetscCall(fill(s.A, n, 2));  // new values: the KSP notices
    PetscCall(MatMult(s.A, s.exact, s.b));
    PetscCall(solve("protean, cg in sell-packed, new values", ksp, s, good));

    Mat B = nullptr;
    PetscCall(protean_petsc::MatCreateProtean(s.A, &B, {.format = "sell-packed"}));
    PetscCall(KSPSetType(ksp, KSPCG));
    PetscCall(KSPSetOperators(ksp, B, s.A));  // products by B; the factors of icc are made of A
    PetscCall(solve("PETSc's cg with products in sell-packed", ksp, s, good));
    PetscCall(KSPDestroy(&ksp));
    PetscCall(MatDestroy(&B));
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(MatDestroy(&s.A));
  PetscCall(VecDestroy(&s.x));
  PetscCall(VecDestroy(&s.b));
  PetscCall(VecDestroy(&s.exact));
  return PetscErrorCode(0);
}

}  // namespace

int main(int argc, char** argv) {
  PetscCall(PetscInitialize(&argc, &argv, nullptr, help));
  bool good = true;
  PetscCall(run(good));
  PetscCall(PetscFinalize());
  return good ? 0 : 1;
}

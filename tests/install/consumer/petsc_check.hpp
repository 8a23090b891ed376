// What the checks of interfaces/petsc/protean_ksp.hpp share: calls of PETSc that have to succeed or to fail, matrices
// with a KSP, and lines that say what was found.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include <protean/petsc/protean_ksp.hpp>

namespace petsc_check {

inline int failures = 0;
inline void expect(bool good, const std::string& what) {
  std::printf("%s: %s\n", good ? "ok" : "FAILED", what.c_str());
  failures += good ? 0 : 1;
}
// For calls that the check needs.
inline void ok(PetscErrorCode code) {
  if (!code) return;
  std::printf("FAILED: PETSc's error %d\n", static_cast<int>(code));
  std::exit(1);
}

inline std::string caught;
inline PetscErrorCode catch_error(MPI_Comm, int, const char*, const char*, PetscErrorCode code,
                                  PetscErrorType, const char* message, void*) {
  if (message) caught += message;
  return code;
}
// The action ends with an error of PETSc whose text has this part.
inline void expect_error(const std::function<PetscErrorCode()>& action, PetscErrorCode code,
                         const std::string& part, const char* what) {
  caught.clear();
  ok(PetscPushErrorHandler(catch_error, nullptr));
  const PetscErrorCode got = action();
  ok(PetscPopErrorHandler());
  expect(got == code && caught.find(part) != std::string::npos,
         std::string(what) + ": " + std::to_string(static_cast<int>(got)) + ", " + caught);
}

// n x n points; skew: how far from symmetric. -u'' by five points with convection.
inline void fill(Mat A, PetscInt n, double skew, double factor = 1) {
  for (PetscInt row = 0; row < n * n; ++row) {
    const PetscInt i = row / n, j = row % n;
    const auto add = [&](bool inside, PetscInt col, double value) {
      if (inside) ok(MatSetValue(A, row, col, factor * value, INSERT_VALUES));
    };
    add(i > 0, row - n, -1 - skew), add(j > 0, row - 1, -1 - skew / 2), add(true, row, 4 + 0.01 * (row % 5));
    add(j + 1 < n, row + 1, -1 + skew / 2), add(i + 1 < n, row + n, -1 + skew);
  }
  ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
}

inline double norm(Vec v) {
  double value = 0;
  ok(VecNorm(v, NORM_2, &value));
  return value;
}
inline void sample(Vec v, double phase = 1) {
  PetscInt n = 0;
  ok(VecGetSize(v, &n));
  for (PetscInt i = 0; i < n; ++i) ok(VecSetValue(v, i, std::sin(0.37 * i + phase), INSERT_VALUES));
  ok(VecAssemblyBegin(v)), ok(VecAssemblyEnd(v));
}
// ||a - b|| / ||b||
inline double difference(Vec a, Vec b) {
  Vec gap = nullptr;
  ok(VecDuplicate(a, &gap));
  ok(VecWAXPY(gap, -1, a, b));
  const double value = norm(gap) / std::max(norm(b), 1e-300);
  ok(VecDestroy(&gap));
  return value;
}

// A matrix of type seqaij with a KSP, and vectors.
struct Problem {
  Mat A = nullptr;
  Vec x = nullptr, b = nullptr;
  KSP ksp = nullptr;

  explicit Problem(PetscInt n, double skew = 0) {
    ok(MatCreateSeqAIJ(PETSC_COMM_SELF, n * n, n * n, 5, nullptr, &A));
    fill(A, n, skew);
    prepare();
  }
  explicit Problem(Mat given) : A(given) { prepare(); }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
  ~Problem() { ok(KSPDestroy(&ksp)), ok(MatDestroy(&A)), ok(VecDestroy(&x)), ok(VecDestroy(&b)); }
  void prepare() {
    ok(MatCreateVecs(A, &x, &b));
    sample(b);
    ok(KSPCreate(PETSC_COMM_SELF, &ksp));
    ok(KSPSetOperators(ksp, A, A));
    ok(KSPSetTolerances(ksp, 1e-10, PETSC_DEFAULT, PETSC_DEFAULT, 2000));
  }
  PC pc() const {
    PC found = nullptr;
    ok(KSPGetPC(ksp, &found));
    return found;
  }
  void ours(const protean_petsc::Options& options, PCType type = PCNONE) {
    ok(KSPSetType(ksp, protean_petsc::KSPPROTEAN));
    ok(protean_petsc::KSPProteanSetOptions(ksp, options));
    ok(PCSetType(pc(), type));
  }
  void ours(const char* method, PCType type = PCNONE) {
    protean_petsc::Options options;
    options.method = method;
    ours(options, type);
  }
  KSPConvergedReason solve() {
    ok(KSPSolve(ksp, b, x));
    KSPConvergedReason reason = KSP_CONVERGED_ITERATING;
    ok(KSPGetConvergedReason(ksp, &reason));
    return reason;
  }
  PetscInt iterations() const {
    PetscInt count = 0;
    ok(KSPGetIterationNumber(ksp, &count));
    return count;
  }
  double told() const {
    double value = 0;
    ok(KSPGetResidualNorm(ksp, &value));
    return value;
  }
  // ||b - A x|| by PETSc
  double residual() const {
    Vec r = nullptr;
    ok(VecDuplicate(b, &r));
    ok(MatMult(A, x, r));
    ok(VecAYPX(r, -1, b));
    const double value = norm(r);
    ok(VecDestroy(&r));
    return value;
  }
  const protean::LinearOperator<double>* matrix() const {
    const protean::LinearOperator<double>* found = nullptr;
    ok(protean_petsc::KSPProteanGetOperator(ksp, &found));
    return found;
  }
  const protean::SolveReport& report() const {
    const protean::SolveReport* found = nullptr;
    ok(protean_petsc::KSPProteanGetReport(ksp, &found));
    return *found;
  }
};

// The checks, of petsc_solves.cpp and petsc_ends.cpp.
void shells();
void beside_petsc();
void as_in_cpp();
void formats_and_orders();
void tolerances();
void monitors();
void error_if_not_converged();
void reasons();
void special_systems();

}  // namespace petsc_check

// Compares interfaces/petsc/protean_ksp.hpp with the products and solvers of PETSc, using the installed package.
//   petsc_check          on one rank
//   petsc_check ranks    on two: the KSP is refused, and solves the blocks of block Jacobi
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <protean/petsc/protean_ksp.hpp>

namespace {

int failures = 0;
void expect(bool good, const std::string& what) {
  std::printf("%s: %s\n", good ? "ok" : "FAILED", what.c_str());
  failures += good ? 0 : 1;
}
// For calls that the check needs.
void ok(PetscErrorCode code) {
  if (!code) return;
  std::printf("FAILED: PETSc's error %d\n", static_cast<int>(code));
  std::exit(1);
}

std::string caught;
PetscErrorCode catch_error(MPI_Comm, int, const char*, const char*, PetscErrorCode code, PetscErrorType,
                           const char* message, void*) {
  if (message) caught += message;
  return code;
}
// The action ends with an error of PETSc whose text has this part.
void expect_error(const std::function<PetscErrorCode()>& action, PetscErrorCode code, const std::string& part,
                  const char* what) {
  caught.clear();
  ok(PetscPushErrorHandler(catch_error, nullptr));
  const PetscErrorCode got = action();
  ok(PetscPopErrorHandler());
  expect(got == code && caught.find(part) != std::string::npos,
         std::string(what) + ": " + std::to_string(static_cast<int>(got)) + ", " + caught);
}

// n x n points; skew: how far from symmetric. -u'' by five points with convection.
void fill(Mat A, PetscInt n, double skew, double factor = 1) {
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

double norm(Vec v) {
  double value = 0;
  ok(VecNorm(v, NORM_2, &value));
  return value;
}
void sample(Vec v, double phase = 1) {
  PetscInt n = 0;
  ok(VecGetSize(v, &n));
  for (PetscInt i = 0; i < n; ++i) ok(VecSetValue(v, i, std::sin(0.37 * i + phase), INSERT_VALUES));
  ok(VecAssemblyBegin(v)), ok(VecAssemblyEnd(v));
}
// ||a - b|| / ||b||
double difference(Vec a, Vec b) {
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

// y, z and d of a shell are those of A.
bool same_products(Mat A, Mat B) {
  Vec x = nullptr, y = nullptr, expected = nullptr, got = nullptr;
  ok(MatCreateVecs(A, &x, &y));
  ok(VecDuplicate(y, &expected)), ok(VecDuplicate(y, &got));
  sample(x), sample(y, 2);
  ok(MatMult(A, x, expected)), ok(MatMult(B, x, got));
  bool good = difference(got, expected) < 1e-14;
  ok(MatMultAdd(A, x, y, expected)), ok(MatMultAdd(B, x, y, got));
  good = good && difference(got, expected) < 1e-14;
  ok(VecCopy(y, got)), ok(MatMultAdd(B, x, got, got));
  good = good && difference(got, expected) < 1e-14;
  ok(MatGetDiagonal(A, expected)), ok(MatGetDiagonal(B, got));
  good = good && difference(got, expected) == 0;
  ok(VecDestroy(&x)), ok(VecDestroy(&y)), ok(VecDestroy(&expected)), ok(VecDestroy(&got));
  return good;
}

void shells() {
  Problem s(9, 0.3);
  const double* values = nullptr;
  ok(MatSeqAIJGetArrayRead(s.A, &values));
  const double* const place = values;
  ok(MatSeqAIJRestoreArrayRead(s.A, &values));
  int made = 0;
  for (const protean::FormatEntry* entry : protean::catalogue()) {
    Mat B = nullptr;
    caught.clear();
    ok(PetscPushErrorHandler(catch_error, nullptr));
    const PetscErrorCode code = protean_petsc::MatCreateProtean(s.A, &B, {.format = std::string(entry->id)});
    ok(PetscPopErrorHandler());
    if (code) {
      // A format may refuse the matrix, with its reason; nothing else may happen.
      if (code != PETSC_ERR_SUP || caught.empty()) expect(false, std::string(entry->id) + ": " + caught);
      continue;
    }
    ++made;
    const auto* matrix =
        dynamic_cast<const protean::AssembledMatrix<double>*>(protean_petsc::MatProteanGetOperator(B));
    const bool named = matrix && matrix->name() == entry->id;
    const bool exact = entry->traits.exact_values;
    if (entry->id == "csr")
      expect(matrix && matrix->to_csr().values == place, "a shell in format csr computes on PETSc's arrays");
    if (!named || (exact && !same_products(s.A, B))) expect(false, "products in " + std::string(entry->id));
    ok(MatDestroy(&B));
  }
  expect(made > 60, std::to_string(made) + " formats have made a Mat with PETSc's products and diagonal");

  Mat B = nullptr;
  ok(protean_petsc::MatCreateProtean(s.A, &B,
                                     {.format = "sell-c-sigma", .parameters = {{"C", "8"}}, .order = "rcm"}));
  expect(same_products(s.A, B), "sell-c-sigma in order rcm");
  fill(s.A, 9, -0.2, 3);
  expect(same_products(s.A, B), "new values of the matrix it was made of");
  ok(MatSetOption(s.A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  ok(MatSetValue(s.A, 3, 70, -0.25, INSERT_VALUES)), ok(MatSetValue(s.A, 60, 1, 0.5, INSERT_VALUES));
  ok(MatAssemblyBegin(s.A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(s.A, MAT_FINAL_ASSEMBLY));
  expect(same_products(s.A, B), "a new pattern of the matrix it was made of");
  expect_error([&] { return MatScale(B, 2); }, PETSC_ERR_SUP, "", "MatScale() of a shell");

  // PETSc's own solvers with our products; the PC is set up from the entries of A.
  for (const char* type : {KSPGMRES, KSPBCGS}) {
    ok(KSPSetOperators(s.ksp, s.A, s.A));
    ok(KSPSetType(s.ksp, type)), ok(PCSetType(s.pc(), PCILU));
    ok(KSPSetTolerances(s.ksp, 1e-12, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
    const bool by_a = s.solve() > 0;
    const PetscInt expected = s.iterations();
    Vec by_petsc = nullptr;
    ok(VecDuplicate(s.x, &by_petsc)), ok(VecCopy(s.x, by_petsc));
    const std::int64_t products = protean_petsc::MatProteanGetOperator(B)->products();
    ok(KSPSetOperators(s.ksp, B, s.A));
    const bool by_b = s.solve() > 0;
    expect(by_a && by_b && std::abs(s.iterations() - expected) <= 1 && difference(s.x, by_petsc) < 1e-9 &&
               protean_petsc::MatProteanGetOperator(B)->products() > products,
           std::string("PETSc's ") + type + " with ilu and products of ours");
    ok(VecDestroy(&by_petsc));
  }
  // Ours with that shell, too: the same operator.
  s.ours("gmres", PCILU);
  expect(s.solve() > 0 && s.matrix() == protean_petsc::MatProteanGetOperator(B) &&
             s.residual() <= 1.01e-12 * norm(s.b),
         "our gmres with a shell");
  protean_petsc::Options twice;
  twice.matrix.format = "sell-packed";
  s.ours(twice);
  expect_error([&] { return KSPSolve(s.ksp, s.b, s.x); }, PETSC_ERR_ARG_OUTOFRANGE, "format sell-c-sigma",
               "a format for a matrix that has one");
  ok(MatDestroy(&B));
  PetscInt references = 0;
  ok(KSPDestroy(&s.ksp));
  ok(PetscObjectGetReference(reinterpret_cast<PetscObject>(s.A), &references));
  expect(references == 1, "MatDestroy() and KSPDestroy() give the matrix back");

  Mat dense = nullptr;
  ok(MatCreateSeqDense(PETSC_COMM_SELF, 3, 3, nullptr, &dense));
  expect_error([&] { return protean_petsc::MatCreateProtean(dense, &B); }, PETSC_ERR_ARG_WRONG,
               "takes a matrix of type seqaij, not seqdense", "a dense matrix");
  ok(MatDestroy(&dense));
  expect_error([&] { return protean_petsc::MatCreateProtean(s.A, &B, {.format = "sel-packed"}); },
               PETSC_ERR_ARG_OUTOFRANGE, "Did you mean", "an unknown format");
  Mat open = nullptr;
  ok(MatCreateSeqAIJ(PETSC_COMM_SELF, 3, 3, 1, nullptr, &open));
  expect_error([&] { return protean_petsc::MatCreateProtean(open, &B); }, PETSC_ERR_ARG_WRONG,
               "not assembled", "a matrix that is not assembled");
  ok(MatDestroy(&open));
}

// The same system by PETSc's method and by ours; both are told to look at the 2-norm of b - A x.
void against(double skew, const char* theirs, const char* method, PCType pc, bool same_count) {
  Problem s(24, skew);
  ok(KSPSetType(s.ksp, theirs)), ok(PCSetType(s.pc(), pc));
  if (std::string(theirs) != KSPMINRES && std::string(theirs) != KSPBCGSL)  // which have no choice
    ok(KSPSetNormType(s.ksp, KSP_NORM_UNPRECONDITIONED));
  if (std::string(theirs) == KSPGMRES || std::string(theirs) == KSPBCGS) ok(KSPSetPCSide(s.ksp, PC_RIGHT));
  const bool good = s.solve() > 0;
  const PetscInt expected = s.iterations();
  Vec by_petsc = nullptr;
  ok(VecDuplicate(s.x, &by_petsc)), ok(VecCopy(s.x, by_petsc));
  ok(KSPSetPCSide(s.ksp, PC_SIDE_DEFAULT)), ok(KSPSetNormType(s.ksp, KSP_NORM_DEFAULT));
  protean_petsc::Options options;
  options.method = method, options.matrix.format = "csr";
  s.ours(options, pc);
  const KSPConvergedReason reason = s.solve();
  const double gap = difference(s.x, by_petsc), residual = s.residual(), size = norm(s.b);
  char text[240];
  std::snprintf(text, sizeof text,
                "%s with %s: %d iterations, PETSc's %s %d, difference %.1e, ||b - A x|| = %.1e", method, pc,
                static_cast<int>(s.iterations()), theirs, static_cast<int>(expected), gap, residual);
  expect(good && reason == KSP_CONVERGED_RTOL && gap < 1e-8 && residual <= 1.01e-10 * size &&
             std::abs(s.told() - residual) <= 1e-13 * size &&
             std::abs(s.iterations() - expected) <= (same_count ? 1 : 3 + expected / 2),
         text);
  const auto* matrix = dynamic_cast<const protean::AssembledMatrix<double>*>(s.matrix());
  const double* values = nullptr;
  ok(MatSeqAIJGetArrayRead(s.A, &values));
  if (!matrix || matrix->to_csr().values != values) expect(false, "a KSP computes on PETSc's arrays");
  ok(MatSeqAIJRestoreArrayRead(s.A, &values));
  ok(VecDestroy(&by_petsc));
}

void beside_petsc() {
  for (PCType pc : {PCNONE, PCJACOBI, PCICC}) against(0, KSPCG, "cg", pc, true);
  against(0, KSPMINRES, "minres", PCNONE, true);
  against(0, KSPFCG, "fcg", PCJACOBI, true);
  for (PCType pc : {PCNONE, PCJACOBI, PCILU}) {
    against(0.4, KSPGMRES, "gmres", pc, true);
    against(0.4, KSPBCGS, "bicgstab", pc, false);
  }
  against(0.4, KSPFGMRES, "fgmres", PCILU, true);
  against(0.4, KSPBCGSL, "bicgstab2", PCNONE, false);
  against(0.4, KSPGMRES, "idr", PCILU, false);

  // A PC takes effect.
  Problem s(30);
  PetscInt counts[3] = {}, k = 0;
  for (PCType pc : {PCNONE, PCICC, PCSOR}) {
    s.ours("cg", pc);
    if (s.solve() <= 0) expect(false, pc);
    counts[k++] = s.iterations();
  }
  expect(counts[1] < 0.6 * counts[0] && counts[2] < 0.8 * counts[0], "icc and sor save iterations");
  // As a smoother of PETSc's multigrid, which asks for a number of iterations and no norm.
  Problem g(33);
  ok(PetscOptionsInsertString(nullptr,
                              "-ksp_type fgmres -pc_type gamg -mg_levels_ksp_type protean "
                              "-mg_levels_ksp_max_it 3 -mg_levels_pc_type jacobi"));
  ok(KSPSetFromOptions(g.ksp));
  const KSPConvergedReason smoothed = g.solve();
  ok(PetscOptionsClear(nullptr));
  PetscInt levels = 0, smoothings = 0;
  KSP smoother = nullptr;
  KSPType smoother_type = nullptr;
  ok(PCMGGetLevels(g.pc(), &levels)), ok(PCMGGetSmoother(g.pc(), levels - 1, &smoother));
  ok(KSPGetType(smoother, &smoother_type)), ok(KSPGetIterationNumber(smoother, &smoothings));
  expect(smoothed > 0 && g.iterations() < 15 && std::string(smoother_type) == "protean" && smoothings == 3,
         "gmres as a smoother of PETSc's multigrid: " + std::to_string(g.iterations()) + " iterations");
  // A PC that changes from step to step: a solve of its own.
  s.ours("fgmres", PCKSP);
  KSP inner = nullptr;
  ok(PCKSPGetKSP(s.pc(), &inner));
  ok(KSPSetType(inner, KSPCG)),
      ok(KSPSetTolerances(inner, 1e-2, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  expect(s.solve() > 0 && s.iterations() < 15, "fgmres with PETSc's cg as PC");
}

// The same format, order and iterations as a solve of C++ with the same settings: one pipeline serves both.
void as_in_cpp() {
  struct Case {
    const char *method, *format, *order;
    bool jacobi;
  };
  for (const Case& one : {Case{"cg", "auto", "none", false}, Case{"bicgstab", "auto", "auto", true},
                          Case{"gmres", "sell-c-sigma", "rcm", false}, Case{"idr", "csr", "length", true}}) {
    Problem s(150);  // so large that a look at the formats is worth it
    protean_petsc::Options options;
    options.method = one.method, options.matrix.format = one.format, options.matrix.order = one.order;
    s.ours(options, one.jacobi ? PCJACOBI : PCNONE);
    s.solve();
    const auto context = protean::Context::host();
    const auto csr = protean_petsc::csr_view(s.A, context);
    std::vector<double> x(static_cast<std::size_t>(csr.rows()), 0.0);
    PetscReal relative = 0, absolute = 0, divergence = 0;
    PetscInt most = 0;
    ok(KSPGetTolerances(s.ksp, &relative, &absolute, &divergence, &most));
    protean::SolveSettings settings;
    settings.method = one.method, settings.format = one.format, settings.order = one.order;
    settings.solver.stopping = {
        .relative_tolerance = relative, .absolute_tolerance = absolute, .max_iterations = most};
    settings.preconditioner = one.jacobi ? "jacobi" : "none";
    settings.context = context;
    // There PETSc drives the solve, so format auto is chosen before it.
    settings.expected_iterations = protean::assumed_iterations;
    const double* b = nullptr;
    ok(VecGetArrayRead(s.b, &b));
    const auto expected = protean::solve(csr, {b, csr.rows()}, {x.data(), csr.rows()}, settings);
    ok(VecRestoreArrayRead(s.b, &b));
    const std::string format(s.matrix()->name());
    char text[240];
    std::snprintf(text, sizeof text, "%s in %s: %d iterations in %s, in C++ %d in %s, order %s", one.method,
                  one.format, static_cast<int>(s.iterations()), format.c_str(),
                  static_cast<int>(expected.report.iterations), expected.format.c_str(),
                  expected.order.c_str());
    expect(std::abs(s.iterations() - expected.report.iterations) <= 1 && format == expected.format, text);
  }
}

void formats_and_orders() {
  Problem s(40, 0.2);
  s.ours("bicgstab", PCJACOBI);
  ok(s.solve() > 0 ? PetscErrorCode(0) : PETSC_ERR_LIB);
  Vec expected = nullptr;
  ok(VecDuplicate(s.x, &expected)), ok(VecCopy(s.x, expected));
  const auto same = [&](const protean_petsc::Options& options, PCType pc, const char* name,
                        const char* what) {
    s.ours(options, pc);
    const bool good = s.solve() > 0;
    const auto* assembled = s.matrix();
    expect(good && difference(s.x, expected) < 1e-7 && (!*name || assembled->name() == name), what);
  };
  protean_petsc::Options options;
  options.method = "bicgstab";
  options.matrix.format = "sell-packed";
  same(options, PCJACOBI, "sell-packed", "format sell-packed");
  options.matrix.order = "rcm";
  same(options, PCJACOBI, "sell-packed", "in order rcm");
  same(options, PCILU, "sell-packed", "in order rcm with PETSc's ilu");
  options.matrix.format = "auto", options.matrix.order = "auto";
  same(options, PCILU, "", "format and order auto");
  options.matrix = {};
  options.policy = true;
  same(options, PCJACOBI, "", "the policy");
  options.policy = false;
  options.schedule = {
      {protean::ScheduleTrigger::iteration, 4, {.entry = &protean::find_format("sell-packed")}, false}};
  same(options, PCJACOBI, "sell-packed", "a schedule");
  options.policy = true;
  expect_error([&] { return protean_petsc::KSPProteanSetOptions(s.ksp, options); }, PETSC_ERR_ARG_OUTOFRANGE,
               "exclude each other", "policy with a schedule");

  // New values in each of them: the solution halves.
  protean_petsc::Options plain, packed, ordered, changing;
  plain.method = packed.method = ordered.method = changing.method = "bicgstab";
  packed.matrix.format = ordered.matrix.format = "sell-packed", ordered.matrix.order = "rcm";
  changing.policy = true;
  int right = 0;
  for (const protean_petsc::Options& each : {plain, packed, ordered, changing}) {
    fill(s.A, 40, 0.2);
    s.ours(each, PCILU);
    bool good = s.solve() > 0 && difference(s.x, expected) < 1e-7;
    fill(s.A, 40, 0.2, 2);
    good = good && s.solve() > 0 && s.residual() <= 1.01e-10 * norm(s.b);
    ok(VecScale(s.x, 2));
    right += good && difference(s.x, expected) < 1e-7 ? 1 : 0;
  }
  expect(right == 4, "new values between two solves: " + std::to_string(right) + " of 4 ways");
  // Another matrix, of another size, in the same KSP.
  Problem t(12, 0.1);
  ok(KSPReset(s.ksp));
  ok(KSPSetOperators(s.ksp, t.A, t.A));
  ok(KSPSolve(s.ksp, t.b, t.x));
  expect(t.residual() <= 1.01e-10 * norm(t.b), "another matrix after KSPReset()");

  // A matrix of another type: products by its MatMult().
  Mat block = nullptr;
  ok(MatConvert(t.A, MATSEQBAIJ, MAT_INITIAL_MATRIX, &block));
  Problem u(block);
  u.ours("gmres", PCJACOBI);
  expect(u.solve() > 0 && u.residual() <= 1.01e-10 * norm(u.b), "a matrix of type seqbaij by its MatMult()");
  ok(MatScale(block, 4));
  expect(u.solve() > 0 && u.residual() <= 1.01e-10 * norm(u.b), "and with new values");
  u.ours(packed);
  expect_error([&] { return KSPSolve(u.ksp, u.b, u.x); }, PETSC_ERR_SUP, "this one is of type seqbaij",
               "a format for it");
  ok(VecDestroy(&expected));
}

PetscErrorCode never(KSP, PetscInt iteration, PetscReal, KSPConvergedReason* reason, void* count) {
  ++*static_cast<int*>(count);
  *reason = iteration == 7 ? KSP_CONVERGED_STEP_LENGTH : KSP_CONVERGED_ITERATING;
  return PetscErrorCode(0);
}

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
  expect_error([&] { return KSPSolve(t.ksp, t.b, t.x); }, PETSC_ERR_LIB, "no std::exception",
               "a monitor that throws a number");
  ok(KSPMonitorCancel(t.ksp)), ok(KSPMonitorSet(t.ksp, text, nullptr, nullptr));
  expect_error([&] { return KSPSolve(t.ksp, t.b, t.x); }, PETSC_ERR_LIB, "the monitor throws",
               "a monitor that throws an exception");
  Problem c(10);
  c.ours("cg");
  ok(KSPSetConvergenceTest(c.ksp, test, nullptr, nullptr));
  expect_error([&] { return KSPSolve(c.ksp, c.b, c.x); }, PETSC_ERR_LIB, "no std::exception",
               "a convergence test that throws a text");
  Mat shell = nullptr;
  ok(MatCreateShell(PETSC_COMM_SELF, 9, 9, 9, 9, nullptr, &shell));
  ok(MatShellSetOperation(
      shell, MATOP_MULT,
      reinterpret_cast<void (*)(void)>(static_cast<PetscErrorCode (*)(Mat, Vec, Vec)>(product))));
  Problem m(shell);
  m.ours("cg");
  expect_error([&] { return KSPSolve(m.ksp, m.b, m.x); }, PETSC_ERR_LIB, "no std::exception",
               "a product that throws a number");
}

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

std::string view_of(KSP ksp) {
  char* text = nullptr;
  std::size_t size = 0;
  FILE* const file = open_memstream(&text, &size);
  PetscViewer viewer = nullptr;
  ok(PetscViewerASCIIOpenWithFILE(PETSC_COMM_SELF, file, &viewer));
  ok(KSPView(ksp, viewer));
  ok(PetscViewerDestroy(&viewer));
  std::fclose(file);
  const std::string result(text, size);
  std::free(text);
  return result;
}

void command_line() {
  const auto with = [](const char* options, KSP ksp) {
    ok(PetscOptionsInsertString(nullptr, options));
    const PetscErrorCode code = KSPSetFromOptions(ksp);
    ok(PetscOptionsClear(nullptr));
    return code;
  };
  {
    Problem s(20);
    ok(KSPSetOptionsPrefix(s.ksp, "flow_"));
    ok(
        with("-flow_ksp_type protean -flow_ksp_protean_method idr -flow_ksp_protean_format sell-c-sigma "
             "-flow_ksp_protean_parameters C=4,sigma=16 -flow_ksp_protean_order rcm -flow_ksp_protean_s 3 "
             "-flow_ksp_protean_threads 1 -flow_ksp_rtol 1e-9 -flow_pc_type icc",
             s.ksp));
    const bool good = s.solve() > 0;
    const std::string text = view_of(s.ksp);
    expect(good && s.matrix()->name() == "sell-c-sigma" && s.residual() <= 1.01e-9 * norm(s.b) &&
               text.find("type: protean") != std::string::npos &&
               text.find("method idr") != std::string::npos &&
               text.find("last solve: sell-c-sigma in order rcm, relative-tolerance, threads 1") !=
                   std::string::npos,
           "options with a prefix, and KSPView(): " + text.substr(0, text.find("PC Object")));
    const auto* ordered = dynamic_cast<const protean::Matrix<double>*>(s.matrix());
    const auto* inner =
        ordered ? dynamic_cast<const protean::AssembledMatrix<double>*>(&ordered->inner()) : nullptr;
    expect(inner && inner->params().integer("C") == 4 && inner->params().integer("sigma") == 16,
           "-ksp_protean_parameters");
  }
  {
    Problem s(24, 0.3);
    ok(with("-ksp_type protean -ksp_protean_restart 4 -pc_type none", s.ksp));
    const bool good = s.solve() > 0;
    const PetscInt some = s.iterations();
    ok(with("-ksp_protean_restart 60", s.ksp));
    expect(good && s.solve() > 0 && s.iterations() < some &&
               s.report().reason == protean::StopReason::relative_tolerance,
           "-ksp_protean_restart, with gmres where nothing else is said");
    ok(with("-ksp_protean_policy -ksp_protean_method bicgstab", s.ksp));
    expect(s.solve() > 0 && s.residual() <= 1.01e-10 * norm(s.b) &&
               dynamic_cast<const protean::Matrix<double>*>(s.matrix()),
           "-ksp_protean_policy");
  }
  const struct {
    const char *options, *part;
    PetscErrorCode code;
  } wrong[] = {
      {"-ksp_protean_method cgs", "there is no", PETSC_ERR_ARG_OUTOFRANGE},
      {"-ksp_protean_method gmers", "Did you mean 'gmres'", PETSC_ERR_ARG_OUTOFRANGE},
      {"-ksp_protean_format sel-packed", "Did you mean 'sell-packed'", PETSC_ERR_ARG_OUTOFRANGE},
      {"-ksp_protean_order rmc", "Did you mean 'rcm'", PETSC_ERR_ARG_OUTOFRANGE},
      {"-ksp_protean_kernel fast", "fast", PETSC_ERR_ARG_OUTOFRANGE},
      {"-ksp_protean_parameters c", "name=value", PETSC_ERR_ARG_OUTOFRANGE},
      {"-ksp_protean_format sell-c-sigma -ksp_protean_parameters d=4", "'d'", PETSC_ERR_ARG_OUTOFRANGE},
      {"-ksp_protean_restart 0", "restart is 0", PETSC_ERR_ARG_OUTOFRANGE},
      {"-ksp_protean_threads -2", "-2", PETSC_ERR_ARG_OUTOFRANGE}};
  for (const auto& each : wrong) {
    Problem s(6);
    ok(KSPSetType(s.ksp, protean_petsc::KSPPROTEAN));
    expect_error([&] { return with(each.options, s.ksp); }, each.code, each.part, each.options);
    ok(PetscOptionsClear(nullptr));
    expect(s.solve() > 0, "nothing has changed then");
  }
}

// On two ranks.
void ranks() {
  PetscMPIInt rank = 0;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  const PetscInt n = 200;
  Mat A = nullptr;
  Vec x = nullptr, b = nullptr, r = nullptr;
  KSP ksp = nullptr;
  ok(MatCreateAIJ(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, n, n, 3, nullptr, 3, nullptr, &A));
  PetscInt begin = 0, end = 0;
  ok(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt i = begin; i < end; ++i) {
    if (i > 0) ok(MatSetValue(A, i, i - 1, -1, INSERT_VALUES));
    if (i + 1 < n) ok(MatSetValue(A, i, i + 1, -1.5, INSERT_VALUES));
    ok(MatSetValue(A, i, i, 3, INSERT_VALUES));
  }
  ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  ok(MatCreateVecs(A, &x, &b)), ok(VecDuplicate(b, &r)), ok(VecSet(b, 1));
  ok(KSPCreate(PETSC_COMM_WORLD, &ksp)), ok(KSPSetOperators(ksp, A, A));
  expect_error([&] { return KSPSetType(ksp, protean_petsc::KSPPROTEAN); }, PETSC_ERR_SUP,
               "solves on one MPI rank, and this KSP has 2", "two ranks");
  ok(KSPDestroy(&ksp)), ok(KSPCreate(PETSC_COMM_WORLD, &ksp)), ok(KSPSetOperators(ksp, A, A));
  ok(PetscOptionsInsertString(nullptr,
                              "-ksp_type fgmres -ksp_rtol 1e-10 -pc_type bjacobi -sub_ksp_type protean "
                              "-sub_ksp_protean_format sell-packed -sub_ksp_rtol 1e-6 -sub_pc_type ilu"));
  ok(KSPSetFromOptions(ksp));
  ok(KSPSolve(ksp, b, x));
  ok(MatMult(A, x, r)), ok(VecAYPX(r, -1, b));
  PC pc = nullptr;
  KSP* blocks = nullptr;
  PetscInt count = 0;
  KSPType type = nullptr;
  ok(KSPGetPC(ksp, &pc)), ok(PCBJacobiGetSubKSP(pc, &count, nullptr, &blocks)),
      ok(KSPGetType(blocks[0], &type));
  const protean::LinearOperator<double>* matrix = nullptr;
  ok(protean_petsc::KSPProteanGetOperator(blocks[0], &matrix));
  expect(count == 1 && std::string(type) == "protean" && matrix->name() == "sell-packed" &&
             matrix->products() > 0 && matrix->rows() == n / 2 && norm(r) <= 1e-9 * norm(b),
         "the blocks of block Jacobi, rank " + std::to_string(rank));
  ok(KSPDestroy(&ksp)), ok(MatDestroy(&A)), ok(VecDestroy(&x)), ok(VecDestroy(&b)), ok(VecDestroy(&r));
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool on_two = argc > 1 && std::string(argv[1]) == "ranks";
  ok(PetscInitializeNoArguments());
  ok(protean_petsc::KSPRegisterProtean());
  if (on_two) {
    PetscMPIInt size = 0;
    MPI_Comm_size(PETSC_COMM_WORLD, &size);
    if (size == 2)
      ranks();
    else
      expect(false, "there are " + std::to_string(size) + " ranks, not 2");
  } else {
    error_if_not_converged();
    shells();
    beside_petsc();
    as_in_cpp();
    formats_and_orders();
    tolerances();
    monitors();
    reasons();
    special_systems();
    command_line();
  }
  ok(PetscFinalize());
  return failures == 0 ? 0 : 1;
}

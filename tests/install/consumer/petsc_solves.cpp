// Shells, solves by our methods next to PETSc's methods, formats and orders.
#include "petsc_check.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace petsc_check {
namespace {

// y, z and d of a shell are y, z and d of A.
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

}  // namespace

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

namespace {
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

}  // namespace

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

}  // namespace petsc_check

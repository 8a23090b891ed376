// Compares interfaces/petsc/protean_ksp.hpp with the products and solvers of PETSc, using the installed package.
//   petsc_check          on one rank
//   petsc_check ranks    on two: the KSP is refused, and solves the blocks of block Jacobi
#include "petsc_check.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace petsc_check {
namespace {

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
}  // namespace petsc_check

int main(int argc, char** argv) {
  using namespace petsc_check;
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

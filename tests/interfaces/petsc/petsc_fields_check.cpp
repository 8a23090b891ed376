// The PC type protean with the fields of a program, as index sets: compared with preconditioner fields itself. Each
// check prints a line; the program ends with 1 if one failed on any rank.
#include <petscksp.h>

#include <protean/petsc/protean_petsc.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "interfaces/petsc/csr.hpp"
#include "interfaces/petsc/pc.hpp"
#include "petsc_matrices.hpp"
#include "protean.hpp"

using namespace petsc_matrices;

namespace {

std::string last_error;
PetscErrorCode keep_error(MPI_Comm, int, const char*, const char*, PetscErrorCode code, PetscErrorType type,
                          const char* text, void*) {
  if (type == PETSC_ERROR_INITIAL) last_error = text;
  return code;
}
template <class F>
std::string error_of(const F& call) {
  last_error = "none";
  ok(PetscPushErrorHandler(keep_error, nullptr));
  const PetscErrorCode code = call();
  ok(PetscPopErrorHandler());
  return code ? last_error : "none";
}

// Stokes flow whose rows lie in no order by field: row i of the generated matrix is row (7 i) mod n.
struct Flow {
  Mat A = nullptr;
  std::vector<PetscInt> velocities, pressures;  // not ascending

  Flow() {
    constexpr int cells = 12;
    const auto csr =
        protean::generate(protean::Context::host(1), "stokes-2d", {{"n", cells}, {"contrast", 10}});
    const auto n = static_cast<PetscInt>(csr.rows());
    const auto place = [n](std::int64_t i) { return static_cast<PetscInt>(i * 7 % n); };
    ok(MatCreateSeqAIJ(PETSC_COMM_SELF, n, n, 16, nullptr, &A));
    for (PetscInt i = 0; i < n; ++i)
      for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
        ok(MatSetValue(A, place(i), place(csr.pattern.col[k]), csr.values[k], INSERT_VALUES));
    ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
    for (PetscInt i = 0; i < n; ++i) (i < n - cells * cells ? velocities : pressures).push_back(place(i));
  }
  ~Flow() { ok(MatDestroy(&A)); }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
};

void set_field(PC pc, const char* name, const std::vector<PetscInt>& rows) {
  IS is = nullptr;
  ok(ISCreateGeneral(PETSC_COMM_SELF, static_cast<PetscInt>(rows.size()), rows.data(), PETSC_COPY_VALUES,
                     &is));
  ok(PCProteanSetFieldIS(pc, name, is));
  ok(ISDestroy(&is));
}

// M^-1 r, r_i = 1 + i mod 5, by the PC and by the preconditioner itself.
void same_as_fields(PC pc, const Flow& flow, const std::string& what) {
  protean::PreconditionerOptions options;
  PetscInt n = 0;
  ok(MatGetSize(flow.A, &n, nullptr));
  std::vector<std::int32_t> label(static_cast<std::size_t>(n), 0);
  for (const PetscInt row : flow.pressures) label[static_cast<std::size_t>(row)] = 1;
  options.fields = protean::fields_of_labels(label);
  options.recipe = protean::FieldRecipe::schur_lower, options.inner = "0 ic0, 1 jacobi";
  const auto host = protean::Context::host(1);
  const auto A =
      protean::make_matrix(protean::find_format("csr"), protean_petsc::csr_view(flow.A, host), host);
  const auto M = protean::make_preconditioner<double>("fields", *A, options);
  M->ensure(*A);
  Vec r = nullptr, z = nullptr;
  ok(MatCreateVecs(flow.A, &z, &r));
  for (PetscInt i = 0; i < n; ++i) ok(VecSetValue(r, i, 1 + i % 5, INSERT_VALUES));
  ok(PCApply(pc, r, z));
  const double *from = nullptr, *to = nullptr;
  ok(VecGetArrayRead(r, &from)), ok(VecGetArrayRead(z, &to));
  std::vector<double> expected(static_cast<std::size_t>(n));
  M->apply({from, n}, {expected.data(), n});
  bool same = true;
  for (PetscInt i = 0; i < n; ++i) same = same && to[i] == expected[static_cast<std::size_t>(i)];
  ok(VecRestoreArrayRead(r, &from)), ok(VecRestoreArrayRead(z, &to));
  expect(same, what);
  ok(VecDestroy(&r)), ok(VecDestroy(&z));
}

void applications() {
  const Flow flow;
  PC pc = nullptr;
  ok(PetscOptionsInsertString(nullptr,
                              "-pc_type protean -pc_protean_recipe schur-lower -pc_protean_threads 1"));
  ok(PetscOptionsSetValue(nullptr, "-pc_protean_inner", "u ic0, p jacobi"));
  ok(PCCreate(PETSC_COMM_SELF, &pc)), ok(PCSetOperators(pc, flow.A, flow.A)), ok(PCSetFromOptions(pc));
  set_field(pc, "u", flow.velocities), set_field(pc, "p", flow.pressures);
  ok(PCSetUp(pc));
  same_as_fields(pc, flow, "fields of index sets are the fields of the text");
  ok(MatScale(flow.A, 3)), ok(PCSetUp(pc));
  same_as_fields(pc, flow, "new values");

  const PetscInt n = static_cast<PetscInt>(flow.velocities.size() + flow.pressures.size());
  std::vector<PetscInt> rows = flow.pressures;
  rows.push_back(flow.velocities[4]);
  set_field(pc, "p", rows);
  const std::string twice = error_of([&] { return PCSetUp(pc); });
  expect(twice.find("row " + std::to_string(rows.back()) + " is in field u and again in field p") !=
             std::string::npos,
         twice);
  rows.back() = n, set_field(pc, "p", rows);
  const std::string beyond = error_of([&] { return PCSetUp(pc); });
  expect(beyond.find("field p has row " + std::to_string(n)) != std::string::npos, beyond);
  rows.pop_back(), rows.pop_back(), set_field(pc, "p", rows);
  const std::string none = error_of([&] { return PCSetUp(pc); });
  expect(none.find("row " + std::to_string(flow.pressures.back()) + " is in no field") != std::string::npos,
         none);
  set_field(pc, "p", flow.pressures);
  ok(PCSetUp(pc));
  same_as_fields(pc, flow, "right fields after wrong ones");
  for (const char* const name :
       {"-pc_protean_type", "-pc_protean_recipe", "-pc_protean_inner", "-pc_protean_threads"})
    ok(PetscOptionsClearValue(nullptr, name));
  ok(PetscOptionsClearValue(nullptr, "-pc_type")), ok(PCDestroy(&pc));
}

// With PETSc's method and with ours.
void solves() {
  const Flow flow;
  Vec x = nullptr, b = nullptr;
  ok(MatCreateVecs(flow.A, &x, &b)), numbers(x, 5), ok(MatMult(flow.A, x, b));
  for (const char* const type : {"gmres", "protean"}) {
    KSP ksp = nullptr;
    PC pc = nullptr;
    ok(KSPCreate(PETSC_COMM_SELF, &ksp)), ok(KSPSetType(ksp, type)), ok(KSPSetOperators(ksp, flow.A, flow.A));
    ok(KSPSetPCSide(ksp, PC_RIGHT)), ok(KSPSetTolerances(ksp, 1e-9, 0, PETSC_DEFAULT, 200));
    ok(KSPGetPC(ksp, &pc)), ok(PCSetType(pc, "protean"));
    protean::PreconditionerOptions options;
    options.recipe = protean::FieldRecipe::schur_upper;
    ok(protean_petsc::PCProteanSetOptions(pc, "fields", options, 1));
    set_field(pc, "u", flow.velocities), set_field(pc, nullptr, flow.pressures);
    ok(VecSet(x, 0)), ok(KSPSolve(ksp, b, x));
    KSPConvergedReason reason = KSP_CONVERGED_ITERATING;
    PetscInt iterations = 0;
    ok(KSPGetConvergedReason(ksp, &reason)), ok(KSPGetIterationNumber(ksp, &iterations));
    expect(reason > 0 && iterations < 45,
           std::string("KSP ") + type + ": " + std::to_string(iterations) + " iterations");
    ok(KSPDestroy(&ksp));
  }
  ok(VecDestroy(&x)), ok(VecDestroy(&b));
}

void refusals() {
  int ranks = 0;
  MPI_Comm_size(world, &ranks);
  PC pc = nullptr;
  ok(PCCreate(PETSC_COMM_SELF, &pc));
  IS is = nullptr;
  ok(ISCreateStride(PETSC_COMM_SELF, 3, 0, 1, &is));
  const std::string other = error_of([&] { return PCProteanSetFieldIS(pc, "u", is); });
  expect(other.find("is not of type protean") != std::string::npos, other);
  ok(PCSetType(pc, "protean"));
  const std::string name = error_of([&] { return PCProteanSetFieldIS(pc, "u, v", is); });
  expect(name.find("must be a word without a comma") != std::string::npos, name);
  ok(PetscOptionsSetValue(nullptr, "-pc_protean_recipee", "lower"));
  const std::string option = error_of([&] { return PCSetFromOptions(pc); });
  expect(option.find("Did you mean '-pc_protean_recipe'?") != std::string::npos, option.substr(0, 120));
  ok(PetscOptionsClearValue(nullptr, "-pc_protean_recipee"));
  ok(ISDestroy(&is)), ok(PCDestroy(&pc));
  if (ranks == 1) return;
  ok(PCCreate(world, &pc));
  const std::string several = error_of([&] { return PCSetType(pc, "protean"); });
  expect(several.find("computes on one MPI rank") != std::string::npos, several);
  ok(PCDestroy(&pc));
}

}  // namespace

int main(int argc, char** argv) {
  ok(PetscInitialize(&argc, &argv, nullptr, nullptr));
  ok(PetscDLLibraryRegister_protean_petsc());
  world = PETSC_COMM_WORLD;
  applications();
  solves();
  refusals();
  ok(PetscFinalize());
  return failures == 0 ? 0 : 1;
}

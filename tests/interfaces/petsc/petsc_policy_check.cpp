// What the policy does to the blocks of the ranks, with the clock of the test: products of csr take as long as the test
// says, and products of other formats are shorter on some ranks and longer on others. So no decision depends on the
// machine.
#include <petscksp.h>

#include <petsc/private/petscimpl.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "interfaces/petsc/block.hpp"
#include "interfaces/petsc/protean_petsc.h"

namespace {

using protean_types::Block;
using protean_types::BlockState;

int failures = 0, rank = 0, ranks = 1;
std::int64_t collectives = 0;

void ok(PetscErrorCode code) {
  if (code) {
    std::fprintf(stderr, "a call of PETSc returned %d\n", static_cast<int>(code));
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
}

void expect(bool good, const std::string& what) {
  int mine = good ? 0 : 1, any = 0;
  MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (any > 0) ++failures;
  if (!good) std::printf("rank %d: FAILED: %s\n", rank, what.c_str());
  if (rank == 0) std::printf("%s: %s\n", any ? "FAILED" : "ok", what.c_str());
  std::fflush(stdout);
}

// The clock: it advances by the products of the block under test alone, as its present format says.
struct Costs {
  const Block* block = nullptr;
  double csr = 1, other = 1;  // seconds of a product
  double now = 0;
  const void* matrix = nullptr;  // at the last look, and its products
  std::int64_t products = 0;
} costs;
double look_at_clock() {
  const auto* const matrix = costs.block ? costs.block->current() : nullptr;
  if (!matrix) return costs.now;
  if (matrix != costs.matrix) costs.matrix = matrix, costs.products = 0;
  const auto more = static_cast<double>(matrix->products() - costs.products);
  costs.products = matrix->products();
  return costs.now += more * (matrix->name() == "csr" ? costs.csr : costs.other);
}

// A stencil of five points on the rows of each rank, which has n x n of them.
Mat stencil(PetscInt n, const char* options) {
  ok(PetscOptionsClear(nullptr));
  ok(PetscOptionsInsertString(nullptr, options));
  Mat A = nullptr;
  ok(MatCreate(PETSC_COMM_WORLD, &A));
  ok(MatSetSizes(A, n * n, n * n, PETSC_DETERMINE, PETSC_DETERMINE));
  ok(MatSetType(A, "aijprotean")), ok(MatSetFromOptions(A)), ok(MatSetUp(A));
  ok(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscInt begin = 0, end = 0, all = 0;
  ok(MatGetOwnershipRange(A, &begin, &end)), ok(MatGetSize(A, &all, nullptr));
  for (PetscInt i = begin; i < end; ++i)
    for (const PetscInt j : {i - n, i - 1, i, i + 1, i + n})
      if (j >= 0 && j < all)
        ok(MatSetValue(A, i, j, i == j ? 4.201 : -1 - 0.1 * static_cast<double>((i + j) % 2), INSERT_VALUES));
  ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  return A;
}

Block& diagonal_block(Mat A) {
  PetscBool seq = PETSC_FALSE;
  ok(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(A), "seqaijprotean", &seq));
  Mat block = A;
  if (!seq) ok(MatMPIAIJGetSeqAIJ(A, &block, nullptr, nullptr));
  return protean_types::block_of(block);
}

struct System {
  Mat A = nullptr, aij = nullptr;
  Vec x = nullptr, y = nullptr, u = nullptr;
  System(PetscInt n, const char* options) : A(stencil(n, options)) {
    ok(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &aij));
    ok(MatCreateVecs(A, &x, &y)), ok(VecDuplicate(y, &u));
    PetscInt begin = 0, end = 0;
    ok(VecGetOwnershipRange(x, &begin, &end));
    for (PetscInt i = begin; i < end; ++i)
      ok(VecSetValue(x, i, std::sin(static_cast<double>(i)), INSERT_VALUES));
    ok(VecAssemblyBegin(x)), ok(VecAssemblyEnd(x));
    ok(MatMult(A, x, y));  // makes the blocks
    costs = {.block = &diagonal_block(A)};
    (void)look_at_clock();
  }
  ~System() {
    costs = {};
    ok(MatDestroy(&A)), ok(MatDestroy(&aij)), ok(VecDestroy(&x)), ok(VecDestroy(&y)), ok(VecDestroy(&u));
  }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  double difference() {
    double norm = 0, size = 0;
    ok(MatMult(aij, x, u)), ok(VecNorm(u, NORM_INFINITY, &size));
    ok(VecAXPY(u, -1, y)), ok(VecNorm(u, NORM_INFINITY, &norm));
    return norm / size;
  }
  double multiply(int products) {
    double worst = 0;
    for (int k = 0; k < products; ++k) {
      ok(MatMult(A, x, y));
      if (k % 16 == 0) worst = std::max(worst, difference());
    }
    return worst;
  }
};

std::string text_of(const BlockState& s) {
  std::string text = "ends in " + s.format;
  for (const auto& change : s.changes)
    text += "; " + std::to_string(change.iteration) + ": " + change.from + " to " + change.to + ", " +
            change.reason;
  for (const auto& failed : s.failures) text += "; not to " + failed.to + ": " + failed.why;
  if (!s.decisions.empty()) text += "; last: " + s.decisions.back().reason;
  return text;
}

// On even ranks other formats are faster, on odd ones slower than predicted: these try one and go back.
void ranks_end_in_different_formats() {
  System system(100, "-mat_protean_policy");
  costs.other = rank % 2 == 0 ? 0.3 : 3;
  const double worst = system.multiply(2000);
  const BlockState s = costs.block->state();
  const bool changed = rank % 2 == 0
                           ? s.format != "csr" && s.changes.size() == 1
                           : s.format == "csr" && s.changes.size() >= 2 && s.changes.back().to == "csr";
  expect(changed,
         "the policy changes even ranks, and odd ones back: rank " + std::to_string(rank) + " " + text_of(s));
  expect(worst < 1e-14,
         "products are those of type aij in every format, relative difference " + std::to_string(worst));
  // The record names what was decided.
  bool named = s.candidates.size() > 1;
  for (const auto& decision : s.decisions) named = named && !decision.reason.empty();
  expect(named, "the candidates are listed and each decision has its reason");
}

// The builds of the last rank find no memory, except for a format that uses the arrays of csr.
void failed_build() {
  System system(100, "-mat_protean_policy");
  costs.other = 0.3;
  const bool mine = rank == ranks - 1;
  if (mine)
    protean::detail::allocation_hook = [](protean::Space, std::size_t bytes) {
      if (bytes > 100000) throw protean::OutOfMemory("the test gives no memory", bytes);
    };
  const double worst = system.multiply(2000);
  protean::detail::allocation_hook = nullptr;
  const BlockState s = costs.block->state();
  expect(mine ? !s.failures.empty() && s.changes.size() <= 1 : s.changes.size() == 1 && s.failures.empty(),
         "a build that fails on one rank harms none: rank " + std::to_string(rank) + " " + text_of(s));
  expect(worst < 1e-14, "products after a failed build");
}

// With -mat_protean_agree ranks change at one iteration, and a rank that is fast anyway does not.
void together() {
  if (ranks == 1) return;
  const bool small = rank == 0;
  System system(small ? 30 : 100, "-mat_protean_policy -mat_protean_agree");
  const double rows = small ? 900 : 10000;
  costs.csr = 1e-4 * rows, costs.other = 0.4 * costs.csr;
  // Without a KSP that is watched nothing is agreed on, and products communicate no more than products of aij.
  const std::int64_t before = collectives;
  (void)system.multiply(0);
  for (int k = 0; k < 300; ++k) ok(MatMult(system.A, system.x, system.y));
  expect(collectives == before, "no collective call in 300 products");
  expect(costs.block->state().changes.empty(), "no change without KSPProteanWatch()");
  KSP ksp = nullptr;
  PC pc = nullptr;
  ok(KSPCreate(PETSC_COMM_WORLD, &ksp)), ok(KSPSetOperators(ksp, system.A, system.A));
  ok(KSPSetType(ksp, KSPRICHARDSON)), ok(KSPGetPC(ksp, &pc)), ok(PCSetType(pc, PCJACOBI));
  ok(KSPSetTolerances(ksp, 1e-300, 1e-300, PETSC_DEFAULT, 2000)), ok(KSPProteanWatch(ksp));
  ok(VecSet(system.u, 1));
  ok(KSPSolve(ksp, system.u, system.y)), ok(KSPDestroy(&ksp));
  const BlockState s = costs.block->state();
  long first = s.changes.empty() ? -1 : static_cast<long>(s.changes.front().iteration), least = 0,
       largest = 0;
  MPI_Allreduce(&first, &largest, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
  long counted = small ? largest : first;
  MPI_Allreduce(&counted, &least, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
  expect(largest > 0 && least == largest,
         "ranks change at one iteration: rank " + std::to_string(rank) + " " + text_of(s));
  const bool refused = std::any_of(
      s.decisions.begin(), s.decisions.end(),
      [](const protean::DecisionRecord& one) { return one.why.reason == protean::Reason::not_approved; });
  expect(refused && (!small || s.changes.empty()),
         "a rank that the others do not wait for asks, and stays: " + text_of(s));
  ok(MatMult(system.A, system.x, system.y));
  expect(system.difference() < 1e-14, "products after changes together");
}

}  // namespace

// All reductions of the process come by here.
// PETSc has macros of some of these names.
#pragma GCC visibility push(default)
extern "C" {
int(MPI_Allreduce)(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++collectives;
  return PMPI_Allreduce(from, to, count, type, op, comm);
}
int(MPI_Iallreduce)(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                    MPI_Request* request) {
  ++collectives;
  return PMPI_Iallreduce(from, to, count, type, op, comm, request);
}
int(MPI_Barrier)(MPI_Comm comm) {
  ++collectives;
  return PMPI_Barrier(comm);
}
int(MPI_Bcast)(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++collectives;
  return PMPI_Bcast(data, count, type, root, comm);
}
}
#pragma GCC visibility pop

int main(int argc, char** argv) {
  ok(PetscInitialize(&argc, &argv, nullptr, nullptr));
  ok(PetscDLLibraryRegister_protean_petsc());
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank), MPI_Comm_size(PETSC_COMM_WORLD, &ranks);
  protean_types::policy_clock = look_at_clock;
  ranks_end_in_different_formats();
  failed_build();
  together();
  if (rank == 0) std::printf("%d failed\n", failures);
  ok(PetscFinalize());
  return failures == 0 ? 0 : 1;
}

// KSPProteanWatch(): the policy of the blocks gets the residuals of a KSP.
#include <petsc/private/kspimpl.h>
#include <petscksp.h>

#include <memory>
#include <protean/core/error.hpp>

#include "petsc/block.hpp"
#include "petsc/guard.hpp"
#include "petsc/mat_types.hpp"
#include "petsc/protean_petsc.h"

namespace protean_types {
namespace {

struct Watch {
  double first_residual = 0;
};
PetscErrorCode delete_watch(void** watch) {
  delete static_cast<Watch*>(*watch);
  *watch = nullptr;
  return PetscErrorCode(0);
}

PetscErrorCode on_iteration(KSP ksp, PetscInt iteration, PetscReal residual, void* context) {
  Mat A = nullptr;
  PetscCall(KSPGetOperators(ksp, &A, nullptr));
  return guarded(A, [&] {
    auto& watch = *static_cast<Watch*>(context);
    if (iteration == 0) watch.first_residual = residual;
    Watched now{.iteration = iteration, .residual = residual, .first_residual = watch.first_residual};
    PetscReal relative = 0, absolute = 0;
    PetscInt most = 0;
    must(KSPGetTolerances(ksp, &relative, &absolute, nullptr, &most));
    now.relative_tolerance = relative, now.absolute_tolerance = absolute, now.max_iterations = most;
    PetscBool seq = PETSC_FALSE, mpi = PETSC_FALSE;
    must(PetscObjectTypeCompare(object(A), seq_type, &seq));
    must(PetscObjectTypeCompare(object(A), mpi_type, &mpi));
    Mat blocks[2] = {seq ? A : nullptr, nullptr};
    if (mpi) must(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], nullptr));
    if (!seq && !mpi)
      throw protean::BadArgument(
          "KSPProteanWatch() is for a KSP whose operator is of type aijprotean (-mat_type aijprotean)");
    for (Mat each : blocks)
      if (Block* const block = each ? found_block(each) : nullptr) block->watched(now);
  });
}

}  // namespace
}  // namespace protean_types

extern "C" __attribute__((visibility("default"))) PetscErrorCode KSPProteanWatch(KSP ksp) {
  using namespace protean_types;
  for (PetscInt k = 0; k < ksp->numbermonitors; ++k)
    if (ksp->monitor[k] == on_iteration) return PetscErrorCode(0);
  return guarded(nullptr, [&] {
    auto watch = std::make_unique<Watch>();
    must(KSPMonitorSet(ksp, on_iteration, watch.get(), delete_watch));
    watch.release();
  });
}

// KSPProteanWatch(): the policy of the blocks gets the residuals of a KSP.
#include <petsc/private/kspimpl.h>
#include <petscksp.h>

#include <memory>
#include <protean/core/error.hpp>

#include "interfaces/petsc/block.hpp"
#include "interfaces/petsc/guard.hpp"
#include "interfaces/petsc/mat_types.hpp"
#include "interfaces/petsc/protean_petsc.h"

namespace protean_types {
namespace {

// Ranks that decide together hear of each other once in that many iterations. The reduction is begun at one of these
// and waited for at the next, when it has long ended.
constexpr PetscInt round_length = 8;
// A change that makes the slowest rank faster by less is not worth a wait of all.
constexpr double least_gain = 0.02;

struct Watch {
  double first_residual = 0;
  double mine[2] = {0, 0}, largest[2] = {0, 0};  // seconds of a product: as it is, and with the changes
  MPI_Request reduction = MPI_REQUEST_NULL;
};
PetscErrorCode delete_watch(void** watch) {
  // The other ranks are here, too.
  PetscCallMPI(MPI_Wait(&static_cast<Watch*>(*watch)->reduction, MPI_STATUS_IGNORE));
  delete static_cast<Watch*>(*watch);
  *watch = nullptr;
  return PetscErrorCode(0);
}

// Iteration `iteration` of all ranks at once. A rank may change if the slowest rank becomes faster by the changes, and
// this rank would be slower than that if it stayed.
void agree(Watch& watch, MPI_Comm comm, PetscInt iteration, Block* const (&blocks)[2]) {
  bool any = false;
  for (Block* const block : blocks) any = any || (block && block->agrees());
  if (!any || iteration % round_length != 0) return;
  const bool heard = watch.reduction != MPI_REQUEST_NULL;
  MPI_Wait(&watch.reduction, MPI_STATUS_IGNORE);
  const auto [now, then] = watch.largest;
  const bool granted = heard && iteration > 0 && then < (1 - least_gain) * now && watch.mine[0] > then;
  watch.mine[0] = watch.mine[1] = 0;
  for (Block* const block : blocks) {
    if (!block) continue;
    block->grant(granted);
    const Proposal proposal = block->take_proposal();
    watch.mine[0] += proposal.now, watch.mine[1] += proposal.then;
  }
  MPI_Iallreduce(watch.mine, watch.largest, 2, MPI_DOUBLE, MPI_MAX, comm, &watch.reduction);
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
    Block* const ours[2] = {blocks[0] ? found_block(blocks[0]) : nullptr,
                            blocks[1] ? found_block(blocks[1]) : nullptr};
    if (seq && ours[0]) ours[0]->grant(true);  // there is nobody to ask
    for (Block* const block : ours)
      if (block) block->watched(now);
    if (mpi) agree(watch, PetscObjectComm(object(ksp)), iteration, ours);
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

#include "apps/ranks/block_preconditioner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "interfaces/petsc/block.hpp"
#include "interfaces/petsc/guard.hpp"

namespace protean::apps::ranks {

using protean_types::must;

bool BlockPreconditioner::has(std::string_view type) noexcept {
  constexpr std::array<std::string_view, 5> types = {"ic0", "ic", "ilu0", "ilu", "block-jacobi"};
  return std::find(types.begin(), types.end(), type) != types.end();
}

void BlockPreconditioner::set_up(Mat A, const SolveSettings& settings, const ContextPtr& host) {
  A_ = A, name_ = "protean " + settings.preconditioner.name();
  PetscBool several = PETSC_FALSE;
  PetscInt first = 0;
  must(PetscObjectBaseTypeCompare(protean_types::object(A), MATMPIAIJ, &several));
  must(MatGetOwnershipRange(A, &first, nullptr));
  Mat own = A;
  if (several) must(MatMPIAIJGetSeqAIJ(A, &own, nullptr, nullptr));
  block_ = make_matrix(find_format("csr"), protean_types::arrays_of(own), host);
  M_ = make_preconditioner(settings, *block_);
  try {
    M_->ensure(*block_);
  } catch (const BadMatrix& error) {
    if (first == 0) throw;
    throw BadMatrix(
        fmt::format("{} (rows and columns count from row {} of the matrix, the first one of this rank)",
                    error.what(), first));
  }
}

void BlockPreconditioner::attach(PC pc) {
  must(PCShellSetContext(pc, this));
  must(PCShellSetApply(pc, apply));
  must(PCShellSetName(pc, name_.c_str()));
}

PetscErrorCode BlockPreconditioner::apply(PC pc, Vec r, Vec z) {
  BlockPreconditioner* own = nullptr;
  PetscCall(PCShellGetContext(pc, &own));
  return protean_types::guarded(own->A_, [&] {
    const double* from = nullptr;
    double* to = nullptr;
    PetscInt size = 0;
    must(VecGetLocalSize(r, &size));
    must(VecGetArrayRead(r, &from)), must(VecGetArrayWrite(z, &to));
    own->M_->apply(VectorView<const double>{from, size}, VectorView<double>{to, size});
    must(VecRestoreArrayWrite(z, &to)), must(VecRestoreArrayRead(r, &from));
  });
}

}  // namespace protean::apps::ranks

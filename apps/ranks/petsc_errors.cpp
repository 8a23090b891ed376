#include "apps/ranks/petsc_errors.hpp"

#include <string_view>
#include <utility>

#include "interfaces/petsc/guard.hpp"

namespace protean::apps::ranks {
namespace {

PetscMessage kept;

PetscErrorCode keep(MPI_Comm, int, const char* function, const char*, PetscErrorCode code,
                    PetscErrorType type, const char* message, void*) {
  if (type != PETSC_ERROR_INITIAL || !kept.text.empty()) return code;
  const std::string_view where = function ? function : "";
  // PETSc 3.18 calls it with another code if it gets no memory.
  kept.memory = code == PETSC_ERR_MEM || where.starts_with("PetscMalloc");
  const char* of_code = nullptr;
  (void)PetscErrorMessage(code, &of_code, nullptr);
  kept.text = message && *message ? message : of_code ? of_code : "error " + std::to_string(code);
  if (kept.text.starts_with("Protean, ")) return code;
  kept.text = (kept.memory ? "out of memory; take more ranks, or machines with more (PETSc, " : "PETSc, ") +
              std::string(where) + ": " + kept.text + (kept.memory ? ")" : "");
  return code;
}

}  // namespace

void keep_petsc_messages() { protean_types::must(PetscPushErrorHandler(keep, nullptr)); }

PetscMessage take_petsc_message() {
  PetscMessage message = std::exchange(kept, {});
  if (message.text.empty()) message.text = "a call of PETSc failed";
  return message;
}

}  // namespace protean::apps::ranks

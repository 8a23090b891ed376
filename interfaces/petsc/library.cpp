// libprotean_petsc.so: PETSc loads it by -dll_append, and calls the function below.
#include <petscksp.h>

#include "interfaces/petsc/mat_types.hpp"
#include "interfaces/petsc/protean_ksp.hpp"
#include "interfaces/petsc/protean_petsc.h"

#if PETSC_VERSION_LT(3, 18, 0)
#error "libprotean_petsc.so needs PETSc 3.18 or later"
#endif

extern "C" __attribute__((visibility("default"))) PetscErrorCode PetscDLLibraryRegister_protean_petsc(void) {
  PetscCall(protean_types::register_matrix_types());
  PetscCall(protean_petsc::KSPRegisterProtean());
  PetscCall(protean_petsc::PCRegisterProtean());
  return PetscErrorCode(0);
}

extern "C" __attribute__((visibility("default"))) PetscErrorCode PCProteanSetFieldIS(PC pc, const char* name,
                                                                                     IS rows) {
  return protean_petsc::PCProteanSetFieldIS(pc, name, rows);
}

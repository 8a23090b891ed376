/* Functions of libprotean_petsc.so. A program that loads it by -dll_append needs none of them. */
#ifndef PROTEAN_PETSC_H
#define PROTEAN_PETSC_H
#include <petscksp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers the matrix types aijprotean, seqaijprotean and mpiaijprotean, and the KSP type protean. For a program that
   links the library: after PetscInitialize(), instead of -dll_append, which calls it. */
PetscErrorCode PetscDLLibraryRegister_protean_petsc(void);

/* The policy of the operator of this KSP (-mat_protean_policy, type aijprotean) gets the residual of each iteration, so
   that it can forecast how long the solve lasts. Without it, the policy knows the number of products alone. Each rank
   decides for itself; collective as KSPMonitorSet(). */
PetscErrorCode KSPProteanWatch(KSP ksp);

#ifdef __cplusplus
}
#endif
#endif

/* Functions of libprotean_petsc.so. A program that loads it by -dll_append needs none of them. */
#ifndef PROTEAN_PETSC_H
#define PROTEAN_PETSC_H
#include <petscksp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers the matrix types aijprotean, seqaijprotean and mpiaijprotean, and the KSP and PC types protean. For a
   program that links the library: after PetscInitialize(), instead of -dll_append, which calls it. */
PetscErrorCode PetscDLLibraryRegister_protean_petsc(void);

/* The policy of the operator of this KSP (-mat_protean_policy, type aijprotean) gets the residual of each iteration, so
   that it can forecast how long the solve lasts. Without it, the policy knows the number of products alone. Each rank
   decides for itself; collective as KSPMonitorSet(). */
PetscErrorCode KSPProteanWatch(KSP ksp);

/* The rows of this index set form a field of a PC of type protean (-pc_protean_type fields, the default), like
   PCFieldSplitSetIS(). Each row of the matrix belongs to one field. The order of the calls is the order of the fields:
   a constraint, such as a pressure, is the last one. The rows are copied; a set of the same name takes the place of the
   one before. name: a word without a comma; null: the number of the field. Wrong rows are an error at the next
   PCSetUp(), which names row and field. */
PetscErrorCode PCProteanSetFieldIS(PC pc, const char* name, IS rows);

#ifdef __cplusplus
}
#endif
#endif

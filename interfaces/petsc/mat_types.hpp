// The types seqaijprotean, mpiaijprotean and aijprotean of PETSc's Mat.
//
// A matrix of type seqaijprotean is one of type seqaij: its arrays, and with them factorizations, relaxation, products
// of matrices, transposed products, are PETSc's own. MatMult() and MatMultAdd() compute with a copy of it (Block).
// A matrix of type mpiaijprotean is one of type mpiaij whose two blocks on each rank are of type seqaijprotean.
#pragma once
#include <petscmat.h>

namespace protean_types {

// Does what the next product would do first: converts the blocks of a matrix of these types, or takes their new values.
// Not collective.
PetscErrorCode convert_blocks(Mat A);

inline constexpr char seq_type[] = "seqaijprotean", mpi_type[] = "mpiaijprotean", root_type[] = "aijprotean";

PetscErrorCode register_matrix_types();

}  // namespace protean_types

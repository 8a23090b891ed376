// The arrays of a Mat of type seqaij.
#pragma once
#include <petscmat.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include <protean/protean.hpp>

#include "calls.hpp"

namespace protean_petsc {

static_assert(std::is_same_v<PetscScalar, double>, "this header is for a PETSc with real double scalars");
static_assert(sizeof(PetscInt) == sizeof(std::int32_t), "this header is for a PETSc with 32-bit indices");

namespace detail {

inline bool is_seqaij(Mat A) {
  PetscBool is = PETSC_FALSE;
  must(PetscObjectBaseTypeCompare(object(A), MATSEQAIJ, &is));
  return is == PETSC_TRUE;
}
inline std::string type_of(Mat A) {
  MatType type = nullptr;
  must(MatGetType(A, &type));
  return type ? type : "none";
}

// PETSc's own arrays of a sequential matrix, not copied.
struct Arrays {
  PetscInt rows = 0, cols = 0;
  const PetscInt *row_ptr = nullptr, *col = nullptr;
  const double* values = nullptr;
};
inline Arrays arrays_of(Mat A) {
  static constexpr PetscInt empty[1] = {0};
  Arrays arrays;
  PetscInt n = 0;
  PetscBool done = PETSC_FALSE;
  must(MatGetLocalSize(A, &arrays.rows, &arrays.cols));
  const PetscInt *row_ptr = nullptr, *col = nullptr;
  const double* values = nullptr;
  // The arrays that are restored at once are PETSc's own, not copies, and stay in place.
  must(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &row_ptr, &col, &done));
  if (!done) throw protean::BadMatrix("PETSc does not give the rows of this matrix");
  arrays.row_ptr = arrays.rows == 0 ? empty : row_ptr, arrays.col = col;
  must(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &row_ptr, &col, &done));
  must(MatSeqAIJGetArrayRead(A, &values));
  arrays.values = values;
  must(MatSeqAIJRestoreArrayRead(A, &values));
  return arrays;
}

}  // namespace detail

// The arrays of PETSc: row pointers, columns and values. A is assembled, of type seqaij, and outlives the view. Throws
// protean::BadMatrix for another one.
inline protean::CsrMatrix<double> csr_view(Mat A, const protean::ContextPtr& context) {
  if (!detail::is_seqaij(A))
    throw protean::BadMatrix("the matrix is of type " + detail::type_of(A) + "; csr_view() takes seqaij");
  PetscBool assembled = PETSC_FALSE;
  detail::must(MatAssembled(A, &assembled));
  if (!assembled)
    throw protean::BadMatrix(
        "the matrix is not assembled; call MatAssemblyBegin() and MatAssemblyEnd() first");
  const detail::Arrays a = detail::arrays_of(A);
  return protean::csr_view<double>(context, a.rows, a.cols, a.row_ptr[a.rows], a.row_ptr, a.col, a.values);
}

}  // namespace protean_petsc

// None of our exceptions passes through PETSc: it becomes an error code of PETSc's with a message that names the rank.
#pragma once
#include <petscmat.h>

#include <cstddef>
#include <utility>

#include "interfaces/petsc/calls.hpp"

namespace protean_types {

using protean_petsc::detail::Failure;
using protean_petsc::detail::must;
using protean_petsc::detail::object;

// Writes ", rank 1, off-diagonal block of 20 x 7".
void describe_place(Mat A, char* text, std::size_t size) noexcept;

// Calls f and turns whatever it throws into an error of PETSc. All that PETSc calls goes through it.
template <class F>
PetscErrorCode guarded(Mat A, F&& f) {
  return protean_petsc::detail::guarded(PETSC_COMM_SELF, std::forward<F>(f),
                                        [A](char* text, std::size_t size) { describe_place(A, text, size); });
}

}  // namespace protean_types

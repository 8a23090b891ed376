#include "interfaces/petsc/guard.hpp"

#include <cstdio>

#include "interfaces/petsc/block.hpp"

namespace protean_types {

void describe_place(Mat A, char* text, std::size_t size) noexcept {
  int rank = 0;
  PetscInt rows = 0, cols = 0;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  if (!A || MatGetLocalSize(A, &rows, &cols) || rows < 0 || cols < 0) {
    std::snprintf(text, size, ", rank %d", rank);
    return;
  }
  const Block* const block = found_block(A);
  std::snprintf(text, size, ", rank %d, %s of %d x %d", rank, block ? name_of(block->role()) : "rows",
                static_cast<int>(rows), static_cast<int>(cols));
}

}  // namespace protean_types

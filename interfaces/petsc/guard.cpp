#include "interfaces/petsc/guard.hpp"

#include <cstdio>
#include <new>
#include <protean/core/error.hpp>

#include "interfaces/petsc/block.hpp"

namespace protean_types {

PetscErrorCode describe_exception(char* text, std::size_t size) noexcept {
  const auto write = [&](const char* what, PetscErrorCode code) {
    std::snprintf(text, size, "%s", what);
    return code;
  };
  try {
    throw;
  } catch (const protean::OutOfMemory& error) {
    return write(error.what(), PETSC_ERR_MEM);
  } catch (const std::bad_alloc&) {
    return write("out of memory", PETSC_ERR_MEM);
  } catch (const protean::NotAvailable& error) {
    return write(error.what(), PETSC_ERR_SUP);
  } catch (const protean::FormatRefused& error) {
    return write(error.what(), PETSC_ERR_SUP);
  } catch (const protean::ShapeMismatch& error) {
    return write(error.what(), PETSC_ERR_ARG_SIZ);
  } catch (const protean::BadMatrix& error) {
    return write(error.what(), PETSC_ERR_ARG_WRONG);
  } catch (const protean::BadArgument& error) {
    return write(error.what(), PETSC_ERR_ARG_OUTOFRANGE);
  } catch (const std::exception& error) { return write(error.what(), PETSC_ERR_LIB); } catch (...) {
    return write("something was thrown that is no std::exception", PETSC_ERR_LIB);
  }
}

void describe_place(Mat A, char* text, std::size_t size) noexcept {
  int rank = 0;
  PetscInt rows = 0, cols = 0;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  if (!A || MatGetLocalSize(A, &rows, &cols) || rows < 0 || cols < 0) {
    std::snprintf(text, size, "rank %d", rank);
    return;
  }
  const Block* const block = found_block(A);
  std::snprintf(text, size, "rank %d, %s of %d x %d", rank, block ? name_of(block->role()) : "rows",
                static_cast<int>(rows), static_cast<int>(cols));
}

}  // namespace protean_types

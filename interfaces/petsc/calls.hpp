// Calls between PETSc and C++. Functions of PETSc return error codes, and ours throw. None of our exceptions passes
// through PETSc: it becomes an error of PETSc with its text.
#pragma once
#include <petscksp.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include <protean/core/error.hpp>

namespace protean_petsc::detail {

// Carries an error code of PETSc, which has been reported at its origin, through C++.
struct Failure : std::exception {
  explicit Failure(PetscErrorCode its_code) : code(its_code) {}
  const char* what() const noexcept override { return "a call of PETSc failed, and has reported why"; }
  PetscErrorCode code;
};
inline void must(PetscErrorCode code) {
  if (code) throw Failure{code};
}

inline PetscObject object(const void* any) { return reinterpret_cast<PetscObject>(const_cast<void*>(any)); }
inline MPI_Comm comm_of(const void* any) { return PetscObjectComm(object(any)); }

// Writes the message of the exception that is being handled, and returns PETSc's code for it.
inline PetscErrorCode describe_exception(char* text, std::size_t size) noexcept {
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
    // Thrown by a monitor, a test or a product of the program.
    return write("a function of the program has thrown something that is not a std::exception",
                 PETSC_ERR_LIB);
  }
}

// Calls f and turns whatever it throws into an error of PETSc: all that PETSc calls goes through it. place(text, size)
// writes what stands between "Protean" and the message, such as ", rank 1".
template <class F, class Place>
PetscErrorCode guarded(MPI_Comm comm, F&& f, Place&& place) {
  char text[2048] = "", where[128] = "";
  PetscErrorCode code = PetscErrorCode(0);
  try {
    std::forward<F>(f)();
    return PetscErrorCode(0);
  } catch (const Failure& failure) {
    PetscCall(failure.code);  // adds this place to PETSc's traceback
  } catch (...) {
    code = describe_exception(text, sizeof text);
    place(where, sizeof where);
  }
  SETERRQ(comm, code, "Protean%s: %s", where, text);
}
template <class F>
PetscErrorCode guarded(MPI_Comm comm, F&& f) {
  return guarded(comm, std::forward<F>(f), [](char*, std::size_t) {});
}

}  // namespace protean_petsc::detail

// No exception of ours passes through PETSc: it becomes an error code of PETSc's with a message that names the rank.
#pragma once
#include <petsc/private/petscimpl.h>
#include <petscmat.h>

#include <cstddef>
#include <exception>
#include <utility>

namespace protean_types {

// Carries an error code of PETSc, which has been reported where it arose, through C++.
struct Failure : std::exception {
  explicit Failure(PetscErrorCode its_code) : code(its_code) {}
  const char* what() const noexcept override { return "a call of PETSc failed, and has reported why"; }
  PetscErrorCode code;
};
inline void must(PetscErrorCode code) {
  if (code) throw Failure{code};
}

inline PetscObject object(const void* any) { return reinterpret_cast<PetscObject>(const_cast<void*>(any)); }

// Writes the message of the exception that is being handled, and returns PETSc's code for it.
PetscErrorCode describe_exception(char* text, std::size_t size) noexcept;
// Writes "rank 1, off-diagonal block of 20 x 7".
void describe_place(Mat A, char* text, std::size_t size) noexcept;

// Calls f and turns whatever it throws into an error of PETSc. All that PETSc calls goes through it.
template <class F>
PetscErrorCode guarded(Mat A, F&& f) {
  char text[2048] = "", place[128] = "";
  PetscErrorCode code = PetscErrorCode(0);
  try {
    std::forward<F>(f)();
    return PetscErrorCode(0);
  } catch (const Failure& failure) {
    PetscCall(failure.code);  // adds this place to PETSc's traceback
  } catch (...) {
    code = describe_exception(text, sizeof text);
    describe_place(A, place, sizeof place);
  }
  SETERRQ(PETSC_COMM_SELF, code, "Protean, %s: %s", place, text);
}

}  // namespace protean_types

// PETSc's errors as messages of the command instead of its tracebacks.
#pragma once
#include <petscsys.h>

#include <string>

namespace protean::apps::ranks {

struct PetscMessage {
  std::string text;
  bool memory = false;  // there was not enough
};

// From now on PETSc prints nothing for an error; the text of the first one is kept.
void keep_petsc_messages();
// The text that is kept, which is forgotten then.
PetscMessage take_petsc_message();

}  // namespace protean::apps::ranks

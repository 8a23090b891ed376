// Processes that a launcher of MPI started together, and the program that solves on them. The command itself is linked
// with no MPI.
#pragma once
#include <string>

namespace protean::apps {

// What the environment says of this process. Open MPI, MPICH and its relatives (PMI), and srun are known; without one
// of them it is rank 0 of 1.
struct Launch {
  int rank = 0, count = 1;
};
Launch launch_of_environment() noexcept;

// Thrown where a problem asks for `engine: petsc` in a process that is not yet the program of that engine.
struct OtherProgram {};

// Replaces this process by protean-ranks with the same arguments: the program beside this one, or in
// ../libexec/protean. Returns only by throwing: NotAvailable where that program is not there, which says what to
// install.
[[noreturn]] void become_ranks(char** arguments);

// Its path; empty where it is not there.
std::string ranks_program();

}  // namespace protean::apps

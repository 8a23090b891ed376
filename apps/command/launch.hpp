// The other programs that the command becomes: protean-ranks, which solves on the processes that a launcher of MPI
// started together (the command itself is not linked with MPI), and protean-research.
#pragma once
#include <string>

namespace protean::apps {

// What the environment says of this process. Open MPI, MPICH and its relatives (PMI), and srun are known; without one
// of them it is rank 0 of 1.
struct Launch {
  int rank = 0, count = 1;
};
Launch launch_of_environment() noexcept;

// Thrown if a problem asks for `engine: petsc` in a process that is not yet the program of that engine.
struct OtherProgram {};

// The path of protean-ranks. Throws NotAvailable if that program is not there, which says what to install.
std::string ranks_program();

// Replaces this process by protean-ranks with the same arguments: the program next to this one, or in
// ../libexec/protean. Returns only by throwing what ranks_program() throws.
[[noreturn]] void become_ranks(char** arguments);

// The same for `protean reproduce` and the program protean-research.
[[noreturn]] void become_research(char** arguments);

// The path of a program next to this one, or in ../libexec/protean; empty if it is not there.
std::string program_beside(const char* name);

}  // namespace protean::apps

// protean-ranks: the command on several ranks. `protean solve` replaces itself by it if a launcher of MPI started
// several processes, or if the problem says `engine: petsc`.
#include <petscksp.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>

#include "apps/command/command_line.hpp"
#include "apps/ranks/engine.hpp"
#include "apps/ranks/petsc_errors.hpp"
#include "interfaces/petsc/protean_petsc.h"

int main(int argc, char** argv) {
  (void)std::signal(SIGXFSZ, SIG_IGN);
  // For `protean doctor`, which is not linked with MPI. This call may come before MPI_Init().
  if (argc == 2 && std::string_view(argv[1]) == "--mpi") {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return 3;
    return std::puts(text) < 0 ? 3 : 0;
  }
  // The arguments are the arguments of the command. PETSc's signal handlers are off, so that a rank that crashes shows
  // as a crash.
  if (PetscOptionsSetValue(nullptr, "-no_signal_handler", "true") || PetscInitializeNoArguments()) {
    std::fputs("protean: error: PETSc or its MPI does not start\n", stderr);
    return 3;
  }
  if (PetscDLLibraryRegister_protean_petsc()) return 3;
  int rank = 0;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  // Rank 0 speaks for all.
  if (rank != 0 && !std::freopen("/dev/null", "w", stdout)) return 3;
  protean::apps::ranks::keep_petsc_messages();
  const int code = protean::apps::run(argc, argv, {protean::apps::ranks::solve, rank});
  std::fflush(stdout);
  return PetscFinalize() && code == 0 ? 3 : code;
}

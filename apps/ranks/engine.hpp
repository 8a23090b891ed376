// `protean solve` on several ranks, with PETSc as the engine.
#pragma once
#include "apps/solve/solve.hpp"

namespace protean::apps::ranks {

// As apps::solve(), on all ranks of MPI_COMM_WORLD: the same files, the same report with a part `ranks`, the same exit
// codes. PETSc has been initialised. Rank 0 writes and prints. An error of one rank is thrown on all, or ends all
// (Ranks::all()). Collective.
int solve(const SolveArguments& arguments);

}  // namespace protean::apps::ranks

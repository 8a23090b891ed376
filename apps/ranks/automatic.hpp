// What method and preconditioner `auto` are for a matrix of PETSc's.
#pragma once
#include <petscmat.h>

#include "apps/problem/problem_file.hpp"
#include "apps/solve/solve.hpp"

namespace protean::apps::ranks {

// The problem with the chosen method and preconditioner instead of `auto`; the record has the method, the choice and
// the reason. It takes two products and the diagonal. Collective.
Problem without_auto(const Problem& problem, Mat A, SolveRecord& record);

}  // namespace protean::apps::ranks

// What method and preconditioner `auto` are for a matrix of PETSc's.
#pragma once
#include <petscmat.h>

#include "apps/problem/problem_file.hpp"
#include "apps/solve/solve.hpp"

namespace protean::apps::ranks {

// The problem with them in place of `auto`; the record has the method, what was chosen and why. By two products and the
// diagonal. Collective.
Problem without_auto(const Problem& problem, Mat A, SolveRecord& record);

}  // namespace protean::apps::ranks

// `protean check`: says whether a problem can be solved, and what a solve would do.
#pragma once
#include "apps/solve/solve.hpp"

namespace protean::apps {

struct CheckArguments {
  SolveArguments solve;  // as `protean solve` takes them; json prints the check as JSON
};

// Checks what `protean solve` checks before it reads the matrix, with the same errors, and the header of the matrix
// file; makes the contexts, but solves and writes nothing. Prints what would run. Returns 0. Throws as solve() does.
int check_problem(const CheckArguments& arguments);

}  // namespace protean::apps

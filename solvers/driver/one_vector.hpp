// A solve with one right-hand side. Private to solvers/.
#pragma once
#include <string_view>

#include "solvers/steps.hpp"

namespace protean::detail {

// Solves the system, whose arguments were checked, with the method of the workspace, called `name`. The null space is
// one of null_space_of().
template <class T>
SolveReport solve_one_vector(std::string_view name, const SolverOptions& options, const System<T>& system,
                             SolveObserver* observer, Workspace<T>& workspace,
                             const VectorBlock<const T>& null_space);

}  // namespace protean::detail

// The table of the options of solvers.
#pragma once
#include <span>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/core/options.hpp>
#include <protean/solvers/solver.hpp>

namespace PROTEAN_EXPORT protean {

// An entry for each member of SolverOptions and of its StoppingRule, under the name of the member.
std::span<const Option<SolverOptions>> solver_options() noexcept;

// `options`, with the default for each one that the method does not read, which make_solver() would refuse.
SolverOptions options_read_by(std::string_view method, const SolverOptions& options);

}  // namespace protean

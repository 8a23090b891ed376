#include "solvers/options.hpp"

#include "core/option_checks.hpp"
#include "core/option_readers.hpp"
#include "solvers/type_list.hpp"

namespace protean {
namespace {

constexpr std::string_view baselines[] = {"rhs", "initial-residual"}, orthogonalizations[] = {"cgs2", "mgs"},
                           null_spaces[] = {"none", "constant"},
                           device_steps[] = {"auto", "graph", "resident"},
                           residual_norms[] = {"euclidean", "diagonal"};

#define PROTEAN_READ(option) #option ","
#define PROTEAN_TYPE(Type, name, reads) {name, "," reads},
constexpr detail::TypeReads types[] = {PROTEAN_METHOD_TYPES(PROTEAN_TYPE, PROTEAN_READ)};
#undef PROTEAN_TYPE
#undef PROTEAN_READ
// The option of this name and member, which the types of the list read.
template <detail::OptionName name, auto member>
constexpr auto of_types(OptionInfo info) {
  return detail::option_of_types<types, name, member>(info);
}

using S = SolverOptions;
using R = StoppingRule;
constexpr Option<SolverOptions> table[] = {
    option<&S::stopping, &R::relative_tolerance>(
        {.name = "relative_tolerance",
         .range = {0, 1, false, true},
         .about = "Stop when ||b - A x|| is at most this times ||baseline||"}),
    option<&S::stopping, &R::absolute_tolerance>({.name = "absolute_tolerance",
                                                  .range = {0, finite},
                                                  .about = "Stop when ||b - A x|| is at most this"}),
    option<&S::stopping, &R::baseline>(
        {.name = "baseline",
         .words = baselines,
         .about = "What the residual is compared with: b, or the residual of the initial guess"}),
    option<&S::stopping, &R::max_iterations>(
        {.name = "max_iterations",
         .range = {0, no_limit},
         .about = "Most iterations; the solve then ends as not converged"}),
    option<&S::stopping, &R::max_seconds>(
        {.name = "max_seconds",
         .range = {0, no_limit},
         .about =
             "Most seconds, with the setup of the preconditioner; the solve then ends as not converged"}),
    option<&S::stopping, &R::divergence>(
        {.name = "divergence",
         .range = {1, no_limit},
         .about = "Stop if the residual exceeds this times the larger of baseline and initial residual; "
                  ".inf: never"}),
    option<&S::stopping, &R::stagnation_window>(
        {.name = "stagnation_window",
         .range = {0, no_limit},
         .about = "Stop after this many iterations without a new smallest residual; 0: never"}),
    of_types<"restart", &S::restart>(
        {.range = {1, 100000}, .about = "Number of basis vectors before a restart"}),
    of_types<"orthogonalization", &S::orthogonalization>(
        {.words = orthogonalizations, .about = "Gram-Schmidt: classical twice (cgs2), or modified (mgs)"}),
    of_types<"directions", &S::directions>(
        {.range = {1, 100}, .about = "Number of earlier directions to which a new one is made conjugate"}),
    of_types<"s", &S::s>({.range = {1, 16}, .about = "Dimension of the shadow space"}),
    of_types<"null_space", &S::null_space>(
        {.words = null_spaces, .about = "Null space of A; constant: A x = 0 for vectors of equal entries"}),
    of_types<"device_steps", &S::device_steps>(
        {.words = device_steps,
         .on_device = true,
         .about = "How steps run on a GPU: as a recorded graph, or in one kernel that keeps the matrix in "
                  "shared memory; auto records a graph in long solves only"}),
    of_types<"residual_norm", &S::residual_norm>(
        {.words = residual_norms,
         .about = "Norm of b and b - A x: the 2-norm, or the 2-norm after each row is divided by its "
                  "diagonal entry"}),
};

}  // namespace

std::span<const Option<SolverOptions>> solver_options() noexcept { return table; }

SolverOptions options_read_by(std::string_view method, const SolverOptions& options) {
  return only_read(solver_options(), options, find_solver(method).id);
}

}  // namespace protean

#include "apps/problem/preconditioner_check.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "preconditioners/options.hpp"
#include "solvers/options.hpp"

namespace protean::apps {
namespace {

void check_partition(const Place& place, SubdomainPartition partition) {
  if (const std::string_view why = unavailable(partition); !why.empty())
    fail(place, fmt::format("preconditioner.partition {}: {}", to_string(partition), why));
}
void check_available(const Problem& problem, const Place& place, std::string_view type, AmgSetup setup) {
  if (const std::string_view why = unavailable(setup); !why.empty())
    fail(place, fmt::format("preconditioner.setup {}: {}", to_string(setup), why));
  if (setup == AmgSetup::classical && problem.op.space == Space::device)
    fail(place,
         "preconditioner.setup classical is not for operator.space device: it computes on the host; take "
         "aggregation");
  if (setup == AmgSetup::classical && problem.op.deterministic)
    fail(place,
         "preconditioner.setup classical is not for operator.deterministic: another library adds its sums; "
         "take aggregation");
  for (const PreconditionerEntry& entry : preconditioners()) {
    if (entry.id != type) continue;
    if (!entry.unavailable.empty())
      fail(place, fmt::format("preconditioner.type {}: {}", type, entry.unavailable));
  }
}
void check_solve(const Problem& problem, const Place& place, TriangularSolve solve) {
  if (solve != TriangularSolve::cusparse) return;
  if (problem.op.space == Space::host)
    fail(place,
         "preconditioner.solve cusparse runs on a GPU only; take auto, levels or sweeps, or "
         "operator.space: device");
  if (problem.op.deterministic)
    fail(place,
         "preconditioner.solve cusparse is not for operator.deterministic: another library adds its sums; "
         "take auto, levels or sweeps");
}

}  // namespace

void check_preconditioner(const Problem& problem, const Place& place) {
  const SolveSettings& settings = problem.settings;
  const std::string& method = settings.method;
  const std::string_view type = preconditioner_type(settings);
  const bool needs_symmetric =
      method != "auto" && make_solver<double>(method)->needs_symmetric_preconditioner();
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == type && needs_symmetric && !entry.symmetric)
      fail(place, fmt::format("solver.method {} needs a symmetric preconditioner, and {} "
                              "is not symmetric even if the matrix is; use {} instead, or "
                              "method gmres or bicgstab",
                              method, type, entry.symmetric_relative));
  if (type == "composition" && needs_symmetric && !is_symmetric(settings.parts, settings.combine))
    fail(place, fmt::format("solver.method {} needs a symmetric preconditioner, and this "
                            "composition is not symmetric even if the matrix is; take "
                            "combine: symmetric or additive with symmetric parts (ssor for "
                            "gauss-seidel, ic0 for ilu0), or method gmres or bicgstab",
                            method));
  const PreconditionerOptions& options = settings.preconditioning;
  check_solve(problem, place, options.solve);
  check_available(problem, place, type, options.setup);
  check_partition(place, options.partition);
  for (const PreconditionerPart& part : settings.parts) {
    check_solve(problem, place, part.options.solve);
    check_available(problem, place, part.id, part.options.setup);
    check_partition(place, part.options.partition);
  }
}

}  // namespace protean::apps

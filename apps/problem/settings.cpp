#include "apps/problem/settings.hpp"

namespace protean::apps {

SolveSettings settings_of(const Problem& problem, const ContextPtr& context, const MachineTable* machine) {
  SolveSettings settings;
  settings.method = problem.solver.method, settings.solver = problem.solver.options;
  if (problem.preconditioner.parts.empty())
    settings.preconditioner = problem.preconditioner.type;
  else
    settings.parts = problem.preconditioner.parts, settings.combine = problem.preconditioner.combine;
  settings.preconditioning = problem.preconditioner.options;
  settings.format = problem.op.format, settings.parameters = problem.op.parameters;
  settings.kernel = problem.op.kernel, settings.order = problem.matrix.order;
  settings.policy = problem.schedule.automatic, settings.policy_options = problem.schedule.policy;
  settings.overlapped = problem.schedule.overlapped, settings.machine = machine;
  settings.schedule = problem.schedule.points;
  settings.context = context;
  settings.expected_iterations = problem.op.expected_iterations;
  settings.selector = problem.op.selector;
  settings.check_arrays = false;  // whoever reads or makes a matrix checks it
  return settings;
}

}  // namespace protean::apps

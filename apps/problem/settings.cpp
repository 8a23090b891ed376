#include "apps/problem/settings.hpp"

namespace protean::apps {

SolveSettings settings_of(const Problem& problem, const ContextPtr& context, const MachineTable* machine) {
  SolveSettings settings = problem.settings;
  settings.context = context, settings.machine = machine;
  settings.check_arrays = false;  // whoever reads or makes a matrix checks it
  return settings;
}

}  // namespace protean::apps

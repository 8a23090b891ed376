// A problem as the settings of a solve, which all entrances share.
#pragma once
#include "apps/problem/problem_file.hpp"
#include "systems/settings.hpp"

namespace protean::apps {

// machine: as in SolveSettings. Arrays are not checked: whoever reads or makes a matrix checks it.
SolveSettings settings_of(const Problem& problem, const ContextPtr& context, const MachineTable* machine);

}  // namespace protean::apps

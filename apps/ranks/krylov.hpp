// The method, the tolerances and the preconditioner of a problem as a KSP of PETSc.
#pragma once
#include <petscksp.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "apps/problem/problem_file.hpp"

namespace protean::apps::ranks {

// Throws BadFile or BadArgument for what PETSc has no counterpart of, with what to take instead: methods,
// preconditioners and their options, formats on a GPU, orders, schedules. docs/distributed.md has the table.
void require_counterparts(const Problem& problem);

// What the problem says for PETSc's database of options: formats, kernel, threads, policy, and petsc_options after
// them, which win.
std::string options_of(const Problem& problem, bool policy);

// The words of petsc_options that PETSc has not asked for so far, such as one that is misspelt: a sentence, or nothing.
std::string note_on_unused(const Problem& problem);

// Method and preconditioner of the problem. If BlockPreconditioner has the type, the PCSHELL is still without it.
void configure(KSP ksp, const Problem& problem);

struct KrylovIteration {
  std::int64_t iteration = 0;
  double residual = 0, relative_residual = 0, seconds = 0;
};

// Solves A x = b from the x that is given, with the tests of StoppingRule. The residual b - A x is computed before a
// solve counts as converged, and if it is too large the method begins again from x. A signal to any rank ends the solve
// on all of them if an InterruptGuard exists; signal_code becomes the exit code for it, 0 if there was no signal.
// ended: the reason if the setup was ended; x stays as it is then. Collective.
SolveReport solve(KSP ksp, Mat A, Vec b, Vec x, const StoppingRule& rule,
                  const std::function<void(const KrylovIteration&)>& on_iteration, StopReason ended,
                  int& signal_code);

}  // namespace protean::apps::ranks

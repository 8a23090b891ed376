// Benchmarks of the choice of a format and of its change during a solve.
#include "benchmarks/common/program.hpp"

namespace protean::bench {

int run_policy(Arguments&);
int run_selection(Arguments&);
int run_selectors(Arguments&);
int run_trials(Arguments&);

}  // namespace protean::bench

int main(int argc, char** argv) {
  using namespace protean::bench;
  return run_program(
      "protean-bench-switching",
      {{"policy", run_policy, "time to solution with the format fixed, and changed during the solve"},
       {"selection", run_selection, "how good the choice of a format is, by stored times"},
       {"selectors", run_selectors, "how good each selector of formats is, by stored times"},
       {"trials", run_trials, "how good the choice before a long solve is, by times of its own"}},
      argc, argv);
}

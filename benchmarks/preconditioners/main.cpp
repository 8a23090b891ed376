// Benchmarks of preconditioners.
#include "benchmarks/common/program.hpp"

namespace protean::bench {

int run_solves(Arguments&);
int run_setups(Arguments&);
int run_amg(Arguments&);
int run_incomplete(Arguments&);
int run_fields(Arguments&);
#if defined(PROTEAN_HAVE_FEM)
int run_refresh(Arguments&);
#else
constexpr int (*run_refresh)(Arguments&) = nullptr;
#endif

}  // namespace protean::bench

int main(int argc, char** argv) {
  using namespace protean::bench;
  return run_program(
      "protean-bench-preconditioners",
      {{"solves", run_solves, "preconditioned solves, ours next to PETSc's and Eigen's"},
       {"setups", run_setups, "setup, new values, application and solve of many preconditioners"},
       {"amg", run_amg, "setups of amg by aggregation, step by step"},
       {"incomplete", run_incomplete, "incomplete factors, ours next to PETSc's and Eigen's"},
       {"fields", run_fields, "systems of several fields by each recipe, ours next to PETSc's fieldsplit"},
       {"refresh", run_refresh, "what a kept preconditioner saves over the systems of a nonlinear problem",
        "FEM"}},
      argc, argv);
}

// Benchmarks on ranks of MPI, through PETSc.
#include "benchmarks/common/program.hpp"

namespace protean::bench {

int run_petsc(Arguments&);
int run_model(Arguments&);

}  // namespace protean::bench

int main(int argc, char** argv) {
  using namespace protean::bench;
  return run_program(
      "protean-bench-ranks",
      {{"petsc", run_petsc, "products and solves with our type of PETSc's matrices, next to its own"},
       {"model", run_model, "what a model of an iteration of CG needs, and the iteration itself"}},
      argc, argv);
}

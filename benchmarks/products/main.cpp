// Benchmarks of matrix-vector products, and of what happens to a matrix before and around them.
#include "benchmarks/common/program.hpp"

namespace protean::bench {

int run_host(Arguments&);
int run_columns(Arguments&);
int run_bytes(Arguments&);
int run_instruction_sets(Arguments&);
int run_fidelity(Arguments&);
int run_cocktail_rates(Arguments&);
int run_io(Arguments&);
#if defined(PROTEAN_HAVE_CUDA)
int run_device(Arguments&);
int run_split(Arguments&);
int run_copy(Arguments&);
#else
constexpr int (*run_device)(Arguments&) = nullptr;
constexpr int (*run_split)(Arguments&) = nullptr;
constexpr int (*run_copy)(Arguments&) = nullptr;
#endif

}  // namespace protean::bench

int main(int argc, char** argv) {
  using namespace protean::bench;
  return run_program(
      "protean-bench-products",
      {{"host", run_host, "products of all our formats on a host, next to MKL, Eigen and PETSc"},
       {"device", run_device, "products of all our formats on a GPU, next to cuSPARSE", "CUDA"},
       {"columns", run_columns, "products and solves with several vectors against as many single ones"},
       {"split", run_split, "a product that a GPU and the host share, next to the GPU alone", "CUDA"},
       {"copy", run_copy, "copies of a matrix to a GPU and back, next to plain copies", "CUDA"},
       {"instruction-sets", run_instruction_sets, "what a wider instruction set gains in each format"},
       {"bytes", run_bytes, "bytes of a nonzero next to a table of the survey of Filippone and others"},
       {"io", run_io, "speed and memory of reading and writing matrices"},
       {"fidelity", run_fidelity, "parameters of formats as in the papers, next to our own"},
       {"cocktail-rates", run_cocktail_rates, "the table of rates that format cocktail is planned by"}},
      argc, argv);
}

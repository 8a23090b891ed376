// Benchmarks of whole solves.
#include "benchmarks/common/program.hpp"

namespace protean::bench {

int run_host(Arguments&);
int run_iteration(Arguments&);
int run_default(Arguments&);
int run_combinations(Arguments&);
int run_order(Arguments&);
int run_loaded(Arguments&);
int run_values(Arguments&);
int run_short(Arguments&);
#if defined(PROTEAN_HAVE_FEM)
int run_kept(Arguments&);
int run_elements(Arguments&);
int run_element_start(Arguments&);
#else
constexpr int (*run_kept)(Arguments&) = nullptr;
constexpr int (*run_elements)(Arguments&) = nullptr;
constexpr int (*run_element_start)(Arguments&) = nullptr;
#endif
#if defined(PROTEAN_HAVE_MFEM)
int run_mfem(Arguments&);
#else
constexpr int (*run_mfem)(Arguments&) = nullptr;
#endif
#if defined(PROTEAN_HAVE_CUDA)
int run_device(Arguments&);
int run_graph_stop(Arguments&);
int run_devices(Arguments&);
#else
constexpr int (*run_device)(Arguments&) = nullptr;
constexpr int (*run_graph_stop)(Arguments&) = nullptr;
constexpr int (*run_devices)(Arguments&) = nullptr;
#endif

}  // namespace protean::bench

int main(int argc, char** argv) {
  using namespace protean::bench;
  return run_program(
      "protean-bench-solve",
      {{"host", run_host, "an iteration of Jacobi-CG on a host, next to MKL, Eigen and PETSc"},
       {"device", run_device, "an iteration of Jacobi-CG on a GPU, next to cuSPARSE and cuBLAS", "CUDA"},
       {"iteration", run_iteration, "an iteration of each method, with one vector and with several"},
       {"default", run_default, "what format auto costs and saves in a whole solve"},
       {"combinations", run_combinations,
        "the default next to the best of methods, preconditioners and formats"},
       {"order", run_order, "what an order of the rows saves, everything counted"},
       {"loaded", run_loaded, "Jacobi-CG on processors that also do other work, next to other libraries"},
       {"values", run_values, "what values in float gain next to vectors in double"},
       {"short", run_short, "what a solve of a few iterations takes, at once and in a kept system"},
       {"kept", run_kept, "what a kept system saves over a sequence of solves with new values", "FEM"},
       {"elements", run_elements, "element matrices against assembled formats, by degree", "FEM"},
       {"element-start", run_element_start, "from element matrices in memory to the solution", "FEM"},
       {"mfem", run_mfem, "products and setup of a solve next to MFEM, on its meshes", "MFEM"},
       {"devices", run_devices, "iterations and whole solves on one GPU and on several", "CUDA"},
       {"graph-stop", run_graph_stop, "what it costs to protect vectors behind the end of a recorded solve",
        "CUDA"}},
      argc, argv);
}

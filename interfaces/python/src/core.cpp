// protean._core: the library for the modules of python/protean. It translates, and does nothing else.
#include "common.hpp"

NB_MODULE(_core, m) {
  using namespace protean::python;
  nb::set_leak_warnings(false);  // a matrix that a module of the caller keeps is not a leak
  m.attr("__version__") = PROTEAN_VERSION_TEXT;
  bind_errors(m);
  m.def("stop_solves", &stop_solves);
  m.def("forget_solves", &forget_solves);
  bind_device_arrays(m);
  bind_matrices(m);
#if defined(PROTEAN_HAVE_CUDA)
  bind_nvidia_libraries(m);
#endif
  bind_preconditioners(m);
  bind_solvers(m);
  bind_tables(m);
}

// Contexts.
#include <string>
#include <string_view>

#include "core/words.hpp"
#include "interfaces/c/handles.hpp"

using namespace protean;
using namespace protean::capi;

extern "C" {

protean_status protean_context_host(int threads, protean_context** context) {
  return guarded([&] {
    need(context, "context");
    *context = new protean_context{Context::host(threads)};
  });
}
protean_status protean_context_device(int ordinal, protean_context** context) {
  return guarded([&] {
    need(context, "context");
    *context = new protean_context{Context::device(ordinal)};
  });
}
protean_status protean_context_make(const char* space, int number, const char* options,
                                    protean_context** context) {
  return guarded([&] {
    need(context, "context"), need(space, "space");
    HostOptions host;
    for (const std::string_view option : split(options ? options : "", ','))
      if (option == "deterministic")
        host.deterministic = true;
      else if (option == "vector_kernels=kokkos")
        host.vector_kernels = VectorKernels::kokkos;
      else if (!option.empty() && option != "vector_kernels=native")
        throw BadArgument("there is no option '" + std::string(option) +
                          "' of a context; there are deterministic, vector_kernels=native and "
                          "vector_kernels=kokkos");
    const bool on_device = second_of("space", space, "host", "device");
    *context =
        new protean_context{on_device ? Context::device(number, {host.vector_kernels, host.deterministic})
                                      : Context::host(number, host)};
  });
}
void protean_context_free(protean_context* context) { delete context; }

}  // extern "C"

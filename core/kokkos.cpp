#include "core/kokkos.hpp"

#include <cstdlib>

#include "core/error.hpp"

namespace protean {

void start_kokkos(const Context& context) {
  static bool started = false;
  const std::lock_guard lock(kokkos_mutex());
  if (Kokkos::is_initialized()) return;
  if (started)
    throw NotAvailable(
        "Kokkos has been finalised in this program, and cannot be started again; take kernel native");
#if KOKKOS_VERSION >= 30700
  Kokkos::initialize(
      Kokkos::InitializationSettings().set_num_threads(context.threads()).set_disable_warnings(true));
#else
  Kokkos::InitArguments arguments;
  arguments.num_threads = context.threads();
  arguments.disable_warnings = true;
  Kokkos::initialize(arguments);
#endif
  started = true;
  std::atexit([] {
    if (Kokkos::is_initialized()) Kokkos::finalize();
  });
}

std::mutex& kokkos_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace protean

// Starting Kokkos, for files that are compiled without its headers. Private; builds with Kokkos only.
#pragma once
#include "core/context.hpp"

namespace protean {

// Initialises Kokkos at the first call, without output, unless the program has done so itself: with the number
// of threads of a host context, with the GPU of a device context. The caller's current CUDA device stays as it
// is. Kokkos is finalised when the program exits and not before, since it cannot be started twice.
// Throws NotAvailable when the program has finalised Kokkos already, or when this Kokkos was built with CUDA and
// there is no GPU.
void start_kokkos(const Context& context);

namespace detail {

// Whether kernels that Kokkos starts in this context can be recorded into a CUDA graph now. They cannot before
// the first of them has run, since Kokkos allocates then, nor while a profiling tool of Kokkos is loaded, since
// Kokkos then waits for the device at each kernel.
bool kokkos_can_record(const Context& context) noexcept;

// Called before the stream of this state is destroyed.
void forget_kokkos(const DeviceState* state) noexcept;

}  // namespace detail
}  // namespace protean

// What the kernels written with Kokkos have in common. Include only in files that are compiled with Kokkos.
#pragma once
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <mutex>

#include "core/context.hpp"

namespace protean {

using KokkosHost = Kokkos::DefaultHostExecutionSpace;
using KokkosRows = Kokkos::RangePolicy<KokkosHost, Kokkos::IndexType<std::int64_t>>;

// Initialises Kokkos at the first call, without output and with the context's number of threads, unless the
// program has done so itself. Kokkos is finalised when the program exits, and not before, since it cannot be
// started twice. Throws NotAvailable when the program has finalised it already.
void start_kokkos(const Context& context);

// One loop at a time: Kokkos' host devices are not made for several callers.
std::mutex& kokkos_mutex();

}  // namespace protean

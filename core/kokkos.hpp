// What the kernels written with Kokkos have in common. Each kernel is written once, as a template of the
// execution space: it runs on Kokkos' host space in a host context and on Kokkos::Cuda in a device context.
// Include this only in files that are compiled with Kokkos: as CUDA if Kokkos was built with CUDA
// (PROTEAN_KOKKOS_CUDA), as C++ otherwise. Kernels are functors, since nvcc makes the host side of a __host__
// __device__ lambda slow.
#pragma once
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/device_checks.hpp"
#include "core/kokkos_start.hpp"

namespace protean {

using KokkosHost = Kokkos::DefaultHostExecutionSpace;

template <class Exec>
using KokkosRange = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
template <class Exec>
using KokkosTeams = Kokkos::TeamPolicy<Exec, Kokkos::IndexType<std::int64_t>>;

// Memory that Protean owns, as Kokkos sees it.
template <class Exec, class T>
using KokkosArray = Kokkos::View<T*, typename Exec::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

template <class Exec, class T>
KokkosArray<Exec, T> kokkos_array(T* data, std::int64_t size) {
  return KokkosArray<Exec, T>(data, static_cast<std::size_t>(size));
}

template <class Exec>
inline constexpr bool is_kokkos_host = std::is_same_v<Exec, KokkosHost>;

// The flag of DeviceState::stop, at which kernels of a recorded solve that has ended do nothing. A host has
// none, and its loops do not look.
template <class Exec>
struct KokkosStop {
  const int* flag = nullptr;
  KOKKOS_FUNCTION bool operator()() const {
    if constexpr (is_kokkos_host<Exec>)
      return false;
    else
      return flag && *flag;
  }
};

// While it lives, this thread alone starts kernels of Kokkos, which is not made for several callers.
class KokkosScope {
 public:
  explicit KokkosScope(const Context& context);
  const int* stop() const noexcept { return stop_; }
#if defined(PROTEAN_KOKKOS_CUDA)
  // The instance whose kernels are queued on the context's stream.
  const Kokkos::Cuda& cuda() const noexcept { return *cuda_; }
#endif

 private:
  std::unique_lock<std::mutex> lock_;
  const int* stop_ = nullptr;
#if defined(PROTEAN_KOKKOS_CUDA)
  const detail::DeviceScope device_;  // Kokkos sets the current GPU at each call
  const Kokkos::Cuda* cuda_ = nullptr;
#endif
};

// work(exec, stop) with the execution space of a context. Returns when the work is done on a host, and when it
// is queued on a device.
template <class Work>
void with_kokkos(const Context& context, Work&& work) {
  const KokkosScope scope(context);
#if defined(PROTEAN_KOKKOS_CUDA)
  if (context.space() == Space::device) return work(scope.cuda(), KokkosStop<Kokkos::Cuda>{scope.stop()});
#endif
  const KokkosHost host;
  work(host, KokkosStop<KokkosHost>());
  host.fence();
}

}  // namespace protean

#include "core/device/kernel_tools.cuh"
#include "solvers/hashed.hpp"

namespace protean::detail {
namespace {

template <class T>
__global__ void fill_kernel(std::uint64_t first, T* v, std::int64_t n, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += threads)
    v[i] = static_cast<T>(hashed(first + static_cast<std::uint64_t>(i)));
}

}  // namespace

template <class T>
void device_fill_hashed(const Context& context, std::uint64_t first, VectorView<T> v) {
  if (v.size == 0) return;
  const DeviceState& state = context.device_state();
  device::launch(state, fill_kernel<T>, device::blocks_for(state, v.size), device::block_size, first, v.data,
                 v.size, state.stop);
}

template void device_fill_hashed<float>(const Context&, std::uint64_t, VectorView<float>);
template void device_fill_hashed<double>(const Context&, std::uint64_t, VectorView<double>);

}  // namespace protean::detail

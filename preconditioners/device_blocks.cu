// The kernel of device_blocks.hpp.
#include "core/device/kernel_tools.cuh"
#include "preconditioners/device_blocks.hpp"

namespace protean::device {
namespace {

template <class T>
__global__ void __launch_bounds__(block_size)
    block_kernel(detail::BlockInverses<T> blocks, const T* r, T* z, const int* stop) {
  if (stopped(stop)) return;
  const std::int64_t row = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (row < blocks.n) z[row] = blocks.solve(row, r);
}

}  // namespace

template <class T>
void solve_blocks(const Context& context, const detail::BlockInverses<T>& blocks, VectorView<const T> r,
                  VectorView<T> z) {
  if (blocks.n == 0) return;
  const DeviceState& state = context.device_state();
  launch(state, block_kernel<T>, (blocks.n + block_size - 1) / block_size, block_size, blocks, r.data, z.data,
         state.stop);
}
template void solve_blocks<double>(const Context&, const detail::BlockInverses<double>&,
                                   VectorView<const double>, VectorView<double>);
template void solve_blocks<float>(const Context&, const detail::BlockInverses<float>&,
                                  VectorView<const float>, VectorView<float>);

}  // namespace protean::device

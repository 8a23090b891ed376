// The kernels of device_blocks.hpp.
#include <algorithm>

#include "core/buffer.hpp"
#include "core/device/kernel_tools.cuh"
#include "preconditioners/device_blocks.hpp"
#include "preconditioners/lanes.cuh"

namespace protean::device {
namespace {

template <class T>
__global__ void __launch_bounds__(block_size)
    block_kernel(detail::BlockInverses<T> blocks, const T* r, T* z, const int* stop) {
  if (stopped(stop)) return;
  const std::int64_t row = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (row < blocks.n) z[row] = blocks.solve(row, r);
}

template <int lanes, class T, class Pointer>
__global__ void __launch_bounds__(block_size)
    invert_kernel(detail::BlockRows<T> blocks, const Pointer* ptr, const std::int32_t* col, const T* values,
                  double* work, std::int64_t groups, unsigned* bad) {
  wait_for_stream();
  const std::int64_t group = place_of_thread<lanes>();
  if (group >= groups) return;
  const unsigned mask = lanes_of_row<lanes>();
  double* const own = work + group * 2 * blocks.size * blocks.size;
  bool good = true;
  for (std::int64_t b = group; b < blocks.blocks; b += groups)
    good = blocks.invert(ptr, col, values, b, own, static_cast<int>(threadIdx.x) % lanes, lanes, [mask] {
      __syncwarp(mask);
    }) && good;
  if (!good) atomicOr(bad, 1u);
}

}  // namespace

template <class T>
void invert_blocks(const ContextPtr& context, const detail::BlockRows<T>& blocks, const CsrMatrix<T>& csr,
                   unsigned* bad) {
  if (blocks.blocks == 0) return;
  const DeviceState& state = context->device_state();
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(
      blocks.inverses, 0, static_cast<std::size_t>(blocks.n * blocks.size) * sizeof(T), state.stream));
  // Some groups of lanes take block after block, so that their workspaces stay in the cache.
  constexpr std::int64_t most_work = std::int64_t{4} << 20;  // numbers
  const std::int64_t own = std::int64_t{2} * blocks.size * blocks.size;
  const std::int64_t groups = std::clamp<std::int64_t>(most_work / own, 1, blocks.blocks);
  Buffer<double> work(context, groups * own);
  int lanes = 4;
  while (lanes < 32 && lanes < blocks.size) lanes *= 2;
  csr.pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    with_lanes(lanes, [&](auto n) {
      launch(state, invert_kernel<n(), T, Pointer>, blocks_of_rows(groups, n()), block_size, blocks, ptr,
             csr.pattern.col, csr.values, work.data(), groups, bad);
    });
  });
}

template <class T>
void solve_blocks(const Context& context, const detail::BlockInverses<T>& blocks, VectorView<const T> r,
                  VectorView<T> z) {
  if (blocks.n == 0) return;
  const DeviceState& state = context.device_state();
  launch(state, block_kernel<T>, (blocks.n + block_size - 1) / block_size, block_size, blocks, r.data, z.data,
         state.stop);
}
template void invert_blocks<double>(const ContextPtr&, const detail::BlockRows<double>&,
                                    const CsrMatrix<double>&, unsigned*);
template void invert_blocks<float>(const ContextPtr&, const detail::BlockRows<float>&,
                                   const CsrMatrix<float>&, unsigned*);
template void solve_blocks<double>(const Context&, const detail::BlockInverses<double>&,
                                   VectorView<const double>, VectorView<double>);
template void solve_blocks<float>(const Context&, const detail::BlockInverses<float>&,
                                  VectorView<const float>, VectorView<float>);

}  // namespace protean::device

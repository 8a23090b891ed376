// The kernels of device_blocks.hpp.
#include <algorithm>

#include "core/buffer.hpp"
#include "core/device/kernel_tools.cuh"
#include "preconditioners/common/lanes.cuh"
#include "preconditioners/pointwise/device_blocks.hpp"

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
    invert_kernel(detail::BlockRows<T> rows, const Pointer* ptr, const std::int32_t* col, const T* values,
                  double* work, std::int64_t groups, unsigned* bad) {
  wait_for_stream();
  const std::int64_t group = place_of_thread<lanes>();
  if (group >= groups) return;
  const unsigned mask = lanes_of_row<lanes>();
  double* const own = work + group * 2 * rows.blocks.size * rows.blocks.size;
  bool good = true;
  for (std::int64_t b = group; b < rows.blocks.count; b += groups)
    good = rows.invert(ptr, col, values, b, own, static_cast<int>(threadIdx.x) % lanes, lanes, [mask] {
      __syncwarp(mask);
    }) && good;
  if (!good) atomicOr(bad, 1u);
}

template <int lanes, class Pointer>
__global__ void __launch_bounds__(block_size)
    compare_kernel(std::int64_t rows, const Pointer* ptr, const std::int32_t* col, std::uint8_t* as_before,
                   unsigned* not_sorted) {
  wait_for_stream();
  const std::int64_t row = place_of_thread<lanes>();
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  bool ascending = true;
  const bool same = detail::is_as_before(ptr, col, row, lane, lanes, ascending);
  const bool all_same = __all_sync(lanes_of_row<lanes>(), same);
  if (lane == 0) as_before[row] = all_same ? 1 : 0;
  if (!ascending) atomicOr(not_sorted, 1u);
}

// The blocks of threads count by themselves first. In a warp one lane adds up for all groups of as many rows, since
// these are often all groups.
__global__ void __launch_bounds__(block_size) count_kernel(detail::RowGroups groups, unsigned* rows_in) {
  wait_for_stream();
  constexpr int most = detail::most_rows;
  constexpr unsigned warp = 0xffffffffu;
  __shared__ unsigned own[most];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < most) own[thread] = 0;
  __syncthreads();
  for (std::int64_t first = std::int64_t{blockIdx.x} * block_size; first < groups.n;
       first += std::int64_t{gridDim.x} * block_size) {
    const int rows = first + thread < groups.n ? groups.rows_of(first + thread) : 0;
    const bool counts = rows > 0 && rows < most;
    for (unsigned left = __ballot_sync(warp, counts); left != 0;) {
      const int size = __shfl_sync(warp, rows, __ffs(static_cast<int>(left)) - 1);
      const unsigned same = __ballot_sync(warp, counts && rows == size);
      if (thread % 32 == 0) atomicAdd(own + size, static_cast<unsigned>(__popc(same) * size));
      left &= ~same;
    }
  }
  __syncthreads();
  if (thread > 0 && thread < most && own[thread] > 0) atomicAdd(rows_in + thread, own[thread]);
}

template <class Step>
__global__ void __launch_bounds__(block_size) step_kernel(std::int64_t count, Step step) {
  wait_for_stream();
  const std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (i < count) step(i);
}

}  // namespace

void compare_rows(const Context& context, const SparsityPattern& pattern, std::uint8_t* as_before,
                  unsigned* not_sorted) {
  const std::int64_t n = pattern.rows;
  if (n == 0) return;
  int lanes = 1;
  while (lanes < 32 && lanes * n < pattern.nonzeros) lanes *= 2;
  pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    with_lanes(lanes, [&](auto number) {
      launch(context.device_state(), compare_kernel<number(), Pointer>, blocks_of_rows(n, number()),
             block_size, n, ptr, pattern.col, as_before, not_sorted);
    });
  });
}

void count_groups(const Context& context, const detail::RowGroups& groups, unsigned* rows_in) {
  if (groups.n == 0) return;
  const DeviceState& state = context.device_state();
  launch(state, count_kernel, blocks_for(state, groups.n), block_size, groups, rows_in);
}

template <class Step>
void run_step(const Context& context, std::int64_t count, const Step& step) {
  if (count == 0) return;
  launch(context.device_state(), step_kernel<Step>, (count + block_size - 1) / block_size, block_size, count,
         step);
}
template void run_step<detail::CheckBlocks>(const Context&, std::int64_t, const detail::CheckBlocks&);
template void run_step<detail::WalkParts>(const Context&, std::int64_t, const detail::WalkParts&);
template void run_step<detail::StartsOfPart>(const Context&, std::int64_t, const detail::StartsOfPart&);
template void run_step<detail::ShapeOfBlock>(const Context&, std::int64_t, const detail::ShapeOfBlock&);

template <class T>
void invert_blocks(const ContextPtr& context, const detail::BlockRows<T>& rows, const CsrMatrix<T>& csr,
                   unsigned* bad) {
  const detail::RowBlocks& blocks = rows.blocks;
  if (blocks.count == 0) return;
  const DeviceState& state = context->device_state();
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(
      rows.inverses, 0, static_cast<std::size_t>(blocks.n * blocks.size) * sizeof(T), state.stream));
  // Some groups of lanes take block after block, so that their workspaces stay in the cache.
  constexpr std::int64_t most_work = std::int64_t{4} << 20;  // numbers
  const std::int64_t own = std::int64_t{2} * blocks.size * blocks.size;
  const std::int64_t groups = std::clamp<std::int64_t>(most_work / own, 1, blocks.count);
  Buffer<double> work(context, groups * own);
  int lanes = 4;
  while (lanes < 32 && lanes < blocks.size) lanes *= 2;
  csr.pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    with_lanes(lanes, [&](auto n) {
      launch(state, invert_kernel<n(), T, Pointer>, blocks_of_rows(groups, n()), block_size, rows, ptr,
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

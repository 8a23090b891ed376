// The product of all formats of blocks whose block rows are shared by a group of threads. Compiled once for each
// precision (blocks_lanes_double.cu, blocks_lanes_float.cu), because the sizes of blocks are constants in it.
#pragma once
#include "formats/engines/blocks/blocks.cuh"

namespace protean::formats {

// `lanes` neighbouring threads share a block row; lane t takes the blocks t, t + lanes, ...
template <bool dot, class RowSize, class ColSize, class UnitSize, class T>
__global__ void __launch_bounds__(device::block_size)
    lanes_product(BlockGrid<T> a, RowSize R, ColSize C, UnitSize W, int lanes, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  const int groups = device::block_size / lanes, lane = threadIdx.x & (lanes - 1);
  T dots[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * groups; first < a.block_rows;
       first += std::int64_t{gridDim.x} * groups) {
    const std::int64_t at = first + threadIdx.x / lanes;
    const bool there = at < a.block_rows;
    const std::int64_t i = there ? a.number(at) : 0;
    T sum[RowSize::most] = {};
    if (there) {
      const BlockRow b = a.block_row_at(at);
      if (a.diagonal_apart && lane == 0) {
        const BlockRow d = a.apart(i);
        add_block(a, R, C, W, a.values + d.base, d.unit, i, task.x, sum);
      }
      for (std::int64_t k = lane; k < b.count; k += lanes)
        add_block(a, R, C, W, a.values + b.base + k * b.step, b.unit,
                  __ldg(a.block_col + b.first + k * b.slot_step), task.x, sum);
    }
    // The sums over all lanes, returned in each lane.
#pragma unroll
    for (int r = 0; r < RowSize::most; ++r)
      for (int step = lanes / 2; step > 0; step /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], step);
#pragma unroll
    for (int r = 0; r < RowSize::most; ++r) {
      const std::int64_t row = i * R + r;
      if (there && r < R && (r & (lanes - 1)) == lane && row < a.rows)
        task.template finish<dot>(row, sum[r], dots);
    }
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

template <bool dot, class T>
void launch_lanes(const Context& context, const BlockGrid<T>& a, int lanes, T alpha, const T* x, T beta, T* y,
                  T* result) {
  const DeviceState& state = context.device_state();
  const int groups = device::block_size / lanes;
  const unsigned blocks = piece_blocks(state, (a.block_rows + groups - 1) / groups, dot);
  const auto task = product_task(context, blocks, alpha, x, beta, y, result);
  with_usual_shape(a.R, a.C, [&](auto R, auto C) {
    const auto queue = [&](auto W) {
      device::launch(state, lanes_product<dot, decltype(R), decltype(C), decltype(W), T>, blocks,
                     device::block_size, a, R, C, W, lanes, task);
    };
    if (a.W == 1)
      queue(FixedSize<1>());
    else if (a.W == a.C)
      queue(C);
    else if constexpr (decltype(C)::most == 8)
      queue(FixedSize<4>());
  });
}

}  // namespace protean::formats

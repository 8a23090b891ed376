// The steps of device_levels_inl.hpp as kernels. None heeds the stop of a run: a setup is not part of one.
#include "preconditioners/multigrid/device/device_levels.hpp"

#include <cooperative_groups.h>

#include <algorithm>
#include <cstddef>

#include "core/device/cache.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "preconditioners/common/lanes.cuh"
#include "preconditioners/multigrid/device/device_levels_inl.hpp"

namespace protean::device {
namespace {

using detail::levels::Count;
using detail::levels::Lanes;
using detail::levels::Pivot;

template <int lanes>
__device__ inline Lanes<lanes> own_lanes() {
  return {static_cast<int>(threadIdx.x) % lanes, lanes_of_row<lanes>()};
}

template <class F>
__global__ void __launch_bounds__(block_size) each_item(std::int64_t n, F f) {
  wait_for_stream();
  const std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (i < n) f(i);
}

template <int lanes, class F>
__global__ void __launch_bounds__(block_size) each_row(std::int64_t n, F f) {
  wait_for_stream();
  const std::int64_t i = place_of_thread<lanes>();
  if (i < n) f(i, own_lanes<lanes>());
}

template <int lanes, class F>
__global__ void __launch_bounds__(block_size)
    each_row_with_table(std::int64_t n, std::int64_t groups, std::int64_t size, std::int32_t* tables, F f) {
  wait_for_stream();
  const std::int64_t group = place_of_thread<lanes>();
  if (group >= groups) return;
  for (std::int64_t i = group; i < n; i += groups) f(i, own_lanes<lanes>(), tables + group * size);
}

// The same with the tables in shared memory.
template <int lanes, class F>
__global__ void __launch_bounds__(block_size)
    each_row_with_shared_table(std::int64_t n, std::int64_t size, F f) {
  wait_for_stream();
  extern __shared__ std::int32_t shared_tables[];
  constexpr int groups = block_size / lanes;
  for (std::int64_t k = threadIdx.x; k < groups * size; k += block_size) shared_tables[k] = -1;
  __syncthreads();
  std::int32_t* const table = shared_tables + threadIdx.x / lanes * size;
  const std::int64_t stride = std::int64_t{gridDim.x} * groups;
  for (std::int64_t i = place_of_thread<lanes>(); i < n; i += stride) f(i, own_lanes<lanes>(), table);
}

template <int lanes, class F>
__global__ void __launch_bounds__(block_size) each_row_with_memory(std::int64_t n, std::int64_t bytes, F f) {
  wait_for_stream();
  extern __shared__ double shared_numbers[];
  const std::int64_t i = place_of_thread<lanes>();
  if (i < n)
    f(i, own_lanes<lanes>(), reinterpret_cast<std::byte*>(shared_numbers) + threadIdx.x / lanes * bytes);
}

template <int lanes, class F>
__global__ void __launch_bounds__(block_size)
    sum_kernel(std::int64_t n, F f, double* parts, unsigned* arrived, double* result) {
  wait_for_stream();
  const std::int64_t groups = std::int64_t{gridDim.x} * (block_size / lanes);
  double sums[1] = {0};
  for (std::int64_t i = place_of_thread<lanes>(); i < n; i += groups) {
    const double value = f(i, own_lanes<lanes>());
    if (threadIdx.x % lanes == 0) sums[0] += value;
  }
  finish_reduction<1>(sums, parts, arrived, result);
}

template <class F>
struct ForEachLane {
  F f;
  template <class Own>
  __device__ double operator()(std::int64_t i, const Own&) const {
    return f(i);
  }
};

template <class F>
__global__ void __launch_bounds__(block_size) largest_item(std::int64_t n, F f, Count* result) {
  wait_for_stream();
  __shared__ double warps[block_size / 32];
  double largest = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < n; i += stride)
    largest = fmax(largest, f(i));
  for (int step = 16; step > 0; step /= 2)
    largest = fmax(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < block_size / 32; ++w) largest = fmax(largest, warps[w]);
  detail::levels::raise_to(result, detail::levels::bits_of(largest));
}

// The best of the warp, in all of its lanes.
__device__ inline Pivot best_of_warp(Pivot own) {
  for (int step = 16; step > 0; step /= 2) {
    Pivot other;
    other.size = __shfl_xor_sync(0xffffffffu, own.size, step);
    other.rank = __shfl_xor_sync(0xffffffffu, own.rank, step);
    own.take(other);
  }
  return own;
}

// Each block finds the best of all blocks of the step before. All blocks are on the device at once.
constexpr int fold_threads = 1024;
template <class F>
__global__ void __launch_bounds__(fold_threads)
    fold_in_turn(std::int64_t n, std::int64_t steps, Pivot* parts, F f) {
  wait_for_stream();
  constexpr unsigned warps = fold_threads / 32;
  __shared__ Pivot of_warp[warps];
  __shared__ Pivot pivot;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * fold_threads + threadIdx.x,
                     stride = std::int64_t{gridDim.x} * fold_threads;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (warp == 0) {
      Pivot best = Pivot::none();
      const Pivot* const before = parts + (step % 2) * gridDim.x;
      for (unsigned part = lane; step > 0 && part < gridDim.x; part += 32) best.take(before[part]);
      best = best_of_warp(best);
      if (lane == 0) pivot = best;
    }
    __syncthreads();
    const Pivot chosen = pivot;
    Pivot own = Pivot::none();
    for (std::int64_t e = first; e < n; e += stride) own.take(f(step, e, chosen));
    own = best_of_warp(own);
    if (lane == 0) of_warp[warp] = own;
    __syncthreads();
    if (warp == 0) {
      own = best_of_warp(of_warp[lane]);
      if (lane == 0) parts[(step + 1) % 2 * gridDim.x + blockIdx.x] = own;
    }
    cooperative_groups::this_grid().sync();
  }
}

struct GpuWork {
  ContextPtr context;
  // Of shared memory a block, with which four blocks fit on a processor that has room for as much as a Hopper GPU.
  static constexpr std::int64_t most_memory = 48 * 1024;
  static std::int64_t memory_of_group(int lanes) { return most_memory / (block_size / lanes); }

  const DeviceState& state() const { return context->device_state(); }
  std::int64_t resident_groups(int lanes) const {
    return std::int64_t{state().processors} * (resident_threads / lanes);
  }

  template <class F>
  void each(std::int64_t n, const F& f) const {
    if (n > 0) launch(state(), each_item<F>, (n + block_size - 1) / block_size, block_size, n, f);
  }
  template <class F>
  void rows(std::int64_t n, int lanes, const F& f) const {
    if (n == 0) return;
    with_lanes(lanes, [&](auto count) {
      launch(state(), each_row<count(), F>, blocks_of_rows(n, count()), block_size, n, f);
    });
  }
  template <class F>
  void rows_with_memory(std::int64_t n, int lanes, std::int64_t bytes, const F& f) const {
    if (n == 0) return;
    with_lanes(lanes, [&](auto count) {
      launch_with_memory(state(), each_row_with_memory<count(), F>, blocks_of_rows(n, count()), block_size,
                         bytes * (block_size / count()), n, bytes, f);
    });
  }
  template <class F>
  void tables(std::int64_t n, int lanes, std::int64_t size, const F& f) const {
    if (n == 0) return;
    const std::int64_t in_block = block_size / lanes * size * std::int64_t{sizeof(std::int32_t)},
                       most = shared_memory_of_block(*context);
    if (in_block <= std::min<std::int64_t>(most, 2 * most_memory)) {
      const std::int64_t blocks = std::min(
          blocks_of_rows(n, lanes),
          state().processors * std::min<std::int64_t>(resident_threads / block_size, most / in_block));
      return with_lanes(lanes, [&](auto count) {
        const auto kernel = each_row_with_shared_table<count(), F>;
        allow_memory(kernel, most);
        launch_with_memory(state(), kernel, blocks, block_size, in_block, n, size, f);
      });
    }
    constexpr std::int64_t most_numbers = std::int64_t{1} << 26;
    const std::int64_t groups =
        std::clamp<std::int64_t>(std::min(resident_groups(lanes), most_numbers / size), 1, n);
    Buffer<std::int32_t> memory(context, groups * size);
    fill(memory.data(), memory.size(), -1);
    with_lanes(lanes, [&](auto count) {
      launch(state(), each_row_with_table<count(), F>, blocks_of_rows(groups, count()), block_size, n, groups,
             size, memory.data(), f);
    });
  }
  template <class F>
  void sum(std::int64_t n, double* result, const F& f) const {
    sum_rows(n, 1, result, ForEachLane<F>{f});
  }
  template <class F>
  void sum_rows(std::int64_t n, int lanes, double* result, const F& f) const {
    // As many threads as a processor may hold, since each waits for one row after another.
    const std::int64_t blocks = std::clamp<std::int64_t>(
        blocks_of_rows(n, lanes), 1, std::int64_t{state().processors} * (2 * resident_threads / block_size));
    Buffer<double> parts(context, blocks);
    Buffer<unsigned> arrived(context, 1);
    fill(arrived.data(), 1, 0);
    with_lanes(lanes, [&](auto count) {
      launch(state(), sum_kernel<count(), F>, blocks, block_size, n, f, parts.data(), arrived.data(), result);
    });
  }
  template <class F>
  void largest(std::int64_t n, Count* result, const F& f) const {
    if (n > 0) launch(state(), largest_item<F>, blocks_for(state(), n), block_size, n, f, result);
  }
  template <class F>
  void fold(std::int64_t n, std::int64_t steps, const F& f) const {
    const auto kernel = fold_in_turn<F>;
    int resident = 0;
    PROTEAN_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, fold_threads, 0));
    const std::int64_t blocks = std::clamp<std::int64_t>((n + fold_threads - 1) / fold_threads, 1,
                                                         std::int64_t{resident} * state().processors);
    Buffer<Pivot> parts(context, 2 * blocks);
    cudaLaunchAttribute together{};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks)), config.blockDim = dim3(fold_threads);
    config.stream = state().stream;
    config.attrs = &together, config.numAttrs = 1;
    PROTEAN_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, n, steps, parts.data(), f));
  }
  template <class Number>
  void scan(Number* data, std::int64_t n) const {
    exclusive_scan(*context, data, n);
  }
  template <class Key>
  void sort(Key* keys, std::int32_t* items, std::int64_t n, int bits) const {
    sort_pairs(*context, keys, items, n, bits);
  }
  template <class Number>
  void fill(Number* data, std::int64_t n, int byte) const {
    if (n > 0)
      PROTEAN_CUDA_CHECK(
          cudaMemsetAsync(data, byte, static_cast<std::size_t>(n) * sizeof(Number), state().stream));
  }
};

}  // namespace

template <class T>
std::unique_ptr<detail::LevelWork<T>> level_work(const ContextPtr& context) {
  return std::make_unique<detail::levels::LevelWorkOn<T, GpuWork>>(context);
}
template std::unique_ptr<detail::LevelWork<float>> level_work<float>(const ContextPtr&);
template std::unique_ptr<detail::LevelWork<double>> level_work<double>(const ContextPtr&);

}  // namespace protean::device

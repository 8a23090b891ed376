// The steps of device_levels_inl.hpp as kernels. None heeds the stop of a run: a setup is no part of one.
#include "preconditioners/device_levels.hpp"

#include <algorithm>

#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "preconditioners/device_levels_inl.hpp"
#include "preconditioners/lanes.cuh"

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

// The best of the block, in thread 0.
__device__ inline Pivot best_of_block(Pivot own) {
  __shared__ Pivot warps[block_size / 32];
  for (int step = 16; step > 0; step /= 2) {
    Pivot other;
    other.size = __shfl_xor_sync(0xffffffffu, own.size, step);
    other.rank = __shfl_xor_sync(0xffffffffu, own.rank, step);
    own.take(other);
  }
  __syncthreads();  // threads may still read `warps` in the call before
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < block_size / 32; ++w) own.take(warps[w]);
  return own;
}

// Each block finds the best of all blocks of the step before.
template <class F>
__global__ void __launch_bounds__(block_size)
    fold_items(std::int64_t n, const Pivot* before, Pivot* after, F f) {
  wait_for_stream();
  __shared__ Pivot pivot;
  const Pivot best = best_of_block(before && threadIdx.x < gridDim.x ? before[threadIdx.x] : Pivot::none());
  if (threadIdx.x == 0) pivot = best;
  __syncthreads();
  const Pivot chosen = pivot;
  Pivot own = Pivot::none();
  const std::int64_t stride = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t e = std::int64_t{blockIdx.x} * block_size + threadIdx.x; e < n; e += stride)
    own.take(f(e, chosen));
  own = best_of_block(own);
  if (threadIdx.x == 0) after[blockIdx.x] = own;
}

struct GpuWork {
  ContextPtr context;
  static constexpr std::int64_t folds = 64;
  static_assert(folds <= block_size);

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
  void tables(std::int64_t n, int lanes, std::int64_t size, const F& f) const {
    if (n == 0) return;
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
    const std::int64_t blocks =
        std::clamp<std::int64_t>(blocks_of_rows(n, lanes), 1, resident_groups(lanes) * lanes / block_size);
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
  void fold(std::int64_t n, const Pivot* before, Pivot* after, const F& f) const {
    launch(state(), fold_items<F>, folds, block_size, n, before, after, f);
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

// What device kernels have in common: lanes, block sums, and reductions finished in the same launch.
#pragma once
#include <cstdint>
#include <cuda/atomic>

#include "core/blas1.hpp"
#include "core/device/state.hpp"

namespace protean::device {

// Threads a block. Reductions have few, large blocks: each of them costs an atomic operation on one counter.
constexpr int block_size = 256, reduce_size = 1024;

// Coefficient::value() on the device.
template <class T>
__device__ inline T evaluate(const Coefficient<T>& c) {
  const T top = c.numerator ? *c.numerator : T(1), bottom = c.denominator ? *c.denominator : T(1);
  if (c.demand == Demand::positive && !(bottom > T(0))) return T(0);
  if (c.demand == Demand::nonzero && (bottom == T(0) || bottom != bottom)) return T(0);
  return c.factor * top / bottom;
}

// True when the solve this launch belongs to has ended (see DeviceState::stop).
__device__ inline bool stopped(const int* stop) { return stop && *stop; }

// Sum over the first `lanes` (a power of two) neighbouring lanes, in all of them; a fixed order.
template <int lanes = 32, class T>
__device__ inline T sum_lanes(T value) {
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step, lanes);
  return value;
}

// The sum over a block of N values a thread, in thread 0. Every thread of the block takes part.
template <int N, class T>
__device__ inline void sum_block(T (&sums)[N]) {
  __shared__ T warps[N][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int s = 0; s < N; ++s) {
    sums[s] = sum_lanes(sums[s]);
    if (lane == 0) warps[s][warp] = sums[s];
  }
  __syncthreads();
  if (warp == 0) {
    const int count = (blockDim.x + 31) / 32;
#pragma unroll
    for (int s = 0; s < N; ++s) sums[s] = sum_lanes(lane < count ? warps[s][lane] : T(0));
  }
  __syncthreads();
}

// Ends a kernel that reduces: every thread brings N partial sums, the last block to arrive adds the blocks'
// sums in the order of their numbers (so the result is the same in every run) into result[0..N-1]. `arrived`
// is 0 again afterwards. At most DeviceState::max_blocks blocks and max_sums sums.
template <int N, class T>
__device__ inline void finish_reduction(T (&sums)[N], double* workspace, unsigned* arrived, T* result) {
  static_assert(N <= DeviceState::max_sums);
  __shared__ bool last;
  sum_block(sums);
  T* partials = reinterpret_cast<T*>(workspace);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < N; ++s) partials[s * gridDim.x + blockIdx.x] = sums[s];
    // Releases this block's sums and, in the last block, acquires those of the others.
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> count(*arrived);
    last = count.fetch_add(1u, cuda::memory_order_acq_rel) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
#pragma unroll
  for (int s = 0; s < N; ++s) {
    sums[s] = 0;
#pragma unroll 8
    for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x)
      sums[s] += __ldcg(partials + s * gridDim.x + b);
  }
  sum_block(sums);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < N; ++s) result[s] = sums[s];
    *arrived = 0;
  }
}

// Blocks of `threads` for n items, one item a thread where that fits, since a thread's items wait for one
// another (a store may change what the next load reads); at most what fills the device.
inline int blocks_for(const DeviceState& state, std::int64_t items, int threads = block_size) {
  const std::int64_t wanted = (items + threads - 1) / threads;
  const std::int64_t most = std::int64_t{state.processors} * (2048 / threads);
  return static_cast<int>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

template <class Body>
__global__ void __launch_bounds__(block_size) each_kernel(std::int64_t n, Body body, const int* stop) {
  // The flag and the scalars are asked for together: one wait for both.
  const bool ended = stopped(stop);
  const auto step = body();
  if (ended) return;
  const std::int64_t stride = std::int64_t{gridDim.x} * block_size;
#pragma unroll 4
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < n; i += stride) step(i);
}

// step(i) for i in 0..n-1, where step = body(), called once in every thread: the place to read scalars.
template <class Body>
void each(const Context& context, std::int64_t n, Body body) {
  if (n == 0) return;
  const DeviceState& state = context.device_state();
  each_kernel<<<blocks_for(state, n), block_size, 0, state.stream>>>(n, body, state.stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

template <int N, class T, class Body>
__global__ void __launch_bounds__(reduce_size) reduce_kernel(std::int64_t n, Body body, double* partials,
                                                             unsigned* arrived, T* result, const int* stop) {
  const bool ended = stopped(stop);
  const auto step = body();
  if (ended) return;
  T sums[N] = {};
  const std::int64_t stride = std::int64_t{gridDim.x} * reduce_size;
#pragma unroll 4
  for (std::int64_t i = std::int64_t{blockIdx.x} * reduce_size + threadIdx.x; i < n; i += stride)
    step(i, sums);
  finish_reduction<N>(sums, partials, arrived, result);
}

// step(i, sums) for i in 0..n-1, which adds to sums[0..N-1]; step = body(). The totals go to result[0..N-1].
template <int N, class T, class Body>
void reduce(const Context& context, std::int64_t n, Body body, T* result) {
  const DeviceState& state = context.device_state();
  reduce_kernel<N, T><<<blocks_for(state, n, reduce_size), reduce_size, 0, state.stream>>>(
      n, body, state.partials, state.arrived, result, state.stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace protean::device

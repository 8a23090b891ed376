// Parts that device kernels share: sums over lanes and blocks, and reductions that end in the same launch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/blas1.hpp"
#include "core/device/judge.cuh"
#include "core/device/state.hpp"

namespace protean::device {

// Threads a block; of a reduction at most reduce_size.
constexpr int block_size = 256, reduce_size = 512;
// Threads that a processor holds of the kernels of each() and reduce().
constexpr int resident_threads = 1024;

// The first call in every kernel that launch() starts. When it returns, the work before this kernel on the
// stream is done and its results can be read. From then on blocks of the next kernel may be placed on the device, and
// wait in this call. So at most two kernels overlap, and the second one neither reads nor writes meanwhile.
__device__ inline void wait_for_stream() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// True when the solve this launch belongs to has ended (see DeviceState::stop). Waits for the stream.
__device__ inline bool stopped(const int* stop) {
  wait_for_stream();
  return stop && *stop;
}

// Launches a kernel in which every thread begins with stopped() or wait_for_stream(), with that many bytes of
// shared memory for each block in addition to the memory that the kernel declares. If DeviceState::overlap is set, its
// blocks may be placed on the device while the kernel before still runs.
template <class... Parameters, class... Arguments>
void launch_with_memory(const DeviceState& state, void (*kernel)(Parameters...), std::int64_t blocks,
                        int threads, std::int64_t bytes, Arguments&&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks)),
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(bytes);
  config.stream = state.stream;
  config.attrs = &overlap, config.numAttrs = state.overlap ? 1 : 0;
  PROTEAN_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}
template <class... Parameters, class... Arguments>
void launch(const DeviceState& state, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
            Arguments&&... arguments) {
  launch_with_memory(state, kernel, blocks, threads, 0, std::forward<Arguments>(arguments)...);
}

// Without this a kernel may have 48 KB of shared memory. Other threads may launch it with other sizes meanwhile,
// so `bytes` is what any of them takes: shared_memory_of_block().
template <class Kernel>
void allow_memory(Kernel* kernel, std::int64_t bytes) {
  PROTEAN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

// Sum over the first `lanes` (a power of two) neighbouring lanes, returned in each of them; in a fixed order.
template <int lanes = 32, class T>
__device__ inline T sum_lanes(T value) {
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step, lanes);
  return value;
}

// Minimum, maximum and sum of one integer a lane over a whole warp, in all of its lanes. GPUs before sm_80
// have no instruction for them: there lanes exchange their values in five steps.
template <class Combine>
__device__ inline std::int32_t combine_warp(std::int32_t value, Combine combine) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}
__device__ inline std::int32_t warp_min(std::int32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_min_sync(0xffffffffu, value);
#else
  return combine_warp(value, [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
#endif
}
__device__ inline std::int32_t warp_max(std::int32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, value);
#else
  return combine_warp(value, [](std::int32_t a, std::int32_t b) { return a > b ? a : b; });
#endif
}
__device__ inline std::int32_t warp_sum(std::int32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(0xffffffffu, value);
#else
  return combine_warp(value, [](std::int32_t a, std::int32_t b) { return a + b; });
#endif
}

// The sums of N values over the threads of a block, in every thread. Every thread of the block takes part.
template <int N, class T>
__device__ inline void sum_block(T (&sums)[N]) {
  __shared__ T warps[N][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = (blockDim.x + 31) / 32;
  __syncthreads();  // threads may still read `warps` in the call before
#pragma unroll
  for (int s = 0; s < N; ++s) {
    sums[s] = sum_lanes(sums[s]);
    if (lane == 0) warps[s][warp] = sums[s];
  }
  __syncthreads();
#pragma unroll
  for (int s = 0; s < N; ++s) sums[s] = sum_lanes(lane < count ? warps[s][lane] : T(0));
}

// The sum of `blocks` blocks' parts, in every thread; parts[s * blocks + b] is block b's part of sum s. The
// order of additions depends on `blocks` and blockDim.x only, so it is the same in every run.
template <int N, class T>
__device__ inline void sum_parts(const T* parts, int blocks, T (&sums)[N]) {
#pragma unroll
  for (int s = 0; s < N; ++s) {
    sums[s] = 0;
#pragma unroll 4
    for (int b = threadIdx.x; b < blocks; b += blockDim.x) sums[s] += __ldcg(parts + s * blocks + b);
  }
  sum_block(sums);
}

// Adds 1 to *count and returns what it was. Releases what the thread wrote before, and acquires what other threads
// released through *count. (cuda::atomic_ref does the same; its header takes the compiler two seconds in each file.)
__device__ inline unsigned arrive(unsigned* count) {
  unsigned before;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
  return before;
}

// Where a reducing kernel leaves its N sums: see sums_into().
template <class T>
struct Sums {
  double* parts = nullptr;
  unsigned* arrived = nullptr;
  T* result = nullptr;
};

// The end of a kernel that reduces. Every thread has N partial sums. With `arrived`, the last block that arrives
// adds the sums of all blocks into result[0..N-1] and sets `arrived` back to 0. Without it the next kernel adds
// them (DeviceState::open). At most DeviceState::max_blocks blocks and max_sums sums.
template <int N, class T>
__device__ inline void finish_reduction(T (&sums)[N], double* workspace, unsigned* arrived, T* result) {
  static_assert(N <= DeviceState::max_sums);
  __shared__ bool last;
  sum_block(sums);
  T* parts = reinterpret_cast<T*>(workspace);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < N; ++s) parts[s * gridDim.x + blockIdx.x] = sums[s];
    if (arrived) { last = arrive(arrived) == gridDim.x - 1; }
  }
  if (!arrived) return;
  __syncthreads();
  if (!last) return;
  sum_parts(parts, static_cast<int>(gridDim.x), sums);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < N; ++s) result[s] = sums[s];
    *arrived = 0;
  }
}

// Sums of which the kernel before has stored the parts only. The kernel that gets them adds the parts in every
// block, and its first block stores the results.
template <class T>
struct OpenSums {
  static constexpr int most = DeviceState::OpenSums::most;
  const T* parts = nullptr;
  T* result = nullptr;
  int count = 0, blocks = 0;
  // Whether memory already holds the scalar at `where`: it is not one of these sums.
  __device__ bool stored(const T* where) const { return where < result || where >= result + count; }
};

// The open sums of the stream. The kernel that gets them must close them.
template <class T>
OpenSums<T> take_open_sums(const Context& context) {
  DeviceState::OpenSums& open = context.device_state().open;
  const OpenSums<T> taken{reinterpret_cast<const T*>(open.parts), static_cast<T*>(open.result), open.count,
                          open.blocks};
  open = {};
  return taken;
}

// Two coefficients, and the open sums that they may refer to.
template <class T>
struct Scalars {
  Coefficient<T> a, b;
  OpenSums<T> open;
};

// The values of Scalars in a kernel. All threads of the block take part in the construction.
template <class T>
class Evaluated {
 public:
  T a, b;

  __device__ Evaluated(const Scalars<T>& scalars, bool ended) : open_(scalars.open) {
    // All loads are issued before the first result is used.
    const T a_top = load(scalars.a.numerator), a_bottom = load(scalars.a.denominator);
    const T b_top = load(scalars.b.numerator), b_bottom = load(scalars.b.denominator);
    if (open_.count == 1) {
      T one[1];
      sum_parts(open_.parts, open_.blocks, one);
      sums_[0] = one[0];
    } else if (open_.count == 2) {
      sum_parts(open_.parts, open_.blocks, sums_);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0 && !ended) {
#pragma unroll
      for (int s = 0; s < OpenSums<T>::most; ++s)
        if (s < open_.count) open_.result[s] = sums_[s];
    }
    a = value(scalars.a, a_top, a_bottom), b = value(scalars.b, b_top, b_bottom);
  }

  // The scalar that belongs at `where`; `loaded` is what memory held, unless it is one of the open sums.
  __device__ T operator()(const T* where, T loaded) const {
#pragma unroll
    for (int s = 0; s < OpenSums<T>::most; ++s)
      if (s < open_.count && where == open_.result + s) loaded = sums_[s];
    return loaded;
  }

 private:
  // The first block stores open sums while others evaluate scalars, so nobody loads these.
  __device__ T load(const T* where) const { return where && open_.stored(where) ? *where : T(1); }
  // Coefficient::value()
  __device__ T value(const Coefficient<T>& c, T top, T bottom) const {
    top = (*this)(c.numerator, top), bottom = (*this)(c.denominator, bottom);
    if (c.demand == Demand::positive && !(bottom > T(0))) return T(0);
    if (c.demand == Demand::nonzero && (bottom == T(0) || bottom != bottom)) return T(0);
    return c.denominator ? c.factor * top / bottom : c.factor * top;
  }

  const OpenSums<T> open_;
  T sums_[OpenSums<T>::most] = {};
};

// Blocks of `threads` for n items, at most what fills the device.
inline int blocks_for(const DeviceState& state, std::int64_t items, int threads = block_size) {
  const std::int64_t wanted = (items + threads - 1) / threads;
  const std::int64_t most = std::int64_t{state.processors} * (resident_threads / threads);
  return static_cast<int>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

// Calls use(body(i)) for the part of 0..n-1 that belongs to block `block` of `blocks`; n > 0. body(i) loads what
// element i needs and returns a function that computes and stores, so loads do not wait for stores. The loads
// of the first element do not wait for meanwhile() either, which returns whether to continue.
template <class Body, class Meanwhile, class Use>
__device__ inline void for_share(std::int64_t n, unsigned block, unsigned blocks, const Body& body,
                                 Meanwhile meanwhile, Use use) {
  const std::int64_t stride = std::int64_t{blocks} * blockDim.x;
  std::int64_t i = std::int64_t{block} * blockDim.x + threadIdx.x;
  const auto first = body(i < n ? i : n - 1);
  if (!meanwhile()) return;
  if (i < n) use(first);
  i += stride;
  for (; i + stride < n; i += 2 * stride) {
    const auto one = body(i), other = body(i + stride);
    use(one), use(other);
  }
  if (i < n) use(body(i));
}

struct Nobody {};

// Rider: Nobody, or a Judge, which the first block runs; the grid then has one block more.
template <class T, class Body, class Rider>
__global__ void __launch_bounds__(block_size, resident_threads / block_size)
    each_kernel(std::int64_t n, Scalars<T> scalars, Body body, const int* stop, Rider rider) {
  const bool ended = stopped(stop);
  constexpr unsigned riders = std::is_same_v<Rider, Nobody> ? 0 : 1;
  if constexpr (riders > 0) {
    if (blockIdx.x == 0) {
      const auto loaded = rider.load([&](const T* where) { return scalars.open.stored(where); });
      const Evaluated<T> values(scalars, ended);
      if (threadIdx.x < 32 && !ended) rider(loaded, values);
      return;
    }
  }
  T a, b;
  for_share(
      n, blockIdx.x - riders, gridDim.x - riders, body,
      [&] {
        const Evaluated<T> values(scalars, ended);
        a = values.a, b = values.b;
        return !ended;
      },
      [&](const auto& element) { element(a, b); });
}

// Computes body(i)(a, b) for i in 0..n-1; a and b are the values of two coefficients. body(i) only loads.
template <class T, class Body>
void each(const Context& context, std::int64_t n, Coefficient<T> a, Coefficient<T> b, Body body) {
  if (n == 0) return;
  const DeviceState& state = context.device_state();
  launch(state, each_kernel<T, Body, Nobody>, blocks_for(state, n), block_size, n,
         Scalars<T>{a, b, take_open_sums<T>(context)}, body, state.stop, Nobody());
}

// The same, and in the same launch the judge of the step (DeviceState::judge), if one is set.
template <class T, class Body>
void each_and_judge(const Context& context, std::int64_t n, Coefficient<T> a, Coefficient<T> b, Body body) {
  DeviceState& state = context.device_state();
  if (n == 0 || !state.judge) return each(context, n, a, b, body);
  const auto* judge = static_cast<const Judge<T>*>(std::exchange(state.judge, nullptr));
  // All blocks are on the device at the same time.
  const int blocks = std::min(blocks_for(state, n), state.processors * (resident_threads / block_size) - 1);
  launch(state, each_kernel<T, Body, Judge<T>>, 1 + blocks, block_size, n,
         Scalars<T>{a, b, take_open_sums<T>(context)}, body, state.stop, *judge);
}

// Closes open sums in a separate launch.
template <class T>
__global__ void close_kernel(Scalars<T> scalars, const int* stop) {
  const bool ended = stopped(stop);
  const Evaluated<T> values(scalars, ended);
}
template <class T>
void close_sums(const Context& context) {
  const OpenSums<T> open = take_open_sums<T>(context);
  const DeviceState& state = context.device_state();
  if (open.count > 0) launch(state, close_kernel<T>, 1, block_size, Scalars<T>{{}, {}, open}, state.stop);
}

// The arguments of finish_reduction<N> in a kernel of `blocks` blocks whose sums belong into result[0..N-1]. The
// kernel stores them itself or, while DeviceState::leave_open is set, the next kernel does.
template <int N, class T>
Sums<T> sums_into(const Context& context, std::int64_t blocks, T* result) {
  DeviceState& state = context.device_state();
  if (!state.leave_open || N > OpenSums<T>::most) return {state.partials, state.arrived, result};
  // No operation has yet closed the sums of the kernel before.
  if (state.open.count > 0) close_sums<T>(context);
  // The next kernel reads these parts while it writes its own.
  std::swap(state.partials, state.other_partials);
  state.open = {state.partials, result, N, static_cast<int>(blocks)};
  return {state.partials, nullptr, result};
}

template <int N, class T, class Body>
__global__ void __launch_bounds__(reduce_size, resident_threads / reduce_size)
    reduce_kernel(std::int64_t n, Scalars<T> scalars, Body body, Sums<T> out, const int* stop) {
  const bool ended = stopped(stop);
  T a, b, sums[N] = {};
  for_share(
      n, blockIdx.x, gridDim.x, body,
      [&] {
        const Evaluated<T> values(scalars, ended);
        a = values.a, b = values.b;
        return !ended;
      },
      [&](const auto& element) { element(a, b, sums); });
  if (ended) return;
  finish_reduction<N>(sums, out.parts, out.arrived, out.result);
}

// Computes body(i)(a, b, sums) for i in 0..n-1, which adds to sums[0..N-1]. The totals are stored in
// result[0..N-1]. body(i) only loads.
template <int N, class T, class Body>
void reduce(const Context& context, std::int64_t n, Coefficient<T> a, Coefficient<T> b, Body body,
            T* result) {
  const DeviceState& state = context.device_state();
  if (n == 0) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(result, 0, N * sizeof(T), state.stream));
    return;
  }
  // Few, large blocks, because the partial sums of all blocks must be added up. Smaller blocks if there would
  // be fewer blocks than processors.
  int threads = reduce_size;
  while (threads > block_size && n < std::int64_t{threads} * state.processors) threads /= 2;
  const int blocks = blocks_for(state, n, threads);
  const Scalars<T> scalars{a, b, take_open_sums<T>(context)};
  launch(state, reduce_kernel<N, T, Body>, blocks, threads, n, scalars, body,
         sums_into<N>(context, blocks, result), state.stop);
}

}  // namespace protean::device

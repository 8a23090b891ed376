// What device kernels have in common: lanes, block sums, and reductions finished in the same launch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cuda/atomic>
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

// The first thing in every kernel that launch() starts: what came before it on the stream is done and can be
// read from here on, and the next kernel may take its place on the device and wait there in its turn. So at
// most two kernels overlap, and only where neither reads nor writes.
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

// Launches a kernel whose every thread begins with stopped() or wait_for_stream(). Where
// DeviceState::overlap is set it is brought to the device while the kernel before it still runs.
template <class... Parameters, class... Arguments>
void launch(const DeviceState& state, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
            Arguments&&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks)),
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = state.stream;
  config.attrs = &overlap, config.numAttrs = state.overlap ? 1 : 0;
  PROTEAN_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

// Sum over the first `lanes` (a power of two) neighbouring lanes, in all of them; a fixed order.
template <int lanes = 32, class T>
__device__ inline T sum_lanes(T value) {
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step, lanes);
  return value;
}

// The sum over a block of N values a thread, in every thread. Every thread of the block takes part.
template <int N, class T>
__device__ inline void sum_block(T (&sums)[N]) {
  __shared__ T warps[N][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = (blockDim.x + 31) / 32;
  __syncthreads();  // a call before may still read `warps`
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
// order is that of the blocks, dealt to the threads in turn: the same in every run.
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

// Where a reducing kernel leaves its N sums: see sums_into().
template <class T>
struct Sums {
  double* parts = nullptr;
  unsigned* arrived = nullptr;
  T* result = nullptr;
};

// Ends a kernel that reduces: every thread brings N partial sums. With `arrived`, the last block to arrive
// adds the blocks' sums into result[0..N-1], and `arrived` is 0 again afterwards; without it they are left
// for the next kernel to add (DeviceState::open). At most DeviceState::max_blocks blocks and max_sums sums.
template <int N, class T>
__device__ inline void finish_reduction(T (&sums)[N], double* workspace, unsigned* arrived, T* result) {
  static_assert(N <= DeviceState::max_sums);
  __shared__ bool last;
  sum_block(sums);
  T* parts = reinterpret_cast<T*>(workspace);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < N; ++s) parts[s * gridDim.x + blockIdx.x] = sums[s];
    if (arrived) {
      // Releases this block's sums and, in the last block, acquires those of the others.
      cuda::atomic_ref<unsigned, cuda::thread_scope_device> count(*arrived);
      last = count.fetch_add(1u, cuda::memory_order_acq_rel) == gridDim.x - 1;
    }
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

// Sums that the kernel before has left in parts, as a kernel gets them: it adds them up in every block and
// its first block stores them where they belong.
template <class T>
struct OpenSums {
  static constexpr int most = DeviceState::OpenSums::most;
  const T* parts = nullptr;
  T* result = nullptr;
  int count = 0, blocks = 0;
  // Whether memory holds the scalar at `where` already: it is none of these sums.
  __device__ bool stored(const T* where) const { return where < result || where >= result + count; }
};

// What the stream's open sums are; they are closed by the kernel that this is given to.
template <class T>
OpenSums<T> take_open_sums(const Context& context) {
  DeviceState::OpenSums& open = context.device_state().open;
  const OpenSums<T> taken{reinterpret_cast<const T*>(open.parts), static_cast<T*>(open.result), open.count,
                          open.blocks};
  open = {};
  return taken;
}

// Two coefficients for a kernel whose sums-to-be-closed count as stored already.
template <class T>
struct Scalars {
  Coefficient<T> a, b;
  OpenSums<T> open;
};

// Scalars in a kernel. All threads of the block take part in making it.
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

// Calls use(body(i)) for block `block` of `blocks`' share of 0..n-1, n > 0. body(i) loads what element i
// needs and returns what is to be done with it, so that loads do not wait for stores; those of the first
// element do not even wait for meanwhile(), which says whether to go on.
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

// Rider: Nobody, or a Judge, for whom the grid has one block more, the first.
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

// body(i)(a, b) for i in 0..n-1, where a and b are the values of two coefficients. body(i) only loads.
template <class T, class Body>
void each(const Context& context, std::int64_t n, Coefficient<T> a, Coefficient<T> b, Body body) {
  if (n == 0) return;
  const DeviceState& state = context.device_state();
  launch(state, each_kernel<T, Body, Nobody>, blocks_for(state, n), block_size, n,
         Scalars<T>{a, b, take_open_sums<T>(context)}, body, state.stop, Nobody());
}

// The same, and beside it the judge that waits for a step's scalars (DeviceState::judge), if there is one.
template <class T, class Body>
void each_and_judge(const Context& context, std::int64_t n, Coefficient<T> a, Coefficient<T> b, Body body) {
  DeviceState& state = context.device_state();
  if (n == 0 || !state.judge) return each(context, n, a, b, body);
  const auto* judge = static_cast<const Judge<T>*>(std::exchange(state.judge, nullptr));
  // No block of the grid has to wait for another to end.
  const int blocks = std::min(blocks_for(state, n), state.processors * (resident_threads / block_size) - 1);
  launch(state, each_kernel<T, Body, Judge<T>>, 1 + blocks, block_size, n,
         Scalars<T>{a, b, take_open_sums<T>(context)}, body, state.stop, *judge);
}

// Ends what the kernel before has left open, in a launch of its own.
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

// Where a kernel of `blocks` blocks that ends in finish_reduction<N> leaves its sums so that they get to
// result[0..N-1]: at once or, while DeviceState::leave_open is set, in the next kernel.
template <int N, class T>
Sums<T> sums_into(const Context& context, std::int64_t blocks, T* result) {
  DeviceState& state = context.device_state();
  if (!state.leave_open || N > OpenSums<T>::most) return {state.partials, state.arrived, result};
  // Nobody has needed those of the kernel before.
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

// body(i)(a, b, sums) for i in 0..n-1, which adds to sums[0..N-1]. The totals go to result[0..N-1]. body(i)
// only loads.
template <int N, class T, class Body>
void reduce(const Context& context, std::int64_t n, Coefficient<T> a, Coefficient<T> b, Body body,
            T* result) {
  const DeviceState& state = context.device_state();
  if (n == 0) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(result, 0, N * sizeof(T), state.stream));
    return;
  }
  // Few, large blocks, since each brings a part to be added up; smaller ones where not every processor would
  // have one.
  int threads = reduce_size;
  while (threads > block_size && n < std::int64_t{threads} * state.processors) threads /= 2;
  const int blocks = blocks_for(state, n, threads);
  const Scalars<T> scalars{a, b, take_open_sums<T>(context)};
  launch(state, reduce_kernel<N, T, Body>, blocks, threads, n, scalars, body,
         sums_into<N>(context, blocks, result), state.stop);
}

}  // namespace protean::device

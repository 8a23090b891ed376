// The kernels of device_factors.hpp.
#include "core/device/kernel_tools.cuh"
#include "preconditioners/common/lanes.cuh"
#include "preconditioners/factors/device/device_factors.hpp"

namespace protean::device {
namespace {

using detail::FactorPivot;
using detail::FactorRules;
using detail::FactorStatus;
using detail::FactorView;
using detail::RowInPlace;

// Numbers that are not negative ascend as their bits do, so the largest does not depend on the order of the threads.
__device__ inline void keep_largest(unsigned long long* to, double value) {
  atomicMax(to, static_cast<unsigned long long>(__double_as_longlong(value)));
}

template <int lanes, class T, class Pointer>
__global__ void __launch_bounds__(block_size)
    load_kernel(FactorView<T> f, const Pointer* ptr, const std::int32_t* col, const T* values,
                FactorStatus* status) {
  wait_for_stream();
  const std::int64_t k = place_of_thread<lanes>();
  if (k >= f.rows) return;
  double largest = 0;
  const unsigned trouble =
      f.load_row(ptr, col, values, k, static_cast<int>(threadIdx.x) % lanes, lanes, largest);
  if (trouble) atomicOr(&status->trouble, trouble);
  const unsigned mask = lanes_of_row<lanes>();
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2)
    largest = fmax(largest, __shfl_xor_sync(mask, largest, step, lanes));
  // Most rows are no smaller than what is there, and need not wait for each other then.
  const auto own = static_cast<unsigned long long>(__double_as_longlong(largest));
  const unsigned long long seen = *static_cast<volatile unsigned long long*>(&status->least_row);
  if (threadIdx.x % lanes == 0 && own < seen) atomicMin(&status->least_row, own);
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_size) compare_kernel(FactorView<T> f, FactorStatus* status) {
  wait_for_stream();
  const std::int64_t k = place_of_thread<lanes>();
  if (k >= f.rows) return;
  const double difference = f.difference_of_row(k, static_cast<int>(threadIdx.x) % lanes, lanes);
  if (difference > 0) keep_largest(&status->largest_difference, difference);
}

// For each place whether its row is factored, if rows wait for each other in one kernel.
__device__ inline bool is_done(const std::int32_t* place) {
  std::int32_t done;
  asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(done) : "l"(place) : "memory");
  return done != 0;
}
__device__ inline void set_done(std::int32_t* place) {
  asm volatile("st.release.gpu.s32 [%0], 1;" ::"l"(place) : "memory");
}
// Rows of one warp may wait for each other.
template <int lanes>
__device__ inline void wait_a_little() {
  if constexpr (lanes < 32) __nanosleep(20);
}

// RowInPlace whose lanes wait for the row of each pivot. done may be null.
template <int lanes, class T>
struct RowThatWaits : RowInPlace<T> {
  const std::int32_t* done;
  __device__ RowThatWaits(const FactorView<T>& f, std::int64_t k, const std::int32_t* flags)
      : RowInPlace<T>(f, k), done(flags) {}
  __device__ FactorPivot<T> pivot(std::int32_t e) const {
    if (done)
      while (!is_done(done + this->f.place[this->f.col[this->lower + e]])) wait_a_little<lanes>();
    return RowInPlace<T>::pivot(e);
  }
};

// As RowInPlace, with the entries in shared memory, in which the lanes of the row find keys and change values at a
// tenth of the price. Each lane reads one of the next `lanes` pivots, so no lane waits for a chain of pointers. done:
// see is_done(); null if all pivots are there. A lane reads its pivot as soon as that is there, and the row goes on as
// soon as the next one is.
template <int lanes, class T>
struct RowInShared {
  const FactorView<T>& f;
  RowInPlace<T> there;
  unsigned mask;
  int lane;
  T* values;
  std::int32_t* keys;
  const std::int32_t* done;
  FactorPivot<T> next;
  std::int32_t place = -1;  // of the lane's pivot
  unsigned ready = 0;       // the lanes that have read theirs

  __device__ RowInShared(const FactorView<T>& factors, std::int64_t k, unsigned own_mask, int own_lane,
                         T* room, std::int32_t* key_room, const std::int32_t* flags)
      : f(factors),
        there(factors, k),
        mask(own_mask),
        lane(own_lane),
        values(room),
        keys(key_room),
        done(flags) {
    for (std::int32_t e = lane; e < size(); e += lanes) {
      values[e] = there.value(e);
      keys[e] = f.key[e < there.in_lower ? there.lower + e : there.upper + e - there.in_lower];
    }
    __syncwarp(mask);
  }
  __device__ std::int32_t size() const { return there.in_lower + there.in_upper; }
  __device__ FactorPivot<T> pivot(std::int32_t e) {
    const int from = e % lanes;
    if (done)
      wait_for(e, from);
    else if (from == 0 && e + lane < there.in_lower)
      next = f.pivot_of(there.lower + e + lane);
    FactorPivot<T> one;
    one.begin = __shfl_sync(mask, static_cast<long long>(next.begin), from, lanes);
    one.size = __shfl_sync(mask, next.size, from, lanes);
    one.mirror = __shfl_sync(mask, next.mirror, from, lanes);
    one.value = __shfl_sync(mask, next.value, from, lanes);
    one.d = __shfl_sync(mask, next.d, from, lanes);
    return one;
  }
  __device__ void wait_for(std::int32_t e, int from) {
    if (from == 0) {
      ready = 0;
      place = e + lane < there.in_lower ? f.place[f.col[there.lower + e + lane]] : -1;
    }
    const unsigned own = 1u << threadIdx.x % 32, wanted = 1u << (threadIdx.x % 32 / lanes * lanes + from);
    while ((ready & wanted) == 0) {
      bool there_now = (ready & own) != 0;
      if (!there_now && place >= 0 && is_done(done + place)) {
        next = f.pivot_of(there.lower + e - from + lane);
        there_now = true;
      }
      ready = __ballot_sync(mask, there_now);
      if ((ready & wanted) == 0) wait_a_little<lanes>();
    }
    __syncwarp(mask);  // all lanes see the row that one has waited for
  }
  __device__ T& value(std::int32_t e) const { return values[e]; }
  __device__ std::int32_t key(std::int32_t e) const { return keys[e]; }
  __device__ std::int32_t find(std::int32_t from, std::int32_t key) const {
    return static_cast<std::int32_t>(detail::find_key(keys, from, size(), key));
  }
  __device__ void store() const {
    __syncwarp(mask);
    for (std::int32_t e = lane; e < size(); e += lanes) there.value(e) = values[e];
  }
};

// most: entries for which the lanes of a row have room in shared memory. done: null if the rows of the places before
// `begin` are factored and those from it on do not need each other. Otherwise of all places, with the next ticket of a
// block behind them: then a row waits for those before it, which are on the device or done.
template <int lanes, class T>
__global__ void __launch_bounds__(block_size)
    factor_kernel(FactorView<T> f, FactorRules rules, std::int64_t begin, std::int64_t end, std::int32_t most,
                  T shift, T smallest_part, std::int32_t* done, FactorStatus* status) {
  wait_for_stream();
  extern __shared__ double shared_rows[];
  constexpr int groups = block_size / lanes;
  const auto group = static_cast<std::int32_t>(threadIdx.x) / lanes;
  std::int64_t block = blockIdx.x;
  if (done) {
    __shared__ std::int32_t ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(done + f.rows, 1);
    __syncthreads();
    block = ticket;
  }
  const std::int64_t k = begin + block * groups + group;
  if (k >= end) return;
  const unsigned mask = lanes_of_row<lanes>();
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const auto sync = [mask] { __syncwarp(mask); };
  bool good = true;
  unsigned trouble = 0;
  if (f.lower[k + 1] - f.lower[k] + f.upper[k + 1] - f.upper[k] <= most) {
    T* const all = reinterpret_cast<T*>(shared_rows);
    RowInShared<lanes, T> own(f, k, mask, lane, all + group * most,
                              reinterpret_cast<std::int32_t*>(all + groups * most) + group * most, done);
    trouble = f.factor_row(rules, k, shift, smallest_part, lane, lanes, own, sync, good);
    own.store();
  } else {
    RowThatWaits<lanes, T> own(f, k, done);
    trouble = f.factor_row(rules, k, shift, smallest_part, lane, lanes, own, sync, good);
  }
  if (done) {
    __threadfence();
    __syncwarp(mask);
    if (lane == 0) set_done(done + k);
  }
  if (lane != 0) return;
  if (trouble) atomicOr(&status->trouble, trouble);
  if (!good) atomicMin(&status->bad_row, f.row[k]);
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_size)
    relax_kernel(FactorView<T> f, FactorRules rules, T w, T scale, FactorStatus* status) {
  wait_for_stream();
  const std::int64_t k = place_of_thread<lanes>();
  if (k >= f.rows) return;
  const unsigned trouble = f.relax_row(rules, k, w, scale, static_cast<int>(threadIdx.x) % lanes, lanes);
  if (trouble) atomicOr(&status->trouble, trouble);
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_size)
    finish_kernel(FactorView<T> f, FactorRules rules, FactorStatus* status) {
  wait_for_stream();
  const std::int64_t k = place_of_thread<lanes>();
  if (k >= f.rows) return;
  const unsigned trouble = f.finish_row(rules, k, static_cast<int>(threadIdx.x) % lanes, lanes);
  if (trouble) atomicOr(&status->trouble, trouble);
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_size)
    pass_kernel(FactorView<T> f, const std::int64_t* ptr, std::int64_t begin, std::int64_t end,
                const T* before, const T* after, const T* rhs, const T* from, T* z, const int* stop) {
  if (stopped(stop)) return;
  const std::int64_t k = begin + place_of_thread<lanes>();
  const bool row = k < end, first = row && threadIdx.x % lanes == 0;
  // Loaded before the sum, which waits for other loads.
  const std::int32_t i = first ? f.row[k] : 0;
  const T right = first ? (before ? before[i] * rhs[i] : rhs[i]) : T(0);
  const T scale = first && after ? after[i] : T(1);
  T sum = 0;
  if (row) {
    const std::int64_t last = ptr[k + 1];
    for (std::int64_t p = ptr[k] + threadIdx.x % lanes; p < last; p += lanes)
      sum += f.values[p] * from[f.col[p]];
  }
  sum = sum_lanes<lanes>(sum);
  if (first) z[i] = scale * (right - sum);
}

}  // namespace

template <class T>
void load_entries(const Context& context, const FactorView<T>& f, int lanes, const CsrMatrix<T>& csr,
                  FactorStatus* status) {
  const DeviceState& state = context.device_state();
  PROTEAN_CUDA_CHECK(
      cudaMemsetAsync(f.diagonal, 0, static_cast<std::size_t>(f.rows) * sizeof(T), state.stream));
  csr.pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    with_lanes(lanes, [&](auto n) {
      launch(state, load_kernel<n(), T, Pointer>, blocks_of_rows(f.rows, n()), block_size, f, ptr,
             csr.pattern.col, csr.values, status);
    });
  });
}

template <class T>
void compare_mirrored(const Context& context, const FactorView<T>& f, int lanes, FactorStatus* status) {
  with_lanes(lanes, [&](auto n) {
    launch(context.device_state(), compare_kernel<n(), T>, blocks_of_rows(f.rows, n()), block_size, f,
           status);
  });
}

namespace {

template <class T>
void launch_factors(const Context& context, const FactorView<T>& f, int lanes, std::int64_t entries,
                    const FactorRules& rules, std::int64_t begin, std::int64_t end, T shift, T smallest_part,
                    std::int32_t* done, FactorStatus* status) {
  const std::int32_t most = room_for_rows(entries, f.rows, lanes, sizeof(T) + 4);
  with_lanes(lanes, [&](auto n) {
    launch_with_memory(context.device_state(), factor_kernel<n(), T>, blocks_of_rows(end - begin, n()),
                       block_size, std::int64_t{block_size / n()} * most * std::int64_t{sizeof(T) + 4}, f,
                       rules, begin, end, most, shift, smallest_part, done, status);
  });
}

}  // namespace

template <class T>
void factor_stage(const Context& context, const FactorView<T>& f, int lanes, std::int64_t entries,
                  const FactorRules& rules, std::int64_t begin, std::int64_t end, T shift, T smallest_part,
                  FactorStatus* status) {
  if (begin < end)
    launch_factors<T>(context, f, lanes, entries, rules, begin, end, shift, smallest_part, nullptr, status);
}

template <class T>
void factor_all(const Context& context, const FactorView<T>& f, int lanes, std::int64_t entries,
                const FactorRules& rules, T shift, T smallest_part, std::int32_t* done,
                FactorStatus* status) {
  if (f.rows == 0) return;
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(done, 0, static_cast<std::size_t>(f.rows + 1) * sizeof *done,
                                     context.device_state().stream));
  launch_factors<T>(context, f, lanes, entries, rules, 0, f.rows, shift, smallest_part, done, status);
}

template <class T>
void finish_factors(const Context& context, const FactorView<T>& f, int lanes, const FactorRules& rules,
                    FactorStatus* status) {
  with_lanes(lanes, [&](auto n) {
    launch(context.device_state(), finish_kernel<n(), T>, blocks_of_rows(f.rows, n()), block_size, f, rules,
           status);
  });
}

template <class T>
void relax_entries(const Context& context, const FactorView<T>& f, int lanes, const FactorRules& rules, T w,
                   T scale, FactorStatus* status) {
  with_lanes(lanes, [&](auto n) {
    launch(context.device_state(), relax_kernel<n(), T>, blocks_of_rows(f.rows, n()), block_size, f, rules, w,
           scale, status);
  });
}

template <class T>
void coloured_pass(const Context& context, const FactorView<T>& f, const std::int64_t* ptr, int lanes,
                   std::int64_t begin, std::int64_t end, const T* before, const T* after, const T* rhs,
                   const T* from, T* z) {
  if (begin == end) return;
  const DeviceState& state = context.device_state();
  with_lanes(lanes, [&](auto n) {
    launch(state, pass_kernel<n(), T>, blocks_of_rows(end - begin, n()), block_size, f, ptr, begin, end,
           before, after, rhs, from, z, state.stop);
  });
}

#define PROTEAN_INSTANTIATE(T)                                                                               \
  template void load_entries<T>(const Context&, const FactorView<T>&, int, const CsrMatrix<T>&,              \
                                FactorStatus*);                                                              \
  template void compare_mirrored<T>(const Context&, const FactorView<T>&, int, FactorStatus*);               \
  template void factor_stage<T>(const Context&, const FactorView<T>&, int, std::int64_t, const FactorRules&, \
                                std::int64_t, std::int64_t, T, T, FactorStatus*);                            \
  template void factor_all<T>(const Context&, const FactorView<T>&, int, std::int64_t, const FactorRules&,   \
                              T, T, std::int32_t*, FactorStatus*);                                           \
  template void finish_factors<T>(const Context&, const FactorView<T>&, int, const FactorRules&,             \
                                  FactorStatus*);                                                            \
  template void relax_entries<T>(const Context&, const FactorView<T>&, int, const FactorRules&, T, T,        \
                                 FactorStatus*);                                                             \
  template void coloured_pass<T>(const Context&, const FactorView<T>&, const std::int64_t*, int,             \
                                 std::int64_t, std::int64_t, const T*, const T*, const T*, const T*, T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::device

// The products of SSS on a GPU: the kernels that sss.cu describes. Private to sss.cu.
#pragma once
#include <cstdint>

#include "core/host_device.hpp"
#include "formats/engines/view/row_view.cuh"

namespace protean::formats {

constexpr int threads = 256, most_rows = 512;  // of a block
constexpr int steps_ahead = 4;                 // entries that a thread loads before it uses the first

template <class T, class P>
struct SssView {
  std::int64_t rows;
  const P* row_ptr;
  const std::int32_t* col;
  const T *values, *diagonal;
  const std::uint8_t* stored;  // null: the whole diagonal
  const P* upper_ptr;          // null in kernel native
  const std::int32_t* upper_col;
  const P* upper_place;
  std::int64_t size;

  __device__ bool has_diagonal(std::int64_t r) const { return !stored || (stored[r / 8] >> (r % 8) & 1); }
  // The view of row_view.hpp; the diagonal lies behind the values.
  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  __device__ std::int64_t row(std::int64_t p) const { return p; }
  __device__ std::int64_t length(std::int64_t p) const {
    return row_ptr[p + 1] - row_ptr[p] + has_diagonal(p) + upper_ptr[p + 1] - upper_ptr[p];
  }
  template <class F>
  __device__ void for_entries(std::int64_t p, F&& f) const {
    for (std::int64_t k = row_ptr[p]; k < row_ptr[p + 1]; ++k) f(col[k], k);
    if (has_diagonal(p)) f(static_cast<std::int32_t>(p), size + p);
    for (std::int64_t k = upper_ptr[p]; k < upper_ptr[p + 1]; ++k)
      f(upper_col[k], std::int64_t{upper_place[k]});
  }
};

// Where the entries of the rows of a slice lie (`slices` of sss.cu). All lanes of a warp call it, each with the length
// of its row and the begin of the slice: f(k, place) for each entry.
template <class P, class F>
__device__ inline void for_slice(P length, P begin, F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (P k = 0;; ++k) {
    const unsigned with = __ballot_sync(0xffffffffu, k < length);
    if (with == 0) return;
    if (k < length) f(k, begin + static_cast<P>(__popc(with & ((1u << lane) - 1))));
    begin += static_cast<P>(__popc(with));
  }
}

// `lanes` (a power of two) threads a row. y has been multiplied by beta. The flag is read at the beginning and used
// where something is written.
template <class T, class P>
__global__ void __launch_bounds__(threads)
    sss_add(SssView<T, P> a, int rows_a_block, int lanes, T alpha, const T* x, T* y, const int* stop) {
  __shared__ T sums[most_rows];
  const bool ended = stop && *stop;
  const std::int64_t first = std::int64_t{blockIdx.x} * rows_a_block;
  const int count = static_cast<int>(min(std::int64_t{rows_a_block}, a.rows - first));
  for (int i = threadIdx.x; i < count; i += threads) sums[i] = 0;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % lanes, groups = threads / lanes;
  // All threads of a warp take part in its shuffles, so groups without a row stay.
  for (int base = 0; base < count; base += groups) {
    const int i = base + static_cast<int>(threadIdx.x) / lanes;
    const std::int64_t r = first + i;
    T sum = 0;
    if (i < count) {
      const T factor = alpha * __ldg(x + r);
      const P end = a.row_ptr[r + 1];
#pragma unroll 4
      for (P k = a.row_ptr[r] + static_cast<P>(lane); k < end; k += static_cast<P>(lanes)) {
        const std::int32_t c = __ldcs(a.col + k);
        const T value = __ldcs(a.values + k), add = value * factor;
        sum += value * __ldg(x + c);
        if (ended) continue;
        if (c >= first)
          atomicAdd(sums + (c - first), add);
        else
          atomicAdd(y + c, add);
      }
      if (lane == 0 && a.has_diagonal(r)) sum += a.diagonal[r] * __ldg(x + r);
    }
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0 && i < count) atomicAdd(sums + i, alpha * sum);
  }
  __syncthreads();
  if (ended) return;
  for (int i = threadIdx.x; i < count; i += threads) atomicAdd(y + first + i, sums[i]);
}

// y := beta y + alpha D x, of row r.
template <class T, class P>
__device__ inline void begin_row(const SssView<T, P>& a, std::int64_t r, T alpha, const T* x, T beta, T* y) {
  store(alpha, a.has_diagonal(r) ? a.diagonal[r] * __ldg(x + r) : T(0), beta, y + r);
}

template <class T, class P>
__global__ void __launch_bounds__(threads)
    sss_begin(SssView<T, P> a, T alpha, const T* x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t r = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (r < a.rows) begin_row(a, r, alpha, x, beta, y);
}

// Adds what neighbouring lanes with the same column add, into the first of them, and returns whether this lane is one.
// A lane without an entry has column -1. All lanes of a warp call it.
template <class T>
__device__ inline bool add_equal_columns(std::int32_t col, T& add) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool head = __shfl_up_sync(0xffffffffu, col, 1) != col || lane == 0;
  const unsigned heads = __ballot_sync(0xffffffffu, head);
  if (heads == 0xffffffffu) return col >= 0;
  const unsigned later = lane < 31 ? heads >> (lane + 1) : 0u;
  const int count = later ? __ffs(static_cast<int>(later)) : 32 - lane;  // lanes from this one to the last
#pragma unroll 1
  for (int step = 1; step < 32 && __any_sync(0xffffffffu, count > step); step *= 2) {
    const T other = __shfl_down_sync(0xffffffffu, add, step);
    if (count > step) add += other;
  }
  return head && col >= 0;
}

// One row a thread; sss_begin() has been launched before.
template <class T, class P>
__global__ void __launch_bounds__(threads, 4)
    sss_slices(SssView<T, P> a, T alpha, const T* x, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t r = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  // All lanes of a warp take part in its ballots and shuffles.
  const bool there = r < a.rows;
  const P begin = there ? __ldg(a.row_ptr + r) : P(0);
  const int length = there ? static_cast<int>(__ldg(a.row_ptr + r + 1) - begin) : 0;
  const int longest = device::warp_max(length);
  const T factor = there ? alpha * __ldg(x + r) : T(0);
  const unsigned below = (1u << (threadIdx.x % 32)) - 1;
  P place = __shfl_sync(0xffffffffu, begin, 0);
  T sum = 0;
  for (int k = 0; k < longest; k += steps_ahead) {
    std::int32_t col[steps_ahead];
    T value[steps_ahead], xs[steps_ahead];
#pragma unroll
    for (int j = 0; j < steps_ahead; ++j) {
      const bool has = k + j < length;
      const unsigned with = __ballot_sync(0xffffffffu, has);
      const P at = place + static_cast<P>(__popc(with & below));
      place += static_cast<P>(__popc(with));
      col[j] = has ? __ldg(a.col + at) : -1;
      value[j] = has ? __ldg(a.values + at) : T(0);
    }
#pragma unroll
    for (int j = 0; j < steps_ahead; ++j) xs[j] = col[j] >= 0 ? __ldg(x + col[j]) : T(0);
#pragma unroll
    for (int j = 0; j < steps_ahead; ++j) {
      if (col[j] >= 0) sum += value[j] * xs[j];
      T add = value[j] * factor;
      if (add_equal_columns(col[j], add)) atomicAdd(y + col[j], add);
    }
  }
  if (length > 0) atomicAdd(y + r, alpha * sum);
}

// sum += values[place(k)] x[column(k)] for k = from, from + lanes, ... below `to`, in this order. Some loads are made
// together.
template <class T, class P, class Place, class Column>
__device__ inline void add_lane_entries(P from, P to, int lanes, const T* x, T& sum, Place place,
                                        Column column, const T* values) {
  for (P k = from; k < to; k += static_cast<P>(lanes * steps_ahead)) {
    std::int32_t col[steps_ahead];
    P at[steps_ahead];
    T value[steps_ahead], xs[steps_ahead];
#pragma unroll
    for (int j = 0; j < steps_ahead; ++j) {
      const P its = k + static_cast<P>(j * lanes);
      col[j] = its < to ? column(its) : -1;
      at[j] = its < to ? place(its) : P(0);
    }
#pragma unroll
    for (int j = 0; j < steps_ahead; ++j) {
      value[j] = col[j] >= 0 ? __ldg(values + at[j]) : T(0);
      xs[j] = col[j] >= 0 ? __ldg(x + col[j]) : T(0);
    }
#pragma unroll
    for (int j = 0; j < steps_ahead; ++j)
      if (col[j] >= 0) sum += value[j] * xs[j];
  }
}

template <class T, class P>
__global__ void __launch_bounds__(threads)
    sss_gather(SssView<T, P> a, int lanes, T alpha, const T* x, T beta, T* y, const int* stop) {
  const bool ended = stop && *stop;
  // All threads of a warp take part in its shuffles.
  const std::int64_t r = (std::int64_t{blockIdx.x} * threads + threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  T sum = 0;
  if (r < a.rows) {
    const P end = a.row_ptr[r + 1], upper_end = a.upper_ptr[r + 1];
    const P below = a.row_ptr[r] + static_cast<P>(lane), above = a.upper_ptr[r] + static_cast<P>(lane);
    add_lane_entries(
        below, end, lanes, x, sum, [&](P k) { return k; }, [&](P k) { return __ldg(a.col + k); }, a.values);
    add_lane_entries(
        above, upper_end, lanes, x, sum, [&](P k) { return __ldg(a.upper_place + k); },
        [&](P k) { return __ldg(a.upper_col + k); }, a.values);
    if (lane == 0 && a.has_diagonal(r)) sum += a.diagonal[r] * __ldg(x + r);
  }
  for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (r < a.rows && lane == 0 && !ended) store(alpha, sum, beta, y + r);
}

}  // namespace protean::formats

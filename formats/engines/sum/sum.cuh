// Products with the parts of a sum on a device (sum.hpp). All kernels begin when the stream's work before them is done,
// write each y once, and add in a fixed order. Private to formats/.
//
//   slots    a thread a row of ell, or of dia and ell together; split threads if rows are few
//   fused    a thread a row of dia; it adds its row of csr if that is short, otherwise all threads of its warp do
//   packed   `lanes` threads a row of csr at a position of a list
//
// A csr part with 0 lanes and coordinates are engines/runs/row_runs.cuh.
#pragma once
#include "formats/engines/rows/rows.cuh"

namespace protean::formats {

// Rows of ell, whose padding has column -1, and the diagonals of the same rows; either may be nothing.
template <class T>
struct SumSlots {
  std::int64_t rows, cols, width, diagonals;
  const std::int32_t *col, *off, *list;  // list: the row at each position; null when they are the same
  const T *values, *diagonal_values;

  __device__ std::int64_t row(std::int64_t p) const { return list ? __ldg(list + p) : p; }
  template <int split>
  __device__ T part_sum(std::int64_t p, int part, const T* x) const {
    T sum = 0;
#pragma unroll 4
    for (std::int64_t d = part; d < diagonals; d += split) {
      const std::int64_t c = p + __ldg(off + d);
      const T value = __ldcs(diagonal_values + d * rows + p);
      if (c >= 0 && c < cols) sum += value * __ldg(x + c);
    }
    // Entries come first, so a batch that begins with padding ends the row. The loads of a batch are in flight
    // together.
    constexpr int batch = 4;
    for (std::int64_t k = part; k < width; k += batch * split) {
      std::int32_t c[batch];
      T v[batch];
#pragma unroll
      for (int j = 0; j < batch; ++j)
        c[j] = k + j * split < width ? __ldcs(col + (k + j * split) * rows + p) : -1;
      if (c[0] < 0) break;
#pragma unroll
      for (int j = 0; j < batch; ++j) v[j] = c[j] >= 0 ? __ldcs(values + (k + j * split) * rows + p) : T(0);
#pragma unroll
      for (int j = 0; j < batch; ++j)
        if (c[j] >= 0) sum += v[j] * __ldg(x + c[j]);
    }
    return sum;
  }
  __device__ T whole(std::int64_t, T sum) const { return sum; }
};

template <int split, class T>
__global__ void __launch_bounds__(device::block_size, 6) sum_slots(SumSlots<T> a, ProductTask<T> task) {
  multiply_rows<split, false>(a, task);
}
template <class T>
void multiply_slots(const Context& context, const SumSlots<T>& a, T alpha, const T* x, T beta, T* y) {
  if (a.rows == 0) return;
  const DeviceState& state = context.device_state();
  const int split = row_split(state, a.rows, static_cast<double>(a.width + a.diagonals));
  const unsigned blocks = product_blocks(state, row_pieces(a.rows, split), false);
  with_split(split, [&](auto lanes) {
    device::launch(state, sum_slots<lanes(), T>, blocks, device::block_size, a,
                   product_task(context, blocks, alpha, x, beta, y, static_cast<T*>(nullptr)));
  });
}

// Rows of csr up to this length are added by one thread.
constexpr int fused_short = 8;

template <class T, class P>
__global__ void __launch_bounds__(device::block_size)
    sum_fused(SumSlots<T> a, CsrArrays<T, P> rest, T alpha, const T* __restrict__ x, T beta, T* y,
              const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const bool there = row < a.rows;
  T sum = 0;
  P begin = 0, end = 0;
  if (there) {
    sum = a.template part_sum<1>(row, 0, x);
    begin = __ldg(rest.row_ptr + row), end = __ldg(rest.row_ptr + row + 1);
  }
  const bool longer = end - begin > fused_short;
  if (!longer)
    for (P k = begin; k < end; ++k) sum += __ldg(rest.values + k) * __ldg(x + __ldg(rest.col + k));
  for (unsigned left = __ballot_sync(0xffffffffu, longer); left; left &= left - 1) {
    const int owner = __ffs(static_cast<int>(left)) - 1;
    const P first = __shfl_sync(0xffffffffu, begin, owner), last = __shfl_sync(0xffffffffu, end, owner);
    T part = 0;
    for (P k = first + static_cast<P>(lane); k < last; k += 32)
      part += __ldg(rest.values + k) * __ldg(x + __ldg(rest.col + k));
    part = device::sum_lanes(part);
    if (lane == owner) sum += part;
  }
  if (there) store(alpha, sum, beta, y + row);
}
template <class T, class P>
void multiply_fused(const Context& context, const SumSlots<T>& a, const CsrArrays<T, P>& rest, T alpha,
                    const T* x, T beta, T* y) {
  if (a.rows == 0) return;
  const DeviceState& state = context.device_state();
  device::launch(state, sum_fused<T, P>, blocks_of(a.rows), device::block_size, a, rest, alpha, x, beta, y,
                 state.stop);
}

template <int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    sum_packed(CsrArrays<T, P> a, const std::int32_t* list, T alpha, const T* __restrict__ x, T beta, T* y,
               const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t p = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  const bool there = p < a.rows;
  const T sum = group_sum<lanes>(a, p, there, x);
  if (there && threadIdx.x % lanes == 0) store(alpha, sum, beta, y + (list ? __ldg(list + p) : p));
}
template <class T, class P>
void multiply_packed(const Context& context, const CsrArrays<T, P>& a, const std::int32_t* list, int threads,
                     T alpha, const T* x, T beta, T* y) {
  if (a.rows == 0) return;
  const DeviceState& state = context.device_state();
  with_group(threads, [&](auto lanes) {
    device::launch(state, sum_packed<lanes(), T, P>, blocks_of(a.rows, device::block_size / lanes()),
                   device::block_size, a, list, alpha, x, beta, y, state.stop);
  });
}

}  // namespace protean::formats

// The device side of runs.hpp: sums of rows over the lanes of a warp and the threads of a block, and the carries of
// tiles. Private to formats/.
#pragma once
#include "formats/device_support.cuh"
#include "formats/engines/runs/runs.hpp"

namespace protean::formats {

// A piece of a long row that is cut (engines/runs/row_runs.cuh).
struct RowPiece {
  std::int64_t entry;
  std::int32_t row, entries;
  std::int32_t first, count;  // the pieces of this row
};

// The sum over this lane and the `count` lanes after it. These count to the same last lane. All lanes of a warp call
// it.
template <class T>
__device__ inline T sum_ahead(T value, int count) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T other = __shfl_down_sync(0xffffffffu, value, step);
    if (step <= count) value += other;
  }
  return value;
}

// How many threads lie between this one and the last one up to it in which a row ends; if there is none, between
// this one and the first. All threads of a block call it.
template <int threads>
__device__ inline int threads_since_end(bool ends) {
  __shared__ unsigned of_warp[threads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned all = __ballot_sync(0xffffffffu, ends);
  if (lane == 0) of_warp[warp] = all;
  __syncthreads();
  unsigned seen = all & 0xffffffffu >> (31 - lane);
  int of = warp;
  while (seen == 0 && of > 0) seen = of_warp[--of];
  return static_cast<int>(threadIdx.x) - (seen ? 32 * of + 31 - __clz(static_cast<int>(seen)) : 0);
}

// The sums of the rows that are cut by the borders between the threads of a block.
template <class T>
struct BlockCarry {
  T before;  // of the row that is open where this thread begins, over the threads before
  T last;    // of the row that is open where the block ends
};
// open: the sum of this thread's entries after its last row end, or of all its entries if no row ends. since:
// threads_since_end(). All threads of a block call it.
template <int threads, class T>
__device__ inline BlockCarry<T> carry_in_block(T open, int since) {
  __shared__ T of_warp[threads / 32];
  __shared__ T of_thread[threads];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, open, step);
    if (step <= since && step <= lane) open += other;
  }
  if (lane == 31) of_warp[warp] = open;
  __syncthreads();
  for (int rest = since - lane, w = warp - 1; rest > 0; rest -= 32, --w) open += of_warp[w];
  of_thread[threadIdx.x] = open;
  __syncthreads();
  return {threadIdx.x > 0 ? of_thread[threadIdx.x - 1] : T(0), of_thread[threads - 1]};
}

// y[r] += alpha * (sum of the carries of row r), in the order of the tiles. row_of(t): the row of the carry of tile t,
// -1 if it has none; tiles of one row are neighbours. A lane reads a carry. The warp in which the carries of a row
// begin adds all carries of the row.
constexpr int carry_threads = 128;
// Adds the carries from `first` on that begin among 32. All lanes of the warp call it. `of_other_blocks`: they and y
// have been written by other blocks of this launch, so no line of them in the first-level cache may be read.
template <bool of_other_blocks, class T, class RowOf>
__device__ inline void add_32_carries(const RowOf& row_of, std::int64_t first, std::int64_t tiles,
                                      const T* carry, T alpha, T* y) {
  const auto read = [](const T* from) {
    if constexpr (of_other_blocks)
      return __ldcg(from);
    else
      return *from;
  };
  const int lane = threadIdx.x % 32;
  const std::int64_t t = first + lane;
  const std::int64_t row = t < tiles ? row_of(t) : -1;
  T sum = row >= 0 ? read(carry + t) : T(0);
  std::int64_t before = __shfl_up_sync(0xffffffffu, row, 1);
  if (lane == 0) before = t > 0 ? row_of(t - 1) : -1;
  // Bit i: lane i does not continue the row of the lane before.
  const unsigned begins = __ballot_sync(0xffffffffu, row != before) | 1u;
  const unsigned later = lane < 31 ? begins >> (lane + 1) : 0;
  sum = sum_ahead(sum, later ? __ffs(static_cast<int>(later)) - 1 : 31 - lane);
  // The last row of the warp may go on in the next warps.
  const std::int64_t last = __shfl_sync(0xffffffffu, row, 31);
  const int first_of_last = 31 - __clz(static_cast<int>(begins));
  const bool begun_before = first_of_last == 0 && __shfl_sync(0xffffffffu, before, 0) == last;
  if (last >= 0 && !begun_before) {
    T rest = 0;
    for (std::int64_t next = first + 32 + lane; next < tiles && row_of(next) == last; next += 32)
      rest += read(carry + next);
    rest = device::sum_lanes(rest);
    if (lane == first_of_last) sum += rest;
  }
  if (row >= 0 && row != before) y[row] = read(y + row) + alpha * sum;
}
template <class T, class RowOf>
__global__ void __launch_bounds__(carry_threads)
    add_carries(RowOf row_of, std::int64_t tiles, const T* carry, T alpha, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t first = std::int64_t{blockIdx.x} * carry_threads + threadIdx.x - threadIdx.x % 32;
  if (first < tiles) add_32_carries<false>(row_of, first, tiles, carry, alpha, y);
}
template <class T, class RowOf>
void launch_add_carries(const DeviceState& state, const RowOf& row_of, std::int64_t tiles, const T* carry,
                        T alpha, T* y) {
  if (tiles == 0) return;
  device::launch(state, add_carries<T, RowOf>, blocks_of(tiles, carry_threads), carry_threads, row_of, tiles,
                 carry, alpha, y, state.stop);
}

// y := beta y in rows without entries.
template <class T, class P>
__global__ void scale_empty_rows(std::int64_t rows, const P* row_ptr, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row < rows && row_ptr[row] == row_ptr[row + 1]) store(T(1), T(0), beta, y + row);
}
template <class T>
void launch_scale_empty_rows(const DeviceState& state, const RowPointers& row_ptr, std::int64_t rows, T beta,
                             T* y) {
  if (rows == 0 || beta == T(1)) return;
  row_ptr.visit([&](auto* pointers) {
    using P = std::remove_const_t<std::remove_pointer_t<decltype(pointers)>>;
    device::launch(state, scale_empty_rows<T, P>, blocks_of(rows), device::block_size, rows, pointers, beta,
                   y, state.stop);
  });
}

}  // namespace protean::formats

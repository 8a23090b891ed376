// The product of Bell and Garland for entries sorted by row, in two launches and without atomic operations. A warp
// takes segment_entries neighbouring entries, adds runs of the same row by shuffles, and writes each row that begins
// among them, as far as its own entries go. What it has of a row that began before is its carry. A second launch adds
// the carries, which lie side by side for each row, in their order. The rows of y between two rows with entries are
// written by the warp that has the second one, except for a tail (adds_to_y). So every sum has a fixed order, whatever
// runs first.
//
// carry_row    [segments] int32: -1 if the segment begins with a new row.
// carry_value  [segments].
//
// Source: N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented processors, SC
// 2009, doi:10.1145/1654059.1654078; two launches as in B.-Y. Su, K. Keutzer, clSpMV, ICS 2012,
// doi:10.1145/2304576.2304624.
#pragma once
#include "formats/device_support.cuh"

namespace protean::formats {

constexpr int segment_batch = 4,
              segment_entries = 32 * segment_batch * 4;  // steps loaded together; of a warp
constexpr int segment_threads = 128, segment_carries = 256;

struct RowCol {
  std::int32_t row, col;
};
// Row and column of entry k, which a product reads once.
struct CooIndex {
  const std::int32_t *row, *col;
  __device__ RowCol operator[](std::int64_t k) const { return {__ldcs(row + k), __ldcs(col + k)}; }
};

// Index: CooIndex, or another one with the same operator (blsi.cu).
template <class T, class Index>
struct EntrySegments {
  std::int64_t rows, size;  // size > 0
  Index index;
  const T* values;
  std::int32_t* carry_row;
  T* carry_value;
  bool adds_to_y = false;  // rows without entries keep their y; beta is 1
};

inline std::int64_t segments_of(std::int64_t entries) {
  return (entries + segment_entries - 1) / segment_entries;
}

// y := beta y for rows [begin, end). All lanes of the warp share the work.
template <class T>
__device__ inline void scale_rows(std::int64_t begin, std::int64_t end, T beta, T* y) {
  for (std::int64_t r = begin + threadIdx.x % 32; r < end; r += 32) store(T(0), T(0), beta, y + r);
}

// The flag `stop` is read behind the first loads: read at the beginning, it took a tenth of the time of a product.
template <class T, class Index>
__global__ void __launch_bounds__(segment_threads)
    segment_product(EntrySegments<T, Index> A, T alpha, const T* x, T beta, T* y, const int* stop) {
  device::wait_for_stream();
  const std::int64_t segment = (std::int64_t{blockIdx.x} * segment_threads + threadIdx.x) / 32;
  const std::int64_t begin = segment * segment_entries;
  if (begin >= A.size) return;  // the whole warp
  const std::int64_t end = min(A.size, begin + segment_entries);
  const int lane = threadIdx.x % 32;
  const std::int32_t before = begin > 0 ? A.index[begin - 1].row : -1;  // row of the entry before the segment
  std::int32_t open = before;                                           // row of the entry before the step
  bool mine = false;  // the open row has entries of this segment
  T sum = 0;          // of these entries
  std::int32_t carry_row = -1;
  T carry_value = 0;
  const auto flush = [&](std::int32_t r, T value) {
    if (r == before)
      carry_row = r, carry_value = value;
    else
      store(alpha, value, beta, y + r);
  };
  for (std::int64_t first = begin; first < end; first += 32 * segment_batch) {
    std::int32_t rows[segment_batch];
    T values[segment_batch];
#pragma unroll
    for (int j = 0; j < segment_batch; ++j) {
      const std::int64_t k = first + 32 * j + lane;
      rows[j] = -2, values[j] = 0;
      if (k < end) {
        const RowCol at = A.index[k];
        rows[j] = at.row, values[j] = __ldcs(A.values + k) * __ldg(x + at.col);
      }
    }
    if (first == begin && stop && *stop)
      return;  // all warps: the flag does not change while kernels of a step run
#pragma unroll
    for (int j = 0; j < segment_batch; ++j) {
      if (first + 32 * j >= end) break;  // the whole warp
      const std::int32_t r = rows[j];
      T v = values[j];
      // Each lane gets the sum of its run up to itself.
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const T other = __shfl_up_sync(0xffffffffu, v, step);
        const std::int32_t other_row = __shfl_up_sync(0xffffffffu, r, step);
        if (lane >= step && other_row == r) v += other;
      }
      const std::int32_t left = __shfl_up_sync(0xffffffffu, r, 1);
      const std::int32_t right = __shfl_down_sync(0xffffffffu, r, 1);
      const std::int32_t previous = lane == 0 ? open : left;
      const std::int32_t first_row = __shfl_sync(0xffffffffu, r, 0);
      if (mine && first_row == open) {
        if (r == open) v += sum;
      } else if (mine && lane == 0) {
        flush(open, sum);
      }
      // Rows without entries before each row.
      for (unsigned gaps = __ballot_sync(0xffffffffu, !A.adds_to_y && r >= 0 && r > previous + 1); gaps;
           gaps &= gaps - 1) {
        const int from = __ffs(gaps) - 1;
        const std::int32_t gap_begin = __shfl_sync(0xffffffffu, previous, from) + 1;
        scale_rows(gap_begin, __shfl_sync(0xffffffffu, r, from), beta, y);
      }
      if (r >= 0 && lane < 31 && right != r) flush(r, v);
      // Past the end there is no open row: its last entry has been flushed.
      open = __shfl_sync(0xffffffffu, r, 31);
      sum = __shfl_sync(0xffffffffu, v, 31);
      mine = open >= 0;
    }
  }
  if (mine && lane == 0) flush(open, sum);
  // The row that goes on from before is the first of the segment; one lane has flushed it.
  const unsigned found = __ballot_sync(0xffffffffu, carry_row >= 0);
  if (found == 0 ? lane == 0 : lane == __ffs(found) - 1)
    A.carry_row[segment] = carry_row, A.carry_value[segment] = carry_value;
  if (end == A.size && !A.adds_to_y) scale_rows(std::int64_t{A.index[end - 1].row} + 1, A.rows, beta, y);
}

// Adds the carries of the rows whose first one lies among the segment_carries of this block.
template <class T>
__global__ void __launch_bounds__(segment_carries)
    add_segment_carries(std::int64_t segments, const std::int32_t* carry_row, const T* carry_value, T alpha,
                        T* y, const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ std::int32_t rows[segment_carries];
  __shared__ T values[segment_carries];
  const int thread = threadIdx.x;
  const std::int64_t begin = std::int64_t{blockIdx.x} * segment_carries, s = begin + thread;
  const int count = static_cast<int>(min(std::int64_t{segment_carries}, segments - begin));
  rows[thread] = thread < count ? carry_row[s] : -1;
  values[thread] = thread < count ? carry_value[s] : T(0);
  __syncthreads();
  const std::int32_t r = rows[thread], last = rows[count - 1];
  const bool first = r >= 0 && (thread > 0 ? rows[thread - 1] : begin > 0 ? carry_row[begin - 1] : -1) != r;
  T sum = 0;
  if (first)
    for (int i = thread; i < count && rows[i] == r; ++i) sum += values[i];
  // The last row may go on in the next blocks' carries. The whole block adds these.
  T rest[1] = {};
  if (last >= 0)
    for (std::int64_t i = begin + segment_carries + thread; i < segments && carry_row[i] == last;
         i += segment_carries)
      rest[0] += carry_value[i];
  device::sum_block<1>(rest);
  if (first) y[r] += alpha * (r == last ? sum + rest[0] : sum);
}

// y := alpha A x + beta y
template <class T, class Index>
void multiply_segments(const Context& context, const EntrySegments<T, Index>& A, T alpha, const T* x, T beta,
                       T* y) {
  const DeviceState& state = context.device_state();
  const std::int64_t segments = segments_of(A.size);
  device::launch(state, segment_product<T, Index>, blocks_of(segments * 32, segment_threads), segment_threads,
                 A, alpha, x, beta, y, state.stop);
  device::launch(state, add_segment_carries<T>, blocks_of(segments, segment_carries), segment_carries,
                 segments, static_cast<const std::int32_t*>(A.carry_row),
                 static_cast<const T*>(A.carry_value), alpha, y, state.stop);
}

}  // namespace protean::formats

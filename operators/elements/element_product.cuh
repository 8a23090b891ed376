// The product with element matrices on the device: several warps of a block compute one batch, and lane l of
// each of them computes element l. Private to element_device.cu.
//
// The entries of x that a batch needs are in shared memory, and with lower halves the entries of y, too. So a
// multiprocessor holds few blocks if elements are large: 3 for 125 rows, lower halves, double. A warp has
// about 14 entries of 32 elements in flight, 3.5 KB. By Little's law a multiprocessor of an H200 needs 32
// bytes per ns (its share of the bandwidth) x 1 us (latency) = 32 KB in flight, and more if warps wait at barriers: 24
// warps.
//
// Whole matrices: each warp computes 4 rows at a time. One warp computes each row of the result.
//
// Lower halves: entry (i, j) is added to y_i and, mirrored, to y_j. Rows are divided into blocks of 8. A warp
// computes a pair (I, J) of blocks, J < I: 8 x 8 entries, read once and used twice. The pairs are scheduled
// in rounds by the circle method of round-robin tournaments. In a round each block of rows is in one pair, so
// no two warps add to the same y. A barrier ends the round. Diagonal blocks: with an odd number of blocks,
// each round leaves out one block, whose diagonal block is computed in this round. With an even number they
// are computed in one more round. So the order of additions does not depend on the number of warps.
#pragma once
#include "operators/elements/element_device.cuh"

namespace protean::detail {

// Whole matrices: rows that a warp computes together. Lower halves: rows of a block. Entries of x, or of y,
// that a warp loads at once.
constexpr int row_tile = 4, half_tile = 8, row_batch = 8;
// Warps per multiprocessor: 80 registers per thread for double, 64 for float.
template <class T>
constexpr int resident_warps = sizeof(T) == 8 ? 24 : 32;

// Warps per batch: the number of pairs in a round of the largest elements (1 for 8 rows, 2 for 27, 4 for 64,
// 8 for 125). If these are more than 8, and more than a multiprocessor can hold with `blocks` blocks: a half,
// a third ... of it, so that all warps have about the same work.
template <class T>
int warps_for(std::int64_t m, int blocks) {
  const std::int64_t pairs = std::max<std::int64_t>(1, ((m + half_tile - 1) / half_tile + 1) / 2);
  const std::int64_t most = std::max(8, resident_warps<T> / std::max(1, blocks));
  const std::int64_t passes = (pairs + most - 1) / most;
  return static_cast<int>((pairs + passes - 1) / passes);
}

// Entries are read once, so they should not displace x from the L1 cache.
__device__ inline double load_entry(const double* entry) {
  double value;
  asm("ld.global.nc.L1::no_allocate.f64 %0, [%1];" : "=d"(value) : "l"(entry));
  return value;
}
__device__ inline float load_entry(const float* entry) {
  float value;
  asm("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(entry));
  return value;
}

// Calls row(i, value) for the rows of this warp, of K^T if `transposed`. x: this lane's column of shared memory.
template <bool transposed, class T, class Row>
__device__ inline void multiply_whole(int m, const T* __restrict__ k, const T* x, Row row) {
  // Entry (i, j) is at i * line_step + j * entry_step.
  const int line_step = (transposed ? 1 : m) * warp, entry_step = (transposed ? m : 1) * warp;
  const int step = static_cast<int>(blockDim.x) / warp * row_tile;
  for (int i = static_cast<int>(threadIdx.x) / warp * row_tile; i < m; i += step) {
    const int rows = m - i < row_tile ? m - i : row_tile;
    const T* line[row_tile];
    T sum[row_tile];
#pragma unroll
    for (int r = 0; r < row_tile; ++r) {
      // Rows past the last one repeat row i; their sums are not used.
      line[r] = k + (r < rows ? i + r : i) * line_step;
      sum[r] = 0;
    }
    int j = 0;
    for (; j + row_tile <= m; j += row_tile) {
      T value[row_tile][row_tile];
#pragma unroll
      for (int c = 0; c < row_tile; ++c)
#pragma unroll
        for (int r = 0; r < row_tile; ++r) value[c][r] = load_entry(line[r] + (j + c) * entry_step);
#pragma unroll
      for (int c = 0; c < row_tile; ++c) {
        const T other = x[(j + c) * warp];
#pragma unroll
        for (int r = 0; r < row_tile; ++r) sum[r] += value[c][r] * other;
      }
    }
    for (; j < m; ++j) {
      const T other = x[j * warp];
#pragma unroll
      for (int r = 0; r < row_tile; ++r) sum[r] += load_entry(line[r] + j * entry_step) * other;
    }
#pragma unroll
    for (int r = 0; r < row_tile; ++r)
      if (r < rows) row(i + r, sum[r]);
  }
}

// y_I += K_IJ x_J and y_J += K_IJ' x_I for blocks J < I, I with `rows` rows, J with 8. k: entry (0, 0) of
// K_IJ. Row 1 begins `line` entries after row 0, and each following distance is larger by one. All pointers
// are to this lane's column.
template <bool whole, class T>
__device__ inline void multiply_pair(int rows, int line, const T* __restrict__ k, const T* x_I, const T* x_J,
                                     T* y_I, T* y_J) {
  T other[half_tile], mirror[half_tile];
#pragma unroll
  for (int c = 0; c < half_tile; ++c) other[c] = x_J[c * warp], mirror[c] = y_J[c * warp];
#pragma unroll
  for (int r = 0; r < half_tile; ++r)
    if (whole || r < rows) {
      T value[half_tile];
#pragma unroll
      for (int c = 0; c < half_tile; ++c) value[c] = load_entry(k + c * warp);
      k += (line + r) * warp;
      const T own = x_I[r * warp];
      T sum = y_I[r * warp];
#pragma unroll
      for (int c = 0; c < half_tile; ++c) sum += value[c] * other[c], mirror[c] += value[c] * own;
      y_I[r * warp] = sum;
    }
#pragma unroll
  for (int c = 0; c < half_tile; ++c) y_J[c * warp] = mirror[c];
}

// y_I += K_II x_I, in the same way.
template <bool whole, class T>
__device__ inline void multiply_diagonal(int rows, int line, const T* __restrict__ k, const T* x, T* y) {
  T own[half_tile], sum[half_tile];
#pragma unroll
  for (int r = 0; r < half_tile; ++r)
    if (whole || r < rows) own[r] = x[r * warp], sum[r] = y[r * warp];
#pragma unroll
  for (int r = 0; r < half_tile; ++r)
    if (whole || r < rows) {
#pragma unroll
      for (int c = 0; c < r; ++c) {
        const T value = load_entry(k + c * warp);
        sum[r] += value * own[c];
        sum[c] += value * own[r];
      }
      sum[r] += load_entry(k + r * warp) * own[r];
      k += (line + r) * warp;
    }
#pragma unroll
  for (int r = 0; r < half_tile; ++r)
    if (whole || r < rows) y[r * warp] = sum[r];
}

// Adds the contribution of blocks I >= J of an element of m rows to y.
template <class T>
__device__ inline void multiply_blocks(int m, int I, int J, const T* __restrict__ k, const T* x, T* y) {
  const int i = I * half_tile, j = J * half_tile, rows = m - i;
  k += (i * (i + 1) / 2 + j) * warp;
  const T *x_I = x + i * warp, *x_J = x + j * warp;
  T *y_I = y + i * warp, *y_J = y + j * warp;
  if (I == J) {
    if (rows >= half_tile)
      multiply_diagonal<true>(half_tile, i + 1, k, x_I, y_I);
    else
      multiply_diagonal<false>(rows, i + 1, k, x_I, y_I);
  } else {
    if (rows >= half_tile)
      multiply_pair<true>(half_tile, i + 1, k, x_I, x_J, y_I, y_J);
    else
      multiply_pair<false>(rows, i + 1, k, x_I, x_J, y_I, y_J);
  }
}

// y += K x by all warps of the block; y is complete on return.
template <class T>
__device__ inline void multiply_half(int m, const T* __restrict__ k, const T* x, T* y) {
  const int first = static_cast<int>(threadIdx.x) / warp, warps = static_cast<int>(blockDim.x) / warp;
  const int blocks = (m + half_tile - 1) / half_tile;
  const bool odd = blocks % 2 == 1;
  const int rounds = odd ? blocks : blocks - 1;
  for (int round = 0; round < rounds; ++round) {
    for (int pair = first; 2 * pair < blocks; pair += warps) {
      int I = round + pair, J = round - pair;
      if (I >= rounds) I -= rounds;
      if (J < 0) J += rounds;
      if (pair == 0 && !odd) I = blocks - 1;  // the block that stays in its place
      multiply_blocks(m, I > J ? I : J, I > J ? J : I, k, x, y);
    }
    __syncthreads();
  }
  if (odd) return;
  for (int I = first; I < blocks; I += warps) multiply_blocks(m, I, I, k, x, y);
  __syncthreads();
}

enum class Target : unsigned char { atomic, add, store };

// Computes batches begin, begin + 1, ... < end, one per block. y: the vector, or with Target::store one entry
// for each entry of the map. with_dot: result[0] := x . y over all batches and constrained rows. transposed: with K^T,
// for whole matrices.
template <bool symmetric, Target target, bool with_dot, bool transposed, class T>
__global__ void __launch_bounds__(resident_warps<T>* warp, 1)
    element_product(ElementView<T> a, std::int64_t begin, std::int64_t end, T alpha, const T* x, T* y,
                    double* partials, unsigned* arrived, T* result, const int* stop) {
  if (device::stopped(stop)) return;
  extern __shared__ double shared[];
  const int lane = static_cast<int>(threadIdx.x) % warp, first = static_cast<int>(threadIdx.x) / warp;
  const int warps = static_cast<int>(blockDim.x) / warp;
  T* const own = reinterpret_cast<T*>(shared) + lane;
  T dots[1] = {};
  if (const std::int64_t b = begin + blockIdx.x; b < end) {
    const ElementBatch batch = a.batches[b];
    const std::int32_t* map = a.map + batch.map + lane;
    const T* values = a.values + batch.values + lane;
    const int m = batch.m;
    T* const sums = own + m * warp;
    const auto give = [&](int i, std::int32_t r, T value) {
      if (with_dot) dots[0] += own[i * warp] * value;
      if (target == Target::store) {
        y[batch.map + i * warp + lane] = value;
      } else if (r >= 0) {
        if (target == Target::atomic)
          atomicAdd(y + r, alpha * value);
        else
          y[r] += alpha * value;
      }
    };
    // Calls use(i, row of the vectors or -1) for this warp's rows, several at a time so that their loads
    // overlap.
    const auto for_rows = [&](auto load, auto use) {
      for (int i = first; i < m; i += row_batch * warps) {
        std::int32_t r[row_batch];
        decltype(load(0, 0)) value[row_batch];
#pragma unroll
        for (int n = 0; n < row_batch; ++n) {
          const int at = i + n * warps;
          r[n] = at < m ? __ldg(map + at * warp) : -1;
        }
#pragma unroll
        for (int n = 0; n < row_batch; ++n) value[n] = load(i + n * warps, r[n]);
#pragma unroll
        for (int n = 0; n < row_batch; ++n)
          if (i + n * warps < m) use(i + n * warps, r[n], value[n]);
      }
    };
    for_rows([&](int, std::int32_t r) { return r >= 0 ? __ldg(x + r) : T(0); },
             [&](int i, std::int32_t, T value) {
               own[i * warp] = value;
               if (symmetric) sums[i * warp] = T(0);
             });
    __syncthreads();
    if constexpr (symmetric) {
      multiply_half(m, values, own, sums);
      for_rows([&](int i, std::int32_t) { return i < m ? sums[i * warp] : T(0); }, give);
    } else {
      multiply_whole<transposed>(m, values, own, [&](int i, T value) {
        give(i, target == Target::store ? 0 : __ldg(map + i * warp), value);
      });
    }
  }
  if constexpr (with_dot) {
    for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < a.constrained_rows;
         k += std::int64_t{gridDim.x} * blockDim.x) {
      const T value = x[a.constrained[k]];
      dots[0] += value * value;
    }
    device::finish_reduction<1>(dots, partials, arrived, result);
  }
}

// Where several vectors lie: entry r of vector j at r row + j column.
struct MultiSteps {
  std::int64_t x_row, x_column, y_row, y_column;
};

// Y += alpha A X for `columns` vectors, which each block computes one after another: from the second on the entries of
// its batch come from the second-level cache.
template <bool symmetric, Target target, class T>
__global__ void __launch_bounds__(resident_warps<T>* warp, 1)
    element_multi_product(ElementView<T> a, std::int64_t begin, int columns, MultiSteps step, T alpha,
                          const T* x, T* y, const int* stop) {
  static_assert(target != Target::store);
  if (device::stopped(stop)) return;
  extern __shared__ double shared[];
  const int lane = static_cast<int>(threadIdx.x) % warp, first = static_cast<int>(threadIdx.x) / warp;
  const int warps = static_cast<int>(blockDim.x) / warp;
  T* const own = reinterpret_cast<T*>(shared) + lane;
  const ElementBatch batch = a.batches[begin + blockIdx.x];
  const std::int32_t* map = a.map + batch.map + lane;
  const T* values = a.values + batch.values + lane;
  const int m = batch.m;
  T* const sums = own + m * warp;
  for (int j = 0; j < columns; ++j, x += step.x_column, y += step.y_column) {
    const auto give = [&](int i, T value) {
      const std::int32_t r = __ldg(map + i * warp);
      if (r < 0) return;
      if (target == Target::atomic)
        atomicAdd(y + r * step.y_row, alpha * value);
      else
        y[r * step.y_row] += alpha * value;
    };
    for (int i = first; i < m; i += warps) {
      const std::int32_t r = __ldg(map + i * warp);
      own[i * warp] = r >= 0 ? __ldg(x + r * step.x_row) : T(0);
      if (symmetric) sums[i * warp] = T(0);
    }
    __syncthreads();
    if constexpr (symmetric) {
      multiply_half(m, values, own, sums);
      for (int i = first; i < m; i += warps) give(i, sums[i * warp]);
    } else {
      multiply_whole<false>(m, values, own, give);
    }
    __syncthreads();
  }
}

}  // namespace protean::detail

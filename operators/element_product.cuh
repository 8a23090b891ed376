// The product with element matrices on the device: some warps of a block work on one batch, lane l of each of
// them on element l. Private to element_device.cu.
//
// What a batch needs of x, and what it gives to y where only lower halves are stored, is in shared memory, so
// few blocks are on a processor at a time when elements are large: 3 of 125 rows, halves of double. A warp
// has some 14 entries of 32 elements on their way, 3.5 KB; a processor's share of the bandwidth of an H200,
// 32 bytes a ns, times 1 us from asking to getting is 32 KB, and there must be more of it wherever warps wait
// for each other: 24 warps.
//
// Whole matrices: the warps take rows, 4 at a time. Each row of the result is of one warp.
//
// Lower halves: entry (i, j) is added to y_i and, mirrored, to y_j. Rows are cut into blocks of 8. A warp
// takes a pair (I, J) of them, J < I: 8 x 8 entries, read once and used twice. The pairs are played as a
// tournament in which everyone meets everyone (the circle method: in each round all but one turn by a place),
// and in a round each block of rows is in one pair: no two warps add to the same y, and a barrier ends the
// round. Blocks of the diagonal: an odd number of blocks leaves one out in each round, which plays alone; an
// even number plays them in one more round. So y is added up in the same order whatever the number of warps.
#pragma once
#include "operators/element_device.cuh"

namespace protean::detail {

// Rows that a warp works on together, whole matrices; rows of a block, lower halves; rows whose entries of x,
// or of y, a warp asks for at once.
constexpr int row_tile = 4, half_tile = 8, row_batch = 8;
// Warps that a processor is to hold: 80 registers a thread for double, 64 for float, whose lines are shorter.
template <class T>
constexpr int resident_warps = sizeof(T) == 8 ? 24 : 32;

// Warps for a batch: as many as a round of the largest elements has pairs (1 for 8 rows, 2 for 27, 4 for 64,
// 8 for 125), or a part of it, so that each has as much to do, where these are more than 8 and more than a
// processor can hold of `blocks` blocks.
template <class T>
int warps_for(std::int64_t m, int blocks) {
  const std::int64_t pairs = std::max<std::int64_t>(1, ((m + half_tile - 1) / half_tile + 1) / 2);
  const std::int64_t most = std::max(8, resident_warps<T> / std::max(1, blocks));
  const std::int64_t turns = (pairs + most - 1) / most;
  return static_cast<int>((pairs + turns - 1) / turns);
}

// Entries are read once: they leave the first cache to x.
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

// Calls row(i, value) for the rows of this warp. x: this lane's column of shared memory.
template <class T, class Row>
__device__ inline void multiply_whole(int m, const T* __restrict__ k, const T* x, Row row) {
  const int step = static_cast<int>(blockDim.x) / warp * row_tile;
  for (int i = static_cast<int>(threadIdx.x) / warp * row_tile; i < m; i += step) {
    const int rows = m - i < row_tile ? m - i : row_tile;
    const T* line[row_tile];
    T sum[row_tile];
#pragma unroll
    for (int r = 0; r < row_tile; ++r) {
      // Rows past the last one repeat row i; their sums are not used.
      line[r] = k + (r < rows ? i + r : i) * m * warp;
      sum[r] = 0;
    }
    int j = 0;
    for (; j + row_tile <= m; j += row_tile) {
      T value[row_tile][row_tile];
#pragma unroll
      for (int c = 0; c < row_tile; ++c)
#pragma unroll
        for (int r = 0; r < row_tile; ++r) value[c][r] = load_entry(line[r] + (j + c) * warp);
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
      for (int r = 0; r < row_tile; ++r) sum[r] += load_entry(line[r] + j * warp) * other;
    }
#pragma unroll
    for (int r = 0; r < row_tile; ++r)
      if (r < rows) row(i + r, sum[r]);
  }
}

// y_I += K_IJ x_J and y_J += K_IJ' x_I for blocks J < I, I of `rows` rows, J of 8. k: entry (0, 0) of K_IJ; a
// line of it begins `line` entries after the one before, and one more each time. All are this lane's columns.
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

// y_I += K_II x_I, the same way.
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

// Blocks I >= J of rows of an element of m: what they add to y.
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

// y += K x, all warps of the block together; y is complete when it returns.
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
      if (pair == 0 && !odd) I = blocks - 1;  // who does not turn
      multiply_blocks(m, I > J ? I : J, I > J ? J : I, k, x, y);
    }
    __syncthreads();
  }
  if (odd) return;
  for (int I = first; I < blocks; I += warps) multiply_blocks(m, I, I, k, x, y);
  __syncthreads();
}

enum class Target : unsigned char { atomic, add, store };

// Batches begin, begin + 1, ... below end, one a block. y: the vector, or with Target::store an entry for
// each of the map. with_dot: result[0] := x . y over all batches and constrained rows.
template <bool symmetric, Target target, bool with_dot, class T>
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
    // use(i, row of the vectors or -1) for this warp's rows, some at a time so that their loads overlap.
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
      multiply_whole(m, values, own, [&](int i, T value) {
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

}  // namespace protean::detail

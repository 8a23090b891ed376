// The rows of a matrix for steps in one kernel (resident_cg.cuh): views of their arrays, and how blocks divide them.
// Private to solvers/.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/bisect.hpp"
#include "operators/row_arrays.hpp"

namespace protean::detail {

// Views of RowArrays, one for each kind:
//   int row(p), int width(p)       the row at position p; the number of its entries, with holes
//   RowEntry get(p, k)             entry k of that row
//   std::int64_t before(p)         number of slots of the positions before p, with padding
template <class T>
struct RowEntry {
  int col;  // -1: a hole
  T value;
};

template <class T>
struct CsrView {
  RowArrays<T> a;
  __device__ std::int64_t before(int p) const { return a.row_ptr32 ? a.row_ptr32[p] : a.row_ptr64[p]; }
  __device__ int row(int p) const { return p; }
  __device__ int width(int p) const { return static_cast<int>(before(p + 1) - before(p)); }
  __device__ RowEntry<T> get(int p, int k) const {
    const std::int64_t at = before(p) + k;
    return {__ldg(a.col + at), __ldg(a.values + at)};
  }
};

template <class T>
struct SliceView {
  RowArrays<T> a;
  __device__ int row(int p) const { return a.perm ? __ldg(a.perm + p) : p; }
  __device__ int slots(int p) const {
    if (!a.slice_ptr) return static_cast<int>(a.longest);
    const int slice = p >> a.shift;
    return static_cast<int>((__ldg(a.slice_ptr + slice + 1) - __ldg(a.slice_ptr + slice)) >> a.shift);
  }
  __device__ std::int64_t base(int p) const {
    return a.slice_ptr ? __ldg(a.slice_ptr + (p >> a.shift)) + (p & ((1 << a.shift) - 1)) : p;
  }
  // Without padding. Padding repeats the last column.
  __device__ int width(int p) const {
    const int count = slots(p);
    if (count == 0) return 0;
    const std::int64_t at = base(p);
    const int last = __ldg(a.col + at + (count - 1) * a.stride);
    return 1 + first_where(0, count - 1, [&](int k) { return __ldg(a.col + at + k * a.stride) >= last; });
  }
  __device__ std::int64_t before(int p) const {
    if (!a.slice_ptr) return p * a.longest;
    const int last = p == 0 ? 0 : (p - 1) >> a.shift;
    return __ldg(a.slice_ptr + last) + (p == 0 ? 0 : std::int64_t{p - (last << a.shift)} * slots(p - 1));
  }
  __device__ RowEntry<T> get(int p, int k) const {
    const std::int64_t at = base(p) + k * a.stride;
    return {__ldg(a.col + at), __ldg(a.values + at)};
  }
};

template <class T>
struct DiagonalView {
  RowArrays<T> a;
  __device__ int row(int p) const { return p; }
  __device__ int width(int p) const {
    const std::int64_t h = p / a.height;
    return static_cast<int>(a.ptr[h + 1] - a.ptr[h]);
  }
  __device__ std::int64_t before(int p) const {
    const std::int64_t h = p == 0 ? 0 : (p - 1) / a.height;
    return a.ptr[h] * a.height + (p == 0 ? 0 : (p - h * a.height) * width(p - 1));
  }
  __device__ RowEntry<T> get(int p, int k) const {
    const std::int64_t h = p / a.height, i = p - h * a.height, d = a.ptr[h] + k;
    if (!(a.entries[d * a.bit_bytes + i / 8] >> (i % 8) & 1)) return {-1, T(0)};
    const std::int64_t at = d * a.height + i;
    return {static_cast<int>(p + a.off[d]), a.narrow_values ? T(a.narrow_values[at]) : a.values[at]};
  }
};

// How the rows lie in shared memory. Block b has positions first[b] .. first[b + 1] - 1. `lanes` neighbouring
// threads share a row; the rows of a warp are a chunk, whose slot j of all lanes is contiguous.
struct ResidentShape {
  static constexpr int most_threads = 512, communicator = 32;  // threads with rows; threads of one more warp
  int blocks = 1, threads = most_threads, lanes = 1;
  int positions = 0, slots = 0, chunks = 0;  // of the block with the most
  bool diagonal = false, permuted = false;

  std::size_t bytes(std::size_t value_bytes) const {
    return value_bytes * (static_cast<std::size_t>(slots) + static_cast<std::size_t>(positions) * vectors()) +
           sizeof(int) * (static_cast<std::size_t>(slots) + (permuted ? positions : 0) + chunks + 1);
  }
  __host__ __device__ int vectors() const { return diagonal ? 5 : 4; }  // x, r, p, q and the diagonal
};

// What a shape has to hold, over all blocks.
struct ResidentNeeds {
  unsigned long long positions, slots, widest;  // widest: slots of a lane in one chunk
};

// The slots of a lane in a chunk. By whole warps.
template <class Rows>
__device__ inline int chunk_width(const Rows& a, int first, int last, int lanes, int chunk) {
  const int p = first + chunk * (32 / lanes) + static_cast<int>(threadIdx.x) % 32 / lanes;
  int width = p < last ? (a.width(p) + lanes - 1) / lanes : 0;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) width = max(width, __shfl_xor_sync(0xffffffffu, width, step));
  return width;
}

// Divides the positions into parts that need the same number of bytes of shared memory, and computes the needs.
// One block for each part. place_of: null, or receives the position of each row.
template <class Rows>
__global__ void plan_resident(Rows a, int rows, int lanes, int slot_bytes, int row_bytes, int* first,
                              int* place_of, ResidentNeeds* needs) {
  __shared__ int bounds[2];
  __shared__ unsigned long long widths;
  if (threadIdx.x < 2) {
    const auto cost = [&](int p) { return a.before(p) * slot_bytes + std::int64_t{p} * row_bytes; };
    const std::int64_t number = blockIdx.x + threadIdx.x, goal = cost(rows) * number / gridDim.x;
    first[number] = bounds[threadIdx.x] = first_where(0, rows, [&](int p) { return cost(p) >= goal; });
    widths = 0;
  }
  __syncthreads();
  const int rows_a_chunk = 32 / lanes, positions = bounds[1] - bounds[0];
  if (place_of)
    for (int i = threadIdx.x; i < positions; i += blockDim.x) place_of[a.row(bounds[0] + i)] = bounds[0] + i;
  for (int c = threadIdx.x / 32; c * rows_a_chunk < positions; c += blockDim.x / 32) {
    const auto width = static_cast<unsigned long long>(chunk_width(a, bounds[0], bounds[1], lanes, c));
    if (threadIdx.x % 32 != 0) continue;
    atomicAdd(&widths, width);
    atomicMax(&needs->widest, width);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  atomicMax(&needs->positions, static_cast<unsigned long long>(positions));
  atomicMax(&needs->slots, 32 * widths);
}

}  // namespace protean::detail

// Conversion between pointers and indices, and y := beta y for products that add to y by atomic operations.
// For coordinates and columns in device memory.
#pragma once
#include "core/bisect.hpp"
#include "formats/device_support.cuh"

namespace protean::formats {

constexpr int expand_entries = 4;  // a thread

// The last slice that begins at or before entry k. The caller knows that it lies between low and high.
template <class P>
__device__ inline std::int64_t slice_of(const P* pointers, std::int64_t low, std::int64_t high,
                                        std::int64_t k) {
  return first_where(low + 1, high + 1, [&](std::int64_t r) { return pointers[r] > k; }) - 1;
}

// The slices in which the entries of a block lie. The first two threads find them; all threads call it.
struct SliceRange {
  std::int64_t first, last;
};
template <class P>
__device__ inline SliceRange slices_of_block(const P* pointers, std::int64_t n, std::int64_t begin,
                                             std::int64_t end) {
  __shared__ std::int64_t found[2];
  if (threadIdx.x < 2) found[threadIdx.x] = slice_of(pointers, 0, n - 1, threadIdx.x == 0 ? begin : end - 1);
  __syncthreads();
  return {found[0], found[1]};
}

// index[k] := r for pointers[r] <= k < pointers[r + 1]
template <class P>
__global__ void expand_pointers(const P* pointers, std::int64_t n, std::int64_t size, std::int32_t* index) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * blockDim.x * expand_entries;
  const std::int64_t end = min(size, begin + std::int64_t{blockDim.x} * expand_entries);
  const SliceRange range = slices_of_block(pointers, n, begin, end);
  for (std::int64_t k = begin + threadIdx.x; k < end; k += blockDim.x)
    index[k] = static_cast<std::int32_t>(slice_of(pointers, range.first, range.last, k));
}

// The first of `size` ascending indices that is at least r.
template <class I>
__device__ inline std::int64_t first_not_below(const I* index, std::int64_t size, std::int64_t r) {
  return first_where(std::int64_t{0}, size, [&](std::int64_t i) { return index[i] >= r; });
}

// pointers[r] := number of indices below r, for r = 0 .. n; the indices ascend.
template <class I, class P>
__global__ void compress_indices(const I* index, std::int64_t size, std::int64_t n, P* pointers) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r <= n) pointers[r] = static_cast<P>(first_not_below(index, size, r));
}

// y := beta y, without reading y when beta is 0.
template <class T>
__global__ void scale_vector(std::int64_t size, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) y[i] = beta == T(0) ? T(0) : beta * y[i];
}
template <class T>
void scale(const Context& context, std::int64_t size, T beta, T* y) {
  if (size == 0 || beta == T(1)) return;
  const DeviceState& state = context.device_state();
  scale_vector<<<blocks_of(size, 256), 256, 0, state.stream>>>(size, beta, y, state.stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

// The same numbers in 32 bits. They must fit.
static __global__ void narrow_numbers(std::int64_t size, const std::int64_t* from, std::int32_t* to) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) to[i] = static_cast<std::int32_t>(from[i]);
}
inline Buffer<std::int32_t> narrowed(const ContextPtr& context, const Buffer<std::int64_t>& wide) {
  Buffer<std::int32_t> narrow(context, wide.size());
  narrow_numbers<<<blocks_of(wide.size(), 256), 256, 0, device::stream(*context)>>>(wide.size(), wide.data(),
                                                                                    narrow.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return narrow;
}

template <class P>
void expand(const Context& context, const P* pointers, std::int64_t n, std::int64_t size,
            std::int32_t* index) {
  if (size == 0) return;
  expand_pointers<<<blocks_of(size, 256 * expand_entries), 256, 0, device::stream(context)>>>(pointers, n,
                                                                                              size, index);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}
template <class I, class P>
void compress(const Context& context, const I* index, std::int64_t size, std::int64_t n, P* pointers) {
  compress_indices<<<blocks_of(n + 1, 256), 256, 0, device::stream(context)>>>(index, size, n, pointers);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace protean::formats

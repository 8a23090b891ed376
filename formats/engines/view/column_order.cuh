// Entries of a matrix in device memory, sorted by column. For conversions of csc and of halves of symmetric matrices.
// Private to formats/.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/device/primitives.hpp"
#include "formats/device_support.cuh"

namespace protean::formats {

// keys[k] := index[k], items[k] := k
template <class K, class I>
__global__ void number_entries(std::int64_t size, const std::int32_t* index, K* keys, I* items) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size) keys[k] = static_cast<K>(index[k]), items[k] = static_cast<I>(k);
}

template <class I, class N>
__global__ void pick_items(std::int64_t size, const I* items, const N* from, N* to) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size) to[k] = from[items[k]];
}
// to[k] := from[items[k]]
template <class I, class N>
void pick(const Context& context, std::int64_t size, const I* items, const N* from, N* to) {
  if (size == 0) return;
  pick_items<<<blocks_of(size, 256), 256, 0, device::stream(context)>>>(size, items, from, to);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

// The order that sorts entries by an index and keeps equal ones in their order: entry order.items[k] comes
// k-th and has the index order.keys[k].
template <class P>
struct Order {
  using Key = std::conditional_t<sizeof(P) == 8, std::uint64_t, std::uint32_t>;
  Order(const ContextPtr& context, const std::int32_t* index, std::int64_t size, std::int64_t limit)
      : keys(context, size), items(context, size) {
    if (size == 0) return;
    number_entries<<<blocks_of(size, 256), 256, 0, device::stream(*context)>>>(size, index, keys.data(),
                                                                               items.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    const int bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, limit - 1)));
    device::sort_pairs(*context, keys.data(), items.data(), size, bits);
  }
  Buffer<Key> keys;
  Buffer<P> items;
};

// The largest power of two up to the mean length of a list, at most a warp.
inline int lanes_for(std::int64_t entries, std::int64_t lists) {
  int lanes = 1;
  while (lanes < 32 && entries >= 2 * lanes * lists) lanes *= 2;
  return lanes;
}

}  // namespace protean::formats

// The transpose of a matrix: its entries, sorted by column.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "core/bisect.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "core/device/transpose.hpp"

namespace protean::device {
namespace {

// keys[k] := column of entry k, items[k] := k
template <class Key, class Item>
__global__ void number_entries(const std::int32_t* col, std::int64_t size, Key* keys, Item* items) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < size; k += stride)
    keys[k] = static_cast<Key>(col[k]), items[k] = static_cast<Item>(k);
}

// pointers[c] := number of keys below c, for c <= cols; the keys ascend.
template <class Key, class Pointer>
__global__ void count_keys(const Key* keys, std::int64_t size, std::int64_t cols, Pointer* pointers) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; c <= cols; c += stride)
    pointers[c] = static_cast<Pointer>(first_where(
        std::int64_t{0}, size, [&](std::int64_t k) { return static_cast<std::int64_t>(keys[k]) >= c; }));
}

// Entry k is entry items[k] of A: its row, the last one that begins at or before it, and its value.
template <class Pointer, class Item, class T>
__global__ void bring_entries(const Pointer* row_ptr, std::int64_t rows, const T* from, const Item* items,
                              std::int64_t size, std::int32_t* row, T* values) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < size; k += stride) {
    const std::int64_t item = items[k];
    row[k] = static_cast<std::int32_t>(
        first_where(std::int64_t{1}, rows, [&](std::int64_t r) { return row_ptr[r] > item; }) - 1);
    values[k] = from[item];
  }
}

}  // namespace

template <class T, class Pointer>
void transpose(const Context& context, const CsrMatrix<T>& A, Pointer* row_ptr, std::int32_t* col,
               T* values) {
  using Key = std::conditional_t<sizeof(Pointer) == 8, std::uint64_t, std::uint32_t>;
  const std::int64_t size = A.nonzeros(), cols = A.cols();
  const DeviceState& state = context.device_state();
  const Scratch<Key> keys(context, size);
  const Scratch<Pointer> items(context, size);
  if (size > 0) {
    number_entries<<<blocks_for(state, size), block_size, 0, stream(context)>>>(A.pattern.col, size,
                                                                                keys.data(), items.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    sort_pairs(context, keys.data(), items.data(), size,
               std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, cols - 1))));
  }
  count_keys<<<blocks_for(state, cols + 1), block_size, 0, stream(context)>>>(keys.data(), size, cols,
                                                                              row_ptr);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  if (size == 0) return;
  A.pattern.row_ptr.visit([&](const auto* pointers) {
    bring_entries<<<blocks_for(state, size), block_size, 0, stream(context)>>>(
        pointers, A.rows(), A.values, items.data(), size, col, values);
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

#define PROTEAN_INSTANTIATE(T, Pointer) \
  template void transpose<T, Pointer>(const Context&, const CsrMatrix<T>&, Pointer*, std::int32_t*, T*);
PROTEAN_INSTANTIATE(float, std::int32_t)
PROTEAN_INSTANTIATE(float, std::int64_t)
PROTEAN_INSTANTIATE(double, std::int32_t)
PROTEAN_INSTANTIATE(double, std::int64_t)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::device

// The one file that includes CUB, which is slow to compile.
#include "core/device/primitives.hpp"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "core/device/copy.hpp"
#include "core/device/state.hpp"

namespace protean::device {
namespace {

template <class N>
void scan(const Context& context, N* data, std::int64_t size) {
  if (size <= 0) return;
  const cudaStream_t queue = stream(context);
  // CUB reads the last item, which has no effect and may never have been written.
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(data + size - 1, 0, sizeof(N), queue));
  std::size_t bytes = 0;
  PROTEAN_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(nullptr, bytes, data, data, size, queue));
  const Scratch<char> workspace(context, static_cast<std::int64_t>(bytes) + 1);
  PROTEAN_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(workspace.data(), bytes, data, data, size, queue));
}

template <class Key, class Item>
void sort(const Context& context, Key* keys, Item* items, std::int64_t size, int bits) {
  if (size <= 1) return;
  const cudaStream_t queue = stream(context);
  const Scratch<Key> other_keys(context, size);
  const Scratch<Item> other_items(context, size);
  cub::DoubleBuffer<Key> key(keys, other_keys.data());
  cub::DoubleBuffer<Item> item(items, other_items.data());
  std::size_t bytes = 0;
  PROTEAN_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(nullptr, bytes, key, item, size, 0, bits, queue));
  const Scratch<char> workspace(context, static_cast<std::int64_t>(bytes) + 1);
  PROTEAN_CUDA_CHECK(
      cub::DeviceRadixSort::SortPairs(workspace.data(), bytes, key, item, size, 0, bits, queue));
  if (key.Current() != keys) copy_within(context, keys, key.Current(), other_keys.bytes());
  if (item.Current() != items) copy_within(context, items, item.Current(), other_items.bytes());
}

}  // namespace

void exclusive_scan(const Context& context, std::int32_t* data, std::int64_t size) {
  scan(context, data, size);
}
void exclusive_scan(const Context& context, std::int64_t* data, std::int64_t size) {
  scan(context, data, size);
}
void sort_pairs(const Context& context, std::uint32_t* keys, std::int32_t* items, std::int64_t size,
                int bits) {
  sort(context, keys, items, size, bits);
}
void sort_pairs(const Context& context, std::uint64_t* keys, std::int32_t* items, std::int64_t size,
                int bits) {
  sort(context, keys, items, size, bits);
}
void sort_pairs(const Context& context, std::uint64_t* keys, std::int64_t* items, std::int64_t size,
                int bits) {
  sort(context, keys, items, size, bits);
}

}  // namespace protean::device

// Sorts rows by length inside windows, in device memory. Private to formats/.
#pragma once
#include <bit>

#include "formats/engines/view/device_rows.cuh"

namespace protean::formats {

constexpr int small_window = 1024;

// One block for each window of at most small_window rows. The place of a row is the number of rows before it
// in the order.
static __global__ void order_small_windows(DevicePattern a, std::int64_t window, std::int32_t* perm) {
  __shared__ std::int32_t lengths[small_window];
  const std::int64_t first = blockIdx.x * window;
  const int count = static_cast<int>(min(window, a.rows - first));
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    lengths[i] = static_cast<std::int32_t>(a.length(first + i));
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const std::int32_t mine = lengths[i];
    int place = 0;
    for (int j = 0; j < count; ++j) place += lengths[j] > mine || (lengths[j] == mine && j < i);
    perm[first + place] = static_cast<std::int32_t>(first + i);
  }
}

static __global__ void order_keys(DevicePattern a, std::int64_t window, std::int64_t longest,
                                  std::uint64_t* keys, std::int32_t* rows) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  keys[r] = static_cast<std::uint64_t>(r / window * (longest + 1) + longest - a.length(r));
  rows[r] = static_cast<std::int32_t>(r);
}

// perm[position] = row: stable, longest first inside each window of rows. `longest` is the longest row.
inline void order_rows(const Context& context, const SparsityPattern& pattern, std::int64_t window,
                       std::int64_t longest, std::int32_t* perm) {
  if (pattern.rows == 0) return;
  const cudaStream_t queue = device::stream(context);
  const std::int64_t windows = (pattern.rows + window - 1) / window;
  if (window <= small_window) {
    order_small_windows<<<static_cast<unsigned>(windows), device::block_size, 0, queue>>>(
        device_pattern(pattern), window, perm);
  } else {
    const device::Scratch<std::uint64_t> keys(context, pattern.rows);
    order_keys<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(device_pattern(pattern), window,
                                                                          longest, keys.data(), perm);
    device::sort_pairs(context, keys.data(), perm, pattern.rows,
                       std::bit_width(static_cast<std::uint64_t>(windows * (longest + 1))));
  }
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace protean::formats

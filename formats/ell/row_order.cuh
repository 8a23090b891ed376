// Sorts rows by length inside windows, in device memory. Private to formats/.
#pragma once
#include <bit>

#include "formats/private/device_rows.cuh"

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

// widths[s] = 2^shift times the longest row of slice s of 2^shift positions, rounded up to a multiple of `round`. perm may be null. `found` gets
// the number of rows without entries and the longest row, unless it is null.
static __global__ void slice_widths(DevicePattern a, const std::int32_t* perm, int shift, int round,
                                    unsigned long long* widths, unsigned long long* found) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long length = 0;
  if (p < a.rows) length = static_cast<unsigned long long>(a.length(perm ? perm[p] : p));
  const unsigned empty = __ballot_sync(0xffffffffu, p < a.rows && length == 0);
  const int group = shift < 5 ? 1 << shift : 32;
  unsigned long long width = length;
  for (int step = 1; step < 32; step *= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, length, step);
    length = max(length, other);
    if (step < group) width = length;
  }
  if (p < a.rows && threadIdx.x % group == 0 && width > 0) {
    width = (width + round - 1) / round * round;
    if (shift <= 5)
      widths[p >> shift] = width << shift;
    else
      atomicMax(widths + (p >> shift), width << shift);
  }
  if (!found || threadIdx.x % 32 != 0) return;
  if (empty) atomicAdd(found, static_cast<unsigned long long>(__popc(empty)));
  if (length > found[1]) atomicMax(found + 1, length);
}

struct SliceCount {
  std::int64_t empty, longest, slots;
};

// slice_ptr[0..slices]: slots before each slice of 2^shift positions. The host waits once.
inline SliceCount count_slice_slots(const Context& context, const SparsityPattern& pattern,
                                    const std::int32_t* perm, int shift, std::int64_t* slice_ptr,
                                    int round = 1) {
  const cudaStream_t queue = device::stream(context);
  const std::int64_t slices = (pattern.rows + (std::int64_t{1} << shift) - 1) >> shift;
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(slice_ptr, 0, static_cast<std::size_t>(slices + 1) * 8, queue));
  if (slices == 0) return {0, 0, 0};
  const device::Scratch<unsigned long long> found(context, 3);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), queue));
  slice_widths<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(
      device_pattern(pattern), perm, shift, round, reinterpret_cast<unsigned long long*>(slice_ptr),
      found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, slice_ptr, slices + 1);
  device::copy_within(context, found.data() + 2, slice_ptr + slices, 8);
  unsigned long long host[3];
  device::copy_out(context, host, found.data(), sizeof host);
  return {static_cast<std::int64_t>(host[0]), static_cast<std::int64_t>(host[1]),
          static_cast<std::int64_t>(host[2])};
}

}  // namespace protean::formats

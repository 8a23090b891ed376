// Row lengths in device memory: classes, and lists of rows in their order.
#include "formats/engines/rows.cuh"

#include <bit>

namespace protean::formats {
namespace {

__device__ inline int class_of(std::int64_t length) {
  return length == 0 ? 0 : length == 1 ? 1 : 65 - __clzll(length - 1);
}

constexpr int counters = LengthClasses::count + 3;

__global__ void __launch_bounds__(device::block_size)
    count_classes(DevicePattern a, std::int64_t cut, unsigned long long* found) {
  __shared__ unsigned long long mine[counters];
  for (int i = threadIdx.x; i < counters; i += blockDim.x) mine[i] = 0;
  __syncthreads();
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < a.rows;
       r += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t length = a.length(r);
    atomicAdd(mine + class_of(length), 1ull);
    atomicMax(mine + LengthClasses::count, static_cast<unsigned long long>(length));
    if (length > cut) {
      atomicAdd(mine + LengthClasses::count + 1, 1ull);
      atomicAdd(mine + LengthClasses::count + 2,
                static_cast<unsigned long long>((length + long_piece - 1) / long_piece));
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < counters; i += blockDim.x) {
    if (mine[i] == 0) continue;
    if (i == LengthClasses::count)
      atomicMax(found + i, mine[i]);
    else
      atomicAdd(found + i, mine[i]);
  }
}

__global__ void length_keys(DevicePattern a, bool classes, std::uint32_t* keys, std::int32_t* rows) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  keys[r] = static_cast<std::uint32_t>(classes ? class_of(a.length(r)) : a.length(r));
  rows[r] = static_cast<std::int32_t>(r);
}

void sort_rows(const Context& context, const SparsityPattern& pattern, bool classes, int bits,
               std::int32_t* list) {
  if (pattern.rows == 0) return;
  const device::Scratch<std::uint32_t> keys(context, pattern.rows);
  length_keys<<<blocks_of(pattern.rows), device::block_size, 0, device::stream(context)>>>(
      device_pattern(pattern), classes, keys.data(), list);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::sort_pairs(context, keys.data(), list, pattern.rows, bits);
}

}  // namespace

LengthClasses length_classes(const Context& context, const SparsityPattern& pattern, std::int64_t cut) {
  LengthClasses classes;
  if (pattern.rows == 0) return classes;
  const device::Scratch<unsigned long long> found(context, counters);
  const DeviceState& state = context.device_state();
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), state.stream));
  count_classes<<<device::blocks_for(state, pattern.rows), device::block_size, 0, state.stream>>>(
      device_pattern(pattern), cut, found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  unsigned long long host[counters];
  device::copy_out(context, host, found.data(), sizeof host);
  for (int c = 0; c < LengthClasses::count; ++c) classes.rows[c] = static_cast<std::int64_t>(host[c]);
  classes.longest = static_cast<std::int64_t>(host[LengthClasses::count]);
  classes.cut_rows = static_cast<std::int64_t>(host[LengthClasses::count + 1]);
  classes.pieces = static_cast<std::int64_t>(host[LengthClasses::count + 2]);
  return classes;
}

void list_by_length(const Context& context, const SparsityPattern& pattern, std::int64_t longest,
                    std::int32_t* list) {
  sort_rows(context, pattern, false,
            std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(longest)))), list);
}
void list_by_class(const Context& context, const SparsityPattern& pattern, std::int32_t* list) {
  sort_rows(context, pattern, true, 6, list);
}

std::int64_t longest_row_on_device(const Context& context, const SparsityPattern& pattern) {
  return device_row_lengths(context, pattern).longest;
}

}  // namespace protean::formats

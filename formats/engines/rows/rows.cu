// Row lengths in device memory: classes, and lists of rows in their order.
#include "formats/engines/rows/rows.cuh"

#include <bit>

#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

__device__ inline int class_of(std::int64_t length) {
  return length == 0 ? 0 : length == 1 ? 1 : 65 - __clzll(length - 1);
}

constexpr int counters = LengthClasses::count + 3;

__global__ void __launch_bounds__(device::block_size)
    count_classes(DevicePattern a, std::int64_t cut, unsigned long long* found) {
  __shared__ unsigned rows[LengthClasses::count];  // fewer than 2^31
  for (int i = threadIdx.x; i < LengthClasses::count; i += blockDim.x) rows[i] = 0;
  __syncthreads();
  unsigned long long longest = 0, cut_rows = 0, pieces = 0;
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < a.rows;
       r += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t length = a.length(r);
    atomicAdd(rows + class_of(length), 1u);
    longest = max(longest, static_cast<unsigned long long>(length));
    if (length > cut)
      ++cut_rows, pieces += static_cast<unsigned long long>((length + long_piece - 1) / long_piece);
  }
  for (int step = 16; step > 0; step /= 2) {
    longest = max(longest, __shfl_xor_sync(0xffffffffu, longest, step));
    cut_rows += __shfl_xor_sync(0xffffffffu, cut_rows, step);
    pieces += __shfl_xor_sync(0xffffffffu, pieces, step);
  }
  if (threadIdx.x % 32 == 0) {
    if (longest > 0) atomicMax(found + LengthClasses::count, longest);
    if (cut_rows > 0) {
      atomicAdd(found + LengthClasses::count + 1, cut_rows);
      atomicAdd(found + LengthClasses::count + 2, pieces);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < LengthClasses::count; i += blockDim.x)
    if (rows[i] > 0) atomicAdd(found + i, static_cast<unsigned long long>(rows[i]));
}

// bin_max: 0 for the length itself.
__global__ void length_keys(DevicePattern a, int bin_max, std::uint32_t* keys, std::int32_t* rows) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  keys[r] = static_cast<std::uint32_t>(bin_max > 0 ? acsr_bin(a.length(r), bin_max) : a.length(r));
  rows[r] = static_cast<std::int32_t>(r);
}

__global__ void mark_longer(DevicePattern a, std::int64_t cut, std::int32_t* place) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r <= a.rows) place[r] = r < a.rows && a.length(r) > cut ? 1 : 0;
}
__global__ void place_longer(DevicePattern a, const std::int32_t* place, std::int32_t* list) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r < a.rows && place[r + 1] > place[r]) list[place[r]] = static_cast<std::int32_t>(r);
}

constexpr int warps_a_block = device::block_size / 32;
constexpr int probe_step = block_rows_most / 32;

// A warp for each section. Its blocks' first rows lie in `starts` from the section's first row on.
__global__ void divide_sections(DevicePattern a, std::int64_t most_entries, std::int32_t* starts,
                                std::int32_t* count) {
  const std::int64_t section = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const std::int64_t begin = section * block_section;
  if (begin >= a.rows) return;  // whole warps
  const std::int64_t end = min(a.rows, begin + block_section);
  std::int32_t blocks = 0;
  for (std::int64_t r = begin; r < end; ++blocks) {
    if (lane == 0) starts[begin + blocks] = static_cast<std::int32_t>(r);
    const std::int64_t most = a.row_ptr[r] + most_entries, last = min(end, r + block_rows_most);
    // Lanes probe every probe_step-th row, then the rows between two of them. Row ends ascend, so the ones within the
    // range come first.
    std::int64_t probed = min(last, r + std::int64_t{lane + 1} * probe_step);
    const int far = __popc(__ballot_sync(0xffffffffu, a.row_ptr[probed] <= most));
    std::int64_t next = min(last, r + std::int64_t{far} * probe_step);
    probed = next + lane + 1;
    const bool near = lane < probe_step && probed <= last && a.row_ptr[min(probed, last)] <= most;
    next += __popc(__ballot_sync(0xffffffffu, near));
    r = max(r + 1, next);
  }
  if (lane == 0) count[section] = blocks;
}

// A warp for each section copies its blocks.
__global__ void join_sections(std::int64_t sections, std::int64_t rows, const std::int32_t* starts,
                              const std::int32_t* before, std::int32_t* first, std::int64_t blocks) {
  const std::int64_t section = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (section == 0 && threadIdx.x == 0) first[blocks] = static_cast<std::int32_t>(rows);
  if (section >= sections) return;
  const std::int32_t at = before[section], count = before[section + 1] - at;
  for (std::int32_t i = threadIdx.x % 32; i < count; i += 32)
    first[at + i] = starts[section * block_section + i];
}

void sort_rows(const Context& context, const SparsityPattern& pattern, int bin_max, int bits,
               std::int32_t* list) {
  if (pattern.rows == 0) return;
  const device::Scratch<std::uint32_t> keys(context, pattern.rows);
  length_keys<<<blocks_of(pattern.rows), device::block_size, 0, device::stream(context)>>>(
      device_pattern(pattern), bin_max, keys.data(), list);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::sort_pairs(context, keys.data(), list, pattern.rows, bits);
}

// *found := the first row of this length, or what it is.
__global__ void __launch_bounds__(device::block_size)
    find_length(DevicePattern a, std::int64_t length, unsigned long long* found) {
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < a.rows;
       r += std::int64_t{gridDim.x} * blockDim.x)
    if (a.length(r) == length) {
      atomicMin(found, static_cast<unsigned long long>(r));
      return;  // the following ones are higher
    }
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
void list_by_bin(const Context& context, const SparsityPattern& pattern, int bin_max, std::int32_t* list) {
  sort_rows(context, pattern, bin_max, std::bit_width(static_cast<unsigned>(acsr_most_bins) + 1), list);
}

void list_longer(const Context& context, const SparsityPattern& pattern, std::int64_t cut,
                 std::int32_t* list) {
  if (pattern.rows == 0) return;
  const cudaStream_t queue = device::stream(context);
  const device::Scratch<std::int32_t> place(context, pattern.rows + 1);
  mark_longer<<<blocks_of(pattern.rows + 1), device::block_size, 0, queue>>>(device_pattern(pattern), cut,
                                                                             place.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, place.data(), pattern.rows + 1);
  place_longer<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(device_pattern(pattern),
                                                                          place.data(), list);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

std::shared_ptr<DeviceRowBlocks> device_row_blocks(const Context& context, const SparsityPattern& pattern,
                                                   std::int64_t most_entries) {
  const std::int64_t sections = (pattern.rows + block_section - 1) / block_section;
  const cudaStream_t queue = device::stream(context);
  const device::Scratch<std::int32_t> starts(context, pattern.rows), count(context, sections + 1);
  if (sections > 0) {
    divide_sections<<<blocks_of(sections, warps_a_block), device::block_size, 0, queue>>>(
        device_pattern(pattern), most_entries, starts.data(), count.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, count.data(), sections + 1);
  }
  const std::int64_t blocks = sections > 0 ? read_back(context, count.data() + sections) : 0;
  auto found = std::make_shared<DeviceRowBlocks>(context, blocks + 1);
  found->blocks = blocks;
  join_sections<<<blocks_of(std::max<std::int64_t>(1, sections), warps_a_block), device::block_size, 0,
                  queue>>>(sections, pattern.rows, starts.data(), count.data(), found->first.data(), blocks);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  found->lengths = length_classes(context, pattern, 2 * most_entries);
  return found;
}

std::int64_t longest_row_on_device(const Context& context, const SparsityPattern& pattern) {
  return device_row_lengths(context, pattern).longest;
}

std::int64_t row_of_length_on_device(const Context& context, const SparsityPattern& pattern,
                                     std::int64_t length) {
  const device::Scratch<unsigned long long> found(context, 1);
  const cudaStream_t queue = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0xff, found.bytes(), queue));
  find_length<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(device_pattern(pattern), length,
                                                                         found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  unsigned long long row = 0;
  device::copy_out(context, &row, found.data(), sizeof(row));
  return static_cast<std::int64_t>(row);
}

}  // namespace protean::formats

// What slices on the device hold: their widths, the order of the rows, and where slices of variable height are cut.
#include "formats/engines/rows/row_order.cuh"
#include "formats/engines/slices/slices.cuh"

namespace protean::formats {
namespace {

// widths[s] := the slots of slice s of C rows. found := {absent rows, the longest row}.
__global__ void slice_widths(DevicePattern a, const std::int32_t* perm, SliceRule rule, std::int64_t C,
                             unsigned long long* widths, unsigned long long* found) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long length = 0, width = 0;
  bool absent = false;
  if (p < a.rows) {
    const std::int64_t r = row_at(perm, p);
    length = static_cast<unsigned long long>(a.length(r));
    unsigned long long stored = length;
    if (rule.diagonal_apart) {
      absent = diagonal_place(a.row_ptr, a.col, r) < 0;
      stored -= !absent;
    } else {
      absent = length == 0;
    }
    width = (stored + rule.round - 1) / rule.round * rule.round * static_cast<unsigned long long>(C);
  }
  const unsigned count = __ballot_sync(0xffffffffu, absent);
  // Neighbouring lanes whose rows lie in one slice.
  const bool power = (C & (C - 1)) == 0;
  const int group = rule.C == 0 || C % 32 == 0 ? 32 : power ? static_cast<int>(C) : 1;
  for (int step = 1; step < 32; step *= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, width, step);
    if (step < group) width = max(width, other);
    length = max(length, __shfl_xor_sync(0xffffffffu, length, step));
  }
  if (p < a.rows && threadIdx.x % group == 0 && width > 0) {
    unsigned long long* const to = widths + (rule.C == 0 ? 0 : p / C);
    if (rule.C > 0 && group == C)
      *to = width;
    else if (width > *to)
      atomicMax(to, width);
  }
  if (threadIdx.x % 32 != 0) return;
  if (count) atomicAdd(found, static_cast<unsigned long long>(__popc(count)));
  if (length > found[1]) atomicMax(found + 1, length);
}

// counts[b] := the slices of block b of C rows, if their heights vary.
__global__ void count_cuts(DevicePattern a, std::int64_t C, int percent, std::int64_t* counts) {
  const std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, first = b * C;
  if (first >= a.rows) return;
  std::int64_t slices = 0;
  cut_block(
      min(C, a.rows - first), percent, [&](std::int64_t i) { return a.length(first + i); },
      [&](std::int64_t, std::int64_t, std::int64_t) { ++slices; });
  counts[b] = slices;
}

// The same slices: row_start and the slots of each. absent := rows without entries.
__global__ void write_cuts(DevicePattern a, std::int64_t C, int percent, const std::int64_t* before,
                           std::int64_t slices, std::int32_t* row_start, std::int64_t* slots,
                           unsigned long long* absent) {
  const std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, first = b * C;
  if (first >= a.rows) return;
  if (b == 0) row_start[slices] = static_cast<std::int32_t>(a.rows);
  std::int64_t s = before[b];
  unsigned long long empty = 0;
  cut_block(
      min(C, a.rows - first), percent,
      [&](std::int64_t i) {
        const std::int64_t length = a.length(first + i);
        empty += length == 0;
        return length;
      },
      [&](std::int64_t row, std::int64_t height, std::int64_t width) {
        row_start[s] = static_cast<std::int32_t>(first + row), slots[s++] = height * width;
      });
  if (empty > 0) atomicAdd(absent, empty);
}

}  // namespace

SliceFound count_slices(const Context& context, const SparsityPattern& pattern, const SliceRule& rule,
                        const std::int32_t* perm, std::int64_t* slice_ptr) {
  const cudaStream_t queue = device::stream(context);
  const std::int64_t slices = rule.blocks(pattern.rows);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(slice_ptr, 0, static_cast<std::size_t>(slices + 1) * 8, queue));
  if (slices == 0) return {0, 0, 0};
  const device::Scratch<unsigned long long> found(context, 3);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), queue));
  slice_widths<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(
      device_pattern(pattern), perm, rule, rule.height(pattern.rows),
      reinterpret_cast<unsigned long long*>(slice_ptr), found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, slice_ptr, slices + 1);
  device::copy_within(context, found.data() + 2, slice_ptr + slices, 8);
  unsigned long long host[3];
  device::copy_out(context, host, found.data(), sizeof host);
  return {static_cast<std::int64_t>(host[2]), static_cast<std::int64_t>(host[0]),
          static_cast<std::int64_t>(host[1])};
}

SlicePlanOnDevice::SlicePlanOnDevice(const Context& context, const SparsityPattern& pattern,
                                     const SliceRule& from)
    : rule(from) {
  if (rule.variable()) {
    cut(context, pattern);
    return;
  }
  const std::int64_t window = rule.window;
  slice_ptr.emplace(context, rule.blocks(pattern.rows) + 1);
  if (window > 0) perm.emplace(context, pattern.rows);
  count(context, pattern, rule.sort_if_it_pays ? 0 : window);
  const std::int64_t natural = counts.slots;
  if (!rule.sort_if_it_pays || pays_unsorted(natural, pattern.nonzeros)) return;
  count(context, pattern, window);
  if (counts.slots >= natural) count(context, pattern, 0);
}

void SlicePlanOnDevice::count(const Context& context, const SparsityPattern& pattern, std::int64_t window) {
  rule.window = window;
  // Only the sort of a large window, by a library, needs to know the longest row beforehand.
  if (window > small_window && longest_ == 0) longest_ = device_row_lengths(context, pattern).longest;
  if (window > 0) order_rows(context, pattern, window, longest_, perm->data());
  const SliceFound found =
      count_slices(context, pattern, rule, window > 0 ? perm->data() : nullptr, slice_ptr->data());
  counts = {found.slots, rule.blocks(pattern.rows), rule.lists_absent() ? found.absent : 0};
  longest_ = found.longest;
}

void SlicePlanOnDevice::cut(const Context& context, const SparsityPattern& pattern) {
  const cudaStream_t queue = device::stream(context);
  const std::int64_t blocks = rule.blocks(pattern.rows);
  const device::Scratch<std::int64_t> before(context, blocks + 1);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(before.data(), 0, before.bytes(), queue));
  if (blocks > 0) {
    count_cuts<<<blocks_of(blocks), device::block_size, 0, queue>>>(device_pattern(pattern), rule.C,
                                                                    rule.padding, before.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, before.data(), blocks + 1);
    counts.slices = read_back(context, before.data() + blocks);
  }
  slice_ptr.emplace(context, counts.slices + 1);
  row_start.emplace(context, counts.slices + 1);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(slice_ptr->data(), 0, slice_ptr->bytes(), queue));
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(row_start->data(), 0, row_start->bytes(), queue));
  if (blocks == 0) return;
  const device::Scratch<unsigned long long> found(context, 2);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), queue));
  write_cuts<<<blocks_of(blocks), device::block_size, 0, queue>>>(
      device_pattern(pattern), rule.C, rule.padding, before.data(), counts.slices, row_start->data(),
      slice_ptr->data(), found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, slice_ptr->data(), counts.slices + 1);
  device::copy_within(context, found.data() + 1, slice_ptr->data() + counts.slices, 8);
  unsigned long long host[2];
  device::copy_out(context, host, found.data(), sizeof host);
  counts.absent = static_cast<std::int64_t>(host[0]), counts.slots = static_cast<std::int64_t>(host[1]);
}

}  // namespace protean::formats

// What a rule of a sum of parts asks of a pattern on a device: rows by length, entries by diagonal. Private to sum.cu.
#pragma once
#include <cstdint>
#include <vector>

#include "formats/engines/sum/sum.hpp"
#include "formats/engines/view/row_view.cuh"

namespace protean::formats {

constexpr int threads = device::block_size;

// Adds 1 to counts[key] for each lane with a key of at least 0. Lanes with the same key as the first one, which are
// most of them in regular matrices, share one atomic operation. All lanes of a warp call it.
__device__ inline void count_alike(unsigned long long* counts, std::int64_t key) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned there = __ballot_sync(0xffffffffu, key >= 0);
  if (there == 0) return;  // the whole warp
  const int first = __ffs(static_cast<int>(there)) - 1;
  const std::int64_t most_usual = __shfl_sync(0xffffffffu, key, first);
  const bool alike = key >= 0 && key == most_usual;
  const unsigned same = __ballot_sync(0xffffffffu, alike);
  if (lane == first)
    atomicAdd(counts + key, static_cast<unsigned long long>(__popc(same)));
  else if (key >= 0 && !alike)
    atomicAdd(counts + key, 1ull);
}

static __global__ void count_lengths(DevicePattern a, std::int64_t most, unsigned long long* counts) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::int64_t length = -1;
  if (r < a.rows) length = a.length(r);
  count_alike(counts, length > most ? most + 1 : length);
}

// found: rows, entries, longest of each class.
static __global__ void __launch_bounds__(threads)
    count_length_classes(DevicePattern a, unsigned long long* found) {
  __shared__ unsigned long long mine[3 * length_class_count];
  for (int i = threadIdx.x; i < 3 * length_class_count; i += blockDim.x) mine[i] = 0;
  __syncthreads();
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < a.rows;
       r += std::int64_t{gridDim.x} * blockDim.x) {
    const auto length = static_cast<unsigned long long>(a.length(r));
    unsigned long long* its = mine + 3 * (64 - __clzll(static_cast<long long>(length)));
    atomicAdd(its, 1ull), atomicAdd(its + 1, length), atomicMax(its + 2, length);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 3 * length_class_count; i += blockDim.x) {
    if (mine[i] == 0) continue;
    if (i % 3 == 2)
      atomicMax(found + i, mine[i]);
    else
      atomicAdd(found + i, mine[i]);
  }
}

// counts[column - row + rows] := entries of that diagonal. A lane a row, 32 neighbouring rows at a time.
static __global__ void count_diagonals(DevicePattern a, unsigned long long* counts) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::int64_t k = 0, end = 0;
  if (r < a.rows) k = a.row_ptr[r], end = a.row_ptr[r + 1];
  const std::int64_t left = end - k;
  // Of long rows all lanes count one after the other.
  constexpr std::int64_t by_one_lane = 128;
  if (left > by_one_lane) end = k;
  while (__any_sync(0xffffffffu, k < end)) {
    count_alike(counts, k < end ? a.col[k] - r + a.rows : -1);
    k += k < end;
  }
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (unsigned longer = __ballot_sync(0xffffffffu, left > by_one_lane); longer; longer &= longer - 1) {
    const int owner = __ffs(static_cast<int>(longer)) - 1;
    const std::int64_t first = __shfl_sync(0xffffffffu, k, owner),
                       count = __shfl_sync(0xffffffffu, left, owner),
                       row = __shfl_sync(0xffffffffu, r, owner);
    for (std::int64_t i = lane; i < count; i += 32)
      atomicAdd(counts + (a.col[first + i] - row + a.rows), 1ull);
  }
}
static __global__ void mark_dense(DenseDiagonals rule, std::int64_t rows, std::int64_t cols,
                                  const unsigned long long* counts, std::int32_t* place) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i <= rows + cols)
    place[i] = i < rows + cols && is_dense(rule, rows, cols, i - rows, static_cast<std::int64_t>(counts[i]));
}
static __global__ void gather_dense(std::int64_t rows, std::int64_t cols, const unsigned long long* counts,
                                    const std::int32_t* place, std::int64_t* found) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= rows + cols || place[i + 1] == place[i]) return;
  found[2 * place[i]] = i - rows;
  found[2 * place[i] + 1] = static_cast<std::int64_t>(counts[i]);
}

// The number of the diagonal with this offset, or -1.
__device__ inline std::int64_t diagonal_of(const std::int32_t* off, std::int64_t count, std::int64_t offset) {
  const std::int64_t d = first_not_below(off, count, offset);
  return d < count && off[d] == offset ? d : -1;
}

// Entries of each row that lie on none of the diagonals, a warp a row. lengths and found may be null; found: rows that
// have some, their number, the longest.
template <class P>
__global__ void count_rest(DevicePattern a, const std::int32_t* off, std::int64_t diagonals, P* lengths,
                           unsigned long long* found) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  unsigned long long rows = 0, entries = 0, longest = 0;
  for (std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; r < a.rows;
       r += std::int64_t{gridDim.x} * blockDim.x / 32) {
    const std::int64_t end = a.row_ptr[r + 1];
    unsigned long long mine = 0;
    for (std::int64_t k = a.row_ptr[r] + lane; k < end; k += 32)
      mine += diagonal_of(off, diagonals, a.col[k] - r) < 0;
    mine = device::sum_lanes(mine);
    rows += mine > 0, entries += mine, longest = mine > longest ? mine : longest;
    if (lengths && lane == 0) lengths[r] = static_cast<P>(mine);
  }
  if (!found || lane != 0) return;
  atomicAdd(found, rows), atomicAdd(found + 1, entries), atomicMax(found + 2, longest);
}

class DeviceCounter final : public SumCounter {
 public:
  using SumCounter::SumCounter;

  std::vector<std::int64_t> lengths(std::int64_t most) const override {
    return counted(most + 2, [&](unsigned long long* counts) {
      count_lengths<<<blocks_of(pattern.rows), threads, 0, queue()>>>(device_pattern(pattern), most, counts);
    });
  }
  std::vector<LengthClass> classes() const override {
    const std::vector<std::int64_t> found = counted(3 * length_class_count, [&](unsigned long long* counts) {
      count_length_classes<<<device::blocks_for(context.device_state(), pattern.rows), threads, 0, queue()>>>(
          device_pattern(pattern), counts);
    });
    std::vector<LengthClass> classes;
    for (std::size_t i = 0; i < found.size(); i += 3)
      classes.push_back({found[i], found[i + 1], found[i + 2]});
    return classes;
  }
  std::vector<DiagonalCount> dense_diagonals(const DenseDiagonals& rule) const override {
    if (pattern.rows == 0) return {};
    const std::int64_t size = pattern.rows + pattern.cols;
    const device::Scratch<unsigned long long> counts(context, size);
    const device::Scratch<std::int32_t> place(context, size + 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(counts.data(), 0, counts.bytes(), queue()));
    count_diagonals<<<blocks_of(pattern.rows), threads, 0, queue()>>>(device_pattern(pattern), counts.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    mark_dense<<<blocks_of(size + 1), threads, 0, queue()>>>(rule, pattern.rows, pattern.cols, counts.data(),
                                                             place.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, place.data(), size + 1);
    const std::int64_t number = read_back(context, place.data() + size);
    if (number == 0) return {};
    const device::Scratch<std::int64_t> found(context, 2 * number);
    gather_dense<<<blocks_of(size), threads, 0, queue()>>>(pattern.rows, pattern.cols, counts.data(),
                                                           place.data(), found.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    std::vector<std::int64_t> host(static_cast<std::size_t>(2 * number));
    device::copy_out(context, host.data(), found.data(), found.bytes());
    std::vector<DiagonalCount> diagonals;
    for (std::size_t i = 0; i < host.size(); i += 2)
      diagonals.push_back({static_cast<std::int32_t>(host[i]), host[i + 1]});
    return diagonals;
  }
  LengthClass rest(const std::vector<std::int32_t>& offsets) const override {
    const device::Scratch<std::int32_t> off(context, static_cast<std::int64_t>(offsets.size()));
    if (!offsets.empty()) device::copy_in(context, off.data(), offsets.data(), off.bytes());
    const std::vector<std::int64_t> found = counted(3, [&](unsigned long long* counts) {
      count_rest<<<device::blocks_for(context.device_state(), pattern.rows * 32), threads, 0, queue()>>>(
          device_pattern(pattern), off.data(), off.size(), static_cast<std::int32_t*>(nullptr), counts);
    });
    return {found[0], found[1], found[2]};
  }

 private:
  cudaStream_t queue() const { return device::stream(context); }
  template <class Count>
  std::vector<std::int64_t> counted(std::int64_t size, Count count) const {
    std::vector<std::int64_t> host(static_cast<std::size_t>(size));
    if (pattern.rows == 0) return host;
    const device::Scratch<unsigned long long> counts(context, size);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(counts.data(), 0, counts.bytes(), queue()));
    count(counts.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::copy_out(context, host.data(), counts.data(), counts.bytes());
    return host;
  }
};

}  // namespace protean::formats

// Counts on a device. tally.hpp describes them.
#include "formats/engines/composed/tally.hpp"

#include <algorithm>

#include "core/device/primitives.hpp"
#include "formats/engines/view/device_rows.cuh"

namespace protean::formats {
namespace {

constexpr int threads = 256;

// found: entries, longest, filled, changes, slots, last. A warp a slice of 32 lengths at a time, or less: `slice`
// divides 32.
enum : int { sum_entries, sum_longest, sum_filled, sum_changes, sum_slots, sum_last, sum_count };

// Adds up over a warp; lane 0 has the result.
__device__ inline void add_of_warp(unsigned long long* where, std::int64_t value) {
  value = device::sum_lanes(value);
  if (threadIdx.x % 32 == 0 && value > 0) atomicAdd(where, static_cast<unsigned long long>(value));
}

__global__ void sum_lengths(const std::int32_t* length, std::int64_t rows, int slice,
                            unsigned long long* found) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::int64_t entries = 0, filled = 0, changes = 0, slots = 0;
  std::int32_t longest = 0;
  for (std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; first < rows;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t r = first + lane;
    const std::int32_t its = r < rows ? length[r] : 0;
    entries += its, filled += its > 0;
    changes += r > 0 && r < rows && its != length[r - 1];
    std::int32_t widest = its;
    for (int step = slice / 2; step > 0; step /= 2)
      widest = max(widest, __shfl_xor_sync(0xffffffffu, widest, step, 32));
    if (r < rows) slots += widest;
    longest = max(longest, widest);
    if (r == rows - 1) found[sum_last] = static_cast<unsigned long long>(widest);
  }
  add_of_warp(found + sum_entries, entries), add_of_warp(found + sum_filled, filled);
  add_of_warp(found + sum_changes, changes), add_of_warp(found + sum_slots, slots);
  longest = device::warp_max(longest);
  if (lane == 0 && longest > 0) atomicMax(found + sum_longest, static_cast<unsigned long long>(longest));
}

// counts[min(length, most + 1)]: lanes with the same length share an atomic operation.
__global__ void count_lengths(const std::int32_t* length, std::int64_t rows, std::int32_t most,
                              unsigned long long* counts) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const unsigned there = __ballot_sync(0xffffffffu, r < rows);
  if (r >= rows) return;
  const std::int32_t its = min(length[r], most + 1);
  const unsigned alike = __match_any_sync(there, its);
  if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(alike)) - 1)
    atomicAdd(counts + its, static_cast<unsigned long long>(__popc(alike)));
}

// taken[r] and left[r] of the first `width` entries of each row; of slices as wide as slice_width() says for
// width < 0. A warp a slice.
__global__ void cut_lengths(const std::int32_t* length, std::int64_t rows, std::int64_t width, CutRule rule,
                            std::int32_t* taken, std::int32_t* left) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                     first = r / tally_slice * tally_slice;
  if (r >= rows) return;
  std::int64_t its = width;
  if (width < 0)
    its = slice_width(rule, first, min(first + tally_slice, rows), [&](std::int64_t i) { return length[i]; });
  taken[r] = static_cast<std::int32_t>(min(static_cast<std::int64_t>(length[r]), its));
  left[r] = length[r] - taken[r];
}

class DeviceLengths final : public Lengths {
 public:
  DeviceLengths(const Context& context, std::int64_t rows) : length(context, rows), context_(context) {}
  const device::Scratch<std::int32_t> length;

  LengthSums sums(std::int64_t slice) const override {
    LengthSums sum;
    sum.rows = length.size();
    if (sum.rows == 0) return sum;
    const std::vector<std::int64_t> found = counted(sum_count, [&](unsigned long long* counts,
                                                                   cudaStream_t queue) {
      sum_lengths<<<device::blocks_for(context_.device_state(), sum.rows), device::block_size, 0, queue>>>(
          length.data(), sum.rows, static_cast<int>(slice), counts);
    });
    sum.entries = found[sum_entries], sum.longest = found[sum_longest], sum.filled = found[sum_filled];
    sum.changes = found[sum_changes], sum.slots = found[sum_slots], sum.last = found[sum_last];
    return sum;
  }
  std::vector<std::int64_t> histogram(std::int64_t most) const override {
    if (length.size() == 0) return std::vector<std::int64_t>(static_cast<std::size_t>(most) + 2);
    return counted(most + 2, [&](unsigned long long* counts, cudaStream_t queue) {
      count_lengths<<<blocks_of(length.size(), threads), threads, 0, queue>>>(
          length.data(), length.size(), static_cast<std::int32_t>(most), counts);
    });
  }
  Two by_width(std::int64_t width) const override { return cut(width, {}); }
  Two by_slices(std::int64_t min_fill) const override {
    CutRule rule;
    rule.min_fill = min_fill;
    return cut(-1, rule);
  }

 private:
  Two cut(std::int64_t width, const CutRule& rule) const {
    auto taken = std::make_unique<DeviceLengths>(context_, length.size()),
         left = std::make_unique<DeviceLengths>(context_, length.size());
    if (length.size() > 0) {
      cut_lengths<<<blocks_of(length.size(), threads), threads, 0, device::stream(context_)>>>(
          length.data(), length.size(), width, rule, taken->length.data(), left->length.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    return {std::move(taken), std::move(left)};
  }
  template <class Count>
  std::vector<std::int64_t> counted(std::int64_t size, Count count) const {
    const cudaStream_t queue = device::stream(context_);
    const device::Scratch<unsigned long long> counts(context_, size);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(counts.data(), 0, counts.bytes(), queue));
    count(counts.data(), queue);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    std::vector<std::int64_t> host(static_cast<std::size_t>(size));
    device::copy_out(context_, host.data(), counts.data(), counts.bytes());
    return host;
  }
  const Context& context_;
};

// number: dense diagonals; found: their offsets in any order, the first `most` of them.
__global__ void find_dense(const unsigned* count, DenseDiagonals rule, std::int64_t rows, std::int64_t cols,
                           std::int64_t most, unsigned long long* number, std::int32_t* found) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= rows + cols || !is_dense(rule, rows, cols, i - rows, count[i])) return;
  const unsigned long long at = atomicAdd(number, 1ull);
  if (at < static_cast<unsigned long long>(most)) found[at] = static_cast<std::int32_t>(i - rows);
}
__global__ void add_entries(const unsigned* count, std::int64_t rows, std::int64_t size,
                            const std::int32_t* offsets, unsigned long long* sum) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) atomicAdd(sum, static_cast<unsigned long long>(count[offsets[i] + rows]));
}

class DeviceDiagonals final : public DiagonalTally {
 public:
  DeviceDiagonals(const Context& context, std::int64_t rows, std::int64_t cols)
      : count(context, rows + cols + 1), context_(context), rows_(rows), cols_(cols) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(count.data(), 0, count.bytes(), device::stream(context)));
  }
  const device::Scratch<unsigned> count;  // at offset + rows

  std::vector<std::int32_t> above(std::int64_t percent) const override {
    if (rows_ + cols_ == 0) return {};
    const cudaStream_t queue = device::stream(context_);
    const device::Scratch<unsigned long long> number(context_, 1);
    const device::Scratch<std::int32_t> found(context_, most_diagonals);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(number.data(), 0, number.bytes(), queue));
    find_dense<<<blocks_of(rows_ + cols_, threads), threads, 0, queue>>>(
        count.data(), {-rows_, cols_, 1, percent, 100}, rows_, cols_, most_diagonals, number.data(),
        found.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    const auto all = static_cast<std::int64_t>(read_back(context_, number.data()));
    if (all == 0 || all > most_diagonals) return {};
    std::vector<std::int32_t> offsets(static_cast<std::size_t>(all));
    device::copy_out(context_, offsets.data(), found.data(), offsets.size() * sizeof(std::int32_t));
    std::sort(offsets.begin(), offsets.end());
    return offsets;
  }
  std::int64_t entries(std::span<const std::int32_t> offsets) const override {
    if (offsets.empty()) return 0;
    const cudaStream_t queue = device::stream(context_);
    const device::Scratch<std::int32_t> some(context_, std::ssize(offsets));
    const device::Scratch<unsigned long long> sum(context_, 1);
    device::copy_in(context_, some.data(), offsets.data(), some.bytes());
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(sum.data(), 0, sum.bytes(), queue));
    add_entries<<<blocks_of(some.size(), threads), threads, 0, queue>>>(count.data(), rows_, some.size(),
                                                                        some.data(), sum.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    return static_cast<std::int64_t>(read_back(context_, sum.data()));
  }

 private:
  const Context& context_;
  std::int64_t rows_, cols_;
};

// Which diagonals some are, at offset + rows; null for none.
__global__ void mark(const std::int32_t* offsets, std::int64_t size, std::int64_t rows, std::uint8_t* marks) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) marks[offsets[i] + rows] = 1;
}
class Marks {
 public:
  Marks(const Context& context, const SparsityPattern& pattern, std::span<const std::int32_t> offsets)
      : marks_(context, offsets.empty() ? 0 : pattern.rows + pattern.cols + 1) {
    if (offsets.empty()) return;
    const cudaStream_t queue = device::stream(context);
    const device::Scratch<std::int32_t> some(context, std::ssize(offsets));
    device::copy_in(context, some.data(), offsets.data(), some.bytes());
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(marks_.data(), 0, marks_.bytes(), queue));
    mark<<<blocks_of(some.size(), threads), threads, 0, queue>>>(some.data(), some.size(), pattern.rows,
                                                                 marks_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  const std::uint8_t* data() const { return marks_.data(); }

 private:
  const device::Scratch<std::uint8_t> marks_;
};

// A warp a row.
__global__ void count_rows(DevicePattern a, const std::uint8_t* marks, std::int32_t* length) {
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (r >= a.rows) return;
  const std::int64_t begin = a.row_ptr[r], end = a.row_ptr[r + 1];
  std::int32_t its = 0;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (marks)
    for (std::int64_t k = begin + lane; k < end; k += 32) its += !marks[a.col[k] - r + a.rows];
  its = marks ? device::sum_lanes(its) : static_cast<std::int32_t>(end - begin);
  if (lane == 0) length[r] = its;
}
__global__ void count_diagonals(DevicePattern a, unsigned* count) {
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (r >= a.rows) return;
  for (std::int64_t k = a.row_ptr[r] + threadIdx.x % 32, end = a.row_ptr[r + 1]; k < end; k += 32)
    atomicAdd(count + (a.col[k] - r + a.rows), 1u);
}

// Where a pass over blocks counts; before, after and diagonals may be null.
struct OfBlocks {
  CutRule rule;  // min_fill and the size
  const std::uint8_t *before, *after;
  std::int32_t *all, *dense, *left;
  unsigned* diagonals;
  unsigned long long* entries;  // in dense blocks
};

// A thread a row of blocks.
__global__ void pass_blocks(DevicePattern a, OfBlocks of, std::int64_t block_rows) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::int64_t taken = 0;
  if (i < block_rows) {
    const int R = static_cast<int>(of.rule.block_rows), C = static_cast<int>(of.rule.block_cols);
    std::int64_t next[largest_block], end[largest_block];
    std::int32_t left[largest_block], all = 0, dense = 0;
#pragma unroll
    for (int k = 0; k < largest_block; ++k) {
      const std::int64_t r = i * R + k;
      next[k] = end[k] = 0, left[k] = 0;
      if (k < R && r < a.rows) next[k] = a.row_ptr[r], end[k] = a.row_ptr[r + 1];
    }
    const auto is_marked = [&](const std::uint8_t* marks, std::int64_t entry, std::int64_t row) {
      return marks && marks[a.col[entry] - row + a.rows];
    };
    for (;;) {
      std::int32_t lowest = 0x7fffffff;
#pragma unroll
      for (int k = 0; k < largest_block; ++k)
        if (next[k] < end[k]) lowest = min(lowest, a.col[next[k]]);
      if (lowest == 0x7fffffff) break;
      const std::int64_t past = (std::int64_t{lowest / C} + 1) * C;
      std::int64_t first[largest_block];
      std::int32_t mine[largest_block], sum = 0;
#pragma unroll
      for (int k = 0; k < largest_block; ++k) {
        first[k] = next[k], mine[k] = 0;
        for (; next[k] < end[k] && a.col[next[k]] < past; ++next[k])
          mine[k] += !is_marked(of.before, next[k], i * R + k);
        sum += mine[k];
      }
      if (sum == 0) continue;
      ++all;
      if (is_dense_block(of.rule, sum)) {
        ++dense, taken += sum;
        continue;
      }
#pragma unroll
      for (int k = 0; k < largest_block; ++k) {
        left[k] += mine[k];
        if (!of.after && !of.diagonals) continue;
        const std::int64_t row = i * R + k;
        for (std::int64_t entry = first[k]; entry < next[k]; ++entry) {
          if (is_marked(of.before, entry, row)) continue;
          if (of.diagonals) atomicAdd(of.diagonals + (a.col[entry] - row + a.rows), 1u);
          left[k] -= is_marked(of.after, entry, row);
        }
      }
    }
    of.all[i] = all, of.dense[i] = dense;
#pragma unroll
    for (int k = 0; k < largest_block; ++k)
      if (k < R && i * R + k < a.rows) of.left[i * R + k] = left[k];
  }
  add_of_warp(of.entries, taken);
}

class DeviceTally final : public Tally {
 public:
  DeviceTally(const Context& context, const SparsityPattern& pattern)
      : context_(context), pattern_(pattern) {}

  std::unique_ptr<Lengths> rows() const override { return rows_without({}); }
  std::unique_ptr<Lengths> rows_without(std::span<const std::int32_t> diagonals) const override {
    auto found = std::make_unique<DeviceLengths>(context_, pattern_.rows);
    if (pattern_.rows == 0) return found;
    const Marks marks(context_, pattern_, diagonals);
    count_rows<<<blocks_of(32 * pattern_.rows, threads), threads, 0, device::stream(context_)>>>(
        device_pattern(pattern_), marks.data(), found->length.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    return found;
  }
  std::unique_ptr<DiagonalTally> diagonals() const override {
    auto found = std::make_unique<DeviceDiagonals>(context_, pattern_.rows, pattern_.cols);
    if (pattern_.rows == 0) return found;
    count_diagonals<<<blocks_of(32 * pattern_.rows, threads), threads, 0, device::stream(context_)>>>(
        device_pattern(pattern_), found->count.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    return found;
  }
  BlockTally blocks(const BlockPass& pass) const override {
    const std::int64_t block_rows = pass.shape.block_rows(pattern_.rows);
    auto all = std::make_unique<DeviceLengths>(context_, block_rows),
         dense = std::make_unique<DeviceLengths>(context_, block_rows),
         left = std::make_unique<DeviceLengths>(context_, pattern_.rows);
    std::unique_ptr<DeviceDiagonals> diagonals;
    if (pass.diagonals) diagonals = std::make_unique<DeviceDiagonals>(context_, pattern_.rows, pattern_.cols);
    BlockTally found;
    if (block_rows > 0) {
      const cudaStream_t queue = device::stream(context_);
      const Marks before(context_, pattern_, pass.before), after(context_, pattern_, pass.after);
      const device::Scratch<unsigned long long> entries(context_, 1);
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(entries.data(), 0, entries.bytes(), queue));
      OfBlocks of{.rule = {},
                  .before = before.data(),
                  .after = after.data(),
                  .all = all->length.data(),
                  .dense = dense->length.data(),
                  .left = left->length.data(),
                  .diagonals = diagonals ? diagonals->count.data() : nullptr,
                  .entries = entries.data()};
      of.rule.min_fill = pass.min_fill, of.rule.block_rows = pass.shape.R, of.rule.block_cols = pass.shape.C;
      pass_blocks<<<blocks_of(block_rows, threads), threads, 0, queue>>>(device_pattern(pattern_), of,
                                                                         block_rows);
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      found.dense_entries = static_cast<std::int64_t>(read_back(context_, entries.data()));
    }
    found.all = std::move(all), found.dense = std::move(dense), found.left = std::move(left);
    found.diagonals = std::move(diagonals);
    return found;
  }
  double imbalance(const LengthSums& rows) const override {
    if (rows.entries == 0) return 1;
    // Longer rows are cut (row/csr.cu).
    constexpr std::int64_t uncut = 3000;
    const double share = static_cast<double>(rows.entries) / context_.device_state().processors;
    return std::max(1.0, static_cast<double>(std::min(rows.longest, uncut)) / share);
  }

 private:
  const Context& context_;
  const SparsityPattern& pattern_;
};

}  // namespace

std::unique_ptr<Tally> device_tally(const Context& context, const SparsityPattern& pattern) {
  return std::make_unique<DeviceTally>(context, pattern);
}

}  // namespace protean::formats

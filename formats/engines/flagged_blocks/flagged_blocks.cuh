// The device side of flagged_blocks.hpp: conversion, new values, and the product of bccoo and bccoo-plus. A thread has
// a tile.
//
//   tiles of 2 blocks   | a b | c d | e f | g h |       flags 1 0 1 1 1 0 1 0
//   block rows          | 0 0 | 1 1 | 1 1 | 2 2 |       tile 1 has no end of a block row
//
//   1. A thread adds the products of its blocks one after another. If a flag is 0, a block row ends. The thread
//      writes it, unless it is the first one of its tile: that may have begun before.
//   2. The sums of what is open at the end of each tile are added over the threads of a block (carry_in_block() of
//      runs.cuh). With them the first block row of each tile is complete, and is written.
//   3. A block of threads writes the block rows that begin in it. Of the one that began before, it leaves a carry. If
//      there are few carries, the last block of the launch to finish adds them in the order of the blocks; else a
//      second launch does, since one block would take longer for them than all blocks for the products. So the order
//      of the sums is fixed, and no block waits for another (in the paper's, blocks wait for those before them).
// Private to formats/.
#pragma once
#include "formats/engines/blocks/blocks.cuh"
#include "formats/engines/flagged_blocks/flagged_blocks.hpp"
#include "formats/engines/runs/runs.cuh"

namespace protean::formats {

constexpr int flag_threads = 128;  // tiles of a block of threads
// Carries that the last block of the product adds: two for each of its threads, one after the other.
constexpr std::int64_t most_carries_of_one_block = 256;

inline std::int64_t flag_groups(const FlagSizes& size) {
  return (size.tiles() + flag_threads - 1) / flag_threads;
}

// The blocks of each slice of a block row; at least 1. One thread for each block row.
static __global__ void count_stacked(DevicePattern a, FlagSizes size, std::int64_t* counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, block_rows = size.block_rows();
  if (i >= block_rows) return;
  const std::int64_t width = size.slice_cols();
  std::int64_t slice = 0, count = 0;
  const auto go_to = [&](std::int64_t next) {
    for (; slice < next; ++slice, count = 0) counts[slice * block_rows + i] = max(count, std::int64_t{1});
  };
  merge_block_row(a, size.R, size.C, i, [&](std::int32_t number) {
    go_to(number / width);
    ++count;
  });
  go_to(size.slices);
}

struct FlagPlanOnDevice {
  FlagPlanOnDevice(const Context& context, const SparsityPattern& pattern, const FlagSizes& of)
      : size(of), start(context, of.stacked_rows() + 1) {
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(start.data(), 0, start.bytes(), queue));
    if (size.stacked_rows() == 0) return;
    count_stacked<<<blocks_of(size.block_rows()), device::block_size, 0, queue>>>(device_pattern(pattern),
                                                                                  size, start.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, start.data(), start.size());
    size.blocks = read_back(context, start.data() + size.stacked_rows());
  }
  FlagSizes size;
  const device::Scratch<std::int64_t> start;  // of each stacked block row
};

inline Admission admit_flagged_on_device(const Context& context, const SparsityPattern& pattern,
                                         const FormatParams& params, std::size_t value_bytes) {
  const FlagRule rule = flag_rule(params);
  if (rule.lanes != 0 && rule.lanes != 32)
    return Admission::refuse("lanes = " + std::to_string(rule.lanes) + "; a GPU takes 32");
  const std::optional<BlockShape> shape = shape_of(rule, [&](const BlockSpec& spec) {
    return choose_shape_on_device(context, pattern, spec, value_bytes);
  });
  if (!shape) return Admission::refuse(no_shape(rule));
  FlagSizes size{pattern.rows, pattern.cols};
  size.R = static_cast<int>(shape->R), size.C = static_cast<int>(shape->C);
  size.tile = static_cast<int>(rule.tile), size.lanes = 32, size.slices = rule.slices;
  if (std::string reason = refusal_of(size); !reason.empty()) return Admission::refuse(std::move(reason));
  auto plan = std::make_shared<const FlagPlanOnDevice>(context, pattern, size);
  const auto carries =
      static_cast<std::size_t>(flag_groups(plan->size) * plan->size.R) * value_bytes + sizeof(unsigned);
  Admission admission = admit_flagged(plan->size, pattern.nonzeros, params, value_bytes, carries);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

// first_row[t] := the stacked block row of block t tile
static __global__ void write_first_rows(FlagSizes size, const std::int64_t* start, std::int32_t* first_row) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t > size.tiles()) return;
  const std::int64_t k = t * size.tile;
  first_row[t] = static_cast<std::int32_t>(
      first_where(std::int64_t{0}, size.stacked_rows(), [&](std::int64_t j) { return start[j + 1] > k; }));
}

// The flag 0 of each stacked block row, and the column of its first block if it is one of zeros. Other columns are
// written by write_flagged_cols() afterwards. flags are 1 before.
template <class T>
__global__ void write_row_ends(FlaggedBlocks<T> a, const std::int64_t* start, unsigned* flags,
                               std::int32_t* col32, std::uint16_t* col16) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= a.size.stacked_rows()) return;
  const std::int64_t last = start[j + 1] - 1;
  atomicAnd(flags + last / 32, ~(1u << (last % 32)));
  if (start[j] != last) return;
  const std::int64_t slot = a.slot_of(last), col = a.size.zero_col(j / a.size.block_rows());
  if (col16)
    col16[slot] = static_cast<std::uint16_t>(col);
  else
    col32[slot] = static_cast<std::int32_t>(col);
}

// One thread for each block row.
template <class T>
__global__ void write_flagged_cols(DevicePattern pattern, FlaggedBlocks<T> a, const std::int64_t* start,
                                   std::int32_t* col32, std::uint16_t* col16) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                     block_rows = a.size.block_rows();
  if (i >= block_rows) return;
  const std::int64_t width = a.size.slice_cols();
  std::int64_t slice = -1, k = 0;
  merge_block_row(pattern, a.size.R, a.size.C, i, [&](std::int32_t number) {
    if (number / width != slice) slice = number / width, k = start[slice * block_rows + i];
    const std::int64_t slot = a.slot_of(k++);
    if (col16)
      col16[slot] = static_cast<std::uint16_t>(number);
    else
      col32[slot] = number;
  });
}

// Values and bits. One thread for each slot, which finds its entries by bisection.
template <class T>
__global__ void fill_flagged(FlaggedBlocks<T> a, DevicePattern pattern, const T* from, T* values,
                             std::uint8_t* entries) {
  const std::int64_t slot = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (slot >= a.slots) return;
  const std::int64_t k = a.block_in(slot), j = a.row_with(k), block_rows = a.size.block_rows();
  const std::int64_t slice = j / block_rows, i = j - slice * block_rows, col = a.col_of(slot);
  // Blocks that fill up tiles have no entries, nor have blocks of zeros, of which the last may lie in another slice.
  const bool real = j < a.size.stacked_rows() && col / a.size.slice_cols() == slice;
  unsigned bits = 0;
  for (int r = 0; r < a.size.R; ++r) {
    const std::int64_t row = i * a.size.R + r, left = col * a.size.C;
    std::int64_t at = 0, end = 0;
    if (real && row < pattern.rows) {
      end = pattern.row_ptr[row + 1];
      at = first_where(pattern.row_ptr[row], end, [&](std::int64_t e) { return pattern.col[e] >= left; });
    }
    for (int c = 0; c < a.size.C; ++c) {
      const bool has = at < end && pattern.col[at] == left + c;
      values[a.place(slot, r, c)] = has ? from[at] : T(0);
      if (has) bits |= 1u << (r * a.size.C + c), ++at;
    }
  }
  for (int byte = 0; byte < a.size.bit_bytes(); ++byte)
    entries[slot * a.size.bit_bytes() + byte] = static_cast<std::uint8_t>(bits >> (8 * byte));
}

// C values that lie together, loaded at once.
template <class T, int C>
struct alignas(sizeof(T) * C < 16 ? sizeof(T) * C : 16) ValuesOfRow {
  T v[C];
};

// The flags of the next 8, 16 or 32 blocks of a tile, in one load of a word of that many bits.
__device__ inline unsigned flag_word(const std::uint8_t* flags, int tile) {
  if (tile >= 32) return __ldg(reinterpret_cast<const std::uint32_t*>(flags));
  if (tile >= 16) return __ldg(reinterpret_cast<const std::uint16_t*>(flags));
  return __ldg(flags);
}

// The row of carry t of R groups; -1: none.
template <class T>
struct RowOfFlaggedCarry {
  FlaggedBlocks<T> a;
  std::int64_t groups, limit;
  __device__ std::int64_t operator()(std::int64_t t) const {
    const std::int64_t r = t / groups, first = (t - r * groups) * flag_threads;
    const std::int64_t row = std::int64_t{a.first_row[first]} * a.size.R + r;
    return a.continues(first) && row < limit ? row : -1;
  }
};

// y has `limit` rows. carry[r groups + g]: what block of threads g adds to row r of the block row that began before it.
// arrived: the blocks that have finished; 0 between products. Null: another launch adds the carries.
template <class RowSize, class ColSize, class T>
__global__ void __launch_bounds__(flag_threads)
    flagged_product(FlaggedBlocks<T> a, RowSize, ColSize, std::int64_t limit, T* carry, unsigned* arrived,
                    T alpha, const T* x, T beta, T* y, const int* stop) {
  constexpr int R = RowSize::most, C = ColSize::most, step = 8;
  device::wait_for_stream();
  const std::int64_t first = std::int64_t{blockIdx.x} * flag_threads, t = first + threadIdx.x,
                     tiles = a.slots / a.size.tile;
  const bool there = t < tiles;
  const std::int64_t slot0 = t / 32 * 32 * a.size.tile + t % 32;
  const std::int32_t first_j = there ? __ldg(a.first_row + t) : 0;
  const std::int32_t open_before =
      __ldg(a.first_row + first);  // the block row in which the block of threads begins
  const bool continued = a.continues(first);
  const bool ended = stop && *stop;
  T sum[R] = {}, head[R] = {};
  bool has_end = false;
  unsigned word = 0;
  std::int64_t j = first_j;
  const auto write = [&](std::int64_t block_row, const T* of) {
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (const std::int64_t row = block_row * R + r; row < limit) store(alpha, of[r], beta, y + row);
  };
  for (int top = 0; top < a.size.tile; top += step) {
    if (top % 32 == 0) word = there ? flag_word(a.flags + (t * a.size.tile + top) / 8, a.size.tile) : ~0u;
    const unsigned flags = word >> (top % 32) & 255u;
    std::int32_t col[step];
#pragma unroll
    for (int p = 0; p < step; ++p) {
      const std::int64_t slot = slot0 + (top + p) * 32;
      col[p] = !there ? 0 : a.col16 ? __ldg(a.col16 + slot) : __ldg(a.col32 + slot);
    }
    if (ended) return;  // all threads: the flag does not change while kernels of a step run
    if (!there) continue;
#pragma unroll
    for (int p = 0; p < step; ++p) {
      const std::int64_t slot = slot0 + (top + p) * 32, left = std::int64_t{col[p]} * C;
      T xs[C];
#pragma unroll
      for (int c = 0; c < C; ++c) xs[c] = left + c < a.size.cols ? __ldg(x + left + c) : T(0);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const auto row =
            *reinterpret_cast<const ValuesOfRow<T, C>*>(a.values + (std::int64_t{r} * a.slots + slot) * C);
#pragma unroll
        for (int c = 0; c < C; ++c) sum[r] += row.v[c] * xs[c];
      }
      if (flags >> p & 1) continue;
      if (has_end)
        write(j, sum);
      else
#pragma unroll
        for (int r = 0; r < R; ++r) head[r] = sum[r];
      has_end = true, ++j;
#pragma unroll
      for (int r = 0; r < R; ++r) sum[r] = 0;
    }
  }
  const int since = threads_since_end<flag_threads>(has_end);
  T last[R];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const BlockCarry<T> in = carry_in_block<flag_threads>(sum[r], since);
    head[r] += in.before, last[r] = in.last;
  }
  const auto leave = [&](const T* of) {
#pragma unroll
    for (int r = 0; r < R; ++r) carry[std::int64_t{r} * gridDim.x + blockIdx.x] = of[r];
  };
  if (has_end) {
    if (continued && first_j == open_before)
      leave(head);
    else
      write(first_j, head);
  }
  // The block row that goes on in the next block of threads; there is none past the last one.
  const std::int64_t end = min(first + flag_threads, tiles);
  if (threadIdx.x == 0 && a.goes_on(end * a.size.tile - 1)) {
    const std::int32_t open = a.first_row[end];
    if (continued && open == open_before)
      leave(last);
    else
      write(open, last);
  }
  if (!arrived) return;
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(arrived, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  const RowOfFlaggedCarry<T> row_of{a, gridDim.x, limit};
  const std::int64_t carries = std::int64_t{gridDim.x} * R;
  for (std::int64_t batch = threadIdx.x / 32 * 32; batch < carries; batch += flag_threads)
    add_32_carries<true>(row_of, batch, carries, static_cast<const T*>(carry), alpha, y);
  if (threadIdx.x == 0) *arrived = 0;
}

// y := alpha (the sum of the slices) + beta y
template <class T>
__global__ void add_slices(std::int64_t rows, std::int64_t step, std::int64_t slices, const T* stacked,
                           T alpha, T beta, T* y, const int* stop) {
  device::wait_for_stream();
  const bool ended = stop && *stop;
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  T sum = 0;
  for (std::int64_t s = 0; s < slices; ++s) sum += stacked[s * step + row];
  if (!ended) store(alpha, sum, beta, y + row);
}

template <class T>
class FlaggedOnDevice final : public RowViewOnDevice<T, FlaggedOnDevice<T>> {
 public:
  explicit FlaggedOnDevice(const BuildRequest<T>& request)
      : RowViewOnDevice<T, FlaggedOnDevice<T>>(request),
        size_(plan_of<FlagPlanOnDevice>(request.admission).size) {
    const auto& plan = plan_of<FlagPlanOnDevice>(request.admission);
    const ContextPtr& context = request.context;
    const cudaStream_t queue = device::stream(*context);
    const std::int64_t slots = size_.slots();
    flags_ = Buffer<std::uint8_t>(context, slots / 8);
    if (size_.narrow())
      col16_ = Buffer<std::uint16_t>(context, slots);
    else
      col32_ = Buffer<std::int32_t>(context, slots);
    values_ = Buffer<T>(context, slots * size_.R * size_.C);
    first_row_ = Buffer<std::int32_t>(context, size_.tiles() + 1);
    entries_ = Buffer<std::uint8_t>(context, slots * size_.bit_bytes());
    if (size_.slices > 1) stacked_ = Buffer<T>(context, size_.stacked_rows() * size_.R);
    carry_ = Buffer<T>(context, flag_groups(size_) * size_.R);
    arrived_ = Buffer<unsigned>(context, 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(arrived_.data(), 0, arrived_.bytes(), queue));
    if (slots == 0) {
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(first_row_.data(), 0, first_row_.bytes(), queue));
      return;
    }
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(flags_.data(), 0xff, flags_.bytes(), queue));
    if (size_.narrow())
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(col16_.data(), 0, col16_.bytes(), queue));
    else
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(col32_.data(), 0, col32_.bytes(), queue));
    const FlaggedBlocks<T> a = row_view();
    std::int32_t* const col32 = size_.narrow() ? nullptr : col32_.data();
    std::uint16_t* const col16 = size_.narrow() ? col16_.data() : nullptr;
    write_first_rows<<<blocks_of(size_.tiles() + 1), device::block_size, 0, queue>>>(size_, plan.start.data(),
                                                                                     first_row_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    write_row_ends<<<blocks_of(size_.stacked_rows()), device::block_size, 0, queue>>>(
        a, plan.start.data(), reinterpret_cast<unsigned*>(flags_.data()), col32, col16);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    write_flagged_cols<<<blocks_of(size_.block_rows()), device::block_size, 0, queue>>>(
        device_pattern(request.csr.pattern), a, plan.start.data(), col32, col16);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    do_update_values(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return flags_.bytes() + col32_.bytes() + col16_.bytes() + values_.bytes() + first_row_.bytes() +
           entries_.bytes() + stacked_.bytes() + carry_.bytes() + arrived_.bytes();
  }
  FlaggedBlocks<T> row_view() const noexcept {
    return {values_.data(),
            col32_.empty() ? nullptr : col32_.data(),
            col16_.empty() ? nullptr : col16_.data(),
            flags_.data(),
            entries_.data(),
            first_row_.data(),
            size_,
            size_.slots()};
  }
  T* mutable_values() noexcept { return values_.data(); }

 protected:
  // Writes padding and bits as well, so the constructor uses it.
  void do_update_values(const CsrMatrix<T>& csr) override {
    const std::int64_t slots = size_.slots();
    if (slots == 0) return;
    fill_flagged<<<blocks_of(slots), device::block_size, 0, device::stream(*this->context())>>>(
        row_view(), device_pattern(csr.pattern), csr.values, values_.data(), entries_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    if (size_.slices == 1) return multiply(this->rows(), alpha, x.data, beta, y.data);
    // Products write the workspace before they read it.
    T* const stacked = const_cast<T*>(stacked_.data());
    multiply(stacked_.size(), T(1), x.data, T(0), stacked);
    const DeviceState& state = this->context()->device_state();
    device::launch(state, add_slices<T>, blocks_of(this->rows()), device::block_size, this->rows(),
                   size_.block_rows() * size_.R, size_.slices, static_cast<const T*>(stacked), alpha, beta,
                   y.data, state.stop);
  }

 private:
  void multiply(std::int64_t limit, T alpha, const T* x, T beta, T* y) const {
    const DeviceState& state = this->context()->device_state();
    const FlaggedBlocks<T> a = row_view();
    const std::int64_t groups = flag_groups(size_);
    T* const carry = const_cast<T*>(carry_.data());
    const std::int64_t carries = groups > 1 ? groups * size_.R : 0;
    const bool few = carries <= most_carries_of_one_block;
    unsigned* const arrived = carries > 0 && few ? const_cast<unsigned*>(arrived_.data()) : nullptr;
    with_flag_shape(size_.R, size_.C, [&](auto R, auto C) {
      device::launch(state, flagged_product<decltype(R), decltype(C), T>, groups, flag_threads, a, R, C,
                     limit, carry, arrived, alpha, x, beta, y, state.stop);
    });
    if (!few)
      launch_add_carries(state, RowOfFlaggedCarry<T>{a, groups, limit}, carries, static_cast<const T*>(carry),
                         alpha, y);
  }

  FlagSizes size_;
  Buffer<std::uint8_t> flags_;
  Buffer<std::int32_t> col32_;
  Buffer<std::uint16_t> col16_;
  Buffer<T> values_;
  Buffer<std::int32_t> first_row_;
  Buffer<std::uint8_t> entries_;
  Buffer<T> stacked_, carry_;
  Buffer<unsigned> arrived_;
};

}  // namespace protean::formats

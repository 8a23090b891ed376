// The device side of blocks.hpp: the finder of blocks, the slots, the values, and the product in which neighbouring
// lanes share a block row. Private to formats/.
#pragma once
#include <limits>

#include "core/bisect.hpp"
#include "formats/engines/blocks/blocks.hpp"
#include "formats/engines/several/multi_rows.cuh"
#include "formats/engines/view/row_view.cuh"
#include "operators/multi_product.hpp"

namespace protean::formats {

// Merges the rows of a block row: calls block(number) for each of its blocks, in ascending order. One thread
// for each block row.
template <class Block>
__device__ inline void merge_block_row(const DevicePattern& a, int R, int C, std::int64_t block_row,
                                       Block block) {
  std::int64_t next[largest_block], end[largest_block];
#pragma unroll
  for (int i = 0; i < largest_block; ++i) {
    const std::int64_t r = block_row * R + i;
    next[i] = end[i] = 0;
    if (i < R && r < a.rows) next[i] = a.row_ptr[r], end[i] = a.row_ptr[r + 1];
  }
  for (;;) {
    std::int32_t lowest = 0x7fffffff;
#pragma unroll
    for (int i = 0; i < largest_block; ++i)
      if (next[i] < end[i]) lowest = min(lowest, a.col[next[i]]);
    if (lowest == 0x7fffffff) return;
    const std::int32_t number = lowest / C;
    const std::int64_t past = (std::int64_t{number} + 1) * C;
    block(number);
#pragma unroll
    for (int i = 0; i < largest_block; ++i)
      while (next[i] < end[i] && a.col[next[i]] < past) ++next[i];
  }
}

// The number of blocks of each block row, without the one on the diagonal if that is apart.
static __global__ void count_blocks(DevicePattern a, int R, int C, bool apart, std::int64_t block_rows,
                                    std::int64_t* counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= block_rows) return;
  std::int64_t count = 0;
  merge_block_row(a, R, C, i, [&](std::int32_t number) { count += !apart || number != i; });
  counts[i] = count;
}

// The shapes to compare, one for each row of the grid.
struct ShapesOnDevice {
  int R[most_shapes], C[most_shapes];
};
constexpr std::int64_t most_samples = most_groups * group_rows;  // of a shape

static __global__ void sample_blocks(DevicePattern a, ShapesOnDevice shapes, std::int64_t groups,
                                     std::int64_t taken, std::int32_t* counts) {
  const int R = shapes.R[blockIdx.y], C = shapes.C[blockIdx.y], most = static_cast<int>(group_rows) / R;
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, g = t / most;
  if (g >= taken) return;
  const std::int64_t first = g * groups / taken * group_rows, i = first / R + t % most;
  if (i * R >= a.rows) return;
  std::int32_t count = 0;
  merge_block_row(a, R, C, i, [&](std::int32_t) { ++count; });
  counts[std::int64_t{blockIdx.y} * most_samples + t] = count;
}

inline BlockShape choose_shape_on_device(const Context& context, const SparsityPattern& pattern,
                                         const BlockSpec& spec, std::size_t value_bytes) {
  if (spec.shapes.size() == 1 || pattern.rows == 0) return spec.shapes[0];
  const auto count = static_cast<std::int64_t>(spec.shapes.size());
  const std::int64_t groups = (pattern.rows + group_rows - 1) / group_rows,
                     taken = std::min(groups, most_groups);
  const device::Scratch<std::int32_t> counts(context, count * most_samples);
  const cudaStream_t queue = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(counts.data(), 0xff, counts.bytes(), queue));  // -1: none
  ShapesOnDevice tried{};
  int lowest = largest_block;
  for (std::size_t s = 0; s < spec.shapes.size(); ++s) {
    tried.R[s] = static_cast<int>(spec.shapes[s].R), tried.C[s] = static_cast<int>(spec.shapes[s].C);
    lowest = std::min(lowest, tried.R[s]);
  }
  sample_blocks<<<dim3(blocks_of(taken * group_rows / lowest, 64), static_cast<unsigned>(count)), 64, 0,
                  queue>>>(device_pattern(pattern), tried, groups, taken, counts.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  std::vector<std::int32_t> found(static_cast<std::size_t>(counts.size()));
  device::copy_out(context, found.data(), counts.data(), counts.bytes());
  BlockSamples samples(spec.shapes.size());
  for (std::size_t s = 0; s < samples.size(); ++s)
    for (std::int64_t t = 0; t < most_samples; ++t)
      if (const std::int32_t n = found[s * most_samples + static_cast<std::size_t>(t)]; n >= 0)
        samples[s].push_back(n);
  return spec.choose(spec.rule, spec.shapes, samples, pattern.rows, value_bytes);
}

// Keys that sort block rows by descending number of blocks.
static __global__ void key_block_rows(std::int64_t block_rows, const std::int64_t* counts,
                                      std::uint32_t* keys, std::int32_t* order) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= block_rows) return;
  keys[i] = 0xffffffffu - static_cast<std::uint32_t>(counts[i]), order[i] = static_cast<std::int32_t>(i);
}

// slots[s] := the slots of slice s, which is as wide as its longest block row. slots is 0 before.
static __global__ void widest_block_rows(std::int64_t block_rows, std::int64_t height,
                                         const std::int64_t* counts, const std::int32_t* perm,
                                         unsigned long long* slots) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= block_rows) return;
  const std::int64_t s = at / height, h = min(height, block_rows - s * height);
  const auto wanted = static_cast<unsigned long long>(counts[perm ? perm[at] : at] * h);
  if (wanted > 0) atomicMax(slots + s, wanted);
}

struct BlockPlanOnDevice {
  BlockPlanOnDevice(const Context& context, const SparsityPattern& pattern, const BlockRule& of,
                    const BlockShape& chosen)
      : rule(of),
        shape(chosen),
        block_rows(chosen.block_rows(pattern.rows)),
        ptr(context, (sliced() ? rule.slices(block_rows) : block_rows) + 1),
        perm(context, rule.sorted ? block_rows : 0) {
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(ptr.data(), 0, ptr.bytes(), queue));
    if (block_rows == 0) return;
    const device::Scratch<std::int64_t> apart(context, sliced() ? block_rows : 0);
    std::int64_t* const counts = sliced() ? apart.data() : ptr.data();
    const unsigned blocks = blocks_of(block_rows);
    count_blocks<<<blocks, device::block_size, 0, queue>>>(device_pattern(pattern), static_cast<int>(shape.R),
                                                           static_cast<int>(shape.C), rule.diagonal_apart,
                                                           block_rows, counts);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    if (rule.sorted) {
      const device::Scratch<std::uint32_t> keys(context, block_rows);
      key_block_rows<<<blocks, device::block_size, 0, queue>>>(block_rows, counts, keys.data(), perm.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::sort_pairs(context, keys.data(), perm.data(), block_rows, 32);
    }
    if (sliced()) {
      widest_block_rows<<<blocks, device::block_size, 0, queue>>>(
          block_rows, rule.height(block_rows), counts, rule.sorted ? perm.data() : nullptr,
          reinterpret_cast<unsigned long long*>(ptr.data()));
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    device::exclusive_scan(context, ptr.data(), ptr.size());
    slots = read_back(context, ptr.data() + ptr.size() - 1);
  }
  bool sliced() const { return rule.container == BlockContainer::slices; }

  BlockRule rule;
  BlockShape shape;
  std::int64_t block_rows, slots = 0;
  const device::Scratch<std::int64_t> ptr;  // of block rows, or of slices
  const device::Scratch<std::int32_t> perm;
};

template <BlockSpecOf spec_of>
Admission admit_blocks_on_device(const Context& context, const SparsityPattern& pattern,
                                 const FormatParams& params, std::size_t value_bytes) {
  const BlockSpec spec = spec_of(params);
  if (std::string reason = refusal_of(spec.rule, pattern); !reason.empty())
    return Admission::refuse(std::move(reason));
  auto plan = std::make_shared<const BlockPlanOnDevice>(
      context, pattern, spec.rule, choose_shape_on_device(context, pattern, spec, value_bytes));
  Admission admission = admit_blocks(spec.rule, plan->shape, plan->slots, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

// Columns of all slots, and rows in a list. One thread for each block row. a.ptr belongs to the plan.
template <class T>
__global__ void write_slots(DevicePattern pattern, BlockGrid<T> a, std::int32_t* block_col,
                            std::int32_t* block_row) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= a.block_rows) return;
  const std::int64_t i = a.number(at);
  const BlockRow b = a.block_row_at(at);
  std::int64_t k = 0;
  std::int32_t last = a.diagonal_apart ? static_cast<std::int32_t>(i) : 0;
  merge_block_row(pattern, a.R, a.C, i, [&](std::int32_t number) {
    if (a.diagonal_apart && number == i) return;
    const std::int64_t slot = b.first + k * b.slot_step;
    block_col[slot] = last = number, ++k;
    if (block_row) block_row[slot] = static_cast<std::int32_t>(i);
  });
  for (; k < b.count; ++k) block_col[b.first + k * b.slot_step] = last;
}

// Values and bits. One warp for each block row, one lane for each place in a block, which finds its entry by
// bisection.
template <class T>
__global__ void __launch_bounds__(device::block_size)
    fill_blocks(BlockGrid<T> a, DevicePattern pattern, const T* from, T* values, std::uint8_t* entries) {
  const int lane = threadIdx.x % 32, area = a.area(), part = area < 32 ? area : 32;
  const int blocks = 32 / part, mine = lane / part, bytes = a.bit_bytes();
  const std::int64_t at = std::int64_t{blockIdx.x} * (device::block_size / 32) + threadIdx.x / 32;
  if (at >= a.block_rows) return;  // the whole warp
  const std::int64_t i = a.number(at);
  const BlockRow b = a.block_row_at(at);
  for (int top = 0; top < area; top += part) {
    const int place = top + lane % part, r = place / a.C, c = place % a.C;
    const std::int64_t row = i * a.R + r;
    std::int64_t row_begin = 0, row_end = 0;
    if (place < area && row < pattern.rows)
      row_begin = pattern.row_ptr[row], row_end = pattern.row_ptr[row + 1];
    for (std::int64_t first = 0; first < b.count; first += blocks) {
      const std::int64_t k = first + mine, slot = b.first + k * b.slot_step;
      const bool here = mine < blocks && k < b.count;
      bool has = false;
      if (here && place < area) {
        const std::int32_t number = a.block_col[slot];
        const bool padding =
            (k > 0 && a.block_col[slot - b.slot_step] == number) || (a.diagonal_apart && number == i);
        const std::int64_t col = std::int64_t{number} * a.C + c;
        if (!padding) {
          row_begin = first_where<std::int64_t>(row_begin, row_end,
                                                [&](std::int64_t j) { return pattern.col[j] >= col; });
          has = row_begin < row_end && pattern.col[row_begin] == col;
        }
        values[a.place(b, k, r, c)] = has ? from[row_begin] : T(0);
      }
      const unsigned all = __ballot_sync(0xffffffffu, has) >> (mine * part & 31);
      // The first lanes of each block write its bytes. A part begins at a whole byte.
      const int byte = lane % part;
      if (here && byte < (part + 7) / 8 && top / 8 + byte < bytes) {
        const unsigned bits = part == 32 ? all : all & ((1u << part) - 1);
        entries[slot * bytes + top / 8 + byte] = static_cast<std::uint8_t>(bits >> (8 * byte));
      }
    }
  }
}

// The blocks on the diagonal, if they are stored separately: one thread for each block row.
template <class T>
__global__ void fill_apart(BlockGrid<T> a, DevicePattern pattern, const T* from, T* values,
                           std::uint8_t* entries) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= a.block_rows) return;
  const BlockRow d = a.apart(i);
  unsigned long long bits = 0;
  for (int r = 0; r < a.R; ++r) {
    const std::int64_t row = i * a.R + r, left = i * a.C;
    std::int64_t k = 0, end = 0;
    if (row < pattern.rows) {
      end = pattern.row_ptr[row + 1];
      k = first_where<std::int64_t>(pattern.row_ptr[row], end,
                                    [&](std::int64_t j) { return pattern.col[j] >= left; });
    }
    for (int c = 0; c < a.C; ++c) {
      const bool has = k < end && pattern.col[k] == left + c;
      values[a.place(d, 0, r, c)] = has ? from[k] : T(0);
      if (has) bits |= 1ull << (r * a.C + c), ++k;
    }
  }
  for (int byte = 0; byte < a.bit_bytes(); ++byte)
    entries[d.first * a.bit_bytes() + byte] = static_cast<std::uint8_t>(bits >> (8 * byte));
}

// The arrays, and everything that does not depend on the kernel.
template <class T>
class BlocksOnDevice : public RowViewOnDevice<T, BlocksOnDevice<T>>, public HasMultiProduct<T> {
 public:
  explicit BlocksOnDevice(const BuildRequest<T>& request, bool by_columns = false)
      : RowViewOnDevice<T, BlocksOnDevice<T>>(request),
        rule_(plan_of<BlockPlanOnDevice>(request.admission).rule),
        shape_(plan_of<BlockPlanOnDevice>(request.admission).shape) {
    const auto& plan = plan_of<BlockPlanOnDevice>(request.admission);
    const ContextPtr& context = request.context;
    const std::int64_t slots = plan.slots, apart = rule_.diagonal_apart ? plan.block_rows : 0;
    if (by_columns) rule_.order = BlockOrder::columns;
    if (rule_.container == BlockContainer::rows || (plan.sliced() && rule_.slice > 0))
      ptr_ = copy_of(context, plan.ptr);
    if (rule_.sorted) perm_ = copy_of(context, plan.perm);
    if (rule_.container == BlockContainer::list) block_row_ = Buffer<std::int32_t>(context, slots);
    block_col_ = Buffer<std::int32_t>(context, slots);
    values_ = Buffer<T>(context, (slots + apart) * shape_.area());
    entries_ = Buffer<std::uint8_t>(context, (slots + apart) * shape_.bit_bytes());
    if (slots > 0) {
      BlockGrid<T> a = row_view();
      a.ptr = plan.ptr.data();
      write_slots<<<blocks_of(a.block_rows), device::block_size, 0, queue()>>>(
          device_pattern(request.csr.pattern), a, block_col_.data(),
          block_row_.empty() ? nullptr : block_row_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    do_update_values(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return ptr_.bytes() + block_row_.bytes() + block_col_.bytes() + values_.bytes() + entries_.bytes() +
           perm_.bytes();
  }
  BlockGrid<T> row_view() const noexcept {
    BlockGrid<T> a{};
    a.values = values_.data(), a.block_col = block_col_.data(), a.entries = entries_.data();
    a.ptr = ptr_.empty() ? nullptr : ptr_.data();
    a.block_row = block_row_.data();
    a.perm = rule_.container == BlockContainer::slices && rule_.sorted ? perm_.data() : nullptr;
    a.set_shape(rule_, shape_, this->rows(), this->cols(), block_col_.size());
    return a;
  }
  T* mutable_values() noexcept { return values_.data(); }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    multi_blocks_on_device(*this->context(), row_view(), alpha, X, beta, Y);
  }

 protected:
  // Writes padding and bits as well, so the constructor uses it.
  void do_update_values(const CsrMatrix<T>& csr) override {
    const BlockGrid<T> a = row_view();
    if (a.block_rows == 0) return;
    if (a.slots > 0)
      fill_blocks<<<blocks_of(a.block_rows * 32), device::block_size, 0, queue()>>>(
          a, device_pattern(csr.pattern), csr.values, values_.data(), entries_.data());
    if (a.diagonal_apart)
      fill_apart<<<blocks_of(a.block_rows), device::block_size, 0, queue()>>>(
          a, device_pattern(csr.pattern), csr.values, values_.data(), entries_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  cudaStream_t queue() const { return device::stream(*this->context()); }

  BlockRule rule_;
  BlockShape shape_;
  Buffer<std::int64_t> ptr_;
  Buffer<std::int32_t> block_row_, block_col_;
  Buffer<T> values_;
  Buffer<std::uint8_t> entries_;
  Buffer<std::int32_t> perm_;
};

// Four neighbouring values, loaded 16 bytes at a time. They lie at a multiple of four values.
__device__ inline void load_four(const float* v, float* to) {
  const float4 all = __ldg(reinterpret_cast<const float4*>(v));
  to[0] = all.x, to[1] = all.y, to[2] = all.z, to[3] = all.w;
}
__device__ inline void load_four(const double* v, double* to) {
  const double2 low = __ldg(reinterpret_cast<const double2*>(v)),
                high = __ldg(reinterpret_cast<const double2*>(v) + 1);
  to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}

// sum[r] += the block in column `number` whose values begin at v, times x. W values lie together.
template <class RowSize, class ColSize, class UnitSize, class T>
__device__ inline void add_block(const BlockGrid<T>& a, RowSize R, ColSize C, UnitSize W, const T* v,
                                 std::int64_t unit, std::int64_t number, const T* x, T* sum) {
  const std::int64_t col = number * C;
  T xs[ColSize::most];
#pragma unroll
  for (int c = 0; c < ColSize::most; ++c) xs[c] = c < C && col + c < a.cols ? __ldg(x + col + c) : T(0);
  if constexpr (std::is_same_v<UnitSize, FixedSize<4>>) {
#pragma unroll
    for (int r = 0; r < RowSize::most; ++r)
      if (r < R) {
#pragma unroll
        for (int c = 0; c < ColSize::most; c += 4) {
          if (c >= C) break;
          T four[4];
          load_four(v + (r * (C / 4) + c / 4) * unit, four);
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (col + c + i < a.cols) sum[r] += four[i] * xs[c + i];
        }
      }
  } else {
#pragma unroll
    for (int r = 0; r < RowSize::most; ++r)
      if (r < R) {
#pragma unroll
        for (int c = 0; c < ColSize::most; ++c)
          if (c < C && col + c < a.cols) sum[r] += __ldg(v + (r * (C / W) + c / W) * unit + c % W) * xs[c];
      }
  }
}

// y := alpha A x + beta y by groups of `lanes` neighbouring threads, which share a block row; `dot`: y := A x and
// *result := x . y. For blocks whose units are one value, a row of the block, or 4 values in rows of 8
// (blocks_lanes.cuh).
template <bool dot, class T>
void launch_lanes(const Context& context, const BlockGrid<T>& a, int lanes, T alpha, const T* x, T beta, T* y,
                  T* result);

// A matrix whose product is launch_lanes(). A derived class sets lanes_, a power of two up to 32.
template <class T>
class BlocksInLanes : public BlocksOnDevice<T>, public HasApplyDot<T> {
 public:
  explicit BlocksInLanes(const BuildRequest<T>& request) : BlocksOnDevice<T>(request) {}
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    launch_lanes<true>(*this->context(), this->row_view(), lanes_, T(1), x.data, T(0), y.data, result);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0)
      launch_lanes<false>(*this->context(), this->row_view(), lanes_, alpha, x.data, beta, y.data,
                          static_cast<T*>(nullptr));
  }
  int lanes_ = 1;
};

// The sum of row `lane` of block row i, in lane `lane` < R of the group. `there` is false if i is not
// below block_rows. All lanes of the warp call it. Blocks lie one after another, in the container rows.
template <int C, class T>
__device__ inline T block_row_sum(const BlockGrid<T>& a, std::int64_t i, bool there, int lanes, const T* x) {
  const int lane = threadIdx.x & (lanes - 1), blocks = lanes / a.R;
  const int mine = lane / a.R, row = lane - mine * a.R;
  T sum = 0;
  if (there && mine < blocks) {
    const std::int64_t begin = __ldg(a.ptr + i);
    const int count = static_cast<int>(__ldg(a.ptr + i + 1) - begin);
    const std::int32_t* block_col = a.block_col + begin;
    const T* v = a.values + (begin * a.R + row) * C;
    const int area = a.R * C;
    prefetch_lines(v - row * C, v - row * C + std::int64_t{count} * area, lane, blocks * a.R);
#pragma unroll 2
    for (int b = mine; b < count; b += blocks) {
      const std::int64_t col = std::int64_t{__ldg(block_col + b)} * C;
      const T* from = x + col;
      const T* value = v + std::int64_t{b} * area;
      T block[C];
#pragma unroll
      for (int c = 0; c < C; ++c) block[c] = __ldg(value + c);
      if (col + C <= a.cols) {
#pragma unroll
        for (int c = 0; c < C; ++c) sum += block[c] * __ldg(from + c);
      } else {
#pragma unroll
        for (int c = 0; c < C; ++c)
          if (col + c < a.cols) sum += block[c] * __ldg(from + c);
      }
    }
  }
  // The second half of the blocks is added to the first until one block is left.
  for (int left = blocks; left > 1;) {
    const int half = (left + 1) / 2;
    const T other = __shfl_down_sync(0xffffffffu, sum, half * a.R, lanes);
    if (mine + half < left) sum += other;
    left = half;
  }
  return sum;
}

}  // namespace protean::formats

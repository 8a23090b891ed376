// BCOO on the device: the arrays of bcoo.cpp. A warp takes a segment of neighbouring blocks, one for each lane, and
// adds runs of the same block row by shuffles. It writes the block rows that begin among them, as far as its own blocks
// go. Its part of a block row that began before is its carry. A second launch adds the carries in their order. This is
// the product of engines/runs/coo_segments.cuh with R sums instead of one.
#include "formats/engines/blocks/blocks.cuh"
#include "formats/engines/runs/coo_segments.cuh"
#include "formats/engines/runs/runs.cuh"
#include "formats/engines/view/expand.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr int bcoo_segment = 128;  // blocks of a warp
inline std::int64_t bcoo_segments(std::int64_t blocks) { return (blocks + bcoo_segment - 1) / bcoo_segment; }

template <class T>
struct BlockCarries {
  std::int64_t segments;
  std::int32_t* row;  // [segments] block row, or -1 if the segment begins with a new block row
  T* value;           // [R segments]: sum of row r of that block row at r segments + segment
};

// The row of carry t of R segments; -1: none.
struct RowOfBlockCarry {
  std::int64_t segments, rows;
  int R;
  const std::int32_t* block_row;
  __device__ std::int64_t operator()(std::int64_t t) const {
    const std::int64_t r = t / segments, i = block_row[t - r * segments], row = i * R + r;
    return i < 0 || row >= rows ? -1 : row;
  }
};

template <class RowSize, class ColSize, class T>
__global__ void __launch_bounds__(segment_threads)
    block_segment_product(BlockGrid<T> a, RowSize R, ColSize C, BlockCarries<T> carries, T alpha, const T* x,
                          T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t segment = (std::int64_t{blockIdx.x} * segment_threads + threadIdx.x) / 32;
  const std::int64_t begin = segment * bcoo_segment;
  if (begin >= a.slots) return;  // the whole warp
  const std::int64_t end = min(a.slots, begin + bcoo_segment);
  const int lane = threadIdx.x % 32;
  const std::int32_t before = begin > 0 ? a.block_row[begin - 1] : -1;  // of the block before the segment
  std::int32_t open = before;                                           // of the block before the step
  bool mine = false;  // the open block row has blocks of this segment
  T sum[RowSize::most] = {};
  bool carried = false;
  const auto flush = [&](std::int32_t i, const T* value) {
    if (i == before) {
      carried = true;
      carries.row[segment] = i;
    }
#pragma unroll
    for (int r = 0; r < RowSize::most; ++r) {
      const std::int64_t row = std::int64_t{i} * R + r;
      if (r >= R) continue;
      if (i == before)
        carries.value[r * carries.segments + segment] = value[r];
      else if (row < a.rows)
        store(alpha, value[r], beta, y + row);
    }
  };
  for (std::int64_t first = begin; first < end; first += 32) {
    const std::int64_t k = first + lane;
    const std::int32_t i = k < end ? a.block_row[k] : -2;
    T v[RowSize::most] = {};
    if (k < end) add_block(a, R, C, C, a.values + k * (R * C), C, a.block_col[k], x, v);
      // Each lane gets the sums of its run up to itself.
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const std::int32_t other_row = __shfl_up_sync(0xffffffffu, i, step);
#pragma unroll
      for (int r = 0; r < RowSize::most; ++r) {
        const T other = __shfl_up_sync(0xffffffffu, v[r], step);
        if (lane >= step && other_row == i) v[r] += other;
      }
    }
    const std::int32_t left = __shfl_up_sync(0xffffffffu, i, 1);
    const std::int32_t right = __shfl_down_sync(0xffffffffu, i, 1);
    const std::int32_t previous = lane == 0 ? open : left;
    const std::int32_t first_row = __shfl_sync(0xffffffffu, i, 0);
    if (mine && first_row == open) {
      if (i == open)
#pragma unroll
        for (int r = 0; r < RowSize::most; ++r) v[r] += sum[r];
    } else if (mine && lane == 0) {
      flush(open, sum);
    }
    // Block rows without blocks before each block row.
    for (unsigned gaps = __ballot_sync(0xffffffffu, i >= 0 && i > previous + 1); gaps; gaps &= gaps - 1) {
      const int from = __ffs(static_cast<int>(gaps)) - 1;
      const std::int64_t gap = std::int64_t{__shfl_sync(0xffffffffu, previous, from)} + 1;
      const std::int64_t gap_end = __shfl_sync(0xffffffffu, i, from);
      scale_rows(gap * R, gap_end * R, beta, y);
    }
    if (i >= 0 && lane < 31 && right != i) flush(i, v);
    // Past the end there is no open block row: its last block has been flushed.
    open = __shfl_sync(0xffffffffu, i, 31);
#pragma unroll
    for (int r = 0; r < RowSize::most; ++r) sum[r] = __shfl_sync(0xffffffffu, v[r], 31);
    mine = open >= 0;
  }
  if (mine && lane == 0) flush(open, sum);
  if (__ballot_sync(0xffffffffu, carried) == 0 && lane == 0) carries.row[segment] = -1;
  if (end == a.slots) scale_rows((std::int64_t{a.block_row[end - 1]} + 1) * R, a.rows, beta, y);
}

template <class T>
class Bcoo final : public BlocksOnDevice<T> {
 public:
  explicit Bcoo(const BuildRequest<T>& request) : BlocksOnDevice<T>(request) {
    const std::int64_t segments = bcoo_segments(this->block_col_.size());
    carry_row_ = Buffer<std::int32_t>(request.context, segments);
    carry_value_ = Buffer<T>(request.context, segments * this->shape_.R);
  }
  std::size_t bytes() const noexcept override {
    return BlocksOnDevice<T>::bytes() + carry_row_.bytes() + carry_value_.bytes();
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const BlockGrid<T> a = this->row_view();
    if (a.slots == 0) return scale(*this->context(), a.rows, beta, y.data);
    const DeviceState& state = this->context()->device_state();
    const std::int64_t segments = carry_row_.size();
    // Products write the carries.
    const BlockCarries<T> carries{segments, const_cast<std::int32_t*>(carry_row_.data()),
                                  const_cast<T*>(carry_value_.data())};
    with_usual_shape(a.R, a.C, [&](auto R, auto C) {
      device::launch(state, block_segment_product<decltype(R), decltype(C), T>,
                     blocks_of(segments * 32, segment_threads), segment_threads, a, R, C, carries, alpha,
                     x.data, beta, y.data, state.stop);
    });
    launch_add_carries(state, RowOfBlockCarry{segments, a.rows, a.R, carry_row_.data()}, segments * a.R,
                       static_cast<const T*>(carries.value), alpha, y.data);
  }

 private:
  Buffer<std::int32_t> carry_row_;
  Buffer<T> carry_value_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  Admission admission = admit_blocks_on_device<bcoo_spec>(context, pattern, params, value_bytes);
  if (!admission.ok) return admission;
  const auto& plan = plan_of<BlockPlanOnDevice>(admission);
  admission.bytes += static_cast<std::size_t>(bcoo_segments(plan.slots)) *
                     (4 + static_cast<std::size_t>(plan.shape.R) * value_bytes);
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<Bcoo>("native")};

}  // namespace

constinit const DeviceCode device_code::bcoo{kernels, admit};

}  // namespace protean::formats

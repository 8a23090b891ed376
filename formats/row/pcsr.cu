// PCSR on the device, in the layout of pcsr.cpp. A block of threads computes a panel. For each of its blocks it
// copies the part of x to shared memory; then 16 threads compute a row and keep its sum in registers. y is written
// once.
#include "core/bisect.hpp"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"
#include "formats/row/pcsr.hpp"

namespace protean::formats {
namespace {

constexpr int row_threads = 16, panel_groups = device::block_size / row_threads;
constexpr int rows_a_group = most_panel_rows / panel_groups;

template <class T>
__global__ void __launch_bounds__(device::block_size)
    pcsr_product(PcsrView<T> a, T alpha, const T* __restrict__ x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ T near[most_partition_cols];
  const int group = threadIdx.x / row_threads, lane = threadIdx.x % row_threads;
  const std::int64_t p = blockIdx.x;
  T sums[rows_a_group] = {};
  for (std::int64_t b = a.panel_ptr[p], last = a.panel_ptr[p + 1]; b < last; ++b) {
    __syncthreads();
    const std::int64_t first = a.first_col[b];
    for (int i = threadIdx.x, width = a.width[b]; i < width; i += device::block_size)
      near[i] = __ldg(x + first + i);
    __syncthreads();
    const T* const values = a.values + a.block_ptr[b];
    const std::uint16_t* const col = a.col + a.block_ptr[b];
#pragma unroll
    for (int j = 0; j < rows_a_group; ++j)
      if (const int r = j * panel_groups + group; r < a.panel)
        for (int k = a.begin_of(b, r) + lane, end = a.row_end[b * a.panel + r]; k < end; k += row_threads)
          sums[j] += __ldcs(values + k) * near[__ldcs(col + k)];
  }
#pragma unroll
  for (int j = 0; j < rows_a_group; ++j) {
    const T sum = device::sum_lanes<row_threads>(sums[j]);
    const int r = j * panel_groups + group;
    if (const std::int64_t row = p * a.panel + r; lane == 0 && r < a.panel && row < a.rows)
      store(alpha, sum, beta, y + row);
  }
}

// Minimum, maximum, or inclusive sums of one number a thread over a block of most_panel_rows threads, which all call
// it.
template <class Combine>
__device__ inline std::int32_t combine_block(std::int32_t value, Combine combine) {
  __shared__ std::int32_t of_warp[most_panel_rows / 32];
  value = device::combine_warp(value, combine);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  for (const std::int32_t other : of_warp) value = combine(value, other);
  return value;
}
__device__ inline std::int32_t block_min(std::int32_t value) {
  return combine_block(value, [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
}
__device__ inline std::int32_t block_max(std::int32_t value) {
  return combine_block(value, [](std::int32_t a, std::int32_t b) { return a > b ? a : b; });
}
__device__ inline std::int32_t sum_up_to(std::int32_t value) {
  __shared__ std::int32_t of_warp[most_panel_rows / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const std::int32_t other = __shfl_up_sync(0xffffffffu, value, step);
    if (step <= lane) value += other;
  }
  __syncthreads();
  if (lane == 31) of_warp[warp] = value;
  __syncthreads();
  for (int w = 0; w < warp; ++w) value += of_warp[w];
  return value;
}

// Calls f(begin, end) for each block of a panel; entries [begin, end) of this thread's row lie in it. All threads of a
// block of most_panel_rows threads call it together.
template <class F>
__device__ inline void walk_panel(const DevicePattern& a, const PanelShape& shape, std::int64_t p, F&& f) {
  const std::int64_t row = p * shape.panel + threadIdx.x;
  const bool mine = threadIdx.x < shape.panel && row < a.rows;
  std::int64_t begin = mine ? a.row_ptr[row] : 0;
  const std::int64_t row_end = mine ? a.row_ptr[row + 1] : 0;
  for (;;) {
    const std::int32_t next = begin < row_end ? a.col[begin] : no_column;
    const std::int32_t first = block_min(next);
    if (first == no_column) return;
    const std::int64_t border = first + shape.partition;
    const std::int64_t end = first_where(begin, row_end, [&](std::int64_t k) { return a.col[k] >= border; });
    f(begin, end);
    begin = end;
  }
}

static __global__ void __launch_bounds__(most_panel_rows)
    count_panels(DevicePattern a, PanelShape shape, std::int64_t* blocks, std::int64_t* slots) {
  device::wait_for_stream();
  std::int64_t count = 0, size = 0;
  walk_panel(a, shape, blockIdx.x, [&](std::int64_t begin, std::int64_t end) {
    const std::int32_t all = sum_up_to(static_cast<std::int32_t>(shape.padded(end - begin)));
    ++count, size += all;
  });
  // The last thread has the sums of all rows.
  if (threadIdx.x == most_panel_rows - 1) blocks[blockIdx.x] = count, slots[blockIdx.x] = size;
}

template <class T>
struct PcsrArrays {
  const std::int64_t *panel_ptr, *panel_slot;
  std::int32_t *first_col, *width;
  std::int64_t* block_ptr;
  std::int32_t* row_end;
  std::uint16_t* col;
  T* values;
};

template <class T>
__global__ void __launch_bounds__(most_panel_rows)
    fill_panels(DevicePattern a, const T* from, PanelShape shape, PcsrArrays<T> to) {
  device::wait_for_stream();
  std::int64_t b = to.panel_ptr[blockIdx.x], block_slot = to.panel_slot[blockIdx.x];
  walk_panel(a, shape, blockIdx.x, [&](std::int64_t begin, std::int64_t end) {
    const auto size = static_cast<std::int32_t>(shape.padded(end - begin));
    const std::int32_t row_end = sum_up_to(size);
    const std::int32_t all = block_max(row_end);
    const std::int32_t first = block_min(begin < end ? a.col[begin] : no_column);
    const std::int32_t last = block_max(begin < end ? a.col[end - 1] : 0);
    if (threadIdx.x == 0)
      to.first_col[b] = first, to.width[b] = last + 1 - first, to.block_ptr[b] = block_slot;
    if (threadIdx.x < shape.panel) to.row_end[b * shape.panel + threadIdx.x] = row_end;
    for (std::int32_t i = 0; i < size; ++i) {
      const std::int64_t k = begin + i, slot = block_slot + row_end - size + i;
      to.col[slot] = static_cast<std::uint16_t>(a.col[min(k, end - 1)] - first);
      to.values[slot] = k < end ? from[k] : T(0);
    }
    ++b, block_slot += all;
  });
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) to.block_ptr[b] = block_slot;
}

// The number of blocks and of slots before each panel.
struct PanelPlan {
  device::Scratch<std::int64_t> blocks, slots;
  std::int64_t all_blocks = 0, all_slots = 0;
  PanelPlan(const Context& context, const SparsityPattern& pattern, const PanelShape& shape)
      : blocks(context, shape.panels(pattern.rows) + 1), slots(context, shape.panels(pattern.rows) + 1) {
    const std::int64_t panels = blocks.size() - 1;
    const DeviceState& state = context.device_state();
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(blocks.data(), 0, blocks.bytes(), state.stream));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(slots.data(), 0, slots.bytes(), state.stream));
    if (panels == 0) return;
    device::launch(state, count_panels, panels, most_panel_rows, device_pattern(pattern), shape,
                   blocks.data(), slots.data());
    device::exclusive_scan(context, blocks.data(), panels + 1);
    device::exclusive_scan(context, slots.data(), panels + 1);
    all_blocks = read_back(context, blocks.data() + panels);
    all_slots = read_back(context, slots.data() + panels);
  }
};

template <class T>
class PcsrDevice final : public RowViewOnDevice<T, PcsrDevice<T>> {
 public:
  explicit PcsrDevice(const BuildRequest<T>& request)
      : PcsrDevice(request, plan_of<PanelPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return panel_ptr_.bytes() + first_col_.bytes() + width_.bytes() + block_ptr_.bytes() + row_end_.bytes() +
           col_.bytes() + values_.bytes();
  }
  PcsrView<T> row_view() const {
    return {values_.data(),    col_.data(),     panel_ptr_.data(), first_col_.data(), width_.data(),
            block_ptr_.data(), row_end_.data(), this->rows(),      shape_.panel};
  }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const std::int64_t panels = panel_ptr_.size() - 1;
    if (panels == 0) return;
    const DeviceState& state = this->context()->device_state();
    device::launch(state, pcsr_product<T>, panels, device::block_size, row_view(), alpha, x.data, beta,
                   y.data, state.stop);
  }

 private:
  PcsrDevice(const BuildRequest<T>& request, const PanelPlan& plan)
      : RowViewOnDevice<T, PcsrDevice<T>>(request),
        shape_(panel_shape(request.params)),
        panel_ptr_(copy_of(request.context, plan.blocks)),
        first_col_(request.context, plan.all_blocks),
        width_(request.context, plan.all_blocks),
        block_ptr_(request.context, plan.all_blocks + 1),
        row_end_(request.context, plan.all_blocks * shape_.panel),
        col_(request.context, plan.all_slots),
        values_(request.context, plan.all_slots) {
    const DeviceState& state = request.context->device_state();
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(block_ptr_.data(), 0, block_ptr_.bytes(), state.stream));
    if (panel_ptr_.size() == 1) return;
    device::launch(state, fill_panels<T>, panel_ptr_.size() - 1, most_panel_rows,
                   device_pattern(request.csr.pattern), request.csr.values, shape_,
                   PcsrArrays<T>{panel_ptr_.data(), plan.slots.data(), first_col_.data(), width_.data(),
                                 block_ptr_.data(), row_end_.data(), col_.data(), values_.data()});
  }

  PanelShape shape_;
  Buffer<std::int64_t> panel_ptr_;
  Buffer<std::int32_t> first_col_, width_;
  Buffer<std::int64_t> block_ptr_;
  Buffer<std::int32_t> row_end_;
  Buffer<std::uint16_t> col_;
  Buffer<T> values_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const PanelPlan>(context, pattern, panel_shape(params));
  Admission admission = admit_panels(pattern, params, plan->all_blocks, plan->all_slots, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<PcsrDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::pcsr{kernels, admit};

}  // namespace protean::formats

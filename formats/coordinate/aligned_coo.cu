// Aligned COO on the device, in the layout of aligned_coo.cpp, one thread for each lane, in one launch. A thread
// writes the rows that lie in its lane. Lanes of the same long row are added by shuffles. If such a row needs several
// warps, the last of them to finish adds the sums of all of them in their order, so the order is fixed and no atomic
// operation adds to y (in the paper, as we read it, they do). For each warp with lanes of long rows:
//   span     [2 warps] int32: the first and the last warp of the row that goes on from the warp before.
//   partial  [2 warps]: the sum of that row, and of the row that goes on in the next warp.
//   arrived  [warps]: warps that have finished the row that begins in this warp; 0 between products.
#include "core/bisect.hpp"
#include "formats/coordinate/aligned_coo.hpp"

#include <algorithm>

#include "formats/engines/rows/row_order.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

struct LaneChains {
  const std::int32_t* span;
  void* partial;
  unsigned* arrived;
};

template <class T>
__global__ void __launch_bounds__(device::block_size)
    aligned_product(LaneView<T> A, LaneChains chains, unsigned lane_blocks, T alpha, const T* x, T beta, T* y,
                    const int* stop) {
  if (device::stopped(stop)) return;
  if (blockIdx.x >= lane_blocks) {
    const std::int64_t i = std::int64_t{blockIdx.x - lane_blocks} * device::block_size + threadIdx.x;
    if (i < A.empty_count) store(T(0), T(0), beta, y + A.empty[i]);
    return;
  }
  const std::int64_t l = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x, warp = l / 32;
  const int lane = threadIdx.x % 32;
  std::int32_t row = -1;
  T sum = 0;
  if (l < A.lanes) {
    std::int32_t last = -1;
    row = A.row_of_slot[l];
#pragma unroll 4
    for (std::int64_t k = 0; k < A.height; ++k) {
      const std::int64_t at = k * A.lanes + l;
      const std::int32_t r = __ldcs(A.row_of_slot + at), c = __ldcs(A.col + at);
      const T value = __ldcs(A.values + at);
      if (r != row) {
        store(alpha, sum, beta, y + row);  // the whole row: long rows have their own lanes
        row = r, sum = 0, last = -1;
      }
      if (r >= 0 && c != last) sum += value * __ldg(x + c);  // padding repeats a column
      last = c;
    }
  }
  // Each lane gets the sum of its row from the row's first lane in this warp.
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, sum, step);
    const std::int32_t other_row = __shfl_up_sync(0xffffffffu, row, step);
    if (lane >= step && other_row == row) sum += other;
  }
  const std::int32_t right = __shfl_down_sync(0xffffffffu, row, 1);
  const std::int32_t first_row = __shfl_sync(0xffffffffu, row, 0);
  // A row that crosses a border of the warp fills whole lanes, so it is in their first slots.
  const bool from_before = row >= 0 && row == first_row && warp > 0 && A.row_of_slot[warp * 32 - 1] == row;
  const bool ends = row >= 0 && (lane == 31 || right != row);
  const bool to_next = lane == 31 && row >= 0 && l + 1 < A.lanes && A.row_of_slot[l + 1] == row;
  if (ends && !from_before && !to_next) store(alpha, sum, beta, y + row);
  int home = 0, count = 0;
  bool complete = false;
  T* const partial = static_cast<T*>(chains.partial);
  if (ends && (from_before || to_next)) {
    if (from_before) {
      home = chains.span[2 * warp], count = chains.span[2 * warp + 1] - home + 1;
      partial[2 * warp] = sum;
    } else {
      home = static_cast<int>(warp), count = chains.span[2 * warp + 3] - home + 1;
      partial[2 * warp + 1] = sum;
    }
    __threadfence();
    complete = atomicAdd(chains.arrived + home, 1u) == static_cast<unsigned>(count) - 1;
  }
  for (unsigned last = __ballot_sync(0xffffffffu, complete); last; last &= last - 1) {
    const int from = __ffs(last) - 1;
    const std::int64_t begin = __shfl_sync(0xffffffffu, home, from);
    const int warps = __shfl_sync(0xffffffffu, count, from);
    const std::int32_t r = __shfl_sync(0xffffffffu, row, from);
    __threadfence();
    T whole = 0;
    for (int i = lane; i < warps; i += 32)
      whole += __ldcg(partial + (i == 0 ? 2 * begin + 1 : 2 * (begin + i)));
    whole = device::sum_lanes(whole);
    if (lane == 0) {
      chains.arrived[begin] = 0;
      store(alpha, whole, beta, y + r);
    }
  }
}

// found: the number of rows of each length below `limit`, then the lanes that longer rows take with each length.
static __global__ void aligned_count(DevicePattern a, LaneLengths lengths, std::int64_t limit,
                                     unsigned long long* found) {
  __shared__ unsigned counts[aligned_longest];
  for (int i = threadIdx.x; i < limit; i += blockDim.x) counts[i] = 0;
  __syncthreads();
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < a.rows;
       r += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t length = a.length(r);
    if (length < limit) {
      atomicAdd(counts + length, 1u);
    } else {
#pragma unroll
      for (int i = 0; i < 5; ++i)
        atomicAdd(found + limit + i, static_cast<unsigned long long>((length + lengths[i] - 1) / lengths[i]));
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < limit; i += blockDim.x)
    if (counts[i] > 0) atomicAdd(found + i, static_cast<unsigned long long>(counts[i]));
}

// lanes[i] := lanes of the i-th of the long rows
static __global__ void heavy_lanes(DevicePattern a, const std::int32_t* order, std::int64_t rows,
                                   std::int64_t height, std::int64_t* lanes) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < rows) lanes[i] = (a.length(order[i]) + height - 1) / height;
}
static __global__ void heavy_spans(std::int64_t rows, const std::int64_t* first_lane, std::int32_t* span) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  const std::int64_t first = first_lane[i] / 32, last = (first_lane[i + 1] - 1) / 32;
  for (std::int64_t w = first + 1; w <= last; ++w)
    span[2 * w] = static_cast<std::int32_t>(first), span[2 * w + 1] = static_cast<std::int32_t>(last);
}

// Writes the entries of a row, a warp for each; `order` has the rows by descending length.
template <class T>
__global__ void aligned_fill(DeviceRows<T> from, const std::int32_t* order, std::int64_t rows,
                             std::int64_t heavy, const std::int64_t* heavy_lane, const LightRows* light,
                             std::int64_t light_count, std::int64_t lanes, std::int64_t height,
                             std::int32_t* row_of_slot, std::int32_t* col, T* values) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= rows) return;
  const std::int32_t row = order[i];
  const std::int64_t begin = from.row_ptr[row], length = from.row_ptr[row + 1] - begin;
  std::int64_t lane, offset = 0;
  if (i < heavy) {
    lane = heavy_lane[i];
  } else {
    // The last ones that begin at or before this row.
    const LightRows& place = light[first_where(std::int64_t{1}, light_count,
                                               [&](std::int64_t j) { return light[j].first > i - heavy; }) -
                                   1];
    lane = place.lane + (i - heavy - place.first) / place.each;
    offset = place.offset + (i - heavy - place.first) % place.each * place.length;
  }
  for (std::int64_t k = threadIdx.x % 32; k < length; k += 32) {
    const std::int64_t at = (offset + k) % height * lanes + lane + (offset + k) / height;
    row_of_slot[at] = row, col[at] = from.col[begin + k], values[at] = from.values[begin + k];
  }
}
static __global__ void aligned_pad(std::int64_t lanes, std::int64_t height, std::int32_t* row_of_slot,
                                   std::int32_t* col) {
  const std::int64_t l = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (l >= lanes) return;
  for (std::int64_t at = l + lanes; at < lanes * height; at += lanes)
    if (row_of_slot[at] < 0) row_of_slot[at] = row_of_slot[at - lanes], col[at] = col[at - lanes];
}

std::int64_t heavy_warps(const LanePlan& plan) { return (plan.heavy_lanes + 31) / 32; }

template <class T>
class AlignedDevice final : public RowViewOnDevice<T, AlignedDevice<T>> {
 public:
  explicit AlignedDevice(const BuildRequest<T>& request)
      : AlignedDevice(request, plan_of<LanePlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return row_of_slot_.bytes() + col_.bytes() + values_.bytes() + empty_.bytes() + span_.bytes() +
           partial_.bytes() + arrived_.bytes();
  }
  LaneView<T> row_view() const {
    return {lanes_, height_, empty_.size(), row_of_slot_.data(), col_.data(), values_.data(), empty_.data()};
  }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    const unsigned lane_blocks = blocks_of(lanes_);
    // A product leaves the workspace as it was before.
    const LaneChains chains{span_.data(), const_cast<T*>(partial_.data()),
                            const_cast<unsigned*>(arrived_.data())};
    device::launch(state, aligned_product<T>, std::int64_t{lane_blocks} + blocks_of(empty_.size()),
                   device::block_size, row_view(), chains, lane_blocks, alpha, x.data, beta, y.data,
                   state.stop);
  }

 private:
  AlignedDevice(const BuildRequest<T>& request, const LanePlan& plan)
      : RowViewOnDevice<T, AlignedDevice<T>>(request),
        lanes_(plan.lanes),
        height_(plan.length),
        row_of_slot_(request.context, lanes_ * height_),
        col_(request.context, row_of_slot_.size()),
        values_(request.context, row_of_slot_.size()),
        empty_(request.context, plan.empty_rows),
        span_(request.context, 2 * heavy_warps(plan)),
        partial_(request.context, 2 * heavy_warps(plan)),
        arrived_(request.context, heavy_warps(plan)) {
    const Context& context = *request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    const cudaStream_t queue = device::stream(context);
    const device::Scratch<std::int32_t> order(context, pattern.rows);
    order_rows(context, pattern, std::max<std::int64_t>(1, pattern.rows),
               device_row_lengths(context, pattern).longest, order.data());
    const std::int64_t filled = pattern.rows - plan.empty_rows;
    device::copy_within(context, empty_.data(), order.data() + filled, empty_.bytes());
    if (filled == 0) return;
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(row_of_slot_.data(), 0xff, row_of_slot_.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(col_.data(), 0, col_.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(values_.data(), 0, values_.bytes(), queue));
    const device::Scratch<std::int64_t> heavy_lane(context, plan.heavy_rows + 1);
    if (plan.heavy_rows > 0) {
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(arrived_.data(), 0, arrived_.bytes(), queue));
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(span_.data(), 0, span_.bytes(), queue));
      const unsigned blocks = blocks_of(plan.heavy_rows);
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(heavy_lane.data(), 0, heavy_lane.bytes(), queue));
      heavy_lanes<<<blocks, device::block_size, 0, queue>>>(device_pattern(pattern), order.data(),
                                                            plan.heavy_rows, height_, heavy_lane.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::exclusive_scan(context, heavy_lane.data(), heavy_lane.size());
      heavy_spans<<<blocks, device::block_size, 0, queue>>>(plan.heavy_rows, heavy_lane.data(), span_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    const auto light_count = static_cast<std::int64_t>(plan.light.size());
    const device::Scratch<LightRows> light(context, light_count);
    if (light_count > 0) device::copy_in(context, light.data(), plan.light.data(), light.bytes());
    aligned_fill<<<blocks_of(filled, device::block_size / 32), device::block_size, 0, queue>>>(
        DeviceRows<T>{
            pattern.rows, {pattern.row_ptr.p32, pattern.row_ptr.p64}, pattern.col, request.csr.values},
        order.data(), filled, plan.heavy_rows, heavy_lane.data(), light.data(), light_count, lanes_, height_,
        row_of_slot_.data(), col_.data(), values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    aligned_pad<<<blocks_of(lanes_), device::block_size, 0, queue>>>(lanes_, height_, row_of_slot_.data(),
                                                                     col_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  std::int64_t lanes_, height_;
  Buffer<std::int32_t> row_of_slot_, col_;
  Buffer<T> values_;
  Buffer<std::int32_t> empty_, span_;
  Buffer<T> partial_;
  Buffer<unsigned> arrived_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const LaneLengths lengths = lane_lengths(params, pattern.nonzeros);
  const std::int64_t limit = *std::max_element(lengths.begin(), lengths.end());
  const device::Scratch<unsigned long long> found(context, limit + 5);
  const DeviceState& state = context.device_state();
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), state.stream));
  aligned_count<<<device::blocks_for(state, pattern.rows), device::block_size, 0, state.stream>>>(
      device_pattern(pattern), lengths, limit, found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  RowCounts counts;
  counts.with_length.resize(static_cast<std::size_t>(limit));
  device::copy_out(context, counts.with_length.data(), found.data(), static_cast<std::size_t>(limit) * 8);
  device::copy_out(context, counts.lanes_of_long_rows.data(), found.data() + limit, 5 * 8);
  Admission admission = plan_lanes(counts, lengths, pattern.rows, pattern.nonzeros, params, value_bytes);
  if (admission.ok)
    admission.bytes +=
        static_cast<std::size_t>(heavy_warps(plan_of<LanePlan>(admission))) * (12 + 2 * value_bytes);
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<AlignedDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::aligned_coo{kernels, admit};

}  // namespace protean::formats

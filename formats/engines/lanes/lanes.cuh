// The device side of lanes.hpp: the matrix and its product; lanes_plan.cuh has the layout. Private to formats/.
#pragma once
#include "formats/engines/lanes/lanes.hpp"
#include "formats/engines/lanes/lanes_plan.cuh"
#include "formats/engines/view/row_view.cuh"

namespace protean::formats {

// What a slot adds to the sums of its lane: sum[e] is the sum of row e of the block row. `value` is its value 0, and x
// of each column is read before anything is added, so that the loads of several slots are under way at a time.
template <class T, int R, int C>
struct LaneSlot {
  T value[R * C], x[R * C];

  LaneSlot() = default;
  __device__ LaneSlot(const T* values, int L, std::int32_t col, const T* from) {
#pragma unroll
    for (int e = 0; e < R * C; ++e) value[e] = __ldcs(values + e * L);
    if constexpr (R * C == 1) {
      x[0] = __ldg(from + col);
    } else if constexpr (C == 2) {
      x[0] = __ldg(from + (col >> 2));
      x[1] = __ldg(from + (col >> 2) + (col >> 1 & 1));  // the first again if the second is not an entry
    } else {
      const T taken = __ldg(from + (col >> 2));
#pragma unroll
      for (int e = 0; e < R; ++e) x[e] = col >> e & 1 ? taken : T(0);
    }
  }
  __device__ void add_to(T (&sum)[R]) const {
#pragma unroll
    for (int e = 0; e < R * C; ++e) sum[R == 2 ? e : 0] = fma(value[e], x[e], sum[R == 2 ? e : 0]);
  }
};

// How many slots each lane has in a unit of L lanes with `slots` slots. L is a power of two.
__device__ inline int lane_slots(std::int64_t slots, int L) {
  return static_cast<int>(slots >> (31 - __clz(L)));
}
// The sums of the slots of lane l of unit u, U slots a turn of the loop. They are added in the order of the slots by
// fused multiply-adds, so the bits depend neither on U nor on the codes of the columns. Of the loops over single
// slots the compiler may unroll only that over plain columns: the others would take more than 32 registers.
template <int R, int C, int U, class T>
__device__ inline void lane_sum(const MappedLanes<T>& a, std::int64_t u, int l, const T* x, T (&sum)[R]) {
  constexpr int B = R * C;
  using Slot = LaneSlot<T, R, C>;
  const int L = a.L;
  const std::int64_t begin = __ldg(a.unit_ptr + u);
  int left = lane_slots(__ldg(a.unit_ptr + u + 1) - begin, L);
  const T* values = a.values + B * begin + l;
  const std::int64_t code = a.code_ptr ? __ldg(a.code_ptr + u) : -1 - begin;
  if (left == 0) return;
  if (code >= 0) {
    std::int32_t col = __ldg(a.first + u * L + l);
    Slot(values, L, col, x).add_to(sum);
    const std::uint16_t* delta = a.delta + code + l;
    --left, values += B * L;
    if constexpr (U > 1) {
#pragma unroll 1
      for (; left >= U; left -= U, values += U * B * L, delta += U * L) {
        Slot slots[U];
#pragma unroll
        for (int k = 0; k < U; ++k) {
          col += __ldcs(delta + k * L);
          slots[k] = Slot(values + k * B * L, L, col, x);
        }
#pragma unroll
        for (int k = 0; k < U; ++k) slots[k].add_to(sum);
      }
    }
#pragma unroll 1
    for (; left > 0; --left, values += B * L, delta += L) {
      col += __ldcs(delta);
      Slot(values, L, col, x).add_to(sum);
    }
    return;
  }
  const std::int32_t* col = a.col + (-1 - code) + l;
  if constexpr (U > 1) {
#pragma unroll 1
    for (; left >= U; left -= U, values += U * B * L, col += U * L) {
      Slot slots[U];
#pragma unroll
      for (int k = 0; k < U; ++k) slots[k] = Slot(values + k * B * L, L, __ldcs(col + k * L), x);
#pragma unroll
      for (int k = 0; k < U; ++k) slots[k].add_to(sum);
    }
  }
#pragma unroll U == 1 ? 4 : 1
  for (; left > 0; --left, values += B * L, col += L) Slot(values, L, __ldcs(col), x).add_to(sum);
}

// Units of L <= 32 lanes of a warp. carry[R u + e] is the part that unit u has of a row of the unit before.
// One or two slots a turn fit into 32 registers, with which a multiprocessor holds 2048 threads: many threads hide the
// latency of loads better than many loads of few threads.
template <int R, int C, int U, class T>
__global__ void __launch_bounds__(device::block_size, R* C* U <= 2 ? 2048 / device::block_size : 1)
    lane_warps(MappedLanes<T> a, T alpha, const T* __restrict__ x, T beta, T* y, T* carry, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t lane = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x,
                     lanes = a.units * a.L;
  if (lane - threadIdx.x % 32 >= lanes) return;                    // the whole warp
  const int L = a.L, l = static_cast<int>(threadIdx.x) & (L - 1);  // L is a power of two
  const std::int64_t u = lane >> (31 - __clz(L));
  const std::int32_t mark = lane < lanes ? __ldg(a.lane_row + lane) : -1;
  // Units are whole, so no unit of the matrix shares its lanes with these.
  const std::int32_t row = static_cast<std::int32_t>(row_of_lane(mark));
  T sum[R] = {};
  if (lane < lanes && mark >= 0) lane_sum<R, C, U>(a, u, l, x, sum);
  for (int step = 1; step < L; step *= 2) {
    const std::int32_t its = __shfl_up_sync(0xffffffffu, row, step, L);
#pragma unroll
    for (int e = 0; e < R; ++e) {
      const T other = __shfl_up_sync(0xffffffffu, sum[e], step, L);
      if (l >= step && its == row) sum[e] += other;
    }
  }
  const std::int32_t next = __shfl_down_sync(0xffffffffu, row, 1, L);
  if (lane >= lanes || (l + 1 < L && next == row)) return;
  const bool carried = carry && u > 0 && a.row_at(u * L - 1) == row;
#pragma unroll
  for (int e = 0; e < R; ++e) {
    const std::int64_t at = std::int64_t{R} * row + e;
    if (carried)
      carry[R * u + e] = sum[e];
    else if (R == 1 || at < a.rows)
      store(alpha, sum[e], beta, y + at);
  }
}

// Units of more lanes: one block each. Rows are whole.
template <class T>
__global__ void __launch_bounds__(256, 2048 / 256)
    lane_blocks(MappedLanes<T> a, T alpha, const T* __restrict__ x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ T sums[256];
  __shared__ std::int32_t rows[256];
  const int l = static_cast<int>(threadIdx.x);
  const std::int64_t lane = std::int64_t{blockIdx.x} * a.L + l;
  const std::int32_t mark = __ldg(a.lane_row + lane);
  T mine[1] = {};
  if (mark >= 0) lane_sum<1, 1, 1>(a, blockIdx.x, l, x, mine);
  sums[l] = mine[0];
  rows[l] = static_cast<std::int32_t>(row_of_lane(mark));
  __syncthreads();
  if (l > 0 && rows[l - 1] == rows[l]) return;
  T sum = sums[l];
  for (int next = l + 1; next < a.L && rows[next] == rows[l]; ++next) sum += sums[next];
  store(alpha, sum, beta, y + rows[l]);
}

// Adds the carries of a row in the order of its units. The thread of the first of them does it.
template <class T>
__global__ void add_carries(MappedLanes<T> a, T alpha, const T* carry, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (u == 0 || u >= a.units || !a.continues(u)) return;
  const std::int64_t row = a.row_at(u * a.L);
  if (u > 1 && a.continues(u - 1) && a.row_at((u - 1) * a.L) == row) return;
  for (int e = 0; e < a.R && a.R * row + e < a.rows; ++e) {
    T sum = carry[a.R * u + e];
    for (std::int64_t next = u + 1; next < a.units && a.row_at(next * a.L) == row; ++next)
      sum += carry[a.R * next + e];
    y[a.R * row + e] += alpha * sum;
  }
}

template <class T>
class LaneDevice : public RowViewOnDevice<T, LaneDevice<T>> {
 public:
  explicit LaneDevice(const BuildRequest<T>& request) : RowViewOnDevice<T, LaneDevice<T>>(request) {
    const LanePlanOnDevice& plan = plan_of<LanePlanOnDevice>(request.admission);
    const SparsityPattern& pattern = request.csr.pattern;
    const ContextPtr& context = request.context;
    const LaneSizes& sizes = plan.sizes;
    rule_ = plan.rule;
    const std::int64_t lanes = sizes.units * rule_.L;
    unit_ptr_ = copy_of(context, *plan.unit_ptr), lane_row_ = copy_of(context, *plan.lane_row);
    values_ = Buffer<T>(context, sizes.slots * rule_.block());
    col_ = Buffer<std::int32_t>(context, rule_.coded ? sizes.raw_slots : sizes.slots);
    if (plan.continued > 0) carry_ = Buffer<T>(context, sizes.units * rule_.R);
    if (rule_.coded) {
      first_ = Buffer<std::int32_t>(context, lanes), code_ptr_ = Buffer<std::int64_t>(context, sizes.units);
      delta_ = Buffer<std::uint16_t>(context, sizes.delta_slots);
    }
    if (lanes == 0) return;
    const DeviceRows<T> from{
        pattern.rows, {pattern.row_ptr.p32, pattern.row_ptr.p64}, pattern.col, request.csr.values};
    const device::Scratch<std::int32_t> entries(*context, lanes);
    std::int32_t* const col = rule_.coded ? nullptr : col_.data();
    if (rule_.block() == 1) {
      lane_fill<<<blocks_of(pattern.rows), device::block_size, 0, queue()>>>(
          plan.view<T>(pattern.rows), from, entries.data(), col, values_.data());
    } else {
      const std::int64_t block_rows = divide_up(pattern.rows, rule_.R);
      lane_fill_blocks<<<blocks_of(block_rows), device::block_size, 0, queue()>>>(
          plan.view<T>(pattern.rows), from, block_rows, plan.block_ptr->data(), plan.key->data(),
          entries.data(), col, values_.data());
    }
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    mark_empty_lanes<<<blocks_of(lanes), device::block_size, 0, queue()>>>(lanes, entries.data(),
                                                                           lane_row_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    if (!rule_.coded) return;
    code_units<<<blocks_of(lanes), device::block_size, 0, queue()>>>(
        sizes.units, rule_.L, unit_ptr_.data(), plan.col->data(), plan.places->data(), plan.raw->data(),
        code_ptr_.data(), first_.data(), delta_.data(), col_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + unit_ptr_.bytes() + lane_row_.bytes() + first_.bytes() +
           code_ptr_.bytes() + delta_.bytes() + carry_.bytes();
  }
  MappedLanes<T> row_view() const noexcept {
    return {values_.data(),
            col_.data(),
            unit_ptr_.data(),
            lane_row_.data(),
            rule_.coded ? first_.data() : nullptr,
            rule_.coded ? code_ptr_.data() : nullptr,
            rule_.coded ? delta_.data() : nullptr,
            this->rows(),
            unit_ptr_.size() - 1,
            rule_.L,
            rule_.R,
            rule_.C};
  }
  T* mutable_values() noexcept { return values_.data(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const MappedLanes<T> a = row_view();
    if (a.units == 0) return;
    const DeviceState& state = this->context()->device_state();
    if (rule_.L > 32) {
      device::launch(state, lane_blocks<T>, a.units, rule_.L, a, alpha, x.data, beta, y.data, state.stop);
      return;
    }
    multiply_in_warps(lane_warps<1, 1, 1, T>, alpha, x.data, beta, y.data);
  }
  // kernel: lane_warps for the blocks of the rule, which has L <= 32.
  template <class Kernel>
  void multiply_in_warps(Kernel kernel, T alpha, const T* x, T beta, T* y) const {
    const MappedLanes<T> a = row_view();
    if (a.units == 0) return;
    const DeviceState& state = this->context()->device_state();
    T* const carry = carry_.empty() ? nullptr : const_cast<T*>(carry_.data());
    device::launch(state, kernel, blocks_of(a.units * a.L), device::block_size, a, alpha, x, beta, y, carry,
                   state.stop);
    if (carry)
      device::launch(state, add_carries<T>, blocks_of(a.units), device::block_size, a, alpha, carry, y,
                     state.stop);
  }
  const LaneRule& rule() const noexcept { return rule_; }

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }

  LaneRule rule_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_, lane_row_, first_;
  Buffer<std::int64_t> unit_ptr_, code_ptr_;
  Buffer<std::uint16_t> delta_;
  Buffer<T> carry_;  // workspace of a product; empty if no row goes on in another unit
};

}  // namespace protean::formats

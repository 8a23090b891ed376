// BCOO + BCSR on the device: the arrays of bcoo_bcsr.cpp. A block of threads computes a strip; neighbouring lanes share
// a row and take its blocks and the slots of its rest in turn, so that no two rows add to the same sum. One thread
// selects the blocks of a strip.
#include "formats/block/bcoo_bcsr.hpp"

#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

// Counts the blocks of a strip, or writes them if `to_row` is not null.
static __global__ void select_strips(DevicePattern a, std::int64_t cols, StripRule rule, std::int64_t strips,
                                     std::uint8_t* covered, std::uint8_t* choice, std::int64_t* counts,
                                     const std::int64_t* strip_ptr, std::uint8_t* to_row,
                                     std::int32_t* to_col, std::uint8_t* to_entries) {
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s >= strips) return;
  const std::int64_t first = a.row_ptr[s * rule.height];
  std::int64_t b = to_row ? strip_ptr[s] : 0;
  select_blocks(a.rows, cols, a.row_ptr, a.col, rule, s, covered + first, first, choice + first,
                [&](int local_row, std::int64_t col, unsigned bits) {
                  if (to_row) {
                    to_row[b] = static_cast<std::uint8_t>(local_row);
                    to_col[b] = static_cast<std::int32_t>(col);
                    for (int byte = 0; byte < rule.bit_bytes(); ++byte)
                      to_entries[b * rule.bit_bytes() + byte] = static_cast<std::uint8_t>(bits >> (8 * byte));
                  }
                  ++b;
                });
  if (counts) counts[s] = b;
}

static __global__ void count_rest(DevicePattern a, const std::uint8_t* covered, std::int32_t* length,
                                  unsigned long long* longest) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::int32_t count = 0;
  if (r < a.rows) {
    for (std::int64_t k = a.row_ptr[r]; k < a.row_ptr[r + 1]; ++k) count += !covered[k];
    length[r] = count;
  }
  count = device::warp_max(count);
  if (threadIdx.x % 32 == 0 && count > 0) atomicMax(longest, static_cast<unsigned long long>(count));
}

struct StripPlanOnDevice {
  StripPlanOnDevice(const Context& context, const SparsityPattern& pattern, const StripRule& of)
      : rule(of), strip_ptr(context, of.strips(pattern.rows) + 1), rest_length(context, pattern.rows) {
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(strip_ptr.data(), 0, strip_ptr.bytes(), queue));
    if (pattern.rows == 0) return;
    const std::int64_t strips = rule.strips(pattern.rows);
    const device::Scratch<std::uint8_t> covered(context, pattern.nonzeros), choice(context, pattern.nonzeros);
    const device::Scratch<unsigned long long> found(context, 1);
    if (pattern.nonzeros > 0) PROTEAN_CUDA_CHECK(cudaMemsetAsync(covered.data(), 0, covered.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), queue));
    select_strips<<<blocks_of(strips, 64), 64, 0, queue>>>(
        device_pattern(pattern), pattern.cols, rule, strips, covered.data(), choice.data(), strip_ptr.data(),
        nullptr, nullptr, nullptr, nullptr);
    count_rest<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(
        device_pattern(pattern), covered.data(), rest_length.data(), found.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, strip_ptr.data(), strips + 1);
    counts.blocks = read_back(context, strip_ptr.data() + strips);
    counts.rest_width = static_cast<std::int64_t>(read_back(context, found.data()));
  }

  StripRule rule;
  StripCounts counts;
  const device::Scratch<std::int64_t> strip_ptr;
  const device::Scratch<std::int32_t> rest_length;
};

// The columns of the rest. One thread for each row.
template <class T>
__global__ void write_rest(StripView<T> a, DevicePattern from, std::int32_t* rest_col) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  std::int64_t slot = r;
  a.for_rest(r, from.col, from.row_ptr[r], from.row_ptr[r + 1],
             [&](std::int32_t col) { rest_col[slot] = col, slot += a.rows; });
}

template <int C, bool dot, class T>
__global__ void __launch_bounds__(device::block_size)
    strip_product(StripView<T> a, std::int64_t strips, int lanes, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  __shared__ int begin_of[highest_strip + 1];  // the first block of each local row or of a later one
  const int thread = threadIdx.x, height = static_cast<int>(a.rule.height), R = a.rule.R;
  const int local = thread / lanes, lane = thread & (lanes - 1);
  const T* const rest = a.values + a.blocks * (R * C);
  T dots[1] = {};
  for (std::int64_t s = blockIdx.x; s < strips; s += gridDim.x) {
    const std::int64_t begin = a.strip_ptr[s];
    const int count = static_cast<int>(a.strip_ptr[s + 1] - begin);
    __syncthreads();  // threads may still read begin_of of the strip before
    if (count == 0)
      for (int t = thread; t <= height; t += device::block_size) begin_of[t] = 0;
    for (int b = thread; b < count; b += device::block_size) {
      const int row = a.local_row[begin + b], before = b > 0 ? a.local_row[begin + b - 1] : -1;
      for (int t = before + 1; t <= row; ++t) begin_of[t] = b;
      if (b == count - 1)
        for (int t = row + 1; t <= height; ++t) begin_of[t] = count;
    }
    __syncthreads();
    const std::int64_t row = s * height + local;
    const bool there = local < height && row < a.rows;
    T sum = 0;
    if (there) {
      for (int d = 0; d < R && d <= local; ++d)
        for (int b = begin_of[local - d] + lane; b < begin_of[local - d + 1]; b += lanes) {
          const T* const v = a.values + (begin + b) * (R * C) + d * C;
          const T* const x = task.x + a.block_col[begin + b];
#pragma unroll
          for (int c = 0; c < C; ++c) sum += __ldg(v + c) * __ldg(x + c);
        }
      const std::int32_t length = a.rest_length[row];
      for (std::int64_t k = lane; k < length; k += lanes)
        sum += __ldg(rest + k * a.rows + row) * __ldg(task.x + __ldg(a.rest_col + k * a.rows + row));
    }
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (there && lane == 0) task.template finish<dot>(row, sum, dots);
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

template <class T>
class BcooBcsr final : public RowViewOnDevice<T, BcooBcsr<T>>, public HasApplyDot<T> {
 public:
  explicit BcooBcsr(const BuildRequest<T>& request)
      : RowViewOnDevice<T, BcooBcsr<T>>(request), rule_(plan_of<StripPlanOnDevice>(request.admission).rule) {
    const StripPlanOnDevice& plan = plan_of<StripPlanOnDevice>(request.admission);
    const ContextPtr& context = request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    const std::int64_t blocks = plan.counts.blocks, rest = plan.counts.rest_width * pattern.rows;
    const cudaStream_t queue = device::stream(*context);
    strip_ptr_ = copy_of(context, plan.strip_ptr);
    rest_length_ = copy_of(context, plan.rest_length);
    local_row_ = Buffer<std::uint8_t>(context, blocks);
    block_col_ = Buffer<std::int32_t>(context, blocks);
    entries_ = Buffer<std::uint8_t>(context, blocks * rule_.bit_bytes());
    rest_col_ = Buffer<std::int32_t>(context, rest);
    values_ = Buffer<T>(context, blocks * rule_.area() + rest);
    if (values_.size() > 0) PROTEAN_CUDA_CHECK(cudaMemsetAsync(values_.data(), 0, values_.bytes(), queue));
    if (rest > 0) PROTEAN_CUDA_CHECK(cudaMemsetAsync(rest_col_.data(), 0, rest_col_.bytes(), queue));
    if (blocks > 0) {
      const device::Scratch<std::uint8_t> covered(*context, pattern.nonzeros),
          choice(*context, pattern.nonzeros);
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(covered.data(), 0, covered.bytes(), queue));
      const std::int64_t strips = rule_.strips(pattern.rows);
      select_strips<<<blocks_of(strips, 64), 64, 0, queue>>>(
          device_pattern(pattern), pattern.cols, rule_, strips, covered.data(), choice.data(), nullptr,
          strip_ptr_.data(), local_row_.data(), block_col_.data(), entries_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    if (rest > 0) {
      write_rest<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(
          row_view(), device_pattern(pattern), rest_col_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    this->do_update_values(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return strip_ptr_.bytes() + local_row_.bytes() + block_col_.bytes() + entries_.bytes() +
           rest_length_.bytes() + rest_col_.bytes() + values_.bytes();
  }
  StripView<T> row_view() const noexcept {
    return {values_.data(),   strip_ptr_.data(),   local_row_.data(), block_col_.data(), entries_.data(),
            rest_col_.data(), rest_length_.data(), this->rows(),      block_col_.size(), rule_};
  }
  T* mutable_values() noexcept { return values_.data(); }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    launch<true>(T(1), x.data, T(0), y.data, result);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0) launch<false>(alpha, x.data, beta, y.data, nullptr);
  }

 private:
  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t strips = rule_.strips(this->rows());
    int lanes = 32;
    while (lanes * rule_.height > device::block_size) lanes /= 2;
    const unsigned blocks = piece_blocks(state, strips, dot);
    const auto task = product_task(*this->context(), blocks, alpha, x, beta, y, result);
    with_loose_size(rule_.C, [&](auto C) {
      device::launch(state, strip_product<C(), dot, T>, blocks, device::block_size, row_view(), strips, lanes,
                     task);
    });
  }

  StripRule rule_;
  Buffer<std::int64_t> strip_ptr_;
  Buffer<std::uint8_t> local_row_, entries_;
  Buffer<std::int32_t> block_col_, rest_length_, rest_col_;
  Buffer<T> values_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan =
      std::make_shared<const StripPlanOnDevice>(context, pattern, bcoo_bcsr_rule(params, value_bytes));
  Admission admission = admit_strips(plan->rule, plan->counts, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<BcooBcsr>("native")};

}  // namespace

constinit const DeviceCode device_code::bcoo_bcsr{kernels, admit};

}  // namespace protean::formats

// The device side of slice_view.hpp. Private to formats/.
#pragma once
#include "formats/ell/row_order.cuh"
#include "formats/engines/row_view.cuh"
#include "formats/engines/slice_view.hpp"

namespace protean::formats {

// The place of the diagonal entry in row r, or -1.
__device__ inline std::int64_t diagonal_place(const DevicePattern& a, std::int64_t r) {
  const std::int64_t begin = a.row_ptr[r], end = a.row_ptr[r + 1];
  std::int64_t low = begin, high = end;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (a.col[middle] < r)
      low = middle + 1;
    else
      high = middle;
  }
  return low < end && a.col[low] == r ? low - begin : -1;
}

// widths[s] := the slots of slice s. missing += the rows without a diagonal entry, where that is apart.
static __global__ void widest_rows(DevicePattern a, const std::int32_t* perm, SliceRule rule, std::int64_t C,
                                   unsigned long long* widths, unsigned long long* missing) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long width = 0;
  bool none = false;
  if (p < a.rows) {
    const std::int64_t r = perm ? perm[p] : p;
    std::int64_t length = a.length(r);
    if (rule.diagonal_apart) {
      none = diagonal_place(a, r) < 0;
      length -= !none;
    }
    width = static_cast<unsigned long long>((length + rule.threads - 1) / rule.threads * rule.threads * C);
  }
  const unsigned count = __ballot_sync(0xffffffffu, none);
  if (threadIdx.x % 32 == 0 && count) atomicAdd(missing, static_cast<unsigned long long>(__popc(count)));
  if (rule.C > 0 && C % 32 != 0) {
    if (width > 0) atomicMax(widths + p / C, width);
    return;
  }
  // All rows of a warp lie in one slice.
  for (int step = 16; step > 0; step /= 2) width = max(width, __shfl_xor_sync(0xffffffffu, width, step));
  if (threadIdx.x % 32 == 0 && width > 0) atomicMax(widths + (rule.C > 0 ? p / C : 0), width);
}

struct SlicePlanOnDevice {
  SlicePlanOnDevice(const Context& context, const SparsityPattern& pattern, const SliceRule& from)
      : rule(from),
        slice_ptr(context, rule.slices(pattern.rows) + 1),
        perm(context, rule.sort_all ? pattern.rows : 0) {
    const cudaStream_t queue = device::stream(context);
    const std::int64_t slices = rule.slices(pattern.rows);
    if (slices == 0) {
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(slice_ptr.data(), 0, slice_ptr.bytes(), queue));
      return;
    }
    if (rule.sort_all) {
      const std::int64_t longest =
          pattern.rows > small_window ? device_row_lengths(context, pattern).longest : 0;
      order_rows(context, pattern, pattern.rows, longest, perm.data());
    }
    const device::Scratch<unsigned long long> found(context, 2);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(slice_ptr.data(), 0, slice_ptr.bytes(), queue));
    widest_rows<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(
        device_pattern(pattern), rule.sort_all ? perm.data() : nullptr, rule, rule.height(pattern.rows),
        reinterpret_cast<unsigned long long*>(slice_ptr.data()), found.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, slice_ptr.data(), slices + 1);
    device::copy_within(context, found.data() + 1, slice_ptr.data() + slices, 8);
    unsigned long long host[2];
    device::copy_out(context, host, found.data(), sizeof host);
    counts = {static_cast<std::int64_t>(host[1]), static_cast<std::int64_t>(host[0])};
  }

  SliceRule rule;
  SliceCounts counts;
  const device::Scratch<std::int64_t> slice_ptr;
  const device::Scratch<std::int32_t> perm;
};

template <SliceRule (*rule_of)(const SparsityPattern&, const FormatParams&)>
Admission admit_slices_on_device(const Context& context, const SparsityPattern& pattern,
                                 const FormatParams& params, std::size_t value_bytes) {
  const SliceRule rule = rule_of(pattern, params);
  if (std::string reason = refusal_of(rule, pattern); !reason.empty())
    return Admission::refuse(std::move(reason));
  auto plan = std::make_shared<const SlicePlanOnDevice>(context, pattern, rule);
  Admission admission = admit_slots(plan->rule, plan->counts, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

template <class T>
__global__ void slice_fill(SliceView<T> a, DeviceRows<T> from, std::int32_t* to_col, T* to_values) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p < a.positions()) a.fill(p, from.row_ptr, from.col, from.values, to_col, to_values);
}

// Lengths, and the places of diagonal entries, of all positions. Either may be null.
static __global__ void slice_lengths(DevicePattern a, const std::int32_t* perm, int divisor,
                                     std::int32_t* lengths, std::int32_t* diagonal_index) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= a.rows) return;
  const std::int64_t r = perm ? perm[p] : p;
  if (lengths) lengths[p] = static_cast<std::int32_t>((a.length(r) + divisor - 1) / divisor);
  if (diagonal_index) diagonal_index[p] = static_cast<std::int32_t>(diagonal_place(a, r));
}

static __global__ void mark_missing(DevicePattern a, std::int64_t* marks) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r <= a.rows) marks[r] = r < a.rows && diagonal_place(a, r) < 0;
}
static __global__ void gather_missing(const std::int64_t* before, std::int64_t rows, std::int32_t* without) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r < rows && before[r + 1] > before[r]) without[before[r]] = static_cast<std::int32_t>(r);
}

template <class T>
__global__ void slice_diagonal(SliceView<T> a, const std::int32_t* index, std::int64_t size, T* diagonal) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= a.rows) return;
  const std::int64_t r = a.row(p);
  if (r >= size) return;
  if (a.diagonal_apart)
    diagonal[r] = a.values[a.slots + r];
  else
    diagonal[r] = index[p] < 0 ? T(0) : a.values[a.at(p).slot(index[p])];
}

// Rows for multiply_rows(): order columns.
template <class T>
struct SliceRows {
  SliceView<T> a;
  std::int64_t rows;
  __device__ std::int64_t row(std::int64_t p) const { return a.row(p); }
  template <int split>
  __device__ T part_sum(std::int64_t p, int part, const T* x) const {
    const LaneSlots at = a.at(p);
    const std::int64_t count = a.kind == LaneLengths::entries ? __ldg(a.lengths + p) : at.width;
    T sum = 0;
    if (a.diagonal_apart && part == 0) {
      const std::int64_t r = a.row(p);
      sum = a.values[a.slots + r] * __ldg(x + r);
    }
#pragma unroll 4
    for (std::int64_t k = part; k < count; k += split) {
      const std::int64_t slot = at.base + k * at.C;
      sum += __ldcs(a.values + slot) * __ldg(x + __ldcs(a.col + slot));
    }
    return sum;
  }
  __device__ T whole(std::int64_t, T sum) const { return sum; }
};

template <int split, bool dot, class T>
__global__ void __launch_bounds__(device::block_size, 8) slice_columns(SliceRows<T> a, ProductTask<T> task) {
  multiply_rows<split, dot>(a, task);
}

// Order threads: `threads` neighbouring lanes share a row.
template <int threads, bool dot, class T>
__global__ void __launch_bounds__(device::block_size) slice_threads(SliceView<T> a, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  constexpr int rows_a_block = device::block_size / threads;
  const int lane = static_cast<int>(threadIdx.x) % threads;
  T dots[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows_a_block; first < a.rows;
       first += std::int64_t{gridDim.x} * rows_a_block) {
    const std::int64_t p = first + static_cast<int>(threadIdx.x) / threads;
    T sum = 0;
    if (p < a.rows) {
      const LaneSlots at = a.at(p);
      const std::int32_t steps = __ldg(a.lengths + p);
      std::int64_t slot = at.base + lane;
#pragma unroll 4
      for (std::int32_t s = 0; s < steps; ++s, slot += at.C * threads)
        sum += __ldcs(a.values + slot) * __ldg(task.x + __ldcs(a.col + slot));
    }
    sum = device::sum_lanes<threads>(sum);
    if (lane == 0 && p < a.rows) task.template finish<dot>(a.row(p), sum, dots);
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

template <class T>
class SliceDevice final : public RowViewOnDevice<T, SliceDevice<T>>, public HasApplyDot<T> {
 public:
  explicit SliceDevice(const BuildRequest<T>& request) : RowViewOnDevice<T, SliceDevice<T>>(request) {
    const SlicePlanOnDevice& plan = plan_of<SlicePlanOnDevice>(request.admission);
    const SparsityPattern& pattern = request.csr.pattern;
    const ContextPtr& context = request.context;
    rule_ = plan.rule, slots_ = plan.counts.slots;
    split_ = rule_.threads;
    if (request.params.has("threads")) {
      split_ = static_cast<int>(request.params.integer("threads"));
      if (split_ == 0) split_ = pattern.nonzeros > 32 * pattern.rows ? 2 : 1;
    }
    values_ = Buffer<T>(context, slots_ + (rule_.diagonal_apart ? pattern.rows : 0));
    col_ = Buffer<std::int32_t>(context, slots_);
    if (rule_.C > 0) slice_ptr_ = copy_of(context, plan.slice_ptr);
    if (rule_.sort_all) perm_ = copy_of(context, plan.perm);
    if (rule_.kind != LaneLengths::none) lengths_ = Buffer<std::int32_t>(context, pattern.rows);
    if (rule_.diagonal_index) diagonal_index_ = Buffer<std::int32_t>(context, pattern.rows);
    if (pattern.rows > 0 && (!lengths_.empty() || !diagonal_index_.empty())) {
      const int divisor = rule_.kind == LaneLengths::steps ? rule_.threads : 1;
      slice_lengths<<<blocks_of(pattern.rows), device::block_size, 0, queue()>>>(
          device_pattern(pattern), rule_.sort_all ? perm_.data() : nullptr, divisor,
          lengths_.empty() ? nullptr : lengths_.data(),
          diagonal_index_.empty() ? nullptr : diagonal_index_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    list_missing(context, pattern, plan.counts.without_diagonal);
    do_update_values(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + slice_ptr_.bytes() + lengths_.bytes() + perm_.bytes() +
           without_.bytes() + diagonal_index_.bytes();
  }
  void diagonal(VectorView<T> d) const override {
    if (!rule_.diagonal_index && !rule_.diagonal_apart)
      return RowViewOnDevice<T, SliceDevice<T>>::diagonal(d);
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    slice_diagonal<<<blocks_of(this->rows()), device::block_size, 0, queue()>>>(
        row_view(), diagonal_index_.data(), d.size, d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    launch<true>(T(1), x.data, T(0), y.data, result);
  }

  SliceView<T> row_view() const noexcept {
    SliceView<T> view{};
    view.values = values_.data(), view.col = col_.data();
    view.slice_ptr = slice_ptr_.empty() ? nullptr : slice_ptr_.data();
    view.lengths = lengths_.data(), view.perm = perm_.empty() ? nullptr : perm_.data();
    view.without = without_.data(), view.without_count = without_.size();
    view.set_shape(rule_, this->rows(), slots_);
    return view;
  }
  T* mutable_values() noexcept { return values_.data(); }

 protected:
  // Writes the padding as well, so the constructor uses it.
  void do_update_values(const CsrMatrix<T>& csr) override {
    const SliceView<T> view = row_view();
    if (view.positions() == 0) return;
    const DeviceRows<T> from{
        csr.rows(), {csr.pattern.row_ptr.p32, csr.pattern.row_ptr.p64}, csr.pattern.col, csr.values};
    slice_fill<<<blocks_of(view.positions()), device::block_size, 0, queue()>>>(view, from, col_.data(),
                                                                                values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0) launch<false>(alpha, x.data, beta, y.data, nullptr);
  }

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }

  void list_missing(const ContextPtr& context, const SparsityPattern& pattern, std::int64_t count) {
    without_ = Buffer<std::int32_t>(context, count);
    if (count == 0) return;
    const device::Scratch<std::int64_t> before(*context, pattern.rows + 1);
    mark_missing<<<blocks_of(pattern.rows + 1), device::block_size, 0, queue()>>>(device_pattern(pattern),
                                                                                  before.data());
    device::exclusive_scan(*context, before.data(), before.size());
    gather_missing<<<blocks_of(pattern.rows), device::block_size, 0, queue()>>>(before.data(), pattern.rows,
                                                                                without_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    const DeviceState& state = this->context()->device_state();
    const unsigned blocks = product_blocks(state, row_pieces(this->rows(), split_), dot);
    const auto task = product_task(*this->context(), blocks, alpha, x, beta, y, result);
    if (rule_.order == LaneOrder::columns)
      with_split(split_, [&](auto split) {
        device::launch(state, slice_columns<split(), dot, T>, blocks, device::block_size,
                       SliceRows<T>{row_view(), this->rows()}, task);
      });
    else
      with_threads(split_, [&](auto threads) {
        device::launch(state, slice_threads<threads(), dot, T>, blocks, device::block_size, row_view(), task);
      });
  }
  template <class F>
  static void with_threads(int threads, F&& f) {
    if (threads == 16) return f(std::integral_constant<int, 16>());
    if (threads == 32) return f(std::integral_constant<int, 32>());
    with_split(threads, f);
  }

  SliceRule rule_;
  std::int64_t slots_;
  int split_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_;
  Buffer<std::int64_t> slice_ptr_;
  Buffer<std::int32_t> lengths_, perm_, without_, diagonal_index_;
};

}  // namespace protean::formats

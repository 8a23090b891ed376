// The device side of jags.hpp. Private to formats/.
#pragma once
#include "core/bisect.hpp"
#include "formats/engines/jags/jags.hpp"
#include "formats/engines/rows/row_order.cuh"
#include "formats/engines/view/row_view.cuh"

namespace protean::formats {

// rows_of[k] := rows with more than k entries, which come first; slots[k] := the same, rounded up.
static __global__ void jag_counts(DevicePattern a, const std::int32_t* perm, std::int64_t jags,
                                  std::int64_t round, std::int32_t* rows_of, std::int64_t* slots) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= jags) return;
  const std::int64_t low =
      first_where<std::int64_t>(0, a.rows, [&](std::int64_t i) { return a.length(perm[i]) <= k; });
  rows_of[k] = static_cast<std::int32_t>(low), slots[k] = (low + round - 1) / round * round;
}

static __global__ void lengths_in_order(DevicePattern a, const std::int32_t* perm, std::int32_t* lengths) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p < a.rows) lengths[p] = static_cast<std::int32_t>(a.length(perm[p]));
}

struct JagPlanOnDevice {
  JagPlanOnDevice(const Context& context, const SparsityPattern& pattern, const JagRule& from)
      : rule(from),
        jags(device_row_lengths(context, pattern).longest),
        jag_ptr(context, jags + 1),
        jag_rows(context, jags),
        perm(context, pattern.rows) {
    order_rows(context, pattern, std::max<std::int64_t>(1, pattern.rows), jags, perm.data());
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(jag_ptr.data(), 0, jag_ptr.bytes(), queue));
    if (jags == 0) return;
    jag_counts<<<blocks_of(jags), device::block_size, 0, queue>>>(
        device_pattern(pattern), perm.data(), jags, rule.round, jag_rows.data(), jag_ptr.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, jag_ptr.data(), jags + 1);
    slots = read_back(context, jag_ptr.data() + jags);
  }

  JagRule rule;
  std::int64_t jags, slots = 0;
  const device::Scratch<std::int64_t> jag_ptr;
  const device::Scratch<std::int32_t> jag_rows, perm;
};

inline Admission admit_jags_on_device(const Context& context, const SparsityPattern& pattern,
                                      const FormatParams& params, std::size_t value_bytes) {
  auto plan = std::make_shared<const JagPlanOnDevice>(context, pattern, jag_rule(params));
  Admission admission =
      admit_slots_of(jag_bytes(plan->rule, pattern.rows, plan->jags, plan->slots, value_bytes), plan->slots,
                     pattern, params);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

// Entries of 32 rows at a time pass through shared memory, so that reads of CSR and writes of jags are coalesced.
// to_col may be null.
template <class T>
__global__ void __launch_bounds__(device::block_size)
    jag_fill(JagView<T> a, DeviceRows<T> from, std::int32_t* to_col, T* to_values) {
  __shared__ typename RowWalk<T>::Room rooms[device::block_size / 32];
  const int lane = threadIdx.x % 32;
  const std::int64_t p = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x;
  if (p - lane >= a.rows) return;  // the whole warp
  std::int64_t begin = 0, length = 0;
  if (p < a.rows) {
    begin = from.row_ptr[a.perm[p]];
    length = from.row_ptr[a.perm[p] + 1] - begin;
  }
  RowWalk<T> walk(rooms[threadIdx.x / 32], to_col ? from.col : nullptr, from.values, begin, begin + length);
  // The first row of a warp is its longest.
  const std::int64_t longest = __shfl_sync(0xffffffffu, length, 0);
  for (std::int64_t k = 0; k < longest; ++k) {
    if (k < length) {
      const std::int64_t place = a.jag_ptr[k] + p;
      if (to_col) to_col[place] = walk.col();
      to_values[place] = walk.value();
    }
    walk.advance(k < length);
  }
}

// Rows for multiply_rows().
template <class T>
struct JagRows {
  JagView<T> a;
  std::int64_t rows;
  __device__ std::int64_t row(std::int64_t p) const { return a.row(p); }
  template <int split>
  __device__ T part_sum(std::int64_t p, int part, const T* x) const {
    T sum = 0;
    const std::int64_t length = a.length(p);
#pragma unroll 4
    for (std::int64_t k = part; k < length; k += split) {
      const std::int64_t slot = __ldg(a.jag_ptr + k) + p;
      sum += __ldcs(a.values + slot) * __ldg(x + __ldcs(a.col + slot));
    }
    return sum;
  }
  __device__ T whole(std::int64_t, T sum) const { return sum; }
};

template <int split, bool dot, class T>
__global__ void __launch_bounds__(device::block_size, 8) jag_product(JagRows<T> a, ProductTask<T> task) {
  multiply_rows<split, dot>(a, task);
}

// The same, one thread a row, with the first jags' pointers in shared memory.
constexpr int staged_jags = 1024;
template <class T>
struct StagedJagRows {
  JagView<T> a;
  std::int64_t rows;
  const std::int64_t* first;      // slots before jag k, k < staged_jags
  const std::int32_t* positions;  // rows of jag k
  __device__ std::int64_t row(std::int64_t p) const { return a.row(p); }
  template <int split>
  __device__ T part_sum(std::int64_t p, int, const T* x) const {
    static_assert(split == 1);
    T sum = 0;
    std::int64_t k = 0;
    const std::int64_t staged = min(a.jags, std::int64_t{staged_jags});
#pragma unroll 4
    for (; k < staged && p < positions[k]; ++k) {
      const std::int64_t slot = first[k] + p;
      sum += __ldcs(a.values + slot) * __ldg(x + __ldcs(a.col + slot));
    }
    for (; k >= staged_jags && k < a.jags && a.reaches(p, k); ++k) {
      const std::int64_t slot = a.jag_ptr[k] + p;
      sum += a.values[slot] * __ldg(x + a.col[slot]);
    }
    return sum;
  }
  __device__ T whole(std::int64_t, T sum) const { return sum; }
};

template <bool dot, class T>
__global__ void __launch_bounds__(device::block_size, 8)
    staged_jag_product(JagView<T> a, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  __shared__ std::int64_t first[staged_jags];
  __shared__ std::int32_t positions[staged_jags];
  for (int k = threadIdx.x; k < staged_jags && k < a.jags; k += device::block_size) {
    first[k] = a.jag_ptr[k];
    positions[k] = a.jag_rows ? a.jag_rows[k] : static_cast<std::int32_t>(a.jag_ptr[k + 1] - a.jag_ptr[k]);
  }
  __syncthreads();
  multiply_rows<1, dot>(StagedJagRows<T>{a, a.rows, first, positions}, task);
}

template <class T, bool staged>
class JagDevice final : public RowViewOnDevice<T, JagDevice<T, staged>>, public HasApplyDot<T> {
 public:
  explicit JagDevice(const BuildRequest<T>& request) : RowViewOnDevice<T, JagDevice<T, staged>>(request) {
    const JagPlanOnDevice& plan = plan_of<JagPlanOnDevice>(request.admission);
    const SparsityPattern& pattern = request.csr.pattern;
    const ContextPtr& context = request.context;
    if (staged && plan.rule.ends == JagEnds::rows)
      throw FormatRefused(request.entry.id, "kernel staged takes the rows of a jag: set ends to jags");
    rule_ = plan.rule;
    jag_ptr_ = copy_of(context, plan.jag_ptr), perm_ = copy_of(context, plan.perm);
    if (rule_.keeps_jag_rows()) jag_rows_ = copy_of(context, plan.jag_rows);
    values_ = Buffer<T>(context, plan.slots), col_ = Buffer<std::int32_t>(context, plan.slots);
    if (rule_.ends == JagEnds::rows) lengths_ = Buffer<std::int32_t>(context, pattern.rows);
    split_ = row_split(
        context->device_state(), this->rows(),
        static_cast<double>(plan.slots) / static_cast<double>(std::max<std::int64_t>(1, this->rows())));
    if (!lengths_.empty()) {
      lengths_in_order<<<blocks_of(pattern.rows), device::block_size, 0, queue()>>>(
          device_pattern(pattern), perm_.data(), lengths_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    if (plan.slots == 0) return;
    if (rule_.round > 1) {
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(values_.data(), 0, values_.bytes(), queue()));
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(col_.data(), 0, col_.bytes(), queue()));
    }
    fill(request.csr, col_.data());
  }

  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + jag_ptr_.bytes() + jag_rows_.bytes() + lengths_.bytes() +
           perm_.bytes();
  }
  JagView<T> row_view() const noexcept {
    return {values_.data(),
            col_.data(),
            jag_ptr_.data(),
            jag_rows_.empty() ? nullptr : jag_rows_.data(),
            rule_.ends == JagEnds::rows ? lengths_.data() : nullptr,
            perm_.data(),
            this->rows(),
            jag_ptr_.size() - 1};
  }
  T* mutable_values() noexcept { return values_.data(); }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    launch<true>(T(1), x.data, T(0), y.data, result);
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    if (!values_.empty()) fill(csr, nullptr);
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0) launch<false>(alpha, x.data, beta, y.data, nullptr);
  }

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }

  void fill(const CsrMatrix<T>& csr, std::int32_t* to_col) {
    const DeviceRows<T> from{
        csr.rows(), {csr.pattern.row_ptr.p32, csr.pattern.row_ptr.p64}, csr.pattern.col, csr.values};
    jag_fill<<<blocks_of(this->rows()), device::block_size, 0, queue()>>>(row_view(), from, to_col,
                                                                          values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    const DeviceState& state = this->context()->device_state();
    const int split = staged ? 1 : split_;
    const unsigned blocks = product_blocks(state, row_pieces(this->rows(), split), dot);
    const auto task = product_task(*this->context(), blocks, alpha, x, beta, y, result);
    if constexpr (staged)
      device::launch(state, staged_jag_product<dot, T>, blocks, device::block_size, row_view(), task);
    else
      with_split(split, [&](auto shared) {
        device::launch(state, jag_product<shared(), dot, T>, blocks, device::block_size,
                       JagRows<T>{row_view(), this->rows()}, task);
      });
  }

  JagRule rule_;
  int split_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_;
  Buffer<std::int64_t> jag_ptr_;
  Buffer<std::int32_t> jag_rows_, lengths_, perm_;
};

// slots[s groups + g] := the slots of group g of strip s.
static __global__ void group_slots(DevicePattern a, BisectedRule rule, const std::int32_t* perm,
                                   std::int64_t strips, std::int64_t* slots) {
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s >= strips) return;
  const auto length = [&](std::int64_t i) {
    return s * rule.W + i < a.rows ? a.length(perm[s * rule.W + i]) : std::int64_t{0};
  };
  std::int64_t before = 0;
  for (int g = 0, h = rule.W, groups = rule.groups(); g < groups; ++g, h /= 2) {
    const std::int64_t end = group_end(rule, g, length);
    slots[s * groups + g] = h * (end - before);
    before = end;
  }
}

struct BisectedPlanOnDevice {
  BisectedPlanOnDevice(const Context& context, const SparsityPattern& pattern, const BisectedRule& from)
      : rule(from),
        group_ptr(context, rule.strips(pattern.rows) * rule.groups() + 1),
        perm(context, pattern.rows) {
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(group_ptr.data(), 0, group_ptr.bytes(), queue));
    if (pattern.rows == 0) return;
    const std::int64_t window = rule.sort_all ? pattern.rows : rule.W;
    const std::int64_t longest = window > small_window ? device_row_lengths(context, pattern).longest : 0;
    order_rows(context, pattern, window, longest, perm.data());
    const std::int64_t strips = rule.strips(pattern.rows);
    group_slots<<<blocks_of(strips), device::block_size, 0, queue>>>(device_pattern(pattern), rule,
                                                                     perm.data(), strips, group_ptr.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, group_ptr.data(), group_ptr.size());
    slots = read_back(context, group_ptr.data() + group_ptr.size() - 1);
  }

  BisectedRule rule;
  std::int64_t slots = 0;
  const device::Scratch<std::int64_t> group_ptr;
  const device::Scratch<std::int32_t> perm;
};

inline Admission admit_strips_on_device(const Context& context, const SparsityPattern& pattern,
                                        const FormatParams& params, std::size_t value_bytes) {
  auto plan = std::make_shared<const BisectedPlanOnDevice>(context, pattern, bisected_rule(params));
  Admission admission = admit_slots_of(bisected_bytes(plan->rule, pattern.rows, plan->slots, value_bytes),
                                       plan->slots, pattern, params);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

// perm[p] := -1 - row if that row has no entries.
static __global__ void mark_empty_rows(DevicePattern a, std::int32_t* perm) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p < a.rows && a.length(perm[p]) == 0) perm[p] = -1 - perm[p];
}

template <class T>
__global__ void bisected_fill(BisectedView<T> a, std::int64_t places, DeviceRows<T> from,
                              std::int32_t* to_col, T* to_values) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= places) return;
  std::int64_t begin = 0, end = 0;
  if (p < a.rows) begin = from.row_ptr[a.row(p)], end = from.row_ptr[a.row(p) + 1];
  a.fill(p, begin, end, from.col, from.values, to_col, to_values);
}

// W neighbouring lanes have a strip. Lane l adds slots of row l mod h of a group of h rows. When a group ends, the
// lanes of its upper half of rows add up what they have and take the rows of the lower half. So every lane ends with
// the sum of its row, in a fixed order.
template <class T>
__global__ void __launch_bounds__(device::block_size, 8)
    bisected_product(BisectedView<T> a, std::int64_t strips, T alpha, const T* __restrict__ x, T beta, T* y,
                     const int* stop) {
  if (device::stopped(stop)) return;
  const int W = a.W, lane = threadIdx.x % 32, l = lane % W;
  const std::int64_t s = (std::int64_t{blockIdx.x} * device::block_size + threadIdx.x) / W;
  if (s - lane / W >= strips) return;  // the whole warp
  const bool there = s < strips;
  std::int64_t at = there ? __ldg(a.group_ptr + s * a.groups) : 0;
  T sum = 0, mine = 0;
  for (int g = 0, h = W; g < a.groups; ++g, h /= 2) {
    const std::int64_t end = there ? __ldg(a.group_ptr + s * a.groups + g + 1) : at;
#pragma unroll 4
    for (std::int64_t slot = at + l; slot < end; slot += W)
      sum += __ldcs(a.values + slot) * __ldg(x + __ldcs(a.col + slot));
    at = end;
    const bool ends = l % h >= h / 2;
    T total = ends ? sum : T(0);
    for (int step = h; step < W; step *= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
    if (ends) {
      if (l < h) mine = total;
      sum = 0;
    }
  }
  const std::int64_t p = s * W + l;
  if (!there || p >= a.rows) return;
  // The padding of a row without entries reads x[0], which may be NaN.
  const std::int32_t row = a.perm[p];
  store(alpha, row < 0 ? T(0) : mine, beta, y + (row < 0 ? -1 - row : row));
}

template <class T>
class BisectedDevice final : public RowViewOnDevice<T, BisectedDevice<T>> {
 public:
  explicit BisectedDevice(const BuildRequest<T>& request) : RowViewOnDevice<T, BisectedDevice<T>>(request) {
    const BisectedPlanOnDevice& plan = plan_of<BisectedPlanOnDevice>(request.admission);
    const SparsityPattern& pattern = request.csr.pattern;
    const ContextPtr& context = request.context;
    rule_ = plan.rule;
    group_ptr_ = copy_of(context, plan.group_ptr), perm_ = copy_of(context, plan.perm);
    values_ = Buffer<T>(context, plan.slots), col_ = Buffer<std::int32_t>(context, plan.slots);
    if (pattern.rows == 0) return;
    const cudaStream_t queue = device::stream(*context);
    mark_empty_rows<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(device_pattern(pattern),
                                                                               perm_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    const DeviceRows<T> from{
        pattern.rows, {pattern.row_ptr.p32, pattern.row_ptr.p64}, pattern.col, request.csr.values};
    const std::int64_t places = strips() * rule_.W;
    bisected_fill<<<blocks_of(places), device::block_size, 0, queue>>>(row_view(), places, from, col_.data(),
                                                                       values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + group_ptr_.bytes() + perm_.bytes();
  }
  BisectedView<T> row_view() const noexcept {
    return {values_.data(), col_.data(), group_ptr_.data(), perm_.data(),
            this->rows(),   rule_.W,     rule_.groups()};
  }
  T* mutable_values() noexcept { return values_.data(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    device::launch(state, bisected_product<T>, blocks_of(strips() * rule_.W), device::block_size, row_view(),
                   strips(), alpha, x.data, beta, y.data, state.stop);
  }

 private:
  std::int64_t strips() const { return rule_.strips(this->rows()); }

  BisectedRule rule_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_;
  Buffer<std::int64_t> group_ptr_;
  Buffer<std::int32_t> perm_;
};

}  // namespace protean::formats

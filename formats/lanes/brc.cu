// BRC on the device: the arrays of brc.cpp. A thread computes a row of a block. If a row block is cut, a second launch
// adds its sums in a fixed order.
#include "formats/engines/rows/row_order.cuh"
#include "formats/engines/view/expand.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"
#include "formats/lanes/brc.hpp"

namespace protean::formats {
namespace {

// slots[u] and blocks[u] of each row block. `cut` += the row blocks of more than one block, cut[1] += their blocks.
__global__ void brc_count(DevicePattern a, BrcRule rule, const std::int32_t* perm, std::int64_t units,
                          std::int64_t* slots, std::int64_t* blocks, unsigned long long* cut) {
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (u >= units) return;
  const std::int64_t longest = a.length(perm[u * rule.B1]);
  slots[u] = rule.B1 * longest, blocks[u] = rule.blocks(longest);
  if (blocks[u] == 1) return;
  atomicAdd(cut, 1ull);
  atomicAdd(cut + 1, static_cast<unsigned long long>(blocks[u]));
}
__global__ void brc_lanes(DevicePattern a, std::int64_t lanes, const std::int32_t* perm,
                          std::int32_t* lane_row) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= lanes) return;
  const std::int32_t row = perm[min(p, a.rows - 1)];
  lane_row[p] = p < a.rows && a.length(row) > 0 ? row : -1 - row;
}
__global__ void brc_blocks(BrcRule rule, std::int64_t units, std::int64_t blocks,
                           const std::int64_t* unit_ptr, const std::int64_t* first_block,
                           std::int64_t* block_ptr, std::int32_t* block_unit) {
  const std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (b > blocks) return;
  if (b == blocks) {
    block_ptr[b] = unit_ptr[units];
    return;
  }
  const std::int64_t u = slice_of(first_block, 0, units - 1, b);
  block_unit[b] = static_cast<std::int32_t>(u);
  block_ptr[b] = unit_ptr[u] + (b - first_block[u]) * rule.B1 * rule.B2;
}
template <class T>
__global__ void brc_fill(BrcView<T> a, std::int64_t lanes, DeviceRows<T> from, std::int32_t* col, T* values) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= lanes) return;
  const bool there = p < a.rows;
  a.fill(p, there ? from.row_ptr[a.row(p)] : 0, there ? from.row_ptr[a.row(p) + 1] : 0, from.col, from.values,
         col, values);
}

template <class T>
__global__ void __launch_bounds__(device::block_size, 8)
    brc_product(BrcView<T> a, std::int64_t blocks, const std::int64_t* block_ptr,
                const std::int32_t* block_unit, std::int64_t cut_blocks, T* partial, T alpha,
                const T* __restrict__ x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t thread = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x;
  const std::int64_t b = thread / a.B1, l = thread % a.B1;
  if (b >= blocks) return;
  const std::int64_t end = __ldg(block_ptr + b + 1), p = __ldg(block_unit + b) * a.B1 + l;
  T sum = 0;
#pragma unroll 4
  for (std::int64_t place = __ldg(block_ptr + b) + l; place < end; place += a.B1)
    sum += __ldcs(a.values + place) * __ldg(x + __ldcs(a.col + place));
  if (b < cut_blocks) {
    partial[thread] = sum;
  } else if (p < a.rows) {
    // The padding of a row without entries reads x[0], which may be NaN.
    const std::int32_t row = __ldg(a.lane_row + p);
    store(alpha, row < 0 ? T(0) : sum, beta, y + (row < 0 ? -1 - row : row));
  }
}
// Row blocks that are cut come first, because their rows are the longest.
template <class T>
__global__ void brc_add(BrcView<T> a, std::int64_t cut_units, std::int64_t cut_blocks,
                        const std::int32_t* block_unit, const T* partial, T alpha, T beta, T* y,
                        const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, u = p / a.B1, l = p % a.B1;
  if (u >= cut_units || p >= a.rows) return;
  T sum = 0;
  for (std::int64_t b = first_not_below(block_unit, cut_blocks, u); b < cut_blocks && block_unit[b] == u; ++b)
    sum += partial[b * a.B1 + l];
  const std::int32_t row = a.lane_row[p];
  store(alpha, row < 0 ? T(0) : sum, beta, y + (row < 0 ? -1 - row : row));
}

struct Plan {
  Plan(const Context& context, const SparsityPattern& pattern, const BrcRule& from)
      : rule(from),
        units(rule.units(pattern.rows)),
        perm(context, pattern.rows),
        unit_ptr(context, units + 1),
        first_block(context, units + 1) {
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(unit_ptr.data(), 0, unit_ptr.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(first_block.data(), 0, first_block.bytes(), queue));
    if (units == 0) return;
    const std::int64_t longest =
        pattern.rows > small_window ? device_row_lengths(context, pattern).longest : 0;
    order_rows(context, pattern, pattern.rows, longest, perm.data());
    const device::Scratch<unsigned long long> cut(context, 2);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(cut.data(), 0, cut.bytes(), queue));
    brc_count<<<blocks_of(units), device::block_size, 0, queue>>>(
        device_pattern(pattern), rule, perm.data(), units, unit_ptr.data(), first_block.data(), cut.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, unit_ptr.data(), units + 1);
    device::exclusive_scan(context, first_block.data(), units + 1);
    sizes = {read_back(context, unit_ptr.data() + units), read_back(context, first_block.data() + units)};
    cut_units = static_cast<std::int64_t>(read_back(context, cut.data()));
    cut_blocks = static_cast<std::int64_t>(read_back(context, cut.data() + 1));
  }
  BrcRule rule;
  BrcSizes sizes;
  std::int64_t units, cut_units = 0, cut_blocks = 0;
  const device::Scratch<std::int32_t> perm;
  const device::Scratch<std::int64_t> unit_ptr, first_block;
};

template <class T>
class BrcDevice final : public RowViewOnDevice<T, BrcDevice<T>> {
 public:
  explicit BrcDevice(const BuildRequest<T>& request) : RowViewOnDevice<T, BrcDevice<T>>(request) {
    const Plan& plan = plan_of<Plan>(request.admission);
    const SparsityPattern& pattern = request.csr.pattern;
    const ContextPtr& context = request.context;
    rule_ = plan.rule, cut_units_ = plan.cut_units;
    const std::int64_t blocks = plan.sizes.blocks, lanes = plan.units * rule_.B1;
    unit_ptr_ = copy_of(context, plan.unit_ptr);
    lane_row_ = Buffer<std::int32_t>(context, lanes), block_unit_ = Buffer<std::int32_t>(context, blocks);
    block_ptr_ = Buffer<std::int64_t>(context, blocks + 1);
    values_ = Buffer<T>(context, plan.sizes.slots), col_ = Buffer<std::int32_t>(context, plan.sizes.slots);
    partial_ = Buffer<T>(context, plan.cut_blocks * rule_.B1);
    const cudaStream_t queue = device::stream(*context);
    brc_blocks<<<blocks_of(blocks + 1), device::block_size, 0, queue>>>(
        rule_, plan.units, blocks, unit_ptr_.data(), plan.first_block.data(), block_ptr_.data(),
        block_unit_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    if (lanes == 0) return;
    brc_lanes<<<blocks_of(lanes), device::block_size, 0, queue>>>(device_pattern(pattern), lanes,
                                                                  plan.perm.data(), lane_row_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    const DeviceRows<T> from{
        pattern.rows, {pattern.row_ptr.p32, pattern.row_ptr.p64}, pattern.col, request.csr.values};
    brc_fill<<<blocks_of(lanes), device::block_size, 0, queue>>>(row_view(), lanes, from, col_.data(),
                                                                 values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + lane_row_.bytes() + unit_ptr_.bytes() + block_ptr_.bytes() +
           block_unit_.bytes() + partial_.bytes();
  }
  BrcView<T> row_view() const {
    return {values_.data(), col_.data(), unit_ptr_.data(), lane_row_.data(), this->rows(), rule_.B1};
  }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const std::int64_t blocks = block_unit_.size(), cut_blocks = partial_.size() / rule_.B1;
    if (blocks == 0) return;
    const DeviceState& state = this->context()->device_state();
    T* const partial = const_cast<T*>(partial_.data());
    device::launch(state, brc_product<T>, blocks_of(blocks * rule_.B1), device::block_size, row_view(),
                   blocks, block_ptr_.data(), block_unit_.data(), cut_blocks, partial, alpha, x.data, beta,
                   y.data, state.stop);
    if (cut_units_ > 0)
      device::launch(state, brc_add<T>, blocks_of(cut_units_ * rule_.B1), device::block_size, row_view(),
                     cut_units_, cut_blocks, block_unit_.data(), partial, alpha, beta, y.data, state.stop);
  }

 private:
  BrcRule rule_{};
  std::int64_t cut_units_ = 0;
  Buffer<T> values_, partial_;
  Buffer<std::int32_t> col_, lane_row_, block_unit_;
  Buffer<std::int64_t> unit_ptr_, block_ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const Plan>(context, pattern, brc_rule(pattern, params));
  Admission admission = admit_brc(plan->rule, plan->sizes, pattern, params, value_bytes);
  admission.bytes += static_cast<std::size_t>(plan->cut_blocks * plan->rule.B1) * value_bytes;
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<BrcDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::brc{kernels, admit};

}  // namespace protean::formats

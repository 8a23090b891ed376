// csr-wang on the device: the arrays of csr_wang.cpp. A warp takes the 32 rows of a group: it adds their lengths from
// lane to lane, which gives where they begin, and computes 32 / T of them at a time. The last row of a group ends where
// the next group begins.
#include "formats/engines/rows/rows.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

template <class Length, class P>
__global__ void row_tables(DevicePattern a, std::int64_t groups, Length* length, P* group_ptr) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r + 1 < a.rows && r % wang_group != wang_group - 1)
    length[r - r / wang_group] = static_cast<Length>(a.length(r));
  if (r <= groups) group_ptr[r] = static_cast<P>(a.row_ptr[min(a.rows, r * wang_group)]);
}

template <int lanes, class T>
__global__ void __launch_bounds__(device::block_size)
    multiply_by_lengths(WangView<T> a, T alpha, const T* __restrict__ x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t group = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const std::int64_t first = group * wang_group;
  if (first >= a.rows) return;  // whole warps
  const std::int64_t row = first + lane, next = a.group(group + 1);
  const std::int64_t mine = row < a.rows && !a.last_of_group(row) ? a.stored(group, lane) : 0;
  std::int64_t end = mine;
  for (int step = 1; step < 32; step *= 2) {
    const std::int64_t before = __shfl_up_sync(0xffffffffu, end, step);
    if (lane >= step) end += before;
  }
  const std::int64_t begin_of_mine = a.group(group) + end - mine;
  const std::int64_t end_of_mine = row < a.rows && !a.last_of_group(row) ? begin_of_mine + mine : next;
#pragma unroll 1
  for (int i = 0; i < lanes; ++i) {
    // Row `local` of the group; every row has its turn once. Lanes behind the last row have no entries: they begin and
    // end where the group ends.
    const int local = i * (32 / lanes) + lane / lanes;
    const std::int64_t stop_at = __shfl_sync(0xffffffffu, end_of_mine, local);
    const std::int64_t begin = __shfl_sync(0xffffffffu, begin_of_mine, local);
    const bool there = first + local < a.rows;
    T sum = 0;
    for (std::int64_t k = begin + lane % lanes; there && k < stop_at; k += lanes)
      sum += __ldg(a.values + k) * __ldg(x + __ldg(a.col + k));
    sum = device::sum_lanes<lanes>(sum);
    if (lane % lanes == 0 && there) store(alpha, sum, beta, y + first + local);
  }
}

template <class T>
class CsrWangDevice final : public RowViewOnDevice<T, CsrWangDevice<T>> {
 public:
  explicit CsrWangDevice(const BuildRequest<T>& request)
      : RowViewOnDevice<T, CsrWangDevice<T>>(request),
        col_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()),
        lanes_(wang_lanes(request.csr.rows(), request.csr.nonzeros())) {
    const SparsityPattern& pattern = request.csr.pattern;
    const std::int64_t groups = wang_groups(pattern.rows), lengths = wang_lengths(pattern.rows);
    const auto with_pointers = [&](auto* length) {
      if (pattern.row_ptr.p32)
        group32_ = Buffer<std::int32_t>(request.context, groups + 1), fill(pattern, length, group32_.data());
      else
        group64_ = Buffer<std::int64_t>(request.context, groups + 1), fill(pattern, length, group64_.data());
    };
    if (plan_of<WangPlan>(request.admission).narrow)
      narrow_ = Buffer<std::uint16_t>(request.context, lengths), with_pointers(narrow_.data());
    else
      wide_ = Buffer<std::uint32_t>(request.context, lengths), with_pointers(wide_.data());
    device::copy_within(*request.context, col_.data(), pattern.col, col_.bytes());
    device::copy_within(*request.context, values_.data(), request.csr.values, values_.bytes());
  }
  std::size_t bytes() const noexcept override {
    return col_.bytes() + values_.bytes() + narrow_.bytes() + wide_.bytes() + group32_.bytes() +
           group64_.bytes();
  }
  WangView<T> row_view() const {
    return {values_.data(),
            col_.data(),
            group64_.empty() ? group32_.data() : nullptr,
            group64_.empty() ? nullptr : group64_.data(),
            wide_.empty() ? narrow_.data() : nullptr,
            wide_.empty() ? nullptr : wide_.data(),
            this->rows()};
  }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    device::copy_within(*this->context(), values_.data(), csr.values, values_.bytes());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    with_group(lanes_, [&](auto lanes) {
      device::launch(state, multiply_by_lengths<lanes(), T>,
                     blocks_of(wang_groups(this->rows()), device::block_size / 32), device::block_size,
                     row_view(), alpha, x.data, beta, y.data, state.stop);
    });
  }

 private:
  template <class Length, class P>
  void fill(const SparsityPattern& pattern, Length* length, P* group_ptr) {
    // At least as many rows as groups, except for a matrix without rows.
    row_tables<<<blocks_of(this->rows() + 1), device::block_size, 0, device::stream(*this->context())>>>(
        device_pattern(pattern), wang_groups(this->rows()), length, group_ptr);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  Buffer<std::int32_t> col_, group32_;
  Buffer<std::int64_t> group64_;
  Buffer<T> values_;
  Buffer<std::uint16_t> narrow_;
  Buffer<std::uint32_t> wide_;
  int lanes_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return admit_wang(pattern, device_row_lengths(context, pattern).longest, value_bytes);
}

constexpr Kernel kernels[] = {device_kernel<CsrWangDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::csr_wang{kernels, admit};

}  // namespace protean::formats

// csr-wang on the device: the tables of csr_wang.cpp. A warp takes the 32 rows of a group: it adds their lengths from
// lane to lane, which gives where they begin, and computes 32 / T of them at a time.
#include "formats/engines/rows.cuh"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

template <class Length>
__global__ void row_tables(DevicePattern a, std::int64_t groups, Length* length, std::int64_t* group_ptr) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r < a.rows) length[r] = static_cast<Length>(a.length(r));
  if (r <= groups) group_ptr[r] = a.row_ptr[min(a.rows, r * wang_group)];
}

template <int lanes, class T, class Length>
__global__ void __launch_bounds__(device::block_size)
    multiply_by_lengths(std::int64_t rows, const Length* length, const std::int64_t* group_ptr,
                        const std::int32_t* col, const T* values, T alpha, const T* __restrict__ x, T beta,
                        T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t group = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const std::int64_t first = group * wang_group;
  if (first >= rows) return;  // whole warps
  const std::int64_t mine = first + lane < rows ? static_cast<std::int64_t>(__ldg(length + first + lane)) : 0;
  std::int64_t end = mine;
  for (int step = 1; step < 32; step *= 2) {
    const std::int64_t before = __shfl_up_sync(0xffffffffu, end, step);
    if (lane >= step) end += before;
  }
  end += __ldg(group_ptr + group);
#pragma unroll 1
  for (int i = 0; i < lanes; ++i) {
    // Row `local` of the group; every row has its turn once.
    const int local = i * (32 / lanes) + lane / lanes;
    const std::int64_t stop_at = __shfl_sync(0xffffffffu, end, local);
    const std::int64_t begin = stop_at - __shfl_sync(0xffffffffu, mine, local);
    T sum = 0;
    for (std::int64_t k = begin + lane % lanes; k < stop_at; k += lanes)
      sum += __ldg(values + k) * __ldg(x + __ldg(col + k));
    sum = device::sum_lanes<lanes>(sum);
    if (lane % lanes == 0 && first + local < rows) store(alpha, sum, beta, y + first + local);
  }
}

template <class T>
class CsrWangDevice final : public CsrOnDevice<T> {
 public:
  explicit CsrWangDevice(const BuildRequest<T>& request)
      : CsrOnDevice<T>(request),
        group_ptr_(request.context, wang_groups(request.csr.rows()) + 1),
        lanes_(wang_lanes(request.csr.rows(), request.csr.nonzeros())) {
    const std::int64_t rows = request.csr.rows();
    if (plan_of<WangPlan>(request.admission).narrow) {
      narrow_ = Buffer<std::uint16_t>(request.context, rows);
      fill(narrow_);
    } else {
      wide_ = Buffer<std::uint32_t>(request.context, rows);
      fill(wide_);
    }
  }
  std::size_t bytes() const noexcept override {
    return CsrOnDevice<T>::bytes() + narrow_.bytes() + wide_.bytes() + group_ptr_.bytes();
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    if (wide_.empty())
      multiply(narrow_.data(), alpha, x.data, beta, y.data);
    else
      multiply(wide_.data(), alpha, x.data, beta, y.data);
  }

 private:
  template <class Length>
  void fill(Buffer<Length>& length) {
    const std::int64_t groups = group_ptr_.size() - 1;
    // At least as many rows as groups, but for a matrix without rows.
    row_tables<<<blocks_of(this->rows() + 1), device::block_size, 0, device::stream(*this->context())>>>(
        device_pattern(csr_.pattern), groups, length.data(), group_ptr_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  template <class Length>
  void multiply(const Length* length, T alpha, const T* x, T beta, T* y) const {
    const DeviceState& state = this->context()->device_state();
    with_group(lanes_, [&](auto lanes) {
      device::launch(state, multiply_by_lengths<lanes(), T, Length>,
                     blocks_of(group_ptr_.size() - 1, device::block_size / 32), device::block_size,
                     this->rows(), length, group_ptr_.data(), csr_.pattern.col, csr_.values, alpha, x, beta,
                     y, state.stop);
    });
  }

  using CsrOnDevice<T>::csr_;
  Buffer<std::uint16_t> narrow_;
  Buffer<std::uint32_t> wide_;
  Buffer<std::int64_t> group_ptr_;
  int lanes_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return admit_wang(pattern, device_row_lengths(context, pattern).longest, value_bytes);
}

constexpr Kernel kernels[] = {device_kernel<CsrWangDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode csr_wang;
constinit const DeviceCode csr_wang{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats

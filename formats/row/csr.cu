// CSR on the device: the layout is that of csr.cpp. A group of `lanes` neighbouring threads works on a row:
// they read neighbouring entries, and their sums are added by shuffles in a fixed order. Parameters: balance
// as on the host; `auto` and `rows` take the fewest lanes (a power of two) not below a third of the mean row
// length, so that a group's first step covers most of its row. Source: N. Bell, M. Garland, Implementing
// sparse matrix-vector multiplication on throughput-oriented processors, SC 2009,
// doi 10.1145/1654059.1654078; I. Reguly, M. Giles, Efficient sparse matrix-vector multiplication on
// cache-based GPUs, InPar 2012, doi 10.1109/InPar.2012.6339602 (threads a row).
#include "formats/device_support.cuh"

namespace protean::formats {
namespace {

template <class T, class P>
struct CsrArrays {
  std::int64_t rows;
  const P* row_ptr;
  const std::int32_t* col;
  const T* values;
};

// The sum of one row, in every lane of its group.
template <int lanes, class T, class P>
__device__ inline T row_sum(const CsrArrays<T, P>& a, std::int64_t row, const T* x) {
  T sum = 0;
  const P end = a.row_ptr[row + 1];
#pragma unroll 4
  for (P k = a.row_ptr[row] + threadIdx.x % lanes; k < end; k += lanes)
    sum += __ldcs(a.values + k) * __ldg(x + __ldcs(a.col + k));
  return device::sum_lanes<lanes>(sum);
}

template <int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    csr_product(CsrArrays<T, P> a, T alpha, const T* x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  constexpr int rows_a_block = device::block_size / lanes;
  const std::int64_t row = std::int64_t{blockIdx.x} * rows_a_block + threadIdx.x / lanes;
  // Lanes of a warp stay together for the shuffles; rows past the end compute row 0 again and do not write
  // it.
  const T sum = row_sum<lanes>(a, row < a.rows ? row : 0, x);
  if (row < a.rows && threadIdx.x % lanes == 0) store(alpha, sum, beta, y + row);
}

template <int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    csr_product_dot(CsrArrays<T, P> a, const T* x, T* y, double* partials, unsigned* arrived, T* result,
                    const int* stop) {
  if (device::stopped(stop)) return;
  constexpr int rows_a_block = device::block_size / lanes;
  T sums[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows_a_block; first < a.rows;
       first += std::int64_t{gridDim.x} * rows_a_block) {
    const std::int64_t row = first + threadIdx.x / lanes;
    const T sum = row_sum<lanes>(a, row < a.rows ? row : 0, x);
    if (row < a.rows && threadIdx.x % lanes == 0) y[row] = sum, sums[0] += x[row] * sum;
  }
  device::finish_reduction<1>(sums, partials, arrived, result);
}

// By bisection, a thread a row.
template <class T, class P>
__global__ void csr_diagonal(CsrArrays<T, P> a, std::int64_t size, T* diagonal) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= size) return;
  P low = a.row_ptr[row];
  const P end = a.row_ptr[row + 1];
  for (P high = end; low < high;) {
    const P middle = low + (high - low) / 2;
    if (a.col[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  diagonal[row] = low < end && a.col[low] == row ? a.values[low] : T(0);
}

// f(integral_constant lanes)
template <class F>
void with_lanes(int lanes, F&& f) {
  switch (lanes) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 8:
      return f(std::integral_constant<int, 8>());
    case 16:
      return f(std::integral_constant<int, 16>());
    default:
      return f(std::integral_constant<int, 32>());
  }
}

template <class T>
class CsrDevice final : public AssembledMatrix<T>, public HasApplyDot<T> {
 public:
  explicit CsrDevice(const BuildRequest<T>& request) : AssembledMatrix<T>(request), csr_(request.csr) {
    const double mean =
        static_cast<double>(csr_.nonzeros()) / static_cast<double>(std::max<std::int64_t>(1, csr_.rows()));
    while (lanes_ < 32 && lanes_ * 3 < mean) lanes_ *= 2;
  }

  CsrMatrix<T> to_csr() const override { return csr_; }
  std::size_t bytes() const noexcept override { return csr_.bytes(); }

  void diagonal(VectorView<T> d) const override {
    if (d.size == 0) return;
    launch([&](auto, auto arrays) {
      csr_diagonal<<<static_cast<unsigned>((d.size + device::block_size - 1) / device::block_size),
                     device::block_size, 0, device::stream(*this->context())>>>(arrays, d.size, d.data);
    });
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    const DeviceState& state = this->context()->device_state();
    launch([&](auto lanes, auto arrays) {
      const std::int64_t rows_a_block = device::block_size / lanes();
      const std::int64_t wanted = (this->rows() + rows_a_block - 1) / rows_a_block;
      const std::int64_t most = std::int64_t{state.processors} * 8;
      csr_product_dot<lanes()>
          <<<static_cast<int>(std::max<std::int64_t>(1, std::min(wanted, most))), device::block_size, 0,
             state.stream>>>(arrays, x.data, y.data, state.partials, state.arrived, result, state.stop);
    });
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    csr_.values = csr.values, csr_.values_owner = csr.values_owner;
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    launch([&](auto lanes, auto arrays) {
      const std::int64_t rows_a_block = device::block_size / lanes();
      csr_product<lanes()>
          <<<static_cast<unsigned>((this->rows() + rows_a_block - 1) / rows_a_block), device::block_size, 0,
             state.stream>>>(arrays, alpha, x.data, beta, y.data, state.stop);
    });
  }

 private:
  template <class F>
  void launch(F&& f) const {
    csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      const CsrArrays<T, P> arrays{this->rows(), row_ptr, csr_.pattern.col, csr_.values};
      with_lanes(lanes_, [&](auto lanes) { f(lanes, arrays); });
    });
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  CsrMatrix<T> csr_;
  int lanes_ = 1;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes,
                           pattern.nonzeros);
}

constexpr Kernel kernels[] = {device_kernel<CsrDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode csr;
constinit const DeviceCode csr{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats

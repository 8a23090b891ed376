// CSR on the device with the division of work of Reguly and Giles (csr_tuner.hpp), on the arrays of csr.cu.
//   reguly-giles        the fixed rule of section 5.4
//   reguly-giles-tuned  begins with that rule and tries other parameters in the products of a running solve
//                       (section 6), each timed on the stream; then it uses the best. While it tries, a
//                       product waits for the one before and is not recorded, and the order of the sums may
//                       differ between products.
// A product with x . y is two passes. Source: I. Reguly, M. Giles, InPar 2012,
// doi:10.1109/InPar.2012.6339602.
#include "formats/row/csr_tuner.hpp"

#include "formats/private/csr_arrays.cuh"

namespace protean::formats {
namespace {

template <int coop, class T, class P>
__global__ void csr_cooperative(CsrArrays<T, P> a, int repeat, T alpha, const T* __restrict__ x, T beta, T* y,
                                const int* stop) {
  if (device::stopped(stop)) return;
  const int stride = static_cast<int>(blockDim.x) / coop, lane = static_cast<int>(threadIdx.x) % coop;
  const std::int64_t first =
      std::int64_t{blockIdx.x} * stride * repeat + static_cast<int>(threadIdx.x) / coop;
  for (int i = 0; i < repeat; ++i) {
    // All threads of a warp take part in its shuffles.
    const std::int64_t row = first + std::int64_t{i} * stride;
    T sum = 0;
    if (row < a.rows)
      for (P k = __ldg(a.row_ptr + row) + lane, end = __ldg(a.row_ptr + row + 1); k < end; k += coop)
        sum += __ldg(a.values + k) * __ldg(x + __ldg(a.col + k));
    sum = device::sum_lanes<coop>(sum);
    if (row < a.rows && lane == 0) store(alpha, sum, beta, y + row);
  }
}

template <class T, class P>
auto cooperative_kernel(int coop) {
  switch (coop) {
    case 1:
      return csr_cooperative<1, T, P>;
    case 2:
      return csr_cooperative<2, T, P>;
    case 4:
      return csr_cooperative<4, T, P>;
    case 8:
      return csr_cooperative<8, T, P>;
    case 16:
      return csr_cooperative<16, T, P>;
    default:
      return csr_cooperative<32, T, P>;
  }
}

class Event {
 public:
  Event() { PROTEAN_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) const { PROTEAN_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  // Seconds from `begin` to this event. Waits until the device has reached it.
  double seconds_since(const Event& begin) const {
    float milliseconds = 0;
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(event_));
    PROTEAN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.event_, event_));
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

template <class T>
class CsrCooperative : public CsrOnDevice<T> {
 public:
  explicit CsrCooperative(const BuildRequest<T>& request)
      : CsrOnDevice<T>(request), rule_(fixed_rule(request.csr.rows(), request.csr.nonzeros())) {}

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    multiply(rule_, alpha, x, beta, y);
  }
  void multiply(const CsrLaunch& how, T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& arrays) {
      const std::int64_t rows_a_block = std::int64_t{how.block / how.coop} * how.repeat;
      device::launch(state, cooperative_kernel<T, P>(how.coop),
                     (this->rows() + rows_a_block - 1) / rows_a_block, how.block, arrays, how.repeat, alpha,
                     x.data, beta, y.data, state.stop);
    });
  }
  const CsrLaunch& rule() const noexcept { return rule_; }

 private:
  CsrLaunch rule_;
};

template <class T>
class CsrTuned final : public CsrCooperative<T> {
 public:
  explicit CsrTuned(const BuildRequest<T>& request)
      : CsrCooperative<T>(request), tuner_(this->rule(), sizeof(T)) {}
  // While it tries, each product has other parameters and must not be recorded.
  Recording recording() const noexcept override {
    return {tuner_.done(), AssembledMatrix<T>::recording().version};
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const cudaStream_t stream = device::stream(*this->context());
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    PROTEAN_CUDA_CHECK(cudaStreamIsCapturing(stream, &capturing));
    if (this->rows() == 0 || tuner_.done() || capturing != cudaStreamCaptureStatusNone)
      return this->multiply(tuner_.best(), alpha, x, beta, y);
    if (under_way_) {
      under_way_ = false;
      tuner_.measured(end_.seconds_since(begin_));
      if (tuner_.done()) return this->multiply(tuner_.best(), alpha, x, beta, y);
    }
    begin_.record(stream);
    this->multiply(tuner_.next(), alpha, x, beta, y);
    end_.record(stream);
    under_way_ = true;
  }

 private:
  // Not guarded: a device context is used by one thread at a time.
  mutable CsrTuner tuner_;
  mutable bool under_way_ = false;
  Event begin_, end_;
};

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_cooperative(const BuildRequest<T>& request) {
  return std::make_unique<CsrCooperative<T>>(request);
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_tuned(const BuildRequest<T>& request) {
  return std::make_unique<CsrTuned<T>>(request);
}
#define PROTEAN_INSTANTIATE(T)                                                                  \
  template std::unique_ptr<AssembledMatrix<T>> make_csr_cooperative<T>(const BuildRequest<T>&); \
  template std::unique_ptr<AssembledMatrix<T>> make_csr_tuned<T>(const BuildRequest<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::formats

// BTJAD on the device: the arrays of btjad.cpp without order. A block of threads computes a band: its threads take
// columns and add to sums in shared memory by atomic operations; then y is written once. The order of the sums is not
// fixed.
#include "formats/engines/jags/jags_of_columns.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr int band_threads = 512;

template <class T>
__global__ void __launch_bounds__(band_threads)
    btjad_product(ColumnJags<T, std::uint16_t> a, T alpha, const T* __restrict__ x, T beta, T* y,
                  const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ T sums[highest_band];
  const std::int64_t b = blockIdx.x, first = b * a.height;
  const int rows = static_cast<int>(min(a.height, a.rows - first));
  for (int r = threadIdx.x; r < rows; r += band_threads) sums[r] = 0;
  __syncthreads();
  const std::int64_t begin = a.band_col[b], positions = a.band_col[b + 1] - begin;
  const std::int64_t jag_begin = a.band_jag[b], jag_end = a.band_jag[b + 1];
  for (std::int64_t q = threadIdx.x; q < positions; q += band_threads) {
    const T factor = __ldg(x + a.col_perm[begin + q]);
    for (std::int64_t j = jag_begin; j < jag_end; ++j) {
      const std::int64_t place = __ldg(a.jag_ptr + j) + q;
      if (place >= __ldg(a.jag_ptr + j + 1)) break;
      atomicAdd(&sums[__ldcs(a.row + place)], __ldcs(a.values + place) * factor);
    }
  }
  __syncthreads();
  for (int r = threadIdx.x; r < rows; r += band_threads) store(alpha, sums[r], beta, y + first + r);
}

template <class T>
class BtjadDevice final : public ColumnJagDevice<T, std::uint16_t> {
 public:
  explicit BtjadDevice(const BuildRequest<T>& request) : ColumnJagDevice<T, std::uint16_t>(request, true) {}

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const ColumnJags<T, std::uint16_t> a = this->jags();
    if (a.bands == 0) return;
    const DeviceState& state = this->context()->device_state();
    device::launch(state, btjad_product<T>, a.bands, band_threads, a, alpha, x.data, beta, y.data,
                   state.stop);
  }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const ColumnJagPlanOnDevice>(context, pattern, params.integer("R"));
  Admission admission = Admission::accept(
      column_jag_bytes<std::uint16_t>(plan->sizes, true, pattern.nonzeros, value_bytes), pattern.nonzeros);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<BtjadDevice>("native", false)};

}  // namespace

constinit const DeviceCode device_code::btjad{kernels, admit};

}  // namespace protean::formats

// TJAD on the device: the arrays of tjad.cpp without split, order and sums. A thread computes a column: it reads its
// element of x once and adds to y by atomic operations. The order of the sums is not fixed.
#include "formats/engines/jags/jags_of_columns.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
__global__ void __launch_bounds__(device::block_size)
    tjad_product(ColumnJags<T, std::int32_t> a, T alpha, const T* __restrict__ x, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t q = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x;
  if (q >= a.positions) return;
  const T factor = alpha * __ldg(x + a.col_perm[q]);
  for (std::int64_t k = 0; k < a.jags; ++k) {
    const std::int64_t place = __ldg(a.jag_ptr + k) + q;
    if (place >= __ldg(a.jag_ptr + k + 1)) break;
    atomicAdd(y + __ldcs(a.row + place), __ldcs(a.values + place) * factor);
  }
}

template <class T>
class TjadDevice final : public ColumnJagDevice<T, std::int32_t> {
 public:
  explicit TjadDevice(const BuildRequest<T>& request) : ColumnJagDevice<T, std::int32_t>(request, false) {}

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    scale(*this->context(), this->rows(), beta, y.data);
    const ColumnJags<T, std::int32_t> a = this->jags();
    if (a.positions == 0) return;
    const DeviceState& state = this->context()->device_state();
    device::launch(state, tjad_product<T>, blocks_of(a.positions), device::block_size, a, alpha, x.data,
                   y.data, state.stop);
  }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const ColumnJagPlanOnDevice>(context, pattern, 0);
  Admission admission = Admission::accept(
      column_jag_bytes<std::int32_t>(plan->sizes, false, pattern.nonzeros, value_bytes), pattern.nonzeros);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<TjadDevice>("native", false)};

}  // namespace

constinit const DeviceCode device_code::tjad{kernels, admit};

}  // namespace protean::formats

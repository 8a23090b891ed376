// AdELL+ on the device: the arrays of adell_plus.cpp, with the kernels of adell and coadell for its blocks and unrolled
// loops.
#include "formats/lanes/adell_plus.hpp"

#include "formats/engines/lanes/lanes.cuh"
#include "formats/engines/tuning/timed_products.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class AdellPlusOnDevice final : public LaneDevice<T>, public HasTuning {
 public:
  explicit AdellPlusOnDevice(const BuildRequest<T>& request)
      : LaneDevice<T>(request), products_(unroll_sweep(request)) {}
  // While it tries, each product has another kernel and must not be recorded.
  Recording recording() const noexcept override {
    Recording recording = AssembledMatrix<T>::recording();
    recording.allowed = products_.tuner().done();
    return recording;
  }
  Tuning tuning() const override { return adell_plus_tuning(*this, this->rule(), products_.tuner()); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    products_.run(*this->context(), [&](int option) {
      const auto multiply = [&](auto kernel) {
        this->multiply_in_warps(kernel, alpha, x.data, beta, y.data);
      };
      switch (unrolls[option]) {
        case 1:
          return multiply(kernel_of<1>());
        case 2:
          return multiply(kernel_of<2>());
        default:
          return multiply(kernel_of<4>());
      }
    });
  }

 private:
  template <int U>
  auto kernel_of() const {
    if (this->rule().R == 2) return &lane_warps<2, 1, U, T>;
    return this->rule().C == 2 ? &lane_warps<1, 2, U, T> : &lane_warps<1, 1, U, T>;
  }
  mutable TimedProductsOnDevice<OptionSweep> products_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto [plan, admission] = cheapest_lanes(
      pattern, params, value_bytes,
      [&](const LaneRule& rule) { return std::make_shared<LanePlanOnDevice>(context, pattern, rule); },
      [&](int R) {
        return read_back(context, block_pointers(context, pattern, R)->data() + divide_up(pattern.rows, R));
      },
      [](LanePlanOnDevice& raw) { raw.rule.coded = false; },
      [&](const LanePlanOnDevice& one) { return admit_lane_sizes(one, pattern, params, value_bytes); });
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {
    with_params(device_kernel<AdellPlusOnDevice>("native"), adell_plus_kernel_params)};

}  // namespace

constinit const DeviceCode device_code::adell_plus{kernels, admit};

}  // namespace protean::formats

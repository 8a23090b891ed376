// SELL-C-sigma on the device: the layout is that of sell_c_sigma.cpp, with C = 32 unless asked otherwise, so
// that a slice is a warp and every read of a slot is whole cache lines.
#include "formats/ell/row_order.cuh"
#include "formats/ell/sell_c_sigma.hpp"
#include "formats/ell/slots.cuh"

namespace protean::formats {
namespace {

constexpr std::int64_t usual_height = 32;

// What the parameters stand for in this matrix, and where its slices begin.
class Planner {
 public:
  Planner(const Context& context, const SparsityPattern& pattern, const FormatParams& params)
      : C(slice_height(params, usual_height)),
        sigma(params.integer("sigma")),
        slice_ptr(context, (pattern.rows + C - 1) / C + 1),
        perm(context, sigma == 1 ? 0 : pattern.rows),
        shift(std::countr_zero(static_cast<std::uint64_t>(C))) {
    if (sigma > 1 && sigma % C != 0) return;
    lengths = device_row_lengths(context, pattern);
    const auto count = [&](std::int64_t window) {
      if (window > 1) order_rows(context, pattern, window, lengths.longest, perm.data());
      count_slice_slots(context, pattern, window > 1 ? perm.data() : nullptr, shift, slice_ptr.data());
      return read_back(context, slice_ptr.data() + slice_ptr.size() - 1);
    };
    const bool choose = sigma == 0;
    if (choose) sigma = 1;
    slots = count(sigma);
    if (!choose || pays_unsorted(slots, pattern.nonzeros)) return;
    const std::int64_t natural = slots;
    slots = count(sorted_window), sigma = sorted_window;
    if (slots >= natural) slots = count(1), sigma = 1;
  }

  std::int64_t C, sigma, slots = 0;
  const device::Scratch<std::int64_t> slice_ptr;
  const device::Scratch<std::int32_t> perm;  // where sigma > 1
  int shift;
  DeviceRowLengths lengths{};
};

template <class N>
Buffer<N> copy_of(const ContextPtr& context, const device::Scratch<N>& from) {
  Buffer<N> to(context, from.size());
  device::copy_within(*context, to.data(), from.data(), from.bytes());
  return to;
}

template <class T>
class SellDevice final : public SlotDevice<T, SlicePlace> {
 public:
  explicit SellDevice(const BuildRequest<T>& request)
      : SellDevice(request, *static_cast<const Planner*>(request.admission.plan.get())) {}

  std::size_t bytes() const noexcept override { return this->slot_bytes() + slice_ptr_.bytes(); }

 private:
  SellDevice(const BuildRequest<T>& request, const Planner& plan)
      : SellDevice(request, plan, copy_of(request.context, plan.slice_ptr)) {}
  SellDevice(const BuildRequest<T>& request, const Planner& plan, Buffer<std::int64_t> slice_ptr)
      : SlotDevice<T, SlicePlace>(
            request, {slice_ptr.data(), slice_ptr.size() - 1, plan.shift}, plan.slots,
            plan.sigma > 1 ? copy_of(request.context, plan.perm) : Buffer<std::int32_t>(),
            plan.lengths.empty),
        slice_ptr_(std::move(slice_ptr)) {}

  Buffer<std::int64_t> slice_ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const Planner>(context, pattern, params);
  Admission admission =
      admit_slices({plan->C, plan->sigma, plan->slots}, pattern, plan->lengths.empty, params, value_bytes);
  admission.plan = std::move(plan);
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<SellDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode sell_c_sigma;
constinit const DeviceCode sell_c_sigma{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats

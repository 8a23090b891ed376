// HDI on the device, in the layout of hdi.cpp, one thread for each row. With hack = 32, a hack is a
// warp.
#include "formats/engines/diagonals/diagonals.cuh"
#include "formats/entries.hpp"
#include "operators/narrow_values.hpp"

namespace protean::formats {
namespace {

DeviceDiagonals hacked_diagonals(const ContextPtr& context, const SparsityPattern& pattern,
                                 const HackDiagonals& plan) {
  DeviceDiagonals result{plan.height, copy_of(context, plan.ptr),
                         Buffer<std::int32_t>(context, plan.diagonals)};
  plan.list(*context, pattern, result.off.data());
  return result;
}

template <class T>
class HdiDevice final : public HackDevice<T> {
 public:
  explicit HdiDevice(const BuildRequest<T>& request)
      : HackDevice<T>(request, hacked_diagonals(request.context, request.csr.pattern,
                                                plan_of<HackDiagonals>(request.admission))) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + this->where_.ptr.bytes(); }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const HackDiagonals>(context, pattern, params.integer("hack"));
  Admission admission =
      admit_diagonals(plan->diagonals, plan->height, 8 * static_cast<std::size_t>(plan->hacks + 1), pattern,
                      params, value_bytes);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {with_params(device_kernel<HdiDevice>("native"), values_params)};

}  // namespace

constinit const DeviceCode device_code::hdi{kernels, admit};

}  // namespace protean::formats

// AdELL+ on the device: the arrays of adell_plus.cpp, the kernels of adell and coadell.
#include "formats/engines/lanes.cuh"

namespace protean::formats {
namespace {

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<LanePlanOnDevice>(context, pattern, adell_plus_rule(pattern, params));
  if (params.word("index") == "auto" && !coding_pays(plan->rule, plan->sizes)) plan->rule.coded = false;
  return admit_lane_plan(std::move(plan), pattern, params, value_bytes);
}

constexpr Kernel kernels[] = {device_kernel<LaneDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode adell_plus;
constinit const DeviceCode adell_plus{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats

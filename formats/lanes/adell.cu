// AdELL on the device: the arrays of adell.cpp. A thread has a lane; the sums of the lanes of a row are added by
// shuffles, in a fixed order.
#include "formats/engines/lanes.cuh"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<LaneDevice>("native")};
}

namespace device_code {
extern const DeviceCode adell;
constinit const DeviceCode adell{kernels, admit_lanes_on_device<adell_rule>};
}  // namespace device_code

}  // namespace protean::formats

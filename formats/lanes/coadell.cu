// CoAdELL on the device: the arrays of coadell.cpp. As adell; a thread adds the differences to the first column of its
// lane.
#include "formats/engines/lanes.cuh"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<LaneDevice>("native")};
}

namespace device_code {
extern const DeviceCode coadell;
constinit const DeviceCode coadell{kernels, admit_lanes_on_device<coadell_rule>};
}  // namespace device_code

}  // namespace protean::formats

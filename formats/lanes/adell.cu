// AdELL on the device: the arrays of adell.cpp. Each thread computes a lane; the sums of the lanes of a row are added
// by shuffles in a fixed order.
#include "formats/engines/lanes/lanes.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<LaneDevice>("native")};
}

constinit const DeviceCode device_code::adell{kernels, admit_lanes_on_device<adell_rule>};

}  // namespace protean::formats

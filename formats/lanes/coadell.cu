// CoAdELL on the device: the arrays of coadell.cpp. The product is like the product of adell; a thread adds the
// differences to the first column of its lane.
#include "formats/engines/lanes/lanes.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<LaneDevice>("native")};
}

constinit const DeviceCode device_code::coadell{kernels, admit_lanes_on_device<coadell_rule>};

}  // namespace protean::formats

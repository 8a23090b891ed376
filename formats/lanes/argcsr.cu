// ArgCSR on the device: the arrays of argcsr.cpp. A block of threads computes a group of rows, and each thread a lane;
// the sums of the lanes of a row are added in shared memory. Groups of 32 lanes and less are computed by warps. The
// order of the sums is fixed.
#include "formats/engines/lanes/lanes.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<LaneDevice>("native")};
}

constinit const DeviceCode device_code::argcsr{kernels, admit_lanes_on_device<argcsr_rule>};

}  // namespace protean::formats

// BiELL on the device: the arrays of biell.cpp. W neighbouring lanes of a warp compute a strip; as rows end, more of
// them share a row.
#include "formats/engines/jags/jags.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<BisectedDevice>("native")};
}

constinit const DeviceCode device_code::biell{kernels, admit_strips_on_device};

}  // namespace protean::formats

// BiELL on the device: the arrays of biell.cpp. W neighbouring lanes of a warp compute a strip; as rows end, more of
// them share a row.
#include "formats/engines/jags.cuh"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<BisectedDevice>("native")};
}

namespace device_code {
extern const DeviceCode biell;
constinit const DeviceCode biell{kernels, admit_strips_on_device};
}  // namespace device_code

}  // namespace protean::formats

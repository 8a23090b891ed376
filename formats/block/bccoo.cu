// BCCOO on the device: the arrays of bccoo.cpp, the product of engines/flagged_blocks.cuh.
#include "formats/engines/flagged_blocks.cuh"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<FlaggedOnDevice>("native")};
}

namespace device_code {
extern const DeviceCode bccoo;
constinit const DeviceCode bccoo{kernels, admit_flagged_on_device};
}  // namespace device_code

}  // namespace protean::formats

// SELL with slices of variable heights on the device: the arrays of sell_variable.cpp; a warp for each slice.
#include "formats/engines/slices.cuh"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<SliceDevice>("native")};
}

namespace device_code {
extern const DeviceCode sell_variable;
constinit const DeviceCode sell_variable{kernels, admit_slices_on_device<sell_variable_rule>};
}  // namespace device_code

}  // namespace protean::formats

// SELL with slices of variable heights on the device: the arrays of sell_variable.cpp; a warp computes a slice.
#include "formats/engines/slices/slices.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<SliceDevice>("native")};
}

constinit const DeviceCode device_code::sell_variable{kernels, admit_slices_on_device<sell_variable_rule>};

}  // namespace protean::formats

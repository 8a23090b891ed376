// BCCOO+ on the device: the arrays of bccoo_plus.cpp with the product of engines/flagged_blocks/flagged_blocks.cuh.
#include "formats/engines/flagged_blocks/flagged_blocks.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<FlaggedOnDevice>("native")};
}

constinit const DeviceCode device_code::bccoo_plus{kernels, admit_flagged_on_device};

}  // namespace protean::formats

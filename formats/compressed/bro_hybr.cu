// BRO-HYBR on the device: the arrays of bro_hybr.cpp with the products of engines/bits/bro.cu.
#include "formats/compressed/bro_rules.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {bro_device_kernel};
}

constinit const DeviceCode device_code::bro_hybr{kernels, admit_device_bro<bro_hybr_shape>};

}  // namespace protean::formats

// BRO-ELL on the device: the arrays of bro_ell.cpp with the products of engines/bits/bro.cu.
#include "formats/compressed/bro_rules.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {bro_device_kernel};
}

constinit const DeviceCode device_code::bro_ell{kernels, admit_device_bro<bro_ell_shape>};

}  // namespace protean::formats

// BRO-CSR on the device: the arrays of bro_csr.cpp with the products of engines/bits/bro.cu.
#include "formats/compressed/bro_rules.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {bro_device_kernel};
}

constinit const DeviceCode device_code::bro_csr{kernels, admit_device_bro<bro_csr_shape>};

}  // namespace protean::formats

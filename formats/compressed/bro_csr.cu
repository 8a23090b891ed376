// BRO-CSR on the device: the arrays of bro_csr.cpp, products of engines/bro.cu.
#include "formats/compressed/bro_rules.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {bro_device_kernel};
}

namespace device_code {
extern const DeviceCode bro_csr;
constinit const DeviceCode bro_csr{kernels, admit_device_bro<bro_csr_shape>};
}  // namespace device_code

}  // namespace protean::formats

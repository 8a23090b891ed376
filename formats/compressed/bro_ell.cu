// BRO-ELL on the device: the arrays of bro_ell.cpp, products of engines/bro.cu.
#include "formats/compressed/bro_rules.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {bro_device_kernel};
}

namespace device_code {
extern const DeviceCode bro_ell;
constinit const DeviceCode bro_ell{kernels, admit_device_bro<bro_ell_shape>};
}  // namespace device_code

}  // namespace protean::formats

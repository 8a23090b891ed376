// BRO-HYB on the device: the arrays of bro_hyb.cpp, products of engines/bro.cu.
#include "formats/compressed/bro_rules.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {bro_device_kernel};
}

namespace device_code {
extern const DeviceCode bro_hyb;
constinit const DeviceCode bro_hyb{kernels, admit_device_bro<bro_hyb_shape>};
}  // namespace device_code

}  // namespace protean::formats

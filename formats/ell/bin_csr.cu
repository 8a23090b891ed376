// BIN-CSR on the device: the arrays of bin_csr.cpp, one thread a row.
#include "formats/engines/slices.cuh"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<SliceDevice>("native")};
}

namespace device_code {
extern const DeviceCode bin_csr;
constinit const DeviceCode bin_csr{kernels, admit_slices_on_device<bin_csr_rule>};
}  // namespace device_code

}  // namespace protean::formats

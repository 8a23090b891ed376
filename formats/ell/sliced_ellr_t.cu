// Sliced ELLR-T on the device: the arrays of sliced_ellr_t.cpp; T neighbouring threads share a row and read side by
// side.
#include "formats/engines/slices.cuh"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<SliceDevice>("native")};
}

namespace device_code {
extern const DeviceCode sliced_ellr_t;
constinit const DeviceCode sliced_ellr_t{kernels, admit_slices_on_device<sliced_ellr_t_rule>};
}  // namespace device_code

}  // namespace protean::formats

// Sliced ELLR-T on the device: the arrays of sliced_ellr_t.cpp; T neighbouring threads share a row and read side by
// side.
#include "formats/engines/slices/slices.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<SliceDevice>("native")};
}

constinit const DeviceCode device_code::sliced_ellr_t{kernels, admit_slices_on_device<sliced_ellr_t_rule>};

}  // namespace protean::formats

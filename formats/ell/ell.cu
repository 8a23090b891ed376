// ELLPACK on the device: the layout is that of ell.cpp, one thread for each row, or 2, 4 or 8 where rows are few.
#include "formats/engines/slices.cuh"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<SliceDevice>("native"), PROTEAN_KOKKOS_DEVICE_KERNEL(ell)};
}

namespace device_code {
extern const DeviceCode ell;
constinit const DeviceCode ell{kernels, admit_slices_on_device<ell_rule>};
}  // namespace device_code

}  // namespace protean::formats

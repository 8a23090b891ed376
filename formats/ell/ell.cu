// ELLPACK on the device: the layout of ell.cpp, one thread for each row, or 2, 4 or 8 if rows are few.
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/slices/slices.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<SliceDevice>("native"), PROTEAN_KOKKOS_DEVICE_KERNEL(ell)};
}

constinit const DeviceCode device_code::ell{kernels, admit_slices_on_device<ell_rule>};

}  // namespace protean::formats

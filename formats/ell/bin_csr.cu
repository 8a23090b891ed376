// BIN-CSR on the device: the arrays of bin_csr.cpp, one thread a row.
#include "formats/engines/slices/slices.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
constexpr Kernel kernels[] = {device_kernel<SliceDevice>("native")};
}

constinit const DeviceCode device_code::bin_csr{kernels, admit_slices_on_device<bin_csr_rule>};

}  // namespace protean::formats

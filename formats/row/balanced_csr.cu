// balanced-csr on the device: a block of threads for each range of rows, one thread a row.
#include "formats/engines/rows/rows.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
using BalancedCsrDevice = CsrRangesOnDevice<T, 1>;

constexpr Kernel kernels[] = {device_kernel<BalancedCsrDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::balanced_csr{kernels, admit_device_ranges};

}  // namespace protean::formats

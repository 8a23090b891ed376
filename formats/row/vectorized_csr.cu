// vectorized-csr on the device: a block of threads for each range of rows, a warp a row.
#include "formats/engines/rows/rows.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
using VectorizedCsrDevice = CsrRangesOnDevice<T, 32>;

constexpr Kernel kernels[] = {device_kernel<VectorizedCsrDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::vectorized_csr{kernels, admit_device_ranges};

}  // namespace protean::formats

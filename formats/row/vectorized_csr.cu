// vectorized-csr on the device: a block of threads for each range of rows, a warp a row.
#include "formats/engines/rows.cuh"

namespace protean::formats {
namespace {

template <class T>
using VectorizedCsrDevice = CsrRangesOnDevice<T, 32>;

constexpr Kernel kernels[] = {device_kernel<VectorizedCsrDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode vectorized_csr;
constinit const DeviceCode vectorized_csr{kernels, admit_device_ranges};
}  // namespace device_code

}  // namespace protean::formats

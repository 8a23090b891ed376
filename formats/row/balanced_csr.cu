// balanced-csr on the device: a block of threads for each range of rows, one thread a row.
#include "formats/engines/rows.cuh"

namespace protean::formats {
namespace {

template <class T>
using BalancedCsrDevice = CsrRangesOnDevice<T, 1>;

constexpr Kernel kernels[] = {device_kernel<BalancedCsrDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode balanced_csr;
constinit const DeviceCode balanced_csr{kernels, admit_device_ranges};
}  // namespace device_code

}  // namespace protean::formats

// BIN-BCSR on the device: the arrays of bin_bcsr.cpp, one thread for each block row.
#include "formats/engines/blocks.cuh"

namespace protean::formats {
namespace {
template <class T>
using BinBcsr = BlocksInLanes<T>;
constexpr Kernel kernels[] = {device_kernel<BinBcsr>("native")};
}  // namespace

namespace device_code {
extern const DeviceCode bin_bcsr;
constinit const DeviceCode bin_bcsr{kernels, admit_blocks_on_device<bin_bcsr_spec>};
}  // namespace device_code

}  // namespace protean::formats

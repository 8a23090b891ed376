// BSELLPACK on the device: the arrays of bsellpack.cpp, one thread for each block row.
#include "formats/engines/blocks.cuh"

namespace protean::formats {
namespace {
template <class T>
using Bsellpack = BlocksInLanes<T>;
constexpr Kernel kernels[] = {device_kernel<Bsellpack>("native")};
}  // namespace

namespace device_code {
extern const DeviceCode bsellpack;
constinit const DeviceCode bsellpack{kernels, admit_blocks_on_device<bsellpack_spec>};
}  // namespace device_code

}  // namespace protean::formats

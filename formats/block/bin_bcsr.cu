// BIN-BCSR on the device: the arrays of bin_bcsr.cpp, one thread for each block row.
#include "formats/engines/blocks/blocks.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
template <class T>
using BinBcsr = BlocksInLanes<T>;
constexpr Kernel kernels[] = {device_kernel<BinBcsr>("native")};
}  // namespace

constinit const DeviceCode device_code::bin_bcsr{kernels, admit_blocks_on_device<bin_bcsr_spec>};

}  // namespace protean::formats

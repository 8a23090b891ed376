// BSELLPACK on the device: the arrays of bsellpack.cpp, one thread for each block row.
#include "formats/engines/blocks/blocks.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {
template <class T>
using Bsellpack = BlocksInLanes<T>;
constexpr Kernel kernels[] = {device_kernel<Bsellpack>("native")};
}  // namespace

constinit const DeviceCode device_code::bsellpack{kernels, admit_blocks_on_device<bsellpack_spec>};

}  // namespace protean::formats

// TileSpMV on the device: the tiles of tilespmv_adpt.cpp, a warp for at most eight tiles of a tile row. One launch; a
// second one if a tile row has more than eight tiles; two more with deferred entries. Kernels:
//   native  A warp copies the 16 elements of x of a tile to shared memory, as in the paper.
//   cached  Lanes read x through the read-only cache. Kernel cached is ours.
#include "formats/engines/tiles/tiles.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {device_kernel<TilesOnDevice>("native"), device_kernel<TilesOnDevice>("cached")};

}  // namespace

constinit const DeviceCode device_code::tilespmv_adpt{kernels, admit_tiles_on_device};

}  // namespace protean::formats

// TileSpMV on the device: the tiles of tilespmv_adpt.cpp, a warp for at most eight tiles of a tile row. One launch; a
// second one where a tile row has more than eight tiles; two more with deferred entries.
#include "formats/engines/tiles.cuh"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {device_kernel<TilesOnDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode tilespmv_adpt;
constinit const DeviceCode tilespmv_adpt{kernels, admit_tiles_on_device};
}  // namespace device_code

}  // namespace protean::formats

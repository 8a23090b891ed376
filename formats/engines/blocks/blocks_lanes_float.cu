#include "formats/engines/blocks/blocks_lanes.cuh"

namespace protean::formats {
template void launch_lanes<false>(const Context&, const BlockGrid<float>&, int, float, const float*, float,
                                  float*, float*);
template void launch_lanes<true>(const Context&, const BlockGrid<float>&, int, float, const float*, float,
                                 float*, float*);
}  // namespace protean::formats

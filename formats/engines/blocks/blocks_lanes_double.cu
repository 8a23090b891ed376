#include "formats/engines/blocks/blocks_lanes.cuh"

namespace protean::formats {
template void launch_lanes<false>(const Context&, const BlockGrid<double>&, int, double, const double*,
                                  double, double*, double*);
template void launch_lanes<true>(const Context&, const BlockGrid<double>&, int, double, const double*, double,
                                 double*, double*);
}  // namespace protean::formats

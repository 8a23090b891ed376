// SHEC on the device: the segments of shec.cpp; padding has column -1. There is one launch for each segment that has
// rows: a thread per row for ELLPACK; for csr as many threads per row as the shortest row of the segment has entries,
// at most a warp.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

constinit const DeviceCode device_code::shec{kernels, admit_device_sum<shec_cut>};

}  // namespace protean::formats

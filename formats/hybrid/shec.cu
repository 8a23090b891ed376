// SHEC on the device: the segments of shec.cpp; padding has column -1. A launch for each segment that has rows: a
// thread a row for ELLPACK, and as many threads a row of csr as its shortest row has entries, at most a warp.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

constinit const DeviceCode device_code::shec{kernels, admit_device_sum<shec_cut>};

}  // namespace protean::formats

// HDC on the device: the parts of hdc.cpp. A product is one launch: a thread adds the diagonals of its row and, if the
// row is short, its other entries; all threads of the warp add the other entries of a longer row.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

constinit const DeviceCode device_code::hdc{kernels, admit_device_sum<hdc_cut>};

}  // namespace protean::formats

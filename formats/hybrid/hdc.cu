// HDC on the device: the parts of hdc.cpp. One launch: a thread adds the diagonals of its row and, if it is short, the
// rest; all threads of the warp add the rest of a longer one.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

constinit const DeviceCode device_code::hdc{kernels, admit_device_sum<hdc_cut>};

}  // namespace protean::formats

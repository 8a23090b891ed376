// HYB on the device: the parts of hyb.cpp, without empty_row; padding has column -1. Two launches: a thread a row for
// the slots, and equal shares of the coordinates for all warps (private/row_runs.cuh), which add to y.
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

namespace device_code {
extern const DeviceCode hyb;
constinit const DeviceCode hyb{kernels, admit_device_sum<hyb_cut>};
}  // namespace device_code

}  // namespace protean::formats

// ELL+DIA on the device: the parts of ell_dia.cpp, without empty_row; padding has column -1. A product is one launch
// with a thread per row.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

constinit const DeviceCode device_code::ell_dia{kernels, admit_device_sum<ell_dia_cut>};

}  // namespace protean::formats

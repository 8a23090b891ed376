// CSR+ELL of Maringanti on the device: the parts of csr_ell_maringanti.cpp, without empty; padding has column -1. A
// product is two launches: a thread per row for ELLPACK, and a warp per row for csr.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

constinit const DeviceCode device_code::csr_ell_maringanti{kernels, admit_device_sum<csr_ell_maringanti_cut>};

}  // namespace protean::formats

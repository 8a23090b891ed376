// CSR+ELL of Matam on the device: the parts of csr_ell_matam.cpp, without empty; padding has column -1. There is a
// launch for each part that has rows: a thread per row for ELLPACK, and equal shares of the entries of csr for all
// warps (engines/runs/row_runs.cuh).
// Bytes: as in csr_ell_matam.cpp without empty, plus, for the shares of the m entries of csr
//   16 ceil(m / 240) + 4 (m / 32 + 11) bytes; if some of its rows have no entries, 4 (rows with entries + ceil(rows /
//   32)) more; and 24 + v + 4 for each piece of a long row.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

constinit const DeviceCode device_code::csr_ell_matam{kernels, admit_device_sum<csr_ell_matam_cut>};

}  // namespace protean::formats

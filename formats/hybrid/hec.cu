// HEC on the device: the parts of hec.cpp, without empty_row; padding has column -1. A product is two launches: a
// thread per row for the slots, and equal shares of the entries of csr for all warps (engines/runs/row_runs.cuh), which
// add to y.
// Bytes: as in hec.cpp without empty_row, plus, for the shares 16 ceil(m / 240) + 4 (m / 32 + 11) bytes; if some rows
//   of csr have no entries, 4 (rows with entries + ceil(rows / 32)) more; and 24 + v + 4 for each piece of a long row.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

constinit const DeviceCode device_code::hec{kernels, admit_device_sum<hec_cut>};

}  // namespace protean::formats

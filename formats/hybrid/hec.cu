// HEC on the device: the parts of hec.cpp, without empty_row; padding has column -1. Two launches: a thread a row for
// the slots, and equal shares of the entries of csr for all warps (engines/runs/row_runs.cuh), which add to y.
// Bytes: those of hec.cpp without empty_row, and for the shares 16 ceil(m / 240) + 4 (m / 32 + 11) bytes; where some
//   rows of csr have no entries 4 (rows with some + ceil(rows / 32)) more; and 24 + v + 4 for each piece of a long row.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel kernels[] = {sum_device_kernel};

}  // namespace

constinit const DeviceCode device_code::hec{kernels, admit_device_sum<hec_cut>};

}  // namespace protean::formats

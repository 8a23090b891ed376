// HYB on the device: the parts of hyb.cpp, without empty_row; padding has column -1. Kernels:
//   native  Three launches: a thread per row for the slots, and the segmented sums of Bell and Garland for the
//           coordinates (engines/runs/coo_segments.cuh), which add to y.
//   runs    Two launches: equal shares of the coordinates for all warps (engines/runs/row_runs.cuh), which read tables
//           instead of coo_row. Kernel runs is ours; coo_row stays for conversions back.
// Bytes: (v + 4) K rows + (v + 8) m + (v + 4) ceil(m / 512); runs: instead of the last term, 16 ceil(m / 240) + 4 (m /
//   32 + 11), and, if some rows have no coordinates, 4 (rows with coordinates + ceil(rows / 32)), and 24 + v + 4 for
//   each piece of a long row.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {
namespace {

constexpr Kernel in_runs() {
  Kernel kernel = sum_device_kernel;
  kernel.name = "runs", kernel.admit = admit_device_sum_in_runs<hyb_cut>;
  return kernel;
}
constexpr Kernel kernels[] = {sum_device_kernel, in_runs()};

}  // namespace

constinit const DeviceCode device_code::hyb{kernels, admit_device_sum<hyb_cut>};

}  // namespace protean::formats

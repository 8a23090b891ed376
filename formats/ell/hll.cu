// HLL on the device: the arrays of hll.cpp; one thread computes a row; or 2, 4 or 8 threads, each of which takes every
// second, fourth or eighth slot.
#include "formats/engines/slices/slices.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr ParamDoc threads_param[] = {{.name = "threads",
                                       .doc = "threads per row; 0: 2 if the mean length is above 32, else 1",
                                       .default_value = "0",
                                       .choices = "0|1|2|4|8"}};
constexpr Kernel kernels[] = {with_params(device_kernel<SliceDevice>("native"), threads_param)};

}  // namespace

constinit const DeviceCode device_code::hll{kernels, admit_slices_on_device<hll_rule>};

}  // namespace protean::formats

// sum on a GPU: the parts lie in device memory, where engines/composed/cut.cu cuts the matrix. All other code is the
// code of the formats of the parts.
#include "formats/composed/planners.hpp"
#include "formats/engines/composed/composed.cuh"
#include "formats/entries.hpp"

namespace protean::formats {

namespace {
constexpr Kernel kernels[] = {composed_device_kernel};
}

constinit const DeviceCode device_code::sum{kernels, admit_composed_on_device<plan_sum>};

}  // namespace protean::formats

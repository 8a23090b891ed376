// sum on a GPU: the parts lie in device memory, where engines/cut.cu cuts the matrix. There is no other code: the
// format of each part has its own.
#include "formats/composed/planners.hpp"
#include "formats/engines/composed.cuh"

namespace protean::formats {

namespace {
constexpr Kernel kernels[] = {composed_device_kernel};
}

namespace device_code {
extern const DeviceCode sum;
constinit const DeviceCode sum{kernels, admit_composed_on_device<plan_sum>};
}  // namespace device_code

}  // namespace protean::formats

#include "core/device/driver.hpp"

#include <cuda_runtime.h>

#include "core/words.hpp"

namespace protean::device {

DriverState driver_state() {
  DriverState state;
  if (cudaRuntimeGetVersion(&state.runtime) != cudaSuccess) state.runtime = 0;
  if (cudaDriverGetVersion(&state.driver) != cudaSuccess) state.driver = 0;
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  for (int i = 0; i < count && status == cudaSuccess; ++i) {
    cudaDeviceProp properties;
    status = cudaGetDeviceProperties(&properties, i);
    if (status == cudaSuccess)
      state.gpus.push_back(std::string(properties.name) + ", compute capability " +
                           std::to_string(properties.major) + "." + std::to_string(properties.minor) + ", " +
                           human_bytes(properties.totalGlobalMem));
  }
  if (status != cudaSuccess) state.error = cudaGetErrorString(status);
  if (status == cudaSuccess && count == 0) state.error = "none found";
  (void)cudaGetLastError();  // clears the error for the next call
  return state;
}

}  // namespace protean::device

// Private: what the runtime of CUDA says of the driver and of the GPUs.
#pragma once
#include <string>
#include <vector>

namespace protean::device {

struct DriverState {
  int runtime = 0, driver = 0;  // 12040 is CUDA 12.4; driver: the newest that it supports, 0 without a driver
  std::string error;            // why no GPU can be used; empty if one can
  std::vector<std::string> gpus;  // "NVIDIA H200, compute capability 9.0, 139 GiB"
};
DriverState driver_state();

}  // namespace protean::device

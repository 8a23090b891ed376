// The GPUs that a solve of the command can have.
#pragma once
#include <functional>

#include "core/context.hpp"

namespace protean::apps {

// More devices than that are refused (distributed/gpu_parts.hpp).
inline constexpr int most_devices = 16;

// Where contexts of GPUs come from: Context::device_count() and Context::device(). A test puts simulated devices there;
// no key and no option does.
struct DeviceSource {
  std::function<int()> count;
  std::function<ContextPtr(int, const DeviceOptions&)> context;
};
const DeviceSource& device_source();
// Returns the source before.
DeviceSource set_device_source(DeviceSource source);

}  // namespace protean::apps

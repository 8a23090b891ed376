#include "core/simulated_device.hpp"

#include "core/error.hpp"

namespace protean::detail {

ContextPtr simulated_context(std::shared_ptr<SimulatedDevice> device, Space space) {
  ContextPtr context(new Context(space, 2));
  context->simulated_ = std::move(device);
  return context;
}

void DeviceWork::begin(Space space, std::initializer_list<const void*> addresses) {
  for (const void* address : addresses)
    if (space == Space::device && address && !device_->owns(address))
      throw WrongSpace("an address given to an operation on device memory lies in host memory");
  if (std::vector<const void*>* const noted = device_->noted_addresses())
    noted->insert(noted->end(), addresses.begin(), addresses.end());
  device_->open();
  ended_ = space == Space::device && device_->ended();
}

void require_simulated_memory(const Context& context, const void* data, std::string_view what) {
  if (context.space() == Space::device && context.simulated() && data && !context.simulated()->owns(data))
    throw WrongSpace(std::string(what) +
                     " is said to lie in device memory, but is memory of the host (copy it by name)");
}

}  // namespace protean::detail

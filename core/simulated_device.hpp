// A device without a GPU, for tests: memory that the host may not touch, under a context in device space. The
// library has none of its own and neither problem files nor Context::device() lead to one; tests derive
// theirs (tests/support/fake_device.hpp). Vector operations, copies and the scalars of GMRES then run as on
// the host while the memory is open, and everything else that touches it is found. Private.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "core/context.hpp"

namespace protean::detail {

class SimulatedDevice {
 public:
  virtual ~SimulatedDevice() = default;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
  // Bytes of buffers that are held.
  virtual std::size_t held() const noexcept = 0;
  // True for an address in memory that is held.
  virtual bool owns(const void* data) const noexcept = 0;
  // Between the two, which nest, the device works and its memory may be touched.
  virtual void open() noexcept = 0;
  virtual void close() noexcept = 0;
};

// A context over this device. In space host it is one whose buffers lie in the device's memory: what computes
// inside the device.
ContextPtr simulated_context(std::shared_ptr<SimulatedDevice> device, Space space = Space::device);

// The device of a simulated context is open while this lives; nothing for other contexts. Throws WrongSpace
// when one of the addresses given to a context in device space, null ones excepted, is not the device's.
class DeviceWork {
 public:
  explicit DeviceWork(const Context& context, std::initializer_list<const void*> addresses = {})
      : device_(context.simulated()) {
    if (device_) begin(context.space(), addresses);
  }
  ~DeviceWork() {
    if (device_) device_->close();
  }
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

 private:
  void begin(Space space, std::initializer_list<const void*> addresses);
  SimulatedDevice* device_;
};

// Throws WrongSpace, naming `what`, where the context's device is simulated and `data` is not null nor its
// memory.
void require_simulated_memory(const Context& context, const void* data, std::string_view what);

}  // namespace protean::detail

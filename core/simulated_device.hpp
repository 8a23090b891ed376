// A device without a GPU, for tests: memory that the host must not touch, and a context in device space that
// uses it. The library contains no such device, and neither problem files nor Context::device() can create one;
// tests derive their own (tests/support/fake_device.hpp). Vector operations, copies and the scalars of GMRES run
// as on the host while the memory is open. Any other access to the memory is an error that is found. Private.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "core/context.hpp"
#include "core/export.hpp"

namespace PROTEAN_EXPORT protean {
struct FormatEntry;  // operators/assembled_matrix.hpp
}  // namespace protean

namespace protean::detail {

class Communicator;  // core/communicator.hpp

class SimulatedDevice {
 public:
  virtual ~SimulatedDevice() = default;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
  // Bytes of all buffers that are allocated.
  virtual std::size_t held() const noexcept = 0;
  // True for an address in an allocated buffer.
  virtual bool owns(const void* data) const noexcept = 0;
  // Between open() and close() the device works, and its memory may be accessed. Calls may be nested.
  virtual void open() noexcept = 0;
  virtual void close() noexcept = 0;
  // The format with this id, with kernels for this device. Throws BadArgument for an unknown one.
  virtual const FormatEntry& format(std::string_view id) const = 0;
  // How many steps of a method it does beyond the one that the host asks for.
  virtual std::int64_t steps_ahead() const noexcept { return 0; }
  // How many steps it runs after the one that ends a run, as a recorded graph does, which always runs to its end.
  virtual std::int64_t steps_after_end() const noexcept { return 0; }

  // While the run has ended, work that heeds the stop leaves everything as it is.
  void set_ended(bool ended) noexcept { ended_ = ended; }
  bool ended() const noexcept { return ended_; }

  // The parts with which this device shares the vectors of a system; null: none.
  void set_communicator(Communicator* all) noexcept { communicator_ = all; }
  Communicator* communicator() const noexcept { return communicator_; }

  // The addresses of all work from now on are added to this list; null: no longer.
  void note_addresses(std::vector<const void*>* to) noexcept { noted_ = to; }
  std::vector<const void*>* noted_addresses() const noexcept { return noted_; }

 private:
  bool ended_ = false;
  Communicator* communicator_ = nullptr;
  std::vector<const void*>* noted_ = nullptr;
};

// A context that uses this device. With space host, its buffers lie in the device's memory: it is for code that
// computes inside the device.
ContextPtr simulated_context(std::shared_ptr<SimulatedDevice> device, Space space = Space::device);

// Keeps the device of a simulated context open while this exists. Does nothing for other contexts. Throws
// WrongSpace if the context is in device space and one of the addresses, except null, is not in its memory.
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

  // True if the work must be left out, because it heeds the stop and the run on this device has ended.
  bool ended() const noexcept { return ended_; }

 private:
  void begin(Space space, std::initializer_list<const void*> addresses);
  SimulatedDevice* device_;
  bool ended_ = false;
};

// Throws WrongSpace, naming `what`, if the context's device is simulated and `data` is neither null nor in its
// memory.
void require_simulated_memory(const Context& context, const void* data, std::string_view what);

}  // namespace protean::detail

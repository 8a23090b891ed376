// A device for machines without a GPU. Its memory is pages that may be touched only while the device works:
// in vector operations, copies by name, and products of the formats made by fake_format(). So in a test that
// passes on it, no host code reads or writes device memory, and no kernel gets host memory.
//
// What it finds, and how:
//   the host touches device memory          a message on stderr and SIGABRT (a fault of the processor)
//   a kernel touches memory that is freed, or goes past the end of a buffer into the next page: the same
//   an operation is given host memory       WrongSpace
// What it does not find: host code that runs in another thread while the device works, and accesses within
// the 63 bytes that align a buffer. It does not check CUDA's own rules (streams, graphs).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "core/simulated_device.hpp"
#include "operators/assembled_matrix.hpp"
#include "support/fault_message.hpp"

namespace protean::test {

struct FakeDeviceOptions {
  // Steps that solvers do before the host asks for them, and steps that run after the one that ends a run, as the steps
  // of a recorded graph do.
  std::int64_t steps_ahead = 0, steps_after_end = 0;
  // Whether the products of its matrices heed the stop (Recording::heeds_stop), as our kernels do and cuSPARSE's do
  // not.
  bool products_heed_stop = true;
  std::function<void()> at_work = {};  // called before each work
};

class FakeDevice final : public detail::SimulatedDevice, public std::enable_shared_from_this<FakeDevice> {
 public:
  explicit FakeDevice(const FakeDeviceOptions& options = {});
  ~FakeDevice() override;
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  std::size_t held() const noexcept override;
  bool owns(const void* data) const noexcept override;
  void open() noexcept override;
  void close() noexcept override;
  // How often open() was called from outside: how often the device got work.
  std::int64_t works() const noexcept { return works_; }
  const FormatEntry& format(std::string_view id) const override;  // fake_format()
  std::int64_t steps_ahead() const noexcept override { return options_.steps_ahead; }
  std::int64_t steps_after_end() const noexcept override { return options_.steps_after_end; }
  bool products_heed_stop() const noexcept { return options_.products_heed_stop; }

 private:
  struct Block {
    std::size_t mapped, bytes;
    bool accessible = false;
  };
  // Opens the block at this address while the device works. Called at the first access, so that a piece of work changes
  // the rights of the few blocks that it uses and not of all.
  bool allow(const char* address) noexcept;
  const FakeDeviceOptions options_;
  char* begin_ = nullptr;
  std::size_t used_ = 0, held_ = 0;
  int depth_ = 0;
  std::int64_t works_ = 0;
  std::optional<FaultMessage> message_;
  std::map<char*, Block> blocks_;  // by first page
  mutable std::recursive_mutex mutex_;
};

// A context over a new fake device.
ContextPtr fake_device_context(const FakeDeviceOptions& options = {});

// The format with kernels for a fake device: the kernels of the host, run on its memory. It lives as long as the
// program.
const FormatEntry& fake_format(std::string_view id);

// Parameters with which a format accepts a matrix that it would refuse because of its fill.
FormatParams most_tolerant(const FormatEntry& format);

}  // namespace protean::test

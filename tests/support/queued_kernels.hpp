// The kernels that a product queues on a device, by recording it as a CUDA graph.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/buffer.hpp"
#include "core/context.hpp"

namespace protean::test {

// Blocks of each kernel that work() queues on the context's stream. In a build without CUDA nothing is called.
std::vector<std::int64_t> queued_kernels(const ContextPtr& context, const std::function<void()>& work);

// While this exists, the flag of an ended solve is set for all that is queued in the context (DeviceState::stop).
class RunEnded {
 public:
  explicit RunEnded(const ContextPtr& context);
  ~RunEnded();
  RunEnded(const RunEnded&) = delete;
  RunEnded& operator=(const RunEnded&) = delete;

 private:
  ContextPtr context_;
  Buffer<int> flag_;
};

}  // namespace protean::test

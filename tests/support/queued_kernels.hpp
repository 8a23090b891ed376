// The kernels that a product queues on a device, by recording it as a CUDA graph.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/context.hpp"

namespace protean::test {

// Blocks of each kernel that work() queues on the context's stream. In a build without CUDA nothing is called.
std::vector<std::int64_t> queued_kernels(const ContextPtr& context, const std::function<void()>& work);

}  // namespace protean::test

// Copies of bytes between host and device memory, queued behind the context's work. Private; CUDA builds
// only.
#pragma once
#include <cstddef>

#include "core/context.hpp"

namespace protean::device {

// Host to device, and device to host. They return when the host memory may be used again. Throw DeviceError.
void copy_in(const Context& context, void* to, const void* from, std::size_t bytes);
void copy_out(const Context& context, void* to, const void* from, std::size_t bytes);
// Within device memory; asynchronous.
void copy_within(const Context& context, void* to, const void* from, std::size_t bytes);

// Bytes that can still be allocated: free memory of the GPU and unused memory of the context's pool.
std::size_t free_bytes(const Context& context);

}  // namespace protean::device

// Copies of bytes between host and device memory, queued behind the context's work. Private; CUDA builds
// only.
#pragma once
#include <cstddef>

#include "core/context.hpp"

namespace protean::device {

// Host to device and back: return when the host memory may be used again. Throw DeviceError.
void copy_in(const Context& context, void* to, const void* from, std::size_t bytes);
void copy_out(const Context& context, void* to, const void* from, std::size_t bytes);
// Within device memory; asynchronous.
void copy_within(const Context& context, void* to, const void* from, std::size_t bytes);

// What cudaMalloc and the context's own pool could still give.
std::size_t free_bytes(const Context& context);

}  // namespace protean::device

// The caches and the shared memory of a GPU. Private; CUDA builds only.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/context.hpp"

namespace protean::device {

// Bytes of the second level, the last one of a GPU. Throws DeviceError.
std::size_t cache_bytes(const Context& context);

// Bytes of shared memory that a thread block may request in addition to the memory that its kernel declares. Throws
// DeviceError.
std::int64_t shared_memory_of_block(const Context& context);

}  // namespace protean::device

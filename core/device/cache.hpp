// The caches of a GPU. Private; CUDA builds only.
#pragma once
#include <cstddef>

#include "core/context.hpp"

namespace protean::device {

// Bytes of the second level, the last one of a GPU. Throws DeviceError.
std::size_t cache_bytes(const Context& context);

}  // namespace protean::device

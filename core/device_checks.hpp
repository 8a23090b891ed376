// What is checked where a user's own memory or a user's own device code comes in. Nothing is done for host
// contexts, where asking the driver would start it. Private.
#pragma once
#include <string_view>

#include "core/context.hpp"

namespace protean::detail {

// Throws WrongSpace, naming `what` and what it is, unless `data` is null or memory of the context's own
// device: not pageable, pinned or managed memory, nor that of another GPU.
void require_device_memory(const Context& context, const void* data, std::string_view what);

// Throws DeviceError, naming `what`, when work that has just been queued by foreign code was refused.
void check_queued(const Context& context, std::string_view what);

}  // namespace protean::detail

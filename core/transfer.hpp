// Copies of bytes between the spaces of a device context, by name. Private.
#pragma once
#include <cstddef>

#include "core/context.hpp"

namespace protean::detail {

// From memory of one space to memory of another; either may be the context's device. Host memory may be used
// again on return. Throws NotAvailable where the context has no device, WrongSpace for a simulated device
// where an address is not where it is said to be.
void copy_bytes(const Context& context, void* to, Space to_space, const void* from, Space from_space,
                std::size_t bytes);

}  // namespace protean::detail

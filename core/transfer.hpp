// Copies of bytes and patterns between the spaces of a device context, by name. Private.
#pragma once
#include <cstddef>

#include "core/context.hpp"
#include "core/csr.hpp"

namespace protean::detail {

// Copies from memory of one space to memory of another; either may be that of the context's device. The host
// memory may be used again when it returns. Throws NotAvailable when the context has no device, and
// WrongSpace for a simulated device when an address does not lie in the given space.
void copy_bytes(const Context& context, void* to, Space to_space, const void* from, Space from_space,
                std::size_t bytes);

// download() of a pattern alone: 4 bytes an entry and 4 (or 8) a row of host memory.
SparsityPattern download_pattern(const ContextPtr& host, const Context& device,
                                 const SparsityPattern& pattern);

}  // namespace protean::detail

// The device side of core/ordering.hpp. Private; CUDA builds only.
#pragma once
#include <cstdint>
#include <string>

#include "core/buffer.hpp"
#include "core/csr.hpp"

namespace protean::device {

// order[k] is the row at place k, place[order[k]] = k; both in device memory.
struct DeviceOrder {
  Buffer<std::int32_t> order, place;
  std::string handed_over;  // empty, or why the host must find the order; then the arrays are empty
};

// Reverse Cuthill-McKee of a square pattern in the memory of the context: the order of the host's
// reverse_cuthill_mckee(), to the last row. find_order() says which patterns are handed over, and what it takes. Throws
// Cancelled, DeviceError, OutOfMemory.
DeviceOrder reverse_cuthill_mckee(const ContextPtr& context, const SparsityPattern& pattern);

}  // namespace protean::device

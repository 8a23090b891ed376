// For tests: what is asked before each buffer or other block of memory the library takes, in any space. It
// may throw, which makes that allocation fail. None is set in use; then this costs one load. Private.
#pragma once
#include <atomic>
#include <cstddef>

#include "core/context.hpp"

namespace protean::detail {

using AllocationHook = void (*)(Space space, std::size_t bytes);
inline std::atomic<AllocationHook> allocation_hook{nullptr};

inline void about_to_allocate(Space space, std::size_t bytes) {
  if (const AllocationHook hook = allocation_hook.load(std::memory_order_relaxed)) hook(space, bytes);
}

}  // namespace protean::detail

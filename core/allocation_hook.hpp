// For tests: a function that is called before the library takes a buffer or another block of memory, in any space. It
// may throw, which makes that allocation fail. Only tests set one; without one this costs one load. Private.
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

// How much memory there is, asked before much of it is taken.
#pragma once
#include <cstddef>
#include <string_view>

namespace protean {

// Bytes of host memory this process can still take without swapping: the least of what the system calls
// available, what the control group leaves, and what the address space limit leaves. Linux; the largest
// std::size_t where nothing is known.
std::size_t available_memory() noexcept;

// Throws OutOfMemory naming `what` when `bytes` are more than available_memory(), or than `limit` where that
// is not 0.
void require_memory(std::size_t bytes, std::string_view what, std::size_t limit = 0);

}  // namespace protean

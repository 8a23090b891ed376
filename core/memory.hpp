// How much memory the process may still take. It is checked before a large allocation.
#pragma once
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

inline constexpr std::size_t unlimited_memory = std::numeric_limits<std::size_t>::max();

// Bytes of host memory that this process can still take without swapping and without being killed. It is the smallest
// of
//   - MemAvailable of /proc/meminfo,
//   - for the control group of the process and each group above it: the limit minus the memory in use; inactive page
//     cache counts as free. Version 2: the smaller of memory.max and memory.high (above memory.high the kernel slows
//     the process down), minus memory.current. Version 1: memory.limit_in_bytes minus memory.usage_in_bytes.
//   - RLIMIT_AS and RLIMIT_DATA minus the mappings that count towards them.
// unlimited_memory if nothing is known. Linux.
std::size_t available_memory();

namespace PROTEAN_HIDDEN detail {

// The limits that setrlimit() puts on a process, in bytes.
struct ProcessLimits {
  std::size_t address_space = unlimited_memory;  // RLIMIT_AS: all mappings together
  std::size_t data = unlimited_memory;           // RLIMIT_DATA: private writable mappings and the heap
};
ProcessLimits process_limits() noexcept;

// available_memory() for system files below the folder `root`, and for these limits. For tests.
std::size_t available_memory(const std::string& root, const ProcessLimits& limits);

// Throws OutOfMemory, which names `what`, if `bytes` is more than available_memory(), or more than `limit` if that is
// not 0. Below 64 MiB only `limit` is checked.
void require_memory(std::size_t bytes, std::string_view what, std::size_t limit = 0);

}  // namespace detail
}  // namespace protean

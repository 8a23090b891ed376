#include "core/memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>

#include "core/error.hpp"

namespace protean {
namespace {

constexpr std::size_t unknown = std::numeric_limits<std::size_t>::max();

// The number after `key` in a small system file; the first number for an empty key.
std::size_t number_in(const char* path, const char* key) noexcept {
  std::FILE* file = std::fopen(path, "r");
  if (!file) return unknown;
  std::size_t found = unknown;
  char line[256];
  while (found == unknown && std::fgets(line, sizeof line, file)) {
    if (std::strncmp(line, key, std::strlen(key)) != 0) continue;
    unsigned long long value = 0;
    if (std::sscanf(line + std::strlen(key), "%llu", &value) == 1) found = value;
  }
  std::fclose(file);
  return found;
}

}  // namespace

std::size_t available_memory() noexcept {
  std::size_t least = unknown;
  const std::size_t kilobytes = number_in("/proc/meminfo", "MemAvailable:");
  if (kilobytes != unknown) least = kilobytes * 1024;
  const std::size_t group_limit = number_in("/sys/fs/cgroup/memory.max", "");
  if (group_limit != unknown) {
    // Page cache counts as used there but is given back when needed.
    const std::size_t used = number_in("/sys/fs/cgroup/memory.current", "");
    const std::size_t cache = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ");
    const std::size_t held = used == unknown ? 0 : used - std::min(used, cache == unknown ? 0 : cache);
    least = std::min(least, group_limit - std::min(group_limit, held));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const std::size_t pages = number_in("/proc/self/statm", "");
    const std::size_t used = pages == unknown ? 0 : pages * 4096;
    const auto allowed = static_cast<std::size_t>(limit.rlim_cur);
    least = std::min(least, allowed - std::min(allowed, used));
  }
  return least;
}

void require_memory(std::size_t bytes, std::string_view what, std::size_t limit) {
  if (limit > 0 && bytes > limit)
    throw OutOfMemory(
        fmt::format("{} needs {}; the limit set is {}", what, human_bytes(bytes), human_bytes(limit)), bytes);
  // Small needs are not worth asking the system for.
  if (bytes < (std::size_t{64} << 20)) return;
  const std::size_t available = available_memory();
  if (bytes > available)
    throw OutOfMemory(fmt::format("{} needs {} of memory; {} are available", what, human_bytes(bytes),
                                  human_bytes(available)),
                      bytes);
}

}  // namespace protean

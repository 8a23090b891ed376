#include "core/memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "core/control_groups.hpp"
#include "core/error.hpp"
#include "core/words.hpp"

namespace protean {
namespace {

std::size_t difference(std::size_t a, std::size_t b) { return a - std::min(a, b); }

// The number after `key` in a small system file; the first number for an empty key. Nothing for "max".
std::optional<std::size_t> number_in(const std::string& path, std::string_view key = {}) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    std::istringstream rest(line.substr(key.size()));
    std::size_t value = 0;
    if (rest >> value) return value;
  }
  return {};
}

// The files that one version of control groups has in the folder of each group.
struct GroupFiles {
  std::vector<std::string> limits;
  std::string used, cache_key;
  std::string inherits;  // the limits of a parent hold for its children only if this file has 1
};
const GroupFiles version_1{
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file ", "memory.use_hierarchy"};
const GroupFiles version_2{{"memory.max", "memory.high"}, "memory.current", "inactive_file ", ""};

// Version 1 has the largest number of whole pages if there is no limit.
constexpr std::size_t least_unlimited = std::size_t{1} << 62;

// The memory that one group leaves, or `least` if it leaves more. Few groups have a limit near the memory in use, so
// memory.stat, which the kernel takes long to write, is seldom read.
std::size_t left_in_group(const std::string& folder, const GroupFiles& files, std::size_t least) {
  std::size_t limit = unlimited_memory;
  for (const std::string& name : files.limits)
    limit = std::min(limit, number_in(folder + "/" + name).value_or(unlimited_memory));
  if (limit >= least_unlimited) return least;
  const std::size_t used = number_in(folder + "/" + files.used).value_or(0);
  if (difference(limit, used) >= least) return least;
  const std::size_t cache = number_in(folder + "/memory.stat", files.cache_key).value_or(0);
  return std::min(least, difference(limit, difference(used, cache)));
}

std::size_t left_in_groups(const std::string& root, std::size_t least) {
  bool limits_hold = true;
  for (const detail::ControlGroup& group : detail::control_groups("memory", root)) {
    const GroupFiles& files = group.unified ? version_2 : version_1;
    if (!group.above) limits_hold = true;
    if (group.above && !files.inherits.empty() && number_in(group.folder + "/" + files.inherits) == 0)
      limits_hold = false;
    if (limits_hold) least = left_in_group(group.folder, files, least);
  }
  return least;
}

std::size_t soft_limit(int resource) noexcept {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return unlimited_memory;
  return static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace

detail::ProcessLimits detail::process_limits() noexcept {
  return {soft_limit(RLIMIT_AS), soft_limit(RLIMIT_DATA)};
}

std::size_t available_memory() { return detail::available_memory("", detail::process_limits()); }

std::size_t detail::available_memory(const std::string& root, const ProcessLimits& limits) {
  std::size_t least = unlimited_memory;
  if (const auto kib = number_in(root + "/proc/meminfo", "MemAvailable:")) least = *kib * 1024;
  const std::string status = root + "/proc/self/status";
  if (limits.address_space != unlimited_memory)
    least =
        std::min(least, difference(limits.address_space, 1024 * number_in(status, "VmSize:").value_or(0)));
  if (limits.data != unlimited_memory)
    least = std::min(least, difference(limits.data, 1024 * number_in(status, "VmData:").value_or(0)));
  return left_in_groups(root, least);
}

void detail::require_memory(std::size_t bytes, std::string_view what, std::size_t limit) {
  if (limit > 0 && bytes > limit)
    throw OutOfMemory(
        fmt::format("{} needs {}; the limit set is {}", what, human_bytes(bytes), human_bytes(limit)), bytes);
  // For a small size the question would cost more than it is worth.
  if (bytes < (std::size_t{64} << 20)) return;
  const std::size_t available = protean::available_memory();
  if (bytes > available)
    throw OutOfMemory(fmt::format("{} needs {} of memory; {} are available", what, human_bytes(bytes),
                                  human_bytes(available)),
                      bytes);
}

}  // namespace protean

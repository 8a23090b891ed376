#include "core/memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "core/error.hpp"

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

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// The files that one version of control groups has in the folder of each group.
struct GroupFiles {
  std::vector<std::string> limits;
  std::string used, cache_key;
  std::string inherits;  // a parent's limits hold for its children only where this file has 1
};
const GroupFiles version_1{
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file ", "memory.use_hierarchy"};
const GroupFiles version_2{{"memory.max", "memory.high"}, "memory.current", "inactive_file ", ""};

// Version 1 has the largest number of whole pages where there is no limit.
constexpr std::size_t least_unlimited = std::size_t{1} << 62;

// What one group leaves, or `least` where it leaves more. Few groups have a limit near the memory in use, so
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

// A mounted hierarchy of control groups that has a memory controller, or may have one.
struct Hierarchy {
  std::string top;    // the group that is mounted
  std::string point;  // where
  bool unified = false;
};

// Mount points are written with octal escapes for blanks.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\\' && i + 3 < text.size())
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8)), i += 3;
    else
      plain += text[i];
  return plain;
}

// A line of mountinfo: id, parent, device, root, mount point, options, optional fields, "-", type, source,
// options of the file system (proc(5)).
std::vector<Hierarchy> hierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto mount = split(line.substr(0, dash), ' '), type = split(line.substr(dash + 3), ' ');
    if (mount.size() < 5 || type.size() < 3) continue;
    const bool unified = type[0] == "cgroup2";
    if (unified || (type[0] == "cgroup" && contains(split(type[2], ','), "memory")))
      found.push_back({unescaped(mount[3]), unescaped(mount[4]), unified});
  }
  return found;
}

// What the group `path` of a hierarchy and the groups above it leave, as far up as the mount shows them, or
// `least`. A path outside of the mounted part (the mount of a container) is taken as the mounted group itself.
std::size_t left_in_hierarchy(const std::string& root, const Hierarchy& hierarchy, const std::string& path,
                              std::size_t least) {
  const std::string top = hierarchy.top == "/" ? "" : hierarchy.top;
  std::string below = path == "/" ? "" : path;
  below = below.compare(0, top.size(), top) == 0 && (below.size() == top.size() || below[top.size()] == '/')
              ? below.substr(top.size())
              : "";
  const GroupFiles& files = hierarchy.unified ? version_2 : version_1;
  const std::string point = root + hierarchy.point;
  least = left_in_group(point + below, files, least);
  while (!below.empty()) {
    const std::size_t slash = below.rfind('/');
    below.resize(slash == std::string::npos ? 0 : slash);
    if (!files.inherits.empty() && number_in(point + below + "/" + files.inherits) == 0) break;
    least = left_in_group(point + below, files, least);
  }
  return least;
}

// A line of /proc/self/cgroup: number, controllers, path of the group. The unified hierarchy names no
// controllers.
std::size_t left_in_groups(const std::string& root, std::size_t least) {
  static const std::vector<Hierarchy> of_the_system = hierarchies("");  // they stay as long as a process runs
  const std::vector<Hierarchy> mounted = root.empty() ? of_the_system : hierarchies(root);
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !contains(split(controllers, ','), "memory")) continue;
    for (const Hierarchy& hierarchy : mounted)
      if (hierarchy.unified == unified)
        least = left_in_hierarchy(root, hierarchy, line.substr(second + 1), least);
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

ProcessLimits process_limits() noexcept { return {soft_limit(RLIMIT_AS), soft_limit(RLIMIT_DATA)}; }

std::size_t available_memory() { return available_memory("", process_limits()); }

std::size_t available_memory(const std::string& root, const ProcessLimits& limits) {
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

void require_memory(std::size_t bytes, std::string_view what, std::size_t limit) {
  if (limit > 0 && bytes > limit)
    throw OutOfMemory(
        fmt::format("{} needs {}; the limit set is {}", what, human_bytes(bytes), human_bytes(limit)), bytes);
  // For a small size the question would cost more than it is worth.
  if (bytes < (std::size_t{64} << 20)) return;
  const std::size_t available = available_memory();
  if (bytes > available)
    throw OutOfMemory(fmt::format("{} needs {} of memory; {} are available", what, human_bytes(bytes),
                                  human_bytes(available)),
                      bytes);
}

}  // namespace protean

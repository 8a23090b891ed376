#include "core/control_groups.hpp"

#include <algorithm>
#include <fstream>

#include "core/words.hpp"

namespace protean::detail {
namespace {

bool contains(std::string_view list, std::string_view item) {
  const auto items = split(list, ',');
  return std::find(items.begin(), items.end(), item) != items.end();
}

// Mount points are written with octal escapes for blanks.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\\' && i + 3 < text.size())
      plain += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 3)), nullptr, 8)), i += 3;
    else
      plain += text[i];
  return plain;
}

struct Mount {
  std::string top, point;  // the group that is mounted, and where
  bool unified;
};

// A line of mountinfo: id, parent, device, root, mount point, options, optional fields, "-", type, source,
// options of the file system (proc(5)).
std::vector<Mount> mounts(std::string_view controller, const std::string& root) {
  std::vector<Mount> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto mount = split(std::string_view(line).substr(0, dash), ' ');
    const auto type = split(std::string_view(line).substr(dash + 3), ' ');
    if (mount.size() < 5 || type.size() < 3) continue;
    const bool unified = type[0] == "cgroup2";
    if (unified || (type[0] == "cgroup" && contains(type[2], controller)))
      found.push_back({unescaped(mount[3]), unescaped(mount[4]), unified});
  }
  return found;
}

// `path` relative to the mounted group; that group itself if the path lies outside of it (a container).
std::string below(std::string_view path, std::string_view top) {
  if (top == "/") top = "";
  if (path == "/" || !path.starts_with(top)) return {};
  const std::string_view rest = path.substr(top.size());
  return std::string(rest.empty() || rest.front() == '/' ? rest : std::string_view());
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  const std::vector<Mount> mounted = mounts(controller, root);
  // A line: number, controllers, path of the group. Version 2 names no controllers.
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view text = line, controllers = text.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !contains(controllers, controller)) continue;
    for (const Mount& mount : mounted) {
      if (mount.unified != controllers.empty()) continue;
      std::string path = below(text.substr(second + 1), mount.top);
      groups.push_back({root + mount.point + path, mount.unified, false});
      while (!path.empty()) {
        path.resize(path.rfind('/'));
        groups.push_back({root + mount.point + path, mount.unified, true});
      }
    }
  }
  return groups;
}

}  // namespace protean::detail

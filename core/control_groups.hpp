// The control groups of Linux that limit this process (containers, batch systems).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace protean::detail {

struct ControlGroup {
  std::string folder;  // that holds the group's files
  bool unified;        // version 2
  bool above;          // not the process' own group, but one above it
};

// The group of this process for one controller ("cpu", "memory"), then the groups above it as far up as the
// mounted file system shows them: the groups of version 2 and of version 1, if both are mounted. Empty if none
// is. System files are read below the folder `root`, and folders are given below it (tests).
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root = {});

}  // namespace protean::detail

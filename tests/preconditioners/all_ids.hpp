// The names of all preconditioners of this build, except none.
#pragma once
#include <string>
#include <vector>

#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::test {

inline std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id != "none" && entry.unavailable.empty()) ids.emplace_back(entry.id);
  return ids;
}

}  // namespace protean::test

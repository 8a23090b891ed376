// Formats that stand for others of the same engine, where a test of all formats would see nothing more.
#pragma once
#include <algorithm>
#include <vector>

#include "formats/catalogue.hpp"

namespace protean::test {

// The first layout of each engine in the catalogue that has a kernel in this space.
inline std::vector<const FormatEntry*> one_of_each_engine(Space space) {
  std::vector<const FormatEntry*> list;
  for (const FormatEntry* entry : layouts()) {
    const auto same = [&](const FormatEntry* other) { return other->engine == entry->engine; };
    if (!kernels_in(*entry, space).empty() && std::none_of(list.begin(), list.end(), same))
      list.push_back(entry);
  }
  return list;
}

}  // namespace protean::test

// Formats that stand for others of the same engine, for tests that would see nothing more with all formats.
#pragma once
#include <algorithm>
#include <vector>

#include "formats/catalogue.hpp"

namespace protean::test {

// Whether a format holds any square matrix. Formats of symmetric matrices have separate tests
// (test_family_symmetric.cpp): the systems here need not be symmetric to the bit.
inline bool holds_any_matrix(const FormatEntry& entry) { return !entry.traits.symmetric_only; }

// The layouts that hold any square matrix.
inline std::vector<const FormatEntry*> layouts_of_any_matrix() {
  std::vector<const FormatEntry*> list(layouts().begin(), layouts().end());
  std::erase_if(list, [](const FormatEntry* entry) { return !holds_any_matrix(*entry); });
  return list;
}

// The first layout of each engine in the catalogue that has a kernel in this space and holds any matrix.
inline std::vector<const FormatEntry*> one_of_each_engine(Space space) {
  std::vector<const FormatEntry*> list;
  for (const FormatEntry* entry : layouts_of_any_matrix()) {
    const auto same = [&](const FormatEntry* other) { return other->engine == entry->engine; };
    if (!kernels_in(*entry, space).empty() && std::none_of(list.begin(), list.end(), same))
      list.push_back(entry);
  }
  return list;
}

}  // namespace protean::test

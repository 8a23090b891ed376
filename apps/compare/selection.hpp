#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "apps/compare/compare.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"

namespace protean::apps {

// The formats, kernels and spaces to compare; formats in the order of the catalogue.
struct Selection {
  std::vector<const FormatEntry*> entries;
  bool shortlisted = false;                    // of the entries, only those on the shortlist of a matrix
  std::set<std::string, std::less<>> kernels;  // empty: all
  std::vector<Space> spaces;
  std::vector<const FormatSelector*> selectors;
};
// Throws BadArgument for a name that does not exist, with the names that do.
Selection selection_of(const CompareArguments& arguments);

}  // namespace protean::apps

// Options of the command that are lists: "csr,ell".
#pragma once
#include <string>
#include <vector>

#include "core/context.hpp"

namespace protean::apps {

// The words between the commas, without empty ones.
std::vector<std::string> words(const std::string& list);

// The value of --spaces: host and device, each at most once, in the order given. Throws BadArgument for other
// words.
std::vector<Space> spaces(const std::string& list);

}  // namespace protean::apps

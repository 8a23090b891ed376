// Lists in options of the command: "csr,ell".
#pragma once
#include <string>
#include <vector>

#include "core/context.hpp"

namespace protean::apps {

// What stands between the commas; nothing for what is empty.
std::vector<std::string> words(const std::string& list);

// Of --spaces: host and device, each once, in the order given. Throws BadArgument for other words.
std::vector<Space> spaces(const std::string& list);

}  // namespace protean::apps

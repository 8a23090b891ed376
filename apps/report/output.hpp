// The standard output of the commands.
#pragma once
#include <string_view>

namespace protean::apps {

// Prints the whole text. Throws Error when it cannot be written (a full disk, a closed pipe).
void print(std::string_view text);

}  // namespace protean::apps

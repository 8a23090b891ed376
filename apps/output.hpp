// What a command prints for people and pipes.
#pragma once
#include <string_view>

namespace protean::apps {

// The whole text on the standard output, at once. Throws Error when it cannot be written (a full disk, a
// closed pipe).
void print(std::string_view text);

}  // namespace protean::apps

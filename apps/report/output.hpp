// The standard output of the commands.
#pragma once
#include <string_view>

namespace protean::apps {

// Prints the whole text. Throws WriteFailed when it cannot be written (a full disk, a closed pipe).
void print(std::string_view text);
// The same, or to the standard error if an output of the command is the standard output.
void print_beside(bool output_is_taken, std::string_view text);

}  // namespace protean::apps

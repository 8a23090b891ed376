// Splits a string into its parts.
#pragma once
#include <string_view>
#include <vector>

namespace protean {

// The parts of `text` between the separators `at`: "a|b|c" gives a, b, c. Parts may be empty. They are views
// of `text`.
std::vector<std::string_view> split(std::string_view text, char at);

}  // namespace protean

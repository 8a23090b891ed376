// Lists in one string.
#pragma once
#include <string_view>
#include <vector>

namespace protean {

// The parts of `text` between the characters `at`, empty ones too: "a|b|c" at '|' is a, b, c. Views of
// `text`.
std::vector<std::string_view> split(std::string_view text, char at);

}  // namespace protean

// Words of the user, and of messages.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace protean {

// The parts of `text` between the separators `at`: "a|b|c" gives a, b, c. Parts may be empty. They are views
// of `text`.
std::vector<std::string_view> split(std::string_view text, char at);

// The candidate that other programs call `word` (core/other_names.def); otherwise the one with the smallest edit
// distance, and nothing if that distance is too large for a typing error.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates);

// "1.5 GiB"
std::string human_bytes(std::size_t bytes);

}  // namespace protean

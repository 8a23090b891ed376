// `protean formats`.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "operators/assembled_matrix.hpp"

namespace protean::apps {

// Everything about the format `id`, the table of the formats of `family`, or the table of all formats if both are
// empty. As text or JSON. Throws BadArgument for an unknown id or family, and for both at once.
// Lines have at most `width` characters.
std::string formats_text(const std::string& id, const std::string& family = {}, std::size_t width = 80);
std::string formats_json(const std::string& id, const std::string& family = {});

// The table of these formats, by family, in the order in which the families come first. Presets are indented
// under the format whose layout they have, if that is of the same family. If the columns do not fit, what differs
// from most formats follows the title.
std::string formats_table(std::span<const FormatEntry* const> entries, std::size_t width = 80);

}  // namespace protean::apps

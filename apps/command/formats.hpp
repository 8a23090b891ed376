// `protean formats`.
#pragma once
#include <span>
#include <string>

#include "operators/assembled_matrix.hpp"

namespace protean::apps {

// Everything about the format `id`, the table of the formats of `family`, or that of all formats if both are
// empty. As text or JSON. Throws BadArgument for an unknown id or family, and for both at once.
std::string formats_text(const std::string& id, const std::string& family = {});
std::string formats_json(const std::string& id, const std::string& family = {});

// The table of these formats, by family, in the order in which the families come first. Presets are indented
// under the format whose layout they have, if that is of the same family.
std::string formats_table(std::span<const FormatEntry* const> entries);

}  // namespace protean::apps

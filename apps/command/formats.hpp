// `protean formats`.
#pragma once
#include <string>

namespace protean::apps {

// The table of all formats, or, for an `id` that is not empty, everything about that format. As text or JSON.
// Throws BadArgument for an unknown id.
std::string formats_text(const std::string& id);
std::string formats_json(const std::string& id);

}  // namespace protean::apps

// `protean formats`.
#pragma once
#include <string>

namespace protean::apps {

// The table of all formats, or everything about the one called `id`, as text or JSON. BadArgument for an
// unknown id.
std::string formats_text(const std::string& id);
std::string formats_json(const std::string& id);

}  // namespace protean::apps

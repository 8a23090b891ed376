// Topics of `protean help` that are not commands: parts of a problem, what can be chosen for them, and exit codes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace protean::apps {

// "solver", "exit-codes" ...: one name of each topic.
std::vector<std::string> topic_names();

// What can be chosen there, then the keys of the problem file. Topics have other names, too: "methods" for solver.
// A name of one choice (gmres, ic0), of a format, or of a key (restart, solver.restart) describes that one. `key`
// chooses a key of the topic. Empty for an unknown topic; BadArgument for an unknown key.
std::string topic_text(std::string_view topic, std::string_view key);

}  // namespace protean::apps

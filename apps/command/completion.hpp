// Scripts with which a shell completes commands, options, formats, methods and keys.
#pragma once
#include <string>

namespace CLI {
class App;
}

namespace protean::apps {

// For bash, zsh or fish, made from the options of the commands and from option_words(). Throws BadArgument for another
// shell.
std::string completion_script(const CLI::App& root, const std::string& shell);

}  // namespace protean::apps

// Texts made from the options of the commands: help, man pages and shell completion. They say what the parser does.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace protean::apps {

// "protean help TOPIC [KEY]". Topics: none, a command, `problem` (the keys of the problem file; KEY is one of them or a
// section). Throws BadArgument for another topic, with the topics.
std::string help_text(const CLI::App& root, const std::string& topic, const std::string& key);

// The same as a page for man(1), of section 1, or 5 for `problem`.
std::string man_page(const CLI::App& root, const std::string& topic);

// A script that completes commands, options, formats, methods and keys in bash. Throws BadArgument for another shell.
std::string completion_script(const CLI::App& root, const std::string& shell);

// An option of `protean solve` that stands for a key of the problem file.
struct KeyOption {
  std::string_view option, path;
  std::string_view key = {};  // see OptionSetting
  bool input = false;         // a file that is read; its path begins at the working folder
  std::string_view type, about;
};
std::span<const KeyOption> key_options();

}  // namespace protean::apps

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

// The commands of the program.
std::vector<const CLI::App*> commands_of(const CLI::App& root);

// "protean help TOPIC [KEY]". Topics: none, a command, `problem` (the keys of the problem file; KEY is one of them or a
// section), and the topics of topics.hpp. Throws BadArgument for another topic, with the topics.
std::string help_text(const CLI::App& root, const std::string& topic, const std::string& key);

// The same as a page for man(1), of section 1, or 5 for `problem`.
std::string man_page(const CLI::App& root, const std::string& topic);

// What may follow an option of a command, or the command itself, if that is one of some words.
struct OptionWords {
  std::string command, option;  // no option: an argument of the command
  std::vector<std::string> words;
  bool list = false;  // several of them, separated by commas
};
// From the same tables as the options themselves.
std::vector<OptionWords> option_words(const CLI::App& root);

// What to say about arguments that a command does not take: the first of them that is an unknown option, with the
// nearest one, or else the first that is one too many.
std::string unexpected_text(const CLI::App& command, const std::vector<std::string>& arguments);

// An option of `protean solve` that stands for a key of the problem file.
struct KeyOption {
  std::string_view option, path;
  std::string_view key = {};  // see OptionSetting
  bool input = false;         // a file that is read; its path begins at the working folder
  std::string_view type, about;
  bool compared = false;  // also an option of `protean compare`
};
std::span<const KeyOption> key_options();

}  // namespace protean::apps

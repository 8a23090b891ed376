#include "apps/command/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "apps/command/help.hpp"
#include "core/error.hpp"

namespace protean::apps {
namespace {

// The words of this option or argument; null if it has none.
const OptionWords* find(const std::vector<OptionWords>& all, const std::string& command,
                        const std::string& option) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const OptionWords& one) {
    return one.command == command && one.option == option;
  });
  return found == all.end() ? nullptr : &*found;
}

bool takes_file(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.find('.') != std::string::npos && type.find('=') == std::string::npos;
}

// The first line of what an option is, without the characters that end it in a script.
std::string about(const std::string& description, std::string_view without) {
  std::string text;
  for (const char c : description.substr(0, description.find('\n')))
    if (without.find(c) == std::string_view::npos) text += c;
  return text;
}

std::string bash(const CLI::App& root, const std::vector<OptionWords>& words) {
  std::vector<std::string> commands;
  for (const CLI::App* command : commands_of(root)) commands.push_back(command->get_name());
  std::string text = fmt::format(
      "# Completion of protean in bash, written by `protean help --completion bash`.\n"
      "_protean() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} "
      "command=${{COMP_WORDS[1]}} words=\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$command $before\" in\n",
      fmt::join(commands, " "));
  for (const OptionWords& one : words)
    text += fmt::format("    '{} {}') words='{}' ;;\n", one.command,
                        one.option.empty() ? one.command : one.option, fmt::join(one.words, " "));
  text +=
      "  esac\n"
      "  if [ -n \"$words\" ]; then\n"
      "    [ \"$before\" = --set ] && compopt -o nospace 2>/dev/null\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "    [ ${#COMPREPLY[@]} -gt 0 ] || case \"$word\" in -*) ;; *) return ;; esac\n"
      "  fi\n"
      "  case \"$word\" in\n"
      "    -*)\n"
      "      case \"$command\" in\n";
  for (const CLI::App* command : commands_of(root)) {
    std::vector<std::string> names;
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    text += fmt::format("        {}) words='{}' ;;\n", command->get_name(), fmt::join(names, " "));
  }
  return text +
         "      esac\n"
         "      COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o default -F _protean protean\n";
}

// What zsh offers for a value: words, files, or nothing.
std::string zsh_action(const OptionWords* words, bool file) {
  if (!words) return file ? "_files" : " ";
  if (words->option == "--set") return "_protean_keys";
  if (words->list) return fmt::format("_values -s , word {}", fmt::join(words->words, " "));
  return fmt::format("({})", fmt::join(words->words, " "));
}

std::string zsh(const CLI::App& root, const std::vector<OptionWords>& words) {
  constexpr std::string_view special = "[]:'\\`$\"";
  std::string text =
      "#compdef protean\n"
      "# Completion of protean in zsh, written by `protean help --completion zsh`.\n";
  if (const OptionWords* keys = find(words, "solve", "--set"))
    text += fmt::format("_protean_keys() {{ compadd -S '' -- {} }}\n", fmt::join(keys->words, " "));
  text +=
      "_protean() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const CLI::App* command : commands_of(root))
    text += fmt::format("    '{}:{}'\n", command->get_name(), about(command->get_description(), special));
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe -t commands command commands\n"
      "    return\n"
      "  fi\n"
      "  shift words\n"
      "  (( CURRENT -= 1 ))\n"
      "  case $words[1] in\n";
  for (const CLI::App* command : commands_of(root)) {
    text += fmt::format("    {})\n      _arguments", command->get_name());
    int position = 0;
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional() && option->get_lnames().empty()) {
        ++position;
        const OptionWords* own = position == 1 ? find(words, command->get_name(), "") : nullptr;
        // A kind of matrix stands where a file may stand, too.
        const std::string action = own && command->get_name() == "generate"
                                       ? fmt::format("_alternative 'kinds:kind:({})' 'files:file:_files'",
                                                     fmt::join(own->words, " "))
                                       : zsh_action(own, command->get_name() != "help");
        std::string quoted;
        for (const char c : action) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
        text += fmt::format(" \\\n        '{}:argument:{}'", position, quoted);
        continue;
      }
      const bool value = option->get_type_size() > 0;
      for (const std::string& name : option->get_lnames())
        text += fmt::format(" \\\n        '{}--{}{}[{}]{}'", option->get_expected_max() > 1 ? "*" : "", name,
                            value ? "=" : "", about(option->get_description(), special),
                            value ? fmt::format(":{}:{}", about(option->get_type_name(), special),
                                                zsh_action(find(words, command->get_name(), "--" + name),
                                                           takes_file(*option)))
                                  : "");
    }
    text += " ;;\n";
  }
  return text +
         "  esac\n"
         "}\n"
         "# From a file in $fpath the function is called; where the script is read it is only made known.\n"
         "if [[ $funcstack[1] == _protean ]]; then _protean \"$@\"; else compdef _protean protean; fi\n";
}

std::string fish(const CLI::App& root, const std::vector<OptionWords>& words) {
  constexpr std::string_view special = "'\\";
  std::string text =
      "# Completion of protean in fish, written by `protean help --completion fish`.\n"
      "function __protean_begins\n"
      "  test (count (commandline -opc)) -eq 1\n"
      "end\n"
      "function __protean_command\n"
      "  set -l words (commandline -opc)\n"
      "  test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
      "end\n"
      "complete -c protean -f\n";
  for (const CLI::App* command : commands_of(root))
    text += fmt::format("complete -c protean -n __protean_begins -a {} -d '{}'\n", command->get_name(),
                        about(command->get_description(), special));
  for (const CLI::App* command : commands_of(root)) {
    const std::string begin =
        fmt::format("complete -c protean -n '__protean_command {}'", command->get_name());
    const OptionWords* own = find(words, command->get_name(), "");
    if (own) text += fmt::format("{} -a '{}'\n", begin, fmt::join(own->words, " "));
    if (!own || command->get_name() == "generate") text += begin + " -F\n";
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) {
        text += fmt::format("{} -l {} -d '{}'", begin, name, about(option->get_description(), special));
        if (option->get_type_size() > 0) {
          const OptionWords* values = find(words, command->get_name(), "--" + name);
          text += values                ? fmt::format(" -x -a '{}'", fmt::join(values->words, " "))
                  : takes_file(*option) ? " -r -F"
                                        : " -x";
        }
        text += "\n";
      }
  }
  return text;
}

}  // namespace

std::string completion_script(const CLI::App& root, const std::string& shell) {
  const std::vector<OptionWords> words = option_words(root);
  if (shell == "bash") return bash(root, words);
  if (shell == "zsh") return zsh(root, words);
  if (shell == "fish") return fish(root, words);
  throw BadArgument(
      fmt::format("--completion '{:.50}': the shell must be one of bash, zsh, fish.{}", shell,
                  detail::did_you_mean(shell, std::array<std::string_view, 3>{"bash", "zsh", "fish"})));
}

}  // namespace protean::apps

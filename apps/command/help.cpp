#include "apps/command/help.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <utility>

#include "apps/command/build_info.hpp"
#include "apps/command/topics.hpp"
#include "apps/problem/problem_keys.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"

namespace protean::apps {
std::vector<const CLI::App*> commands_of(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App*) { return true; });
}

namespace {

constexpr std::string_view about_keys =
    "The keys of a problem file (YAML): type or allowed words, default, meaning. A word in brackets says for "
    "which kind a\n"
    "key is. Paths in the file begin at its folder. On the command line `--set key.path=value` overrides any "
    "key.\n\n";

std::vector<std::string> topics_of(const CLI::App& root) {
  std::vector<std::string> topics;
  for (const CLI::App* command : commands_of(root)) topics.push_back(command->get_name());
  topics.emplace_back("problem");
  for (std::string& topic : topic_names()) topics.push_back(std::move(topic));
  return topics;
}

bool is_command(const CLI::App& root, const std::string& topic) {
  const std::vector<const CLI::App*> commands = commands_of(root);
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* command) { return command->get_name() == topic; });
}

// Throws BadArgument.
const CLI::App& command_of(const CLI::App& root, const std::string& topic) {
  const std::vector<std::string> topics = topics_of(root);
  const std::vector<std::string_view> names(topics.begin(), topics.end());
  for (const CLI::App* command : commands_of(root))
    if (command->get_name() == topic) return *command;
  throw BadArgument(fmt::format("there is no help on '{:.50}'; the topics are {}.{}", topic,
                                fmt::join(names, ", "), detail::did_you_mean(topic, names)));
}

// "-o,--output M.mtx"
std::string names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  std::string text = names.empty() ? std::string() : fmt::format("{}", fmt::join(names, ", "));
  if (option.get_type_size() > 0) text += (text.empty() ? "" : " ") + option.get_type_name();
  return text;
}

// Text for roff(7): nothing in it is a command.
std::string roff(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    line_begins = c == '\n';
  }
  return out;
}

std::string heading(const std::string& title, int section, std::string_view about) {
  std::string upper = title;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".TH {} {} \"\" \"{}\"\n.SH NAME\n{} \\- {}\n", roff(upper), section,
                     roff("protean " PROTEAN_VERSION_TEXT), roff(title), roff(about));
}

std::string verbatim(std::string_view text) { return fmt::format(".nf\n{}\n.fi\n", roff(text)); }

std::string options_page(const CLI::App& command) {
  std::string text = ".SH OPTIONS\n";
  for (const CLI::Option* option : command.get_options())
    text += fmt::format(".TP\n.B {}\n{}\n", roff(names_of(*option)), roff(option->get_description()));
  return text;
}

std::string see_also(const CLI::App& root) {
  std::string text = ".SH SEE ALSO\n.BR protean (1),\n";
  for (const CLI::App* command : commands_of(root))
    if (command->get_name() != "help")
      text += fmt::format(".BR {} (1),\n", roff("protean-" + command->get_name()));
  return text + ".BR protean\\-problem (5)\n";
}

// The arguments of a command that are not options: "[P.yaml]"
std::string arguments_of(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional())
      text += option->get_required() ? " " + option->get_type_name() : " [" + option->get_type_name() + "]";
  return text;
}

std::vector<std::string> format_ids() {
  std::vector<std::string> ids;
  for (const FormatEntry* entry : catalogue()) ids.emplace_back(entry->id);
  return ids;
}

// The words that the key of an option may have; empty for one without such words.
std::vector<std::string> words_of(const KeyOption& option) {
  if (!option.key.empty()) return {};  // a file
  for (const KeyDoc& key : problem_keys())
    if (key.path() == option.path) return {key.words.begin(), key.words.end()};
  return {};
}

// "max-it" and "maxiter" begin max-iterations.
std::string without_hyphens(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c != '-' && c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The option that the user of this name has in mind; empty if there is none.
std::string nearest_option(const std::string& given, const std::vector<std::string>& known) {
  // Names of other programs.
  static constexpr std::pair<std::string_view, std::string_view> other_names[] = {
      {"--rtol", "--tolerance"},
      {"--relative-tolerance", "--tolerance"},
      {"--maxit", "--max-iterations"},
      {"--solver", "--method"},
      {"--ksp-type", "--method"},
      {"--pc", "--preconditioner"},
      {"--pc-type", "--preconditioner"},
      {"--output", "--solution"},
      {"-o", "--solution"},
      {"--kernel", "--kernels"},
      {"--verbose", "--monitor"},
      {"-v", "--monitor"},
      {"--silent", "--quiet"},
      {"-q", "--quiet"},
      {"-t", "--threads"},
      {"-V", "--version"}};
  for (const auto& [other, name] : other_names)
    if (given == other && std::find(known.begin(), known.end(), name) != known.end())
      return std::string(name);
  const std::string letters = without_hyphens(given);
  for (const std::string& name : known)
    if (letters.size() > 1 && without_hyphens(name).starts_with(letters)) return name;
  const std::vector<std::string_view> names(known.begin(), known.end());
  return std::string(nearest_name(given.substr(0, 50), names));
}

}  // namespace

std::span<const KeyOption> key_options() {
  static constexpr KeyOption options[] = {
      {"--rhs", "rhs", "file", true, "b.mtx", "The right-hand side b (rhs.file)", true},
      {"--initial-guess", "initial_guess", "file", true, "x0.mtx",
       "The vector to start from (initial_guess.file)", true},
      {"--method", "solver.method", {}, false, "NAME", "The Krylov method (solver.method)", true},
      {"--preconditioner",
       "preconditioner.type",
       {},
       false,
       "NAME",
       "The preconditioner (preconditioner.type)",
       true},
      {"--tolerance",
       "solver.relative_tolerance",
       {},
       false,
       "NUMBER",
       "Reduce the residual to this part of ||b|| (solver.relative_tolerance)",
       true},
      {"--max-iterations",
       "solver.max_iterations",
       {},
       false,
       "N",
       "Stop then (solver.max_iterations)",
       true},
      {"--restart", "solver.restart", {}, false, "N", "Basis vectors of gmres (solver.restart)", true},
      {"--format", "operator.format", {}, false, "ID", "The storage format (operator.format)"},
      {"--order", "matrix.order", {}, false, "NAME", "The order of the rows in the solve (matrix.order)"},
      {"--space", "operator.space", {}, false, "SPACE", "host or device (operator.space)"},
      {"--solution",
       "output.solution",
       {},
       false,
       "x.mtx",
       "Write x: .mtx, .mtx.gz, .mtx.xz or .npy (output.solution)"},
      {"--history", "output.history", {}, false, "h.csv", "Write the residuals as CSV (output.history)"},
  };
  return options;
}

std::string help_text(const CLI::App& root, const std::string& topic, const std::string& key) {
  if (topic.empty()) return root.help();
  if (topic == "problem")
    return (key.empty() ? std::string(about_keys) : std::string()) + problem_keys_text(key);
  if (!is_command(root, topic))
    if (std::string text = topic_text(topic, key); !text.empty()) return text;
  const CLI::App& command = command_of(root, topic);
  if (!key.empty())
    throw BadArgument(
        fmt::format("'{:.50}': a command has no keys; `protean help problem` and the topics of its sections "
                    "have them",
                    key));
  return command.help("protean") + (topic == "formats" ? "\n" + topic_text("format", "") : "");
}

std::string man_page(const CLI::App& root, const std::string& topic) {
  if (topic == "problem")
    return heading("protean-problem", 5, "problem file of protean") + ".SH DESCRIPTION\n" +
           verbatim(std::string(about_keys) + problem_keys_text() +
                    "\nKinds of matrix.generate, with their keys:\n\n" + kinds_text()) +
           see_also(root);
  if (topic.empty()) {
    std::string text = heading("protean", 1, root.get_description()) +
                       ".SH SYNOPSIS\n.B protean\n.I COMMAND\n[OPTIONS]\n.SH COMMANDS\n";
    for (const CLI::App* command : commands_of(root))
      text += fmt::format(".TP\n.B {}\n{}\n", roff(command->get_name()), roff(command->get_description()));
    return text + options_page(root) + ".SH NOTES\n" + verbatim(root.get_footer()) + see_also(root);
  }
  if (!is_command(root, topic) && !topic_text(topic, {}).empty())
    throw BadArgument(fmt::format(
        "'{:.50}' has no page of its own; `protean help --man problem` is one of all keys", topic));
  const CLI::App& command = command_of(root, topic);
  return heading("protean-" + topic, 1, command.get_description()) +
         fmt::format(".SH SYNOPSIS\n.B protean {}\n[OPTIONS]{}\n", roff(topic), roff(arguments_of(command))) +
         options_page(command) + ".SH NOTES\n" + verbatim(command.get_footer()) + see_also(root);
}

std::vector<OptionWords> option_words(const CLI::App& root) {
  std::vector<OptionWords> list;
  for (const KeyOption& option : key_options())
    if (const auto words = words_of(option); !words.empty()) {
      for (const char* command : {"solve", "check"})
        list.push_back({command, std::string(option.option), words});
      if (option.compared) list.push_back({"compare", std::string(option.option), words});
    }
  std::vector<std::string> keys, all_formats = format_ids(), families, kinds;
  for (const KeyDoc& key : problem_keys())
    if (key.path().find_first_of("[ (") == std::string::npos) keys.push_back(key.path() + "=");
  for (const FormatEntry* entry : catalogue())
    if (families.empty() || families.back() != entry->family) families.emplace_back(entry->family);
  for (const GeneratorEntry& kind : generators()) kinds.emplace_back(kind.kind);
  all_formats.insert(all_formats.begin(), "all");
  for (const char* command : {"solve", "check", "compare", "inspect", "generate"})
    list.push_back({command, "--set", keys});
  for (const char* command : {"compare", "inspect"})
    list.push_back({command, "--formats", all_formats, true});
  for (const char* command : {"compare", "tune"})
    list.push_back({command, "--spaces", {"host", "device"}, true});
  list.push_back({"formats", "", format_ids()});
  list.push_back({"formats", "--family", families});
  list.push_back({"generate", "", kinds});
  list.push_back({"help", "", topics_of(root)});
  list.push_back({"help", "--completion", {"bash", "zsh", "fish"}});
  return list;
}

std::string unexpected_text(const CLI::App& command, const std::vector<std::string>& arguments) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    for (const std::string& name : option->get_snames()) known.push_back("-" + name);
  }
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (name.size() < 2 || name[0] != '-' || std::isdigit(static_cast<unsigned char>(name[1])) != 0) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string hint;
    if (const std::string nearest = nearest_option(name, known); !nearest.empty())
      hint = fmt::format(" Did you mean '{}'?", nearest);
    return fmt::format("{} has no option '{:.50}'.{}", command.get_name(), name, hint);
  }
  return {};
}

}  // namespace protean::apps

#include "apps/command/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/build_info.hpp"
#include "apps/command/help.hpp"
#include "apps/report/output.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/foreign_file.hpp"
#include "core/io/input_file.hpp"
#include "core/words.hpp"

namespace protean::apps {
namespace {

int complain(const Program& program, const std::string& message, int code) {
  if (!program.silent) fmt::print(stderr, "{}: error: {}\n", program.name, message);
  return code;
}

// `command`: whose help describes what is right; empty for the help of the program.
int complain_usage(const Program& program, std::string message, std::string_view command = {}) {
  for (char& c : message)
    if (c == '\n') c = ' ';
  const bool ends = message.ends_with('.') || message.ends_with('?');
  return complain(program,
                  fmt::format("{}{} See `{} {}{}--help`.", message, ends ? "" : ".", program.name, command,
                              command.empty() ? "" : " "),
                  bad_input);
}

// An option that is given twice, or without its value, in words; empty for other mistakes.
std::string mismatch_of(const CLI::App& command, const CLI::ParseError& error) {
  if (!dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return {};
  const std::string what = error.what(), name = what.substr(0, what.find(':'));
  const CLI::Option* option = command.get_option_no_throw(name);
  if (!option) return {};
  if (option->count() > 1) return fmt::format("{} is given {} times; give it once", name, option->count());
  return fmt::format("{} needs a value: {} {}", name, name, option->get_type_name());
}

// What a command lacks, with what it is; empty if it has all that it needs.
std::string missing_of(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0)
      return fmt::format("{} needs {}: {}", command.get_name(), option->get_type_name(),
                         option->get_description());
  return {};
}

}  // namespace

void add_threads(CLI::App& command, int& threads, const std::string& text) {
  command.add_option("--threads", threads, text)->check(CLI::Range(1, 1024))->type_name("N");
}

int run_or_throw(const Program& program, int argc, char** argv) {
  CLI::App app{program.about, program.name};
  app.set_version_flag(
      "--version", [] { return version_text(); }, "Show the version and the libraries of this build");
  app.set_help_flag("-h,--help", "This text");
  app.require_subcommand(1);
  app.footer(program.footer);
  std::vector<std::string_view> names;
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Command& command : program.commands) {
    CLI::App* const sub = app.add_subcommand(std::string(command.name), std::string(command.about));
    actions.emplace_back(sub, command.add(*sub));
    names.push_back(command.name);
  }

  if (argc < 2) {
    print(app.help());
    return bad_input;
  }
  if (const std::string_view first = argv[1];
      first[0] != '-' && std::find(names.begin(), names.end(), first) == names.end())
    return complain_usage(
        program,
        fmt::format(
            "there is no command '{}'; the commands are {}.{}", first, fmt::join(names, ", "),
            app.get_option_no_throw(fmt::format("--{}", first)) ? fmt::format(" Did you mean '--{}'?", first)
            : std::find(names.begin(), names.end(), "solve") != names.end() &&
                    io_detail::kind_of(std::string(first)) != io_detail::FileKind::missing
                ? fmt::format(" Did you mean 'solve {}'?", io_detail::shell_quoted(std::string(first)))
                : detail::did_you_mean(first, names)));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error) == 0 ? done : bad_input;  // --help, --version
    for (const auto& [sub, action] : actions)
      if (sub->get_name() == argv[1]) {
        // An unknown option is named first: what it leaves over is its consequence.
        std::string what = unexpected_text(*sub, {argv + 2, argv + argc});
        if (what.empty()) what = mismatch_of(*sub, error);
        if (what.empty() && dynamic_cast<const CLI::RequiredError*>(&error)) what = missing_of(*sub);
        if (what.empty() && dynamic_cast<const CLI::ExtrasError*>(&error))
          what =
              fmt::format("{} takes no further argument '{:.100}'", sub->get_name(), sub->remaining().at(0));
        return complain_usage(program, what.empty() ? error.what() : what, sub->get_name());
      }
    std::string what = unexpected_text(app, {argv + 1, argv + argc});
    return complain_usage(program, what.empty() ? error.what() : what);
  }
  for (const auto& [sub, action] : actions)
    if (*sub) return action();
  return bad_input;
}

int report_exception(const Program& program) noexcept {
  try {
    throw;
  } catch (const OutOfMemory& error) {
    return complain(program, error.what(), no_resources);
  } catch (const NotAvailable& error) {
    return complain(program, error.what(), no_resources);
  } catch (const DeviceError& error) {
    return complain(program, error.what(), no_resources);
  } catch (const WriteFailed& error) {
    return complain(program, error.what(), no_resources);
  } catch (const std::bad_alloc&) {
    return complain(program, "out of memory; use a smaller problem or a machine with more", no_resources);
  } catch (const std::exception& error) { return complain(program, error.what(), bad_input); }
}

}  // namespace protean::apps

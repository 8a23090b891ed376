#include "benchmarks/common/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

namespace protean::bench {
namespace {

std::string usage_of(const std::string& program, const std::vector<Subcommand>& subcommands) {
  std::string text = fmt::format("usage: {} SUBCOMMAND [options]\n", program);
  for (const Subcommand& one : subcommands)
    text += fmt::format("  {:18} {}{}\n", one.name, one.about,
                        one.run ? "" : fmt::format(" (not in this build, which has no {})", one.needs));
  return text + fmt::format("{} SUBCOMMAND --help prints the options.\n", program);
}

}  // namespace

int run_program(const std::string& program, const std::vector<Subcommand>& subcommands, int argc,
                char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--list") {
    for (const Subcommand& one : subcommands)
      if (one.run) fmt::print("{}{}{}\n", one.name, *one.needs ? " " : "", one.needs);
    return 0;
  }
  const auto found = std::find_if(subcommands.begin(), subcommands.end(),
                                  [&](const Subcommand& one) { return one.name == name; });
  if (found == subcommands.end()) {
    fmt::print(name == "--help" ? stdout : stderr, "{}", usage_of(program, subcommands));
    return name == "--help" ? 0 : 2;
  }
  const std::string command = fmt::format("{} {}", program, name);
  if (!found->run) {
    fmt::print(stderr, "{} is not in this build, which has no {}\n", command, found->needs);
    return 2;
  }
  Arguments arguments(command, found->about, {argv + 2, argv + argc});
  try {
    return found->run(arguments);
  } catch (const HelpWanted&) {
    fmt::print("{}", arguments.usage());
    return 0;
  } catch (const BadUsage& bad) {
    fmt::print(stderr, "error: {}\n{}", bad.what(), arguments.usage());
  } catch (const std::exception& error) { fmt::print(stderr, "error: {}\n", error.what()); }
  return 2;
}

}  // namespace protean::bench

// The command that regenerates tables and figures of the source papers.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/problem/input.hpp"
#include "apps/problem/problem_file.hpp"
#include "research/commands.hpp"
#include "research/reproduce/reproduce.hpp"

namespace protean::research {

apps::Action add_reproduce(CLI::App& command) {
  const auto arguments = std::make_shared<ReproduceArguments>();
  command
      .add_option("id", arguments->name,
                  "A table or figure (s0-table-9), a paper (s0 to s4), or all; --list shows them")
      ->type_name("ID");
  command.add_flag("--list", arguments->list, "List the tables and figures, and what they need");
  command.add_option("--size", arguments->size, "quick: minutes; day: hours; full: the sizes of the papers")
      ->type_name("quick|day|full")
      ->capture_default_str();
  command.add_option("--space", arguments->space, "host or device")
      ->type_name("SPACE")
      ->capture_default_str();
  command
      .add_option(
          "--matrices", arguments->matrices,
          "Folder with matrices of the SuiteSparse collection, as NAME.mtx.xz; without one, and for a "
          "matrix that it lacks, like:NAME is generated")
      ->type_name("FOLDER");
  command
      .add_option(
          "--from", arguments->from,
          "Draw again what a JSON file of an earlier run has, or all in a folder; nothing is measured")
      ->type_name("F.json");
  command
      .add_option("--beside", arguments->beside,
                  "With --from: a second run, shown next to the first on one page (a host and a GPU)")
      ->type_name("F.json");
  command
      .add_option(
          "-o,--output", arguments->output,
          "Folder for ID.json, ID.csv and ID.html; for more than one ID also index.html and README.md")
      ->type_name("FOLDER")
      ->capture_default_str();
  apps::add_threads(command, arguments->threads, "Threads (otherwise OMP_NUM_THREADS or all)");
  command.add_flag("--quiet", arguments->quiet, "Errors only: no progress, no tables");
  command.footer(
      "Examples:\n"
      "  protean reproduce --list\n"
      "  protean reproduce s0-table-9\n"
      "  protean reproduce all --size quick --space device -o gpu\n"
      "  protean reproduce --from gpu -o pages\n"
      "  protean reproduce --from host --beside gpu -o both\n\n"
      "Our number and the ratio stand next to each number of the paper. A matrix like:NAME has the features that "
      "the papers\n"
      "print of NAME, not its pattern. The statements of the papers are judged: holds, does not hold on this "
      "machine.\n"
      "PROTEAN_COMMIT in the environment is kept in the results.\n"
      "Exit codes: 0 done, 2 bad input, 3 out of resources or no device, 130 Ctrl-C; what is complete is "
      "kept.");
  return [arguments] {
    if (!arguments->from.empty()) arguments->from = apps::input_path(arguments->from);
    if (!arguments->beside.empty()) arguments->beside = apps::input_path(arguments->beside);
    return research::reproduce(*arguments);
  };
}

}  // namespace protean::research

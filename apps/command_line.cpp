#include "apps/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "apps/build_info.hpp"
#include "apps/convert.hpp"
#include "apps/formats.hpp"
#include "apps/solve.hpp"
#include "core/error.hpp"

namespace protean::apps {
namespace {

enum Exit : int { done = 0, bad_input = 2, no_resources = 3 };

constexpr std::string_view commands[] = {"solve", "formats", "convert"};

int complain(const std::string& message, int code) {
  fmt::print(stderr, "protean: error: {}\n", message);
  return code;
}

int complain_usage(std::string message) {
  for (char& c : message)
    if (c == '\n') c = ' ';
  return complain(message + (message.ends_with('.') ? "" : ".") + " See `protean --help`.", bad_input);
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0)
    throw Error("cannot write to the standard output: no space, or it was closed");
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"Solves A x = b with Krylov methods over a choice of sparse storage formats.", "protean"};
  app.set_version_flag(
      "--version", [] { return version_text(); }, "What this build is made of");
  app.set_help_flag("-h,--help", "This text");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  protean solve problems/quickstart.yaml\n"
      "  protean solve P.yaml --set solver.method=gmres --set operator.format=csr --report out.json\n"
      "  protean formats sell-packed\n"
      "  protean convert A.mtx.xz A.pbin\n\n"
      "Exit codes: 0 converged or done, 1 not converged, 2 bad input, 3 out of resources or device failure.\n"
      "`protean COMMAND --help` says more about a command.");

  SolveArguments arguments;
  CLI::App* solve_command = app.add_subcommand("solve", "Solve the system of a problem file");
  solve_command->add_option("problem", arguments.problem, "Problem file (YAML)")
      ->required()
      ->type_name("P.yaml");
  solve_command
      ->add_option("--set", arguments.settings,
                   "Override a key of the problem file; may be repeated. The value is YAML.")
      ->type_name("key.path=value")
      ->allow_extra_args(false);
  solve_command
      ->add_option("--report", arguments.report, "Write a JSON report, besides what `output` asks for")
      ->type_name("F.json");
  solve_command
      ->add_option("--threads", arguments.threads,
                   "Threads (otherwise operator.threads, OMP_NUM_THREADS or all)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  solve_command->add_flag("--quiet", arguments.quiet, "Errors only: no progress, no summary");
  solve_command->footer(
      "Examples:\n"
      "  protean solve P.yaml --set solver.relative_tolerance=1e-10 --set preconditioner.type=jacobi\n"
      "  protean solve P.yaml --set 'matrix={generate: {kind: poisson-3d, n: 100}}' --set 'rhs={value: "
      "1}'\n\n"
      "Ctrl-C stops at the next iteration and writes report and solution; a second one kills.\n"
      "Exit codes: 0 converged, 1 not converged, 2 bad input, 3 out of resources or device failure.");

  std::string format_id;
  bool json = false;
  CLI::App* formats_command = app.add_subcommand("formats", "List the storage formats, or describe one");
  formats_command->add_option("id", format_id, "A format")->type_name("ID");
  formats_command->add_flag("--json", json, "As JSON");
  formats_command->footer("Examples:\n  protean formats\n  protean formats csr\n  protean formats --json");

  std::string from, to;
  int convert_threads = 0;
  bool convert_quiet = false;
  CLI::App* convert_command = app.add_subcommand("convert", "Rewrite a matrix in another file format");
  convert_command->add_option("from", from, "Matrix: .mtx, .mtx.gz, .mtx.xz or .pbin")
      ->required()
      ->type_name("A");
  convert_command->add_option("to", to, "New file; its ending says what to write")
      ->required()
      ->type_name("B");
  convert_command->add_option("--threads", convert_threads, "Threads")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  convert_command->add_flag("--quiet", convert_quiet, "Errors only");
  convert_command->footer("Example:\n  protean convert A.mtx.xz A.pbin   .pbin is mapped, not parsed");

  if (argc < 2) {
    print(app.help());
    return bad_input;
  }
  if (const std::string_view first = argv[1];
      first[0] != '-' && std::find(std::begin(commands), std::end(commands), first) == std::end(commands))
    return complain_usage(fmt::format("there is no command '{}'; there are solve, formats and convert.{}",
                                      first, did_you_mean(first, commands)));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error) == 0 ? done : bad_input;  // --help, --version
    return complain_usage(error.what());
  }
  if (*formats_command) return print(json ? formats_json(format_id) : formats_text(format_id)), done;
  if (*convert_command) return convert(from, to, convert_threads, convert_quiet), done;
  return solve(arguments);
}

}  // namespace

int run(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const OutOfMemory& error) {
    return complain(error.what(), no_resources);
  } catch (const NotAvailable& error) {
    return complain(error.what(), no_resources);
  } catch (const DeviceError& error) {
    return complain(error.what(), no_resources);
  } catch (const std::bad_alloc&) {
    return complain("out of memory; use a smaller problem or a machine with more", no_resources);
  } catch (const std::exception& error) { return complain(error.what(), bad_input); }
}

}  // namespace protean::apps

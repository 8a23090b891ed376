#include "apps/command/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/build_info.hpp"
#include "apps/command/completion.hpp"
#include "apps/command/formats.hpp"
#include "apps/command/help.hpp"
#include "apps/command/launch.hpp"
#include "apps/compare/compare.hpp"
#include "apps/machine/tune.hpp"
#include "apps/matrix/convert.hpp"
#include "apps/matrix/generate.hpp"
#include "apps/matrix/inspect.hpp"
#include "apps/matrix/presets.hpp"
#include "apps/problem/problem_file.hpp"
#include "apps/problem/problem_keys.hpp"
#include "apps/report/output.hpp"
#include "apps/reproduce/reproduce.hpp"
#include "apps/solve/solve.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/foreign_file.hpp"
#include "core/io/input_file.hpp"

namespace protean::apps {
namespace {

enum Exit : int { done = 0, bad_input = 2, no_resources = 3 };

Entrance entrance_of_process;

int complain(const std::string& message, int code) {
  if (entrance_of_process.rank != 0) return code;
  fmt::print(stderr, "protean: error: {}\n", message);
  return code;
}

// `command`: whose help describes what is right; empty for that of the program.
int complain_usage(std::string message, std::string_view command = {}) {
  for (char& c : message)
    if (c == '\n') c = ' ';
  const bool ends = message.ends_with('.') || message.ends_with('?');
  return complain(fmt::format("{}{} See `protean {}{}--help`.", message, ends ? "" : ".", command,
                              command.empty() ? "" : " "),
                  bad_input);
}

// Of an option whose value is a time.
CLI::Validator above_zero() {
  return {[](std::string& text) {
            double value = 0;
            const bool good = CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value);
            return good ? std::string() : fmt::format("'{:.50}' must be a number above 0", text);
          },
          ""};
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

// What a command lacks, with what it is; empty where it has all that it needs.
std::string missing_of(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0)
      return fmt::format("{} needs {}: {}", command.get_name(), option->get_type_name(),
                         option->get_description());
  return {};
}

// Runs a command after its options have been read. Returns the exit code.
using Action = std::function<int()>;

void add_threads(CLI::App& command, int& threads, const std::string& text) {
  command.add_option("--threads", threads, text)->check(CLI::Range(1, 1024))->type_name("N");
}

// The options that stand for keys of the problem file. The arguments live as long as the command.
template <class Arguments>
void add_key_options(CLI::App& command, Arguments& arguments, bool compared) {
  for (const KeyOption& option : key_options()) {
    if (compared && !option.compared) continue;
    command
        .add_option_function<std::string>(
            std::string(option.option),
            [&arguments, &option](const std::string& value) {
              const std::string text =
                  option.input ? std::filesystem::absolute(input_path(value)).string() : value;
              arguments.options.push_back(
                  {std::string(option.option), std::string(option.path), text, std::string(option.key)});
            },
            std::string(option.about))
        ->type_name(std::string(option.type));
  }
}

Action add_solve(CLI::App& command) {
  const auto arguments = std::make_shared<SolveArguments>();
  command
      .add_option("problem", arguments->problem,
                  "Problem file (YAML), or a matrix: .mtx, .rua, .rsa, .rb (also .gz, .xz), .pbin")
      ->required()
      ->type_name("P.yaml|A.mtx");
  add_key_options(command, *arguments, false);
  command
      .add_option("--set", arguments->settings,
                  "Override a key of the problem file; may be repeated. The value is YAML.")
      ->type_name("key.path=value")
      ->allow_extra_args(false);
  command
      .add_option("--report", arguments->report,
                  "Write the JSON report to this file instead of output.report")
      ->type_name("F.json");
  command
      .add_option("--monitor", arguments->monitor,
                  "Print a line to the standard error every N iterations, or every S seconds with 5s")
      ->type_name("N|Ss");
  command
      .add_option("--checkpoint", arguments->checkpoint,
                  "Also write the solution every so many minutes while the solve runs")
      ->check(above_zero())
      ->type_name("MINUTES");
  add_threads(command, arguments->threads, "Threads (otherwise operator.threads, OMP_NUM_THREADS or all)");
  command.add_flag("--json", arguments->json, "Print the JSON report to the standard output, and no summary");
  command.add_flag("--quiet", arguments->quiet,
                   "No progress, no summary; one line where the solve has not converged, and errors");
  command.add_flag(
      "--explain", arguments->explain,
      "With format auto, or schedule: {policy: auto}: print the formats with predicted and real times, and "
      "each decision");
  command.footer(
      "Examples:\n"
      "  protean solve A.mtx --rhs b.mtx --method gmres --preconditioner ilu0 --solution x.mtx\n"
      "  protean solve P.yaml --set solver.relative_tolerance=1e-10 --set preconditioner.type=jacobi\n"
      "  protean solve P.yaml --set 'matrix={generate: {kind: poisson-3d, n: 100}}' --set 'rhs={value: "
      "1}'\n\n"
      "A matrix alone is solved with all defaults, and without --rhs for x of random numbers with a fixed "
      "seed.\n"
      "`protean help problem` lists the keys. Options win over --set.\n"
      "A problem or matrix `-` is the standard input; its first bytes say which it is. An output `-` is the\n"
      "standard output; the summary goes to the standard error then. If the standard error is no terminal,\n"
      "nothing is printed there during the solve but what --monitor asks for.\n"
      "To continue from a checkpoint, rename it: mv x.mtx x0.mtx; protean solve ... --initial-guess "
      "x0.mtx\n\n"
      "Under mpirun all ranks solve one system, with PETSc as the engine: mpirun -n 4 protean solve P.yaml\n"
      "(docs/distributed.md).\n\n"
      "Ctrl-C stops at the next iteration and writes report and solution; a second one kills.\n"
      "Exit codes: 0 converged, 1 not converged, 2 bad input, 3 out of resources or device failure, 130 "
      "Ctrl-C.");
  return [arguments] {
    arguments->problem = input_path(arguments->problem);
    return entrance_of_process.solve ? entrance_of_process.solve(*arguments) : solve(*arguments);
  };
}

Action add_formats(CLI::App& command) {
  struct Arguments {
    std::string id, family;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  command.add_option("id", arguments->id, "A format")->type_name("ID");
  command.add_option("--family", arguments->family, "Only the formats of this family")->type_name("NAME");
  command.add_flag("--json", arguments->json, "As JSON");
  command.footer(
      "Examples:\n  protean formats\n  protean formats csr\n  protean formats --family ell\n"
      "  protean formats --json\n\n"
      "A preset, indented under its base, has the layout of that with parameters or a kernel of its own.");
  return [arguments] {
    const auto& [id, family, json] = *arguments;
    print(json ? formats_json(id, family)
               : formats_text(id, family,
                              static_cast<std::size_t>(std::max(terminal_width(STDOUT_FILENO), 60))));
    return done;
  };
}

Action add_convert(CLI::App& command) {
  const auto arguments = std::make_shared<ConvertArguments>();
  command.add_option("from", arguments->from, "Matrix: .mtx, .rua, .rsa, .rb (also .gz, .xz) or .pbin")
      ->required()
      ->type_name("A");
  command.add_option("to", arguments->to, "New file; its ending decides the file format")
      ->required()
      ->type_name("B");
  command.add_option("--scale", arguments->scale, "Multiply the values, by -1 for example")
      ->type_name("FACTOR");
  command
      .add_option("--order", arguments->order,
                  "Put rows and columns into this order: rcm, length, cluster or metis")
      ->type_name("ORDER");
  command
      .add_option("--permutation", arguments->permutation,
                  "With --order: write the old numbers of the rows, from 1")
      ->type_name("P.mtx");
  add_threads(command, arguments->threads, "Threads");
  command.add_flag("--quiet", arguments->quiet, "Errors only");
  command.footer(
      "Examples:\n  protean convert A.mtx.xz A.pbin   .pbin is mapped, not parsed\n"
      "  protean convert A.mtx B.pbin --order rcm --permutation P.mtx");
  return [arguments] {
    arguments->from = input_path(arguments->from);
    convert(*arguments);
    return done;
  };
}

Action add_compare(CLI::App& command) {
  const auto arguments = std::make_shared<CompareArguments>();
  command
      .add_option("problem", arguments->problem, "Problem file, a suite: {suite: [P.yaml, ...]}, or a matrix")
      ->required()
      ->type_name("P.yaml");
  add_key_options(command, *arguments, true);
  command
      .add_option("--set", arguments->settings,
                  "Override a key of the problem file; may be repeated. The value is YAML.")
      ->type_name("key.path=value")
      ->allow_extra_args(false);
  command
      .add_option("--formats", arguments->formats,
                  "Formats: all, or ids (otherwise at most 12, those that `format: auto` considers)")
      ->type_name("ID,ID");
  command.add_option("--kernels", arguments->kernels, "Kernels: all, or names")->type_name("K,K");
  command.add_option("--spaces", arguments->spaces, "host, device or both (otherwise operator.space)")
      ->type_name("S,S");
  command
      .add_option("--selectors", arguments->selectors,
                  "Judge selectors of formats by the measured times: all, or names")
      ->type_name("NAME,NAME");
  command.add_option("--report", arguments->report, "Write a JSON report")->type_name("F.json");
  command.add_option("--csv", arguments->csv, "Write the numbers as CSV")->type_name("F.csv");
  command.add_option("--html", arguments->html, "Write one page with tables and pictures")
      ->type_name("F.html");
  command.add_option("--budget", arguments->budget, "Spend about this many seconds at most")
      ->check(above_zero())
      ->type_name("SECONDS");
  add_threads(command, arguments->threads, "Threads (otherwise operator.threads, OMP_NUM_THREADS or all)");
  command.add_flag("--quiet", arguments->quiet, "Errors only: no progress, no table");
  command.footer(
      "Examples:\n"
      "  protean compare P.yaml --html compare.html\n"
      "  protean compare P.yaml --formats csr,sell-packed --kernels native --budget 60\n\n"
      "The total is conversion from CSR, setup of the preconditioner and solve; medians of several runs.\n"
      "Ctrl-C keeps what is done.\n"
      "Exit codes: 0 done, 1 a problem of a suite was broken, 2 bad input, 3 out of resources, 130 Ctrl-C.");
  return [arguments] {
    arguments->problem = input_path(arguments->problem);
    return compare(*arguments);
  };
}

Action add_reproduce(CLI::App& command) {
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
                  "With --from: a second run, shown beside the first on one page (a host and a GPU)")
      ->type_name("F.json");
  command
      .add_option(
          "-o,--output", arguments->output,
          "Folder for ID.json, ID.csv and ID.html; for more than one ID also index.html and README.md")
      ->type_name("FOLDER")
      ->capture_default_str();
  add_threads(command, arguments->threads, "Threads (otherwise OMP_NUM_THREADS or all)");
  command.add_flag("--quiet", arguments->quiet, "Errors only: no progress, no tables");
  command.footer(
      "Examples:\n"
      "  protean reproduce --list\n"
      "  protean reproduce s0-table-9\n"
      "  protean reproduce all --size quick --space device -o gpu\n"
      "  protean reproduce --from gpu -o pages\n"
      "  protean reproduce --from host --beside gpu -o both\n\n"
      "Each number of the paper stands beside ours and the ratio. A matrix like:NAME has the features that "
      "the "
      "papers\n"
      "print of NAME, not its pattern. The statements of the papers are judged: holds, does not hold on this "
      "machine.\n"
      "PROTEAN_COMMIT in the environment is kept in the results.\n"
      "Exit codes: 0 done, 2 bad input, 3 out of resources or no device, 130 Ctrl-C; what is complete is "
      "kept.");
  return [arguments] {
    if (!arguments->from.empty()) arguments->from = input_path(arguments->from);
    if (!arguments->beside.empty()) arguments->beside = input_path(arguments->beside);
    return reproduce(*arguments);
  };
}

Action add_inspect(CLI::App& command) {
  const auto arguments = std::make_shared<InspectArguments>();
  command.add_option("input", arguments->input, "Problem file or matrix")
      ->required()
      ->type_name("P.yaml|M.mtx");
  command.add_option("--set", arguments->settings, "Override a key of the problem file; may be repeated.")
      ->type_name("key.path=value")
      ->allow_extra_args(false);
  command
      .add_option("--formats", arguments->formats,
                  "Formats: all, or ids (otherwise at most 12, those that `format: auto` considers)")
      ->type_name("ID,ID");
  command.add_flag("--json", arguments->json, "As JSON");
  command.add_flag("!--no-picture", arguments->picture, "Do not draw the pattern");
  add_threads(command, arguments->threads, "Threads");
  command.footer("Examples:\n  protean inspect A.mtx.xz\n  protean inspect problems/poisson.yaml --json");
  return [arguments] {
    arguments->input = input_path(arguments->input);
    return inspect(*arguments);
  };
}

Action add_generate(CLI::App& command) {
  const auto arguments = std::make_shared<GenerateArguments>();
  const auto list = std::make_shared<bool>(false), kinds = std::make_shared<bool>(false);
  command
      .add_option("spec", arguments->spec,
                  "Problem file whose matrix is generated, or a kind of matrix.generate")
      ->type_name("SPEC.yaml|KIND");
  command.add_option("-o,--output", arguments->output, "File to write: .mtx, .mtx.gz, .mtx.xz or .pbin")
      ->type_name("M.mtx");
  command
      .add_option("--preset", arguments->preset,
                  "Instead of a problem file: an artificial matrix by name, as friends/cant")
      ->type_name("NAME");
  command.add_flag("--presets", *list, "List those");
  command.add_flag("--kinds", *kinds, "List the kinds of matrix.generate with their keys");
  command.add_option("--set", arguments->settings, "Override a key of the problem file; may be repeated.")
      ->type_name("key.path=value")
      ->allow_extra_args(false);
  add_threads(command, arguments->threads, "Threads");
  command.add_flag("--quiet", arguments->quiet, "Errors only");
  command.footer(
      "Examples:\n  protean generate SPEC.yaml -o A.pbin --set matrix.generate.seed=7\n"
      "  protean generate poisson-3d -o A.mtx --set matrix.generate.n=40\n"
      "  protean generate --preset friends/cant -o A.pbin\n"
      "  protean generate --preset table1/small/20/100/0.5/0.95 -o A.mtx.xz\n"
      "SPEC.yaml:\n  matrix: {generate: {kind: artificial, n: 100000, mean: 20, deviation: 5, similarity: "
      "0.8}}\n\n"
      "Rows are written when they are made; the matrix need not fit in memory.");
  return [arguments, list, kinds]() -> int {
    if (*kinds) {
      print(kinds_text());
      return done;
    }
    if (*list) {
      print(presets_text());
      return done;
    }
    if (arguments->spec.empty() == arguments->preset.empty())
      throw BadArgument(
          "generate needs one of SPEC.yaml, a KIND, and --preset NAME; `protean generate --kinds` and "
          "`--presets` list "
          "them");
    arguments->spec = input_path(arguments->spec);
    if (arguments->output.empty()) throw BadArgument("generate needs -o M.mtx (or .mtx.gz, .mtx.xz, .pbin)");
    return generate_file(*arguments);
  };
}

Action add_tune(CLI::App& command) {
  const auto arguments = std::make_shared<TuneArguments>();
  command.add_option("-o,--output", arguments->output, "Machine table (YAML); an existing one is extended")
      ->type_name("F.yaml")
      ->capture_default_str();
  command.add_option("--budget", arguments->budget, "Spend about this many seconds at most")
      ->check(above_zero())
      ->type_name("SECONDS")
      ->capture_default_str();
  command.add_option("--spaces", arguments->spaces, "host, device or both (otherwise all of this machine)")
      ->type_name("S,S");
  command
      .add_option(
          "--formats", arguments->formats,
          "Measure these formats alone, again where the table has them (otherwise all); for a table that has "
          "the others, because `format: auto` knows what is in it only")
      ->type_name("F,F,...");
  command
      .add_option("--matrices", arguments->matrices,
                  "Matrices of your own, which are measured after the built-in ones")
      ->delimiter(',')
      ->type_name("F.mtx,...");
  add_threads(command, arguments->threads, "Threads (otherwise OMP_NUM_THREADS or all)");
  command.add_flag("--quiet", arguments->quiet, "Errors only");
  command.footer(
      "Example:\n"
      "  protean tune -o machine.yaml && PROTEAN_MACHINE=machine.yaml protean solve P.yaml\n\n"
      "`format: auto` and `schedule: {policy: auto}` predict with the table; without one, with a table of "
      "another machine.\n"
      "Ctrl-C keeps what is done; the same command continues from there.\n"
      "Exit codes: 0 done or out of budget, 2 bad input, 3 out of resources, 130 Ctrl-C.");
  return [arguments] { return tune(*arguments); };
}

Action add_help(CLI::App& command) {
  struct Arguments {
    std::string topic, key, shell;
    bool man = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  command
      .add_option(
          "topic", arguments->topic,
          "A command; `problem`: the keys of the problem file; a section of it, such as solver; exit-codes; "
          "or the name of a key, a method, a preconditioner or a format")
      ->type_name("TOPIC");
  command.add_option("key", arguments->key, "With `problem` or a section: only this key")->type_name("KEY");
  command.add_flag("--man", arguments->man, "As a page for man");
  command
      .add_option("--completion", arguments->shell,
                  "A script that completes commands and options in this shell")
      ->type_name("bash|zsh|fish");
  command.footer(
      "Examples:\n  protean help solve\n  protean help problem\n  protean help preconditioner\n"
      "  protean help solver restart\n  protean help exit-codes\n"
      "  protean help --man solve | man -l -\n  source <(protean help --completion bash)\n"
      "  protean help --completion fish > ~/.config/fish/completions/protean.fish");
  return [arguments, &command] {
    const CLI::App& root = *command.get_parent();
    print(!arguments->shell.empty() ? completion_script(root, arguments->shell)
          : arguments->man          ? man_page(root, arguments->topic)
                                    : help_text(root, arguments->topic, arguments->key));
    return done;
  };
}

struct Command {
  std::string_view name, about;
  Action (*add)(CLI::App&);
};

constexpr Command commands[] = {
    {"solve", "Solve the system of a problem file or of a matrix", add_solve},
    {"compare", "Solve a system in every format and compare all costs", add_compare},
    {"reproduce", "Make the tables and figures of the papers on the formats, beside ours", add_reproduce},
    {"formats", "List the storage formats, or describe one", add_formats},
    {"inspect", "Show the features of a matrix and its size in each format", add_inspect},
    {"generate", "Write a generated matrix to a file", add_generate},
    {"tune", "Measure this machine for predictions of products and conversions", add_tune},
    {"convert", "Rewrite a matrix in another file format", add_convert},
    {"help", "Explain a command, a part of the problem file, or an exit code", add_help},
};

int parse_and_run(int argc, char** argv) {
  CLI::App app{"Solves A x = b with Krylov methods over a choice of sparse storage formats.", "protean"};
  app.set_version_flag(
      "--version", [] { return version_text(); }, "Show the version and the libraries of this build");
  app.set_help_flag("-h,--help", "This text");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  protean solve problems/quickstart.yaml\n"
      "  protean solve P.yaml --set solver.method=gmres --set operator.format=csr --report out.json\n"
      "  protean formats sell-packed\n"
      "  protean convert A.mtx.xz A.pbin\n\n"
      "Exit codes: 0 converged or done, 1 not converged, 2 bad input, 3 out of resources or device failure, "
      "130 Ctrl-C.\n"
      "`protean COMMAND --help` describes a command, `protean help problem` the problem file, `protean help "
      "solver`, "
      "matrix ... a part of it.");
  std::vector<std::string_view> names;
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Command& command : commands) {
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
    return complain_usage(fmt::format(
        "there is no command '{}'; the commands are {}.{}", first, fmt::join(names, ", "),
        app.get_option_no_throw(fmt::format("--{}", first)) ? fmt::format(" Did you mean '--{}'?", first)
        : io_detail::kind_of(std::string(first)) != io_detail::FileKind::missing
            ? fmt::format(" Did you mean 'solve {}'?", io_detail::shell_quoted(std::string(first)))
            : did_you_mean(first, names)));
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
        return complain_usage(what.empty() ? error.what() : what, sub->get_name());
      }
    std::string what = unexpected_text(app, {argv + 1, argv + argc});
    return complain_usage(what.empty() ? error.what() : what);
  }
  for (const auto& [sub, action] : actions)
    if (*sub) return action();
  return bad_input;
}

}  // namespace

void end_with_a_message() noexcept {
  // The exception is not always known where the process must end, so operator new leaves a note.
  static std::atomic<bool> memory_was_missing{false};
  std::set_new_handler([] {
    memory_was_missing = true;
    throw std::bad_alloc();
  });
  std::set_terminate([] {
    if (!memory_was_missing) std::abort();  // an error of the program, whose trace is worth more
    // No memory is needed for this.
    constexpr std::string_view message =
        "protean: error: out of memory; use a smaller problem or a machine with more\n";
    (void)!::write(STDERR_FILENO, message.data(), message.size());
    _exit(no_resources);
  });
}

int run(int argc, char** argv, Entrance entrance) {
  entrance_of_process = entrance;
  try {
    const Launch launch = launch_of_environment();
    if (!entrance.solve && launch.count > 1 && argc > 1 && std::string_view(argv[1]) == "solve") {
      entrance_of_process.rank = launch.rank;
      become_ranks(argv);
    }
    try {
      return parse_and_run(argc, argv);
    } catch (const OtherProgram&) { become_ranks(argv); }
  } catch (const OutOfMemory& error) {
    return complain(error.what(), no_resources);
  } catch (const NotAvailable& error) {
    return complain(error.what(), no_resources);
  } catch (const DeviceError& error) {
    return complain(error.what(), no_resources);
  } catch (const WriteFailed& error) {
    return complain(error.what(), no_resources);
  } catch (const std::bad_alloc&) {
    return complain("out of memory; use a smaller problem or a machine with more", no_resources);
  } catch (const std::exception& error) { return complain(error.what(), bad_input); }
}

}  // namespace protean::apps

#include "apps/command/commands.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/command/completion.hpp"
#include "apps/command/formats.hpp"
#include "apps/command/help.hpp"
#include "apps/compare/compare.hpp"
#include "apps/doctor/doctor.hpp"
#include "apps/machine/tune.hpp"
#include "apps/matrix/convert.hpp"
#include "apps/matrix/generate.hpp"
#include "apps/matrix/inspect.hpp"
#include "apps/matrix/presets.hpp"
#include "apps/problem/input.hpp"
#include "apps/problem/problem_file.hpp"
#include "apps/problem/problem_keys.hpp"
#include "apps/problem/schema.hpp"
#include "apps/report/output.hpp"
#include "apps/solve/check.hpp"
#include "apps/solve/solve.hpp"
#include "core/error.hpp"
#include "core/io/input_file.hpp"

namespace protean::apps {
namespace {

int (*other_solve)(const SolveArguments& arguments) = nullptr;

// For an option whose value is a time.
CLI::Validator above_zero() {
  return {[](std::string& text) {
            double value = 0;
            const bool good = CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value);
            return good ? std::string() : fmt::format("'{:.50}' must be a number above 0", text);
          },
          ""};
}

// Options that several commands have.
void add_set(CLI::App& command, std::vector<std::string>& settings) {
  command
      .add_option("--set", settings,
                  "Override a key of the problem file; may be repeated. The value is YAML.")
      ->type_name("key.path=value")
      ->allow_extra_args(false);
}
void add_formats_of(CLI::App& command, std::string& formats) {
  command
      .add_option("--formats", formats,
                  "Formats: all, or ids (otherwise at most 12: the ones that `format: auto` considers)")
      ->type_name("ID,ID");
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
  add_set(command, arguments->settings);
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
                  "Also write the solution every MINUTES while the solve runs")
      ->check(above_zero())
      ->type_name("MINUTES");
  add_threads(command, arguments->threads, "Threads (otherwise operator.threads, OMP_NUM_THREADS or all)");
  command.add_flag("--json", arguments->json, "Print the JSON report to the standard output, and no summary");
  command.add_flag("--quiet", arguments->quiet,
                   "No progress, no summary; one line if the solve has not converged, and errors");
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
      "standard output; the summary goes to the standard error then. If the standard error is not a terminal,\n"
      "only --monitor prints there during the solve.\n"
      "To continue from a checkpoint, rename it: mv x.mtx x0.mtx; protean solve ... --initial-guess "
      "x0.mtx\n\n"
      "Under mpirun all ranks solve one system, with PETSc as the engine: mpirun -n 4 protean solve P.yaml\n"
      "(docs/distributed.md).\n\n"
      "Ctrl-C stops at the next iteration and writes report and solution; a second one kills.\n"
      "Exit codes: 0 converged, 1 not converged, 2 bad input, 3 out of resources or device failure, 130 "
      "Ctrl-C.");
  return [arguments] {
    arguments->problem = input_path(arguments->problem);
    return other_solve ? other_solve(*arguments) : solve(*arguments);
  };
}

Action add_check(CLI::App& command) {
  const auto arguments = std::make_shared<CheckArguments>();
  command
      .add_option("problem", arguments->solve.problem,
                  "Problem file (YAML), or a matrix, as for `protean solve`")
      ->required()
      ->type_name("P.yaml|A.mtx");
  add_key_options(command, arguments->solve, false);
  add_set(command, arguments->solve.settings);
  add_threads(command, arguments->solve.threads,
              "Threads (otherwise operator.threads, OMP_NUM_THREADS or all)");
  command.add_flag("--json", arguments->solve.json, "As JSON");
  command.footer(
      "Examples:\n  protean check P.yaml\n"
      "  protean check A.mtx --rhs b.mtx --preconditioner ilu0\n\n"
      "Reads the problem and the header of the matrix file, and prints what `protean solve` with the same options\n"
      "would run, what may change while it runs, and what it would write. Errors are the same as of `protean solve`.\n"
      "Of vectors it checks that the files are there.\n"
      "Exit codes: 0 valid, 2 bad input, 3 no such device or library, or an output that cannot be written.");
  return [arguments] {
    arguments->solve.problem = input_path(arguments->solve.problem);
    return check_problem(*arguments);
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
      "A preset, indented under its base, has the layout of its base, and its own parameters or kernel.");
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
  add_set(command, arguments->settings);
  add_formats_of(command, arguments->formats);
  command.add_option("--kernels", arguments->kernels, "Kernels: all, or names")->type_name("K,K");
  command.add_option("--spaces", arguments->spaces, "host, device or both (otherwise operator.space)")
      ->type_name("S,S");
  command
      .add_option("--selectors", arguments->selectors,
                  "Judge selectors of formats by the measured times: all, or names")
      ->type_name("NAME,NAME");
  command
      .add_option(
          "--preconditioners", arguments->preconditioners,
          "Compare combinations of preconditioner and format, and the defaults with the best of them: all, "
          "or names")
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
      "  protean compare P.yaml --formats csr,sell-packed --kernels native --budget 60\n"
      "  protean compare A.mtx --preconditioners all --budget 60\n\n"
      "The total is conversion from CSR, setup of the preconditioner and solve; medians of several runs.\n"
      "Ctrl-C keeps what is done.\n"
      "Exit codes: 0 done, 1 a problem of a suite was broken, 2 bad input, 3 out of resources, 130 Ctrl-C.");
  return [arguments] {
    arguments->problem = input_path(arguments->problem);
    return compare(*arguments);
  };
}

// What follows is read by the program protean-research (command_line.cpp).
Action add_reproduce(CLI::App& command) {
  command.footer(
      "It takes the options of `protean-research reproduce`, which `protean reproduce --help` prints.");
  return [] { return static_cast<int>(done); };
}

Action add_inspect(CLI::App& command) {
  const auto arguments = std::make_shared<InspectArguments>();
  command.add_option("input", arguments->input, "Problem file or matrix")
      ->required()
      ->type_name("P.yaml|M.mtx");
  add_set(command, arguments->settings);
  add_formats_of(command, arguments->formats);
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
  command.add_flag("--presets", *list, "List the names that --preset takes");
  command.add_flag("--kinds", *kinds, "List the kinds of matrix.generate with their keys");
  add_set(command, arguments->settings);
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
          "`--presets` list them");
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
          "Measure only these formats (otherwise all) and update their rows of the table; `format: auto` "
          "considers only formats that the table has")
      ->type_name("F,F,...");
  command
      .add_option("--matrices", arguments->matrices,
                  "Your own matrices, which are measured after the built-in ones")
      ->delimiter(',')
      ->type_name("F.mtx,...");
  command
      .add_option("--export", arguments->exported,
                  "Measure nothing: write the table of -o to this file, for other machines of this kind")
      ->type_name("F.yaml");
  command
      .add_option("--import", arguments->imported,
                  "Measure nothing: take such a file of a machine of this kind as the new table -o")
      ->type_name("F.yaml");
  add_threads(command, arguments->threads, "Threads (otherwise OMP_NUM_THREADS or all)");
  command.add_flag("--quiet", arguments->quiet, "Errors only");
  command.footer(
      "Examples:\n"
      "  protean tune -o machine.yaml && PROTEAN_MACHINE=machine.yaml protean solve P.yaml\n"
      "  protean tune --export shared.yaml\n"
      "  protean tune --import shared.yaml -o machine.yaml\n\n"
      "An exported table names the processor, the GPU, the threads, the version and the date, and has no matrices of\n"
      "yours (--matrices). A table in share/protean/tables of the installation, or in the folder that PROTEAN_TABLES\n"
      "names, is used by itself if its file is named for this processor or GPU.\n\n"
      "`format: auto` and `schedule: {policy: auto}` predict with the table; without one, with a table of "
      "another machine.\n"
      "Ctrl-C keeps what is done; the same command continues from there.\n"
      "Exit codes: 0 done or out of budget, 2 bad input, 3 out of resources, 130 Ctrl-C.");
  return [arguments] { return tune(*arguments); };
}

Action add_schema(CLI::App& command) {
  command.footer(
      "Example:\n"
      "  protean schema > protean.schema.json\n\n"
      "An editor with a YAML language server completes keys and words, and marks mistakes, if a problem file\n"
      "begins with the line\n"
      "  # yaml-language-server: $schema=protean.schema.json\n"
      "The path begins at the folder of that file. An installation has the schema as\n"
      "share/protean/protean.schema.json.");
  return [] {
    print(problem_schema());
    return done;
  };
}

Action add_doctor(CLI::App& command) {
  const auto arguments = std::make_shared<DoctorArguments>();
  command.add_flag("--json", arguments->json, "As JSON, for a bug report");
  command.footer(
      "Looks at the processor, threads and what limits them, memory, GPUs and their driver, the libraries of this\n"
      "build, MPI, the machine table, and the folders that are written to; then it checks a product and a solve.\n"
      "Each line is ok, a warning or a fault, and says what to do.\n"
      "Exit codes: 0 all is ok, 1 there is a warning, 3 there is a fault.\n"
      "A command that ends before it begins, because a library such as libgomp.so.1 is not found, cannot examine\n"
      "itself: the message of the system names the library, and `ldd $(command -v protean)` lists all that it needs.");
  return [arguments] { return doctor(*arguments); };
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

constexpr Command commands[] = {
    {"solve", "Solve the system of a problem file or of a matrix", add_solve},
    {"check", "Check a problem and show what a solve would do", add_check},
    {"compare", "Solve a system in every format and compare all costs", add_compare},
    {"reproduce", "Regenerate tables and figures of the source papers, with our numbers next to theirs",
     add_reproduce},
    {"formats", "List the storage formats, or describe one", add_formats},
    {"inspect", "Show the features of a matrix and its size in each format", add_inspect},
    {"generate", "Write a generated matrix to a file", add_generate},
    {"tune", "Measure this machine for predictions of products and conversions", add_tune},
    {"convert", "Rewrite a matrix in another file format", add_convert},
    {"schema", "Print the JSON Schema of problem files, for editors", add_schema},
    {"doctor", "Examine this machine and this build, and say what is wrong", add_doctor},
    {"help", "Explain a command, a part of the problem file, or an exit code", add_help},
};

}  // namespace

std::span<const Command> protean_commands() noexcept { return commands; }

void solve_by(int (*solve)(const SolveArguments& arguments)) noexcept { other_solve = solve; }

}  // namespace protean::apps

#include "apps/solve/check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/launch.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/problem/settings.hpp"
#include "apps/problem/system.hpp"
#include "apps/report/json.hpp"
#include "apps/report/output.hpp"
#include "core/io/matrix_head.hpp"
#include "core/option_checks.hpp"
#include "formats/catalogue.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"
#include "systems/system_solver.hpp"

namespace protean::apps {
namespace {

using CheckedLine = std::pair<std::string, std::string>;

bool is_petsc(const Problem& problem) { return problem.engine.name == "petsc"; }
bool starts_on_elements(const Problem& problem) {
  return problem.matrix.fem && !problem.matrix.fem->assembled;
}

// "restart 60, orthogonalization 'mgs'": what is not the default.
template <class Options>
std::string changed_options(std::span<const Option<Options>> table, const Options& options) {
  std::vector<std::string> texts;
  for (const Option<Options>& option : table)
    if (!option.is_default(options))
      texts.push_back(fmt::format("{} {}", option.name, value_text(option, option.value(options))));
  return fmt::format("{}", fmt::join(texts, ", "));
}
std::string with_options(std::string_view name, const std::string& options) {
  return options.empty() ? std::string(name) : fmt::format("{} ({})", name, options);
}

std::string preconditioner_text(const SolveSettings& settings) {
  if (settings.parts.empty())
    return with_options(settings.preconditioner.name(),
                        changed_options(preconditioner_options(), settings.preconditioning));
  std::vector<std::string> parts;
  for (const PreconditionerPart& part : settings.parts)
    parts.push_back(with_options(part.id, changed_options(preconditioner_options(), part.options)));
  return fmt::format("composition, {}: {}", to_string(settings.combine), fmt::join(parts, ", "));
}

std::string parameters_text(const FormatParams& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters.all()) text += fmt::format(", {} {}", name, value);
  return text;
}

std::string format_text(const Problem& problem) {
  if (starts_on_elements(problem))
    return fmt::format("element matrices, variant {}", to_string(problem.op.variant));
  const SolveSettings& settings = problem.settings;
  return fmt::format("{}{}, kernel {}", settings.format, parameters_text(settings.parameters),
                     settings.kernel.empty() ? "the default one" : settings.kernel);
}

std::string guess_text(const VectorSpec& guess) {
  if (guess.file) return guess.file.given;
  return guess.seed ? fmt::format("random numbers in [-1, 1), seed {}", *guess.seed) : "zero";
}

std::string point_text(const SchedulePoint& point) {
  const std::string when =
      point.trigger == ScheduleTrigger::iteration  ? fmt::format("at iteration {:.0f}", point.at)
      : point.trigger == ScheduleTrigger::residual ? fmt::format("at a relative residual of {:g}", point.at)
                                                   : fmt::format("after {:g} s", point.at);
  std::string to = point.to.elements ? "element matrices"
                   : point.to.entry  ? std::string(point.to.entry->id)
                                     : "";
  if (point.to.entry) to += parameters_text(point.to.params);
  if (!point.to.order.empty()) to += fmt::format("{}order {}", to.empty() ? "" : ", ", point.to.order);
  return fmt::format("{}: {}", when, to);
}

// What a solve may decide by itself, a sentence each.
std::vector<std::string> changes_of(const Problem& problem, bool over_devices) {
  std::vector<std::string> changes;
  const SolveSettings& settings = problem.settings;
  if (is_petsc(problem)) return changes;
  if (over_devices && settings.method == "auto") changes.emplace_back("the method: chosen by the matrix");
  if (over_devices) return changes;
  if (settings.method == "auto")
    changes.emplace_back("the method: chosen by the matrix, another one if it cannot solve the system");
  if (settings.preconditioner == "auto" && settings.parts.empty())
    changes.emplace_back("the preconditioner: jacobi, another one in a long solve if that pays");
  if (policy_decides(problem))
    changes.push_back(
        fmt::format("the format and the order of the rows, if that pays (selector {})", settings.selector));
  else if (settings.format == "auto" && !starts_on_elements(problem) && settings.schedule.empty())
    changes.push_back(fmt::format("the format: chosen before the solve (selector {})", settings.selector));
  if (settings.order == "auto") changes.emplace_back("the order of the rows: chosen before the solve");
  for (const SchedulePoint& point : settings.schedule) changes.push_back(point_text(point));
  return changes;
}

// Everything that a check finds out.
struct Checked {
  Problem problem;
  std::optional<io_detail::MatrixHead> head;  // of a matrix file
  int threads = 0;
  std::vector<int> devices;  // of several GPUs: their numbers
  std::string table;         // of machine times
};

// What a solve refuses before it reads the matrix, and where it finds out.
void require_kernels(const Problem& problem) {
  const SolveSettings& settings = problem.settings;
  const Space space = problem.op.space;
  if (!starts_on_elements(problem) && settings.format != "auto")
    (void)find_kernel(find_format(settings.format), settings.kernel, space);
  for (const SchedulePoint& point : settings.schedule)
    if (point.to.entry) (void)find_kernel(*point.to.entry, point.to.kernel, space);
}

Checked look_at(const SolveArguments& arguments) {
  Checked found;
  found.problem = checked_problem(arguments);
  const Problem& problem = found.problem;
  if (is_petsc(problem)) {
    (void)ranks_program();
  } else {
    const Contexts contexts = make_contexts(problem);
    found.threads = contexts.host->threads();
    if (!contexts.devices.empty()) found.devices = contexts.numbers;
    const ChosenMachine machine = choose_machine(problem.schedule.machine.path);
    found.table = machine.from;
    const SystemSolver<double> solver(settings_of(problem, contexts.solve, machine.table()));
    require_kernels(problem);
  }
  if (problem.matrix.file) {
    found.head = io_detail::read_matrix_head(problem.matrix.file.path);
    require_system(problem, found.head->rows, found.head->cols);
  }
  return found;
}

std::string matrix_text(const Checked& found) {
  const MatrixSpec& matrix = found.problem.matrix;
  const std::string scale = matrix.scale == 1 ? "" : fmt::format(", times {:g}", matrix.scale);
  if (found.head)
    return fmt::format("{}: {}, {} rows, {} entries in the file{}", matrix.file.given, found.head->form,
                       grouped(found.head->rows), grouped(found.head->entries), scale);
  std::string text;
  const Json generated = problem_json(found.problem)["matrix"]["generate"];
  for (const auto& [name, value] : generated.items())
    if (name != "kind")
      text += fmt::format(", {} {}", name, value.is_string() ? value.get<std::string>() : value.dump());
  return fmt::format("generated: {}{}{}", matrix.kind, text, scale);
}

std::vector<CheckedLine> rows_of(const Checked& found) {
  const Problem& problem = found.problem;
  const SolveSettings& settings = problem.settings;
  const StoppingRule& rule = settings.solver.stopping;
  std::vector<CheckedLine> rows = {
      {"problem", title_of(problem)}, {"matrix", matrix_text(found)}, {"rhs", rhs_text(problem.rhs)}};
  if (problem.rhs.columns > 1) rows.emplace_back("", fmt::format("{} right-hand sides", problem.rhs.columns));
  rows.emplace_back("start", guess_text(problem.initial_guess));
  rows.emplace_back("method",
                    with_options(settings.method.name(), changed_options(solver_options(), settings.solver)));
  std::string limits =
      fmt::format("relative residual {:g} of {} ({}), or {} iterations", rule.relative_tolerance,
                  baseline_name(rule.baseline), norm_name(settings.solver), rule.max_iterations);
  if (rule.absolute_tolerance > 0) limits += fmt::format(", or residual {:g}", rule.absolute_tolerance);
  if (std::isfinite(rule.max_seconds)) limits += fmt::format(", or {:g} s", rule.max_seconds);
  rows.emplace_back("ends at", limits);
  rows.emplace_back("preconditioner", preconditioner_text(settings));
  if (is_petsc(problem)) {
    rows.emplace_back("engine", with_options("petsc", problem.engine.options) + ", rows divided by " +
                                    problem.engine.partition);
  } else {
    rows.emplace_back("format", format_text(problem));
    rows.emplace_back("order", settings.order);
    if (!found.devices.empty())
      rows.emplace_back("runs on",
                        fmt::format("{} GPUs, numbers {}, rows divided by {}", found.devices.size(),
                                    fmt::join(found.devices, ", "), problem.engine.partition));
    else
      rows.emplace_back("runs on", problem.op.space == Space::device
                                       ? std::string("the GPU")
                                       : fmt::format("the host, {} {}", found.threads,
                                                     found.threads == 1 ? "thread" : "threads") +
                                             (problem.op.deterministic ? ", deterministic" : ""));
    rows.emplace_back("table", found.table);
    if (const std::string policy = changed_options(policy_options(), settings.policy_options);
        !policy.empty())
      rows.emplace_back("policy", policy);
  }
  std::string_view name = "may change";
  for (const std::string& change : changes_of(problem, !found.devices.empty()))
    rows.emplace_back(std::exchange(name, ""), change);
  if (!name.empty()) rows.emplace_back(name, "nothing");
  name = "writes";
  const OutputSpec& output = problem.output;
  for (const auto& [what, file] : {std::pair{"x", &output.solution},
                                   {"report", &output.report},
                                   {"history", &output.history},
                                   {"fields", &output.fields}})
    if (*file) rows.emplace_back(std::exchange(name, ""), fmt::format("{}: {}", what, file->path));
  if (!name.empty()) rows.emplace_back(name, "no file");
  return rows;
}

Json check_json(const Checked& found) {
  Json json = {{"valid", true}, {"problem", problem_json(found.problem)}};
  if (found.head)
    json["matrix"] = {{"form", found.head->form},
                      {"rows", found.head->rows},
                      {"columns", found.head->cols},
                      {"entries_in_file", found.head->entries}};
  if (!found.devices.empty()) json["devices"] = found.devices;
  if (!is_petsc(found.problem)) json["threads"] = found.threads, json["machine_table"] = found.table;
  json["may_change"] = changes_of(found.problem, !found.devices.empty());
  return json;
}

}  // namespace

int check_problem(const CheckArguments& arguments) {
  const Checked found = look_at(arguments.solve);
  if (arguments.solve.json) {
    print(text(check_json(found)));
    return 0;
  }
  constexpr std::size_t indent = 18, width = 80;
  std::string page = "\n";
  for (const auto& [name, value] : rows_of(found))
    page += fmt::format("  {:<14}  {}\n", name, wrapped(value, indent, width));
  print(page +
        fmt::format("  {:<14}  {}\n", "valid",
                    wrapped("nothing was solved; of the matrix only the header was read", indent, width)));
  return 0;
}

}  // namespace protean::apps

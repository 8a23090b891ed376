#include "apps/solve/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "apps/report/json.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "apps/solve/parts_report.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/words.hpp"

namespace protean::apps {
namespace {

// What a schedule did at one of its points.
Json decision_json(const ScheduleEvent& event) {
  return {{"iteration", event.iteration},
          {"seconds", event.seconds},
          {"relative_residual", number(event.relative_residual)},
          {"action", to_string(event.action)},
          {"to", event.to},
          {"reason", event.reason}};
}

// What the policy decided.
Json decision_json(const DecisionRecord& d) {
  return {{"iteration", d.iteration},
          {"seconds", d.seconds},
          {"action", to_string(d.action)},
          {"to", d.format},
          {"reason", d.reason},
          {"gain_seconds_per_iteration", number(d.gain_seconds)},
          {"cost_seconds", number(d.cost_seconds)},
          {"cost_at_most_seconds", number(d.worst_seconds)},
          {"spent_seconds", number(d.excess_seconds)},
          {"allowed_seconds", number(d.allowed_seconds)},
          {"remaining_iterations",
           {{"known", d.remaining.known},
            {"low", number(d.remaining.low)},
            {"likely", number(d.remaining.likely)},
            {"high", number(d.remaining.high)}}}};
}

// What changes of the method and of the preconditioner have in common.
template <class Change>
Json change_json(const Change& one) {
  return {{"iteration", one.iteration},
          {"seconds", one.seconds},
          {"relative_residual", number(one.relative_residual)},
          {"action", to_string(one.action)},
          {"from", one.from},
          {"to", one.to},
          {"reason", one.reason}};
}

Json candidate_json(const CandidateRecord& c) {
  Json json = {
      {"format", c.format},
      {"admitted", c.admitted},
      {"why", c.why},
      {"bytes", c.bytes},
      {"ran", c.ran},
      {"lost", c.lost},
      {"predicted",
       {{"product_seconds", c.predicted_product},
        {"convert_seconds", c.predicted_convert},
        {"uncertainty", c.uncertainty}}},
      {"measured", {{"product_seconds", c.measured_product}, {"convert_seconds", c.measured_convert}}}};
  if (c.order != "none") json["order"] = c.order;
  return json;
}

// Of several right-hand sides: one entry for each.
void add_columns(Json& json, const SolveRecord& r) {
  const MultiSolveReport& all = r.columns;
  if (all.columns.empty()) return;
  json["columns"] = Json::array();
  for (std::size_t j = 0; j < all.columns.size(); ++j) {
    const SolveReport& one = all.columns[j];
    Json column = {{"status", one.converged() ? "converged" : "not-converged"},
                   {"reason", to_string(one.reason)},
                   {"iterations", one.iterations},
                   {"restarts", one.restarts},
                   {"residual",
                    {{"true_relative", number(one.true_relative)},
                     {"recurrence_relative", number(one.recurrence_relative)},
                     {"true", number(one.true_residual)},
                     {"recurrence", number(one.recurrence_residual)},
                     {"initial", number(one.initial_residual)},
                     {"rhs", number(one.rhs_norm)}}},
                   {"seconds", one.seconds}};
    if (!one.detail.empty()) column["detail"] = one.detail;
    if (j < r.column_errors.size())
      column["error"] = {{"norm", "2-norm"}, {"relative", number(r.column_errors[j])}};
    json["columns"].push_back(std::move(column));
  }
  json["multi"] = {{"iterations", all.iterations}, {"passes", all.products}, {"product", all.product}};
  if (!all.preconditioner.empty()) json["multi"]["preconditioner"] = all.preconditioner;
}

// How the solve ended.
void add_result(Json& json, const SolveRecord& r) {
  const SolveReport& result = r.result;
  json["status"] = result.converged() ? "converged" : "not-converged";
  json["reason"] = to_string(result.reason);
  if (!result.detail.empty()) json["detail"] = result.detail;
  if (!r.advice.empty()) json["advice"] = r.advice;
  if (!r.note.empty()) json["note"] = r.note;
  json["iterations"] = result.iterations;
  json["restarts"] = result.restarts;
  if (result.corrections > 0) json["corrections"] = result.corrections;
  if (!result.left_rounding.empty()) json["left_rounding"] = result.left_rounding;
  json["steps"] = {{"how", result.steps}};
  if (!result.steps_reason.empty()) json["steps"]["reason"] = result.steps_reason;
  json["residual"] = {{"norm", norm_name(r.problem.settings.solver)},
                      {"baseline", baseline_name(r.problem.settings.solver.stopping.baseline)},
                      {"true_relative", number(result.true_relative)},
                      {"recurrence_relative", number(result.recurrence_relative)},
                      {"true", number(result.true_residual)},
                      {"recurrence", number(result.recurrence_residual)},
                      {"initial", number(result.initial_residual)},
                      {"rhs", number(result.rhs_norm)}};
  if (r.error) json["error"] = {{"norm", "2-norm"}, {"relative", number(*r.error)}};
  add_columns(json, r);
}

// What it cost, and with which operator.
void add_costs(Json& json, const SolveRecord& r) {
  json["seconds"] = {
      {"start", r.seconds.start},       {"read", r.seconds.read},   {"upload", r.seconds.upload},
      {"convert", r.seconds.convert},   {"setup", r.seconds.setup}, {"solve", r.seconds.solve},
      {"download", r.seconds.download}, {"write", r.seconds.write}, {"total", r.seconds.total}};
  if (!r.order.empty()) {
    json["seconds"]["order"] = r.seconds.order;
    json["order"] = {{"order", r.order}};
    if (!r.order_reason.empty()) json["order"]["reason"] = r.order_reason;
  }
  json["memory"] = {{"matrix_bytes", r.matrix_bytes},
                    {"peak_bytes", r.peak_bytes},
                    {"peak_buffer_bytes", r.peak_buffer_bytes}};
  json["operator"] = {{"format", r.format},
                      {"kernel", r.kernel},
                      {"vector_kernels", to_string(r.vector_kernels)},
                      {"space", to_string(r.problem.op.space)},
                      {"deterministic", r.problem.op.deterministic},
                      {"parameters", parameters_json(r.parameters)},
                      {"products", r.products}};
  if (!r.values.empty()) json["operator"]["values"] = r.values;
  if (!r.values_reason.empty()) json["operator"]["values_reason"] = r.values_reason;
  if (!r.parts.empty()) json["operator"]["parts"] = Json::array();
  for (const PartShare& part : r.parts) {
    Json& one = json["operator"]["parts"].emplace_back(
        Json{{"format", part.format}, {"entries", part.entries}, {"bytes", part.bytes}});
    if (!part.where.empty()) one["where"] = part.where;
  }
  if (!r.tuning.choices.empty()) {
    Json& tuning = json["operator"]["tuning"];
    tuning = {
        {"settled", r.tuning.settled}, {"measurements", r.tuning.measurements}, {"choices", Json::array()}};
    for (const Tuning::Choice& choice : r.tuning.choices)
      tuning["choices"].push_back({{"option", choice.option}, {"value", choice.value}, {"by", choice.by}});
    if (r.tuning.predicted_seconds > 0) {
      tuning["corrections"] = r.tuning.corrections;
      tuning["predicted_seconds"] = r.tuning.predicted_seconds;
      if (r.tuning.measured_seconds > 0) tuning["measured_seconds"] = r.tuning.measured_seconds;
    }
    if (!r.tuning.note.empty()) tuning["note"] = r.tuning.note;
  }
  if (!r.method_reason.empty()) json["solver"] = {{"chosen", r.method}, {"reason", r.method_reason}};
  const bool several = !r.columns.columns.empty();
  if (!r.method_reason.empty()) {
    Json& changes = json["solver"]["changes"] = Json::array();
    for (const MethodChange& one : r.method_changes) {
      changes.push_back(change_json(one));
      if (one.restart > 0) changes.back()["restart"] = one.restart;
      if (several) changes.back()["columns"] = one.columns;
    }
  }
  json["preconditioner"] = {{"type", preconditioner_type(r.problem.settings)},
                            {"bytes", r.preconditioner_bytes}};
  if (!r.preconditioner_storage.empty()) json["preconditioner"]["storage"] = r.preconditioner_storage;
  if (!r.storage_reason.empty()) json["preconditioner"]["storage_reason"] = r.storage_reason;
  if (!r.preconditioner_reason.empty())
    json["preconditioner"]["chosen"] = r.chosen_preconditioner,
    json["preconditioner"]["reason"] = r.preconditioner_reason;
  for (const PreconditionerFigure& figure : r.preconditioner)
    json["preconditioner"][std::string(figure.name)] = number(figure.value);
  if (!r.preconditioner_reason.empty()) {
    Json& changes = json["preconditioner"]["changes"] = Json::array();
    for (const PreconditionerChange& one : r.preconditioner_changes) {
      Json change = change_json(one);
      change["setup_seconds"] = one.setup_seconds;
      change["application_seconds"] = one.application_seconds;
      change["gained_seconds"] = number(one.gained_seconds);
      if (several) change["columns"] = one.columns;
      changes.push_back(std::move(change));
    }
  }
  if (!r.kernel_note.empty()) json["operator"]["note"] = r.kernel_note;
  if (!r.format_reason.empty()) json["operator"]["reason"] = r.format_reason;
  if (!r.choice.taken.empty()) {
    json["operator"]["choice"] = {{"wanted", r.choice.wanted}, {"taken", r.choice.taken}};
    Json& choice = json["operator"]["choice"];
    if (!r.choice.refused.empty()) choice["refused"] = r.choice.refused;
    if (!r.choice.selector.empty()) choice["selector"] = r.choice.selector, choice["ranking"] = Json::array();
    for (const ConsideredFormat& format : r.choice.ranking)
      choice["ranking"].push_back({{"format", format.format},
                                   {"parameters", parameters_json(format.parameters)},
                                   {"product_seconds", format.product_seconds},
                                   {"convert_seconds", format.convert_seconds},
                                   {"reason", format.reason}});
  }
}

// The changes of format that were made, the changes that failed, and every decision.
void add_switches(Json& json, const SolveRecord& r) {
  json["switches"] = Json::array();
  for (const SwitchRecord& record : r.switches) json["switches"].push_back(switch_json(record));
  json["failed_switches"] = Json::array();
  for (const FailedSwitch& failed : r.failed_switches)
    json["failed_switches"].push_back(failed_switch_json(failed));
  json["decisions"] = Json::array();
  for (const ScheduleEvent& event : r.decisions) json["decisions"].push_back(decision_json(event));
  for (const DecisionRecord& decision : r.policy.decisions)
    json["decisions"].push_back(decision_json(decision));
  if (!r.policy.decides) return;
  json["policy"] = {{"machine", r.policy.machine}, {"candidates", Json::array()}};
  for (const CandidateRecord& candidate : r.policy.candidates)
    json["policy"]["candidates"].push_back(candidate_json(candidate));
}

// Which of the changes shown the limit of the policy counts; empty if it counts all.
std::string counted_text(const SolveRecord& r) {
  if (!r.policy.decides || r.switches.empty()) return {};
  const SwitchRecord& first = r.switches.front();
  const auto back = std::count_if(r.switches.begin(), r.switches.end(), [&](const SwitchRecord& change) {
    return change.to == first.from && change.to_kernel == first.from_kernel &&
           change.to_order == first.from_order;
  });
  if (back == 0) return {};
  return fmt::format("{} of at most {} changes (most_switches); {} back to {} {} not count",
                     std::ssize(r.switches) - back, r.problem.settings.policy_options.most_switches, back,
                     first.from, back == 1 ? "does" : "do");
}

bool is_written(const SolveRecord& r, const std::string& path) {
  return std::none_of(r.not_written.begin(), r.not_written.end(),
                      [&](const OutputWriter::Failure& one) { return one.path == path; });
}

}  // namespace

Json switch_json(const SwitchRecord& record) {
  Json json = {{"iteration", record.iteration},
               {"from", record.from},
               {"to", record.to},
               {"convert_seconds", record.convert_seconds},
               {"assemble_seconds", record.assemble_seconds},
               {"wait_seconds", record.wait_seconds},
               {"overlapped", record.overlapped},
               {"begun_iteration", record.begun_iteration},
               {"reason", record.reason},
               {"parameters", parameters_json(record.parameters)},
               {"memory",
                {{"before_bytes", record.bytes_before},
                 {"after_bytes", record.bytes_after},
                 {"peak_bytes", record.bytes_peak}}}};
  if (record.from_kernel != record.to_kernel) json["kernel"] = record.to_kernel;
  if (record.from_order != record.to_order)
    json["order"] = {{"from", record.from_order}, {"to", record.to_order}, {"seconds", record.order_seconds}};
  json["values"] = {{"from", record.from_values}, {"to", record.to_values}};
  return json;
}

Json failed_switch_json(const FailedSwitch& failed) {
  Json json = {{"iteration", failed.iteration},
               {"to", failed.to},
               {"kernel", failed.kernel.empty() ? "native" : failed.kernel},
               {"parameters", parameters_json(failed.parameters)},
               {"overlapped", failed.overlapped},
               {"reason", failed.reason},
               {"failure", to_string(failed.failure)},
               {"why", failed.why}};
  if (!failed.order.empty()) json["order"] = failed.order;
  return json;
}

std::string switch_text(const SwitchRecord& record) {
  const auto name = [](const std::string& format, const std::string& kernel) {
    return kernel == "native" ? format : format + "/" + kernel;
  };
  return fmt::format(
      "{} -> {}{}{}, {} in {}{}", name(record.from, record.from_kernel), name(record.to, record.to_kernel),
      record.from_order == record.to_order
          ? ""
          : fmt::format(", order {} -> {}", record.from_order, record.to_order),
      record.from_values == record.to_values
          ? ""
          : fmt::format(", values {} -> {}", record.from_values, record.to_values),
      record.assemble_seconds > 0 ? "assembled and converted" : "converted", duration(record.convert_seconds),
      record.overlapped ? fmt::format(" next to the solve (begun at {}, adopted in {})",
                                      record.begun_iteration, duration(record.wait_seconds))
                        : "");
}

std::string report_json(const SolveRecord& r) { return text(report_object(r)); }

Json report_object(const SolveRecord& r) {
  Json json = Json::object();
  add_result(json, r);
  add_costs(json, r);
  add_switches(json, r);
  json["matrix"] = {{"rows", r.rows}, {"cols", r.rows}, {"nonzeros", r.nonzeros}};
  if (r.elements > 0) json["matrix"]["elements"] = r.elements;
  if (Json devices = devices_json(r); !devices.is_null()) json["devices"] = std::move(devices);
  json["rhs"] = {{"given", r.problem.rhs.given}, {"text", rhs_text(r.problem.rhs)}};
  for (const OutputWriter::Failure& one : r.not_written)
    json["not_written"].push_back({{"output", one.name}, {"path", one.path}, {"why", one.why}});
  json["machine"] = machine_json(r.threads);
  json["machine"]["table"] = r.table;
  json["problem"] = problem_json(r.problem);
  return json;
}

std::string history_lines(const std::vector<IterationInfo>& history) {
  std::string text;
  for (const IterationInfo& info : history)
    text += fmt::format("{},{:.17g},{:.17g},{:.9f},{}\n", info.iteration, info.residual,
                        info.relative_residual, info.seconds, info.rounded ? "float" : "double");
  return text;
}

std::string history_csv(const std::vector<IterationInfo>& history) {
  return "iteration,residual,relative_residual,seconds,values\n" + history_lines(history);
}

namespace {

// Of gmres, which method auto may give longer cycles.
std::int64_t restart_of(const SolveRecord& r) {
  std::int64_t restart = r.problem.settings.solver.restart;
  for (const MethodChange& one : r.method_changes)
    if (one.action == MethodChange::Action::changed && one.restart > 0) restart = one.restart;
  return restart;
}

}  // namespace

std::string summary(const SolveRecord& r) {
  constexpr std::size_t indent = 15, width = 80;
  const SolveReport& result = r.result;
  const Problem& p = r.problem;
  std::string text = "\n";
  const auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<11}  {}\n", name, wrapped(value, indent, width));
  };
  const std::string matrix = p.matrix.file ? p.matrix.file.given : p.matrix.kind;
  row("problem", p.title.empty() ? matrix : p.title);
  row("matrix", r.elements > 0
                    ? fmt::format("{}: {} rows, {} element matrices of {} entries", matrix, grouped(r.rows),
                                  grouped(r.elements), grouped(r.nonzeros))
                    : fmt::format("{}: {} rows, {} nonzeros", matrix, grouped(r.rows), grouped(r.nonzeros)));
  row("rhs", rhs_text(p.rhs));
  std::vector<std::string> figures;
  for (const PreconditionerFigure& figure : r.preconditioner)
    figures.push_back(fmt::format("{} {:.4g}", figure.name, figure.value));
  if (r.preconditioner_storage.starts_with("float")) figures.push_back("storage " + r.preconditioner_storage);
  row("method",
      fmt::format("{}, preconditioner {}{}",
                  r.method == "gmres" || r.method == "fgmres" ? fmt::format("{}({})", r.method, restart_of(r))
                  : r.method == "fcg" ? fmt::format("fcg({})", p.settings.solver.directions)
                  : r.method == "idr" ? fmt::format("idr({})", p.settings.solver.s)
                                      : r.method,
                  r.preconditioner_reason.empty() ? std::string(preconditioner_type(p.settings))
                                                  : r.chosen_preconditioner,
                  figures.empty() ? "" : fmt::format(" ({})", fmt::join(figures, ", "))));
  if (!r.method_reason.empty()) row("", "auto: " + r.method_reason);
  for (const MethodChange& one : r.method_changes) {
    const bool changed = one.action == MethodChange::Action::changed;
    row("", fmt::format("it {}: {} {}{}", one.iteration, changed ? one.from : "not", changed ? "-> " : "",
                        one.to));
  }
  if (!r.preconditioner_reason.empty())
    row("", (preconditioner_type(p.settings) == "auto" ? "auto: " : "") + r.preconditioner_reason);
  if (!r.storage_reason.empty()) row("", "storage auto: double, since " + r.storage_reason);
  for (const PreconditionerChange& one : r.preconditioner_changes)
    row("", fmt::format("it {}: {} {}{}", one.iteration,
                        one.action == PreconditionerChange::Action::refused ? "not" : one.from,
                        one.action == PreconditionerChange::Action::refused ? "" : "-> ", one.to) +
                (one.setup_seconds > 0 ? ", set up in " + duration(one.setup_seconds) : std::string()));
  row("status", fmt::format("{} ({}){}{}", result.converged() ? "converged" : "NOT CONVERGED",
                            to_string(result.reason), result.detail.empty() ? "" : ": ", result.detail));
  if (!r.advice.empty()) row("advice", r.advice);
  if (!r.note.empty()) row("note", r.note);
  if (const auto& columns = r.columns.columns; !columns.empty()) {
    const auto good =
        std::count_if(columns.begin(), columns.end(), [](const SolveReport& one) { return one.converged(); });
    std::int64_t least = columns.front().iterations;
    for (const SolveReport& one : columns) least = std::min(least, one.iterations);
    row("columns", fmt::format("{} right-hand sides, {} converged, {} to {} iterations; products {}",
                               columns.size(), good, least, r.columns.iterations, r.columns.product));
    if (!r.columns.preconditioner.empty() && r.columns.preconditioner != "diagonal")
      row("", "preconditioner " + r.columns.preconditioner);
    row("", good == std::ssize(columns)
                ? "what follows is of the column with the most iterations"
                : "status and residual are of the first column that has not converged");
  }
  row("iterations", result.restarts > 0 ? fmt::format("{}, restarts {}", result.iterations, result.restarts)
                                        : std::to_string(result.iterations));
  row("residual",
      fmt::format("true {:.3e}, recurrence {:.3e} ({}, relative to {})", result.true_relative,
                  result.recurrence_relative, norm_name(p.settings.solver),
                  p.settings.solver.stopping.baseline == Baseline::rhs ? "b" : "the initial residual"));
  if (r.error) row("error", fmt::format("{:.3e} (2-norm, relative to the known solution)", *r.error));
  const bool device = r.problem.op.space == Space::device;
  row("time", fmt::format("{}read {}, {}convert {}, setup {}, solve {}, total {}",
                          device ? fmt::format("start {}, ", duration(r.seconds.start)) : "",
                          duration(r.seconds.read),
                          device ? fmt::format("upload {}, ", duration(r.seconds.upload)) : "",
                          duration(r.seconds.convert), duration(r.seconds.setup), duration(r.seconds.solve),
                          duration(r.seconds.total)));
  if (result.iterations > 0)
    row("",
        fmt::format("{} an iteration", duration(result.seconds / static_cast<double>(result.iterations))));
  row("memory",
      fmt::format(
          "matrix {} ({:.2f} bytes a nonzero), peak {}", human_bytes(r.matrix_bytes),
          r.nonzeros > 0 ? static_cast<double>(r.matrix_bytes) / static_cast<double>(r.nonzeros) : 0.0,
          human_bytes(r.peak_bytes)));
  std::vector<std::string> parameters;
  for (const auto& [name, value] : r.parameters.all())
    parameters.push_back(fmt::format("{} {}", name, value));
  row("format", fmt::format("{}{}{}, kernel {}, {}{}", r.format, parameters.empty() ? "" : ", ",
                            fmt::join(parameters, ", "), r.kernel,
                            device ? fmt::format("on {}, steps: {}", gpus_text(r), result.steps)
                                   : fmt::format("{} {}", r.threads, r.threads == 1 ? "thread" : "threads"),
                            p.op.deterministic ? ", deterministic" : ""));
  if (r.values.starts_with("float (") || r.values == "dictionary" || !result.left_rounding.empty())
    row("values", fmt::format("{}: {}{}", r.values, r.values_reason,
                              result.corrections > 0
                                  ? fmt::format(" ({} {})", result.corrections,
                                                result.corrections == 1 ? "correction" : "corrections")
                                  : ""));
  if (!r.parts.empty()) row("", "parts: " + text_of(r.parts));
  if (!r.tuning.choices.empty()) {
    std::vector<std::string> choices;
    for (const Tuning::Choice& choice : r.tuning.choices)
      choices.push_back(fmt::format("{} {} ({})", choice.option, choice.value, choice.by));
    row("", fmt::format("options: {}{}", fmt::join(choices, ", "),
                        r.tuning.settled ? "" : "; the solve ended before all were tried"));
    if (r.tuning.predicted_seconds > 0)
      row("", fmt::format("a product: predicted {}, {}; {} {}", duration(r.tuning.predicted_seconds),
                          r.tuning.measured_seconds > 0 ? "measured " + duration(r.tuning.measured_seconds)
                                                        : "not measured with these options yet",
                          r.tuning.corrections, r.tuning.corrections == 1 ? "correction" : "corrections"));
    if (!r.tuning.note.empty()) row("", "options stay as they are: " + r.tuning.note);
  }
  if (r.vector_kernels != VectorKernels::native)
    row("", fmt::format("vector operations: {}", to_string(r.vector_kernels)));
  if (!r.kernel_note.empty()) row("", fmt::format("{}: {}", r.kernel, r.kernel_note));
  if (!r.format_reason.empty()) row("", "auto: " + r.format_reason);
  if (!r.order.empty())
    row("order", fmt::format("{}{}{}{}", r.order,
                             r.order == "none" ? "" : ", " + duration(r.seconds.order) + " before the solve",
                             r.order_reason.empty() ? "" : "; auto: ", r.order_reason));
  for (std::size_t i = 0; i < r.switches.size(); ++i)
    row(i == 0 ? "switches" : "",
        fmt::format("it {}: {}", r.switches[i].iteration, switch_text(r.switches[i])));
  if (const std::string counted = counted_text(r); !counted.empty()) row("", counted);
  if (r.switches.empty() && !r.policy.decisions.empty())
    row("switches", "none: " + r.policy.decisions.back().reason);
  for (const FailedSwitch& failed : r.failed_switches)
    row("", fmt::format("it {}: not to {}{} ({}): {}", failed.iteration, failed.to,
                        failed.order.empty() ? "" : " in order " + failed.order, to_string(failed.failure),
                        failed.why));
  for (const ScheduleEvent& event : r.decisions)
    if (event.action == ScheduleEvent::Action::stayed || event.action == ScheduleEvent::Action::not_reached)
      row("", fmt::format("{} {}: {}", event.to, to_string(event.action), event.reason));
  for (const auto& [name, file] : p.output.files())
    if (*file)
      row(name,
          fmt::format("{}{}", file->path == AtomicFile::standard_output ? "standard output" : file->path,
                      is_written(r, file->path) ? "" : ": NOT WRITTEN"));
  return text + "\n" + devices_text(r);
}

}  // namespace protean::apps

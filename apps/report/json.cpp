#include "apps/report/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/command/build_info.hpp"
#include "core/option_checks.hpp"
#include "core/words.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"
#include "systems/options.hpp"

namespace protean::apps {
namespace {

Json path(const FilePath& file) { return file ? Json(file.given) : Json(nullptr); }

Json vector_json(const VectorSpec& vector, std::string_view word, double word_value) {
  if (vector.file) return {{"file", vector.file.given}};
  if (vector.seed) return {{"random", *vector.seed}};
  if (vector.value == word_value && !word.empty()) return word;
  return {{"value", vector.value}};
}

}  // namespace

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json parameters_json(const FormatParams& parameters) {
  Json json = Json::object();
  for (const auto& [name, value] : parameters.all()) {
    const bool integer =
        !value.empty() && value.find_first_not_of("0123456789", value[0] == '-') == std::string::npos;
    json[name] = integer ? Json(std::stoll(value)) : Json(value);
  }
  return json;
}

std::string_view baseline_name(Baseline baseline) {
  return baseline == Baseline::rhs ? "rhs" : "initial-residual";
}

std::string_view norm_name(const SolverOptions& options) {
  return options.residual_norm == "diagonal" ? "2-norm of rows divided by the diagonal" : "2-norm";
}

namespace {

// Objects and arrays begin as such: one that this library makes of null while it adds to it is lost, and ends the
// process, if there is no memory for it.
Json fem_json(const MatrixSpec& matrix) {
  const fem::Spec& spec = *matrix.fem;
  Json json = Json::object();
  if (spec.shape == fem::Shape::hexahedron) json["degree"] = spec.degree;
  if (matrix.mesh) {
    json["mesh"] = matrix.mesh.given;
  } else {
    json["n"] = spec.n;
    json["distortion"] = spec.distortion;
  }
  json["physics"] = fem::to_string(spec.physics);
  if (spec.physics == fem::Physics::elasticity)
    json["young"] = spec.material.young, json["poisson"] = spec.material.poisson;
  json["storage"] = spec.assembled ? "assembled" : "element";
  return json;
}

Json generated_json(const MatrixSpec& matrix) {
  Json json = Json::object();
  json["kind"] = matrix.kind;
  const auto params = matrix.fem ? std::span<const GeneratorParam>() : find_generator(matrix.kind).params;
  for (const GeneratorParam& param : params) {
    const std::string name(param.name);
    const double value = matrix.params.at(name);
    if (!param.choices.empty())
      json[name] = split(param.choices, '|').at(static_cast<std::size_t>(value));
    else if (std::fabs(value) < 0x1p53 && value == std::floor(value))
      json[name] = static_cast<std::int64_t>(value);
    else
      json[name] = value;
  }
  if (matrix.fem) json.update(fem_json(matrix));
  return json;
}

Json matrix_json(const MatrixSpec& matrix) {
  Json json = Json::object();
  if (matrix.file) {
    json["file"] = matrix.file.given;
    json["duplicates"] = matrix.duplicates == Duplicates::sum ? "sum" : "refuse";
  } else {
    json["generate"] = generated_json(matrix);
  }
  if (matrix.scale != 1) json["scale"] = matrix.scale;
  return json;
}

template <class Options>
Json value_json(const Option<Options>& option, const Options& options) {
  const OptionValue value = option.value(options);
  if (const auto* const word = std::get_if<std::string_view>(&value)) return *word;
  if (const auto* const real = std::get_if<double>(&value)) return number(*real);
  const std::int64_t whole = std::get<std::int64_t>(value);
  return whole == 0 && !option.zero.empty() ? Json(option.zero) : Json(whole);
}

// The settings of a section: the ones that decide what computes, and others if they are not the default. A kernel that
// is not named is the native one.
void add_settings(Json& json, const SolveSettings& settings, std::string_view section) {
  for (const Setting& one : solve_settings()) {
    const bool always = one.name == "method" || one.name == "preconditioner" || one.name == "format";
    if (one.section == section && (always || !one.is_default(settings)))
      json[std::string(one.key)] = value_json(one, settings);
  }
  if (section == "operator" && settings.kernel.empty()) json["kernel"] = "native";
}

Json solver_json(const SolveSettings& settings) {
  Json json = Json::object();
  add_settings(json, settings, "solver");
  for (const Option<SolverOptions>& option : solver_options())
    json[std::string(option.name)] = value_json(option, settings.solver);
  return json;
}

Json operator_json(const Problem& p) {
  Json json = Json::object();
  if (p.matrix.fem && !p.matrix.fem->assembled) {
    json["variant"] = to_string(p.op.variant);
  } else {
    add_settings(json, p.settings, "operator");
    json["parameters"] = parameters_json(p.settings.parameters);
    json["deterministic"] = p.op.deterministic;
  }
  json["space"] = to_string(p.op.space), json["threads"] = p.op.threads;
  if (const DevicesSpec& devices = p.op.devices; devices.place)
    json["devices"] = devices.all ? Json("all") : Json(devices.numbers);
  return json;
}

Json point_json(const SchedulePoint& point) {
  Json entry = Json::object();
  if (point.trigger == ScheduleTrigger::iteration)
    entry[std::string(to_string(point.trigger))] = static_cast<std::int64_t>(point.at);
  else
    entry[std::string(to_string(point.trigger))] = point.at;
  if (!point.to.order.empty()) entry["order"] = point.to.order;
  if (point.to.elements || point.to.entry)
    entry["format"] = point.to.elements ? "element" : point.to.entry->id;
  if (point.to.entry) {
    entry["parameters"] = parameters_json(point.to.params);
    entry["kernel"] = point.to.kernel.empty() ? "native" : point.to.kernel;
  }
  entry["overlapped"] = point.overlapped;
  return entry;
}

// The policy, or the list of points; null if nothing is said of either.
Json schedule_json(const Problem& p) {
  const SolveSettings& settings = p.settings;
  Json json;
  if (!solve_setting("policy").is_default(settings) || p.schedule.machine) {
    json = Json::object();
    json["policy"] = settings.policy, json["machine"] = path(p.schedule.machine);
    for (const Option<PolicyOptions>& option : policy_options())
      if (settings.policy == "auto")
        json[std::string(option.name)] = value_json(option, settings.policy_options);
    if (settings.overlapped) json["overlapped"] = *settings.overlapped;
  }
  if (!settings.schedule.empty()) json = Json::array();
  for (const SchedulePoint& point : settings.schedule) json.push_back(point_json(point));
  return json;
}

// With the options that are only for this type, if they have an effect, and the options that are for most types.
Json preconditioner_json(std::string_view type, const PreconditionerOptions& options) {
  Json json = {{"type", type}};
  for (const Option<PreconditionerOptions>& option : preconditioner_options())
    if ((option.readers.only.empty() || option.readers.has(type)) &&
        in_use(preconditioner_options(), option, options))
      json[std::string(option.name)] = value_json(option, options);
  return json;
}
Json preconditioner_json(const SolveSettings& settings) {
  if (settings.parts.empty()) return preconditioner_json(settings.preconditioner, settings.preconditioning);
  Json json = {{"type", preconditioner_type(settings)},
               {"combine", to_string(settings.combine)},
               {"parts", Json::array()}};
  for (const PreconditionerPart& part : settings.parts)
    json["parts"].push_back(preconditioner_json(part.id, part.options));
  return json;
}

}  // namespace

Json problem_json(const Problem& p) {
  Json json = Json::object();
  if (!p.title.empty()) json["title"] = p.title;
  json["matrix"] = matrix_json(p.matrix);
  add_settings(json["matrix"], p.settings, "matrix");
  if (p.rhs.from_solution)
    json["rhs"] = {{"solution", vector_json(p.rhs.vector, "ones", 1)}};
  else
    json["rhs"] = vector_json(p.rhs.vector, "", 0);
  json["initial_guess"] = vector_json(p.initial_guess, "zero", 0);
  json["solver"] = solver_json(p.settings);
  json["preconditioner"] = preconditioner_json(p.settings);
  json["operator"] = operator_json(p);
  if (Json schedule = schedule_json(p); !schedule.is_null()) json["schedule"] = std::move(schedule);
  json["output"] = {{"solution", path(p.output.solution)},
                    {"report", path(p.output.report)},
                    {"history", path(p.output.history)},
                    {"fields", path(p.output.fields)}};
  if (p.engine.name != "auto") json["engine"] = p.engine.name;
  if (!p.engine.options.empty()) json["petsc_options"] = p.engine.options;
  if (p.engine.partition_file)
    json["partition"] = {{"file", p.engine.partition_file.given}};
  else if (p.engine.partition != "rows")
    json["partition"] = p.engine.partition;
  return json;
}

Json machine_json(int threads) {
  const MachineInfo machine = machine_info();
  const BuildInfo build = build_info();
  return {{"cpu", machine.cpu},
          {"system", machine.system},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"threads", threads},
          {"simd", build.simd_chosen},
          {"version", build.version},
          {"compiler", build.compiler},
          {"build_type", build.build_type}};
}

std::string text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string grouped(std::int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ' ';
    text += digits[i];
  }
  return text;
}

}  // namespace protean::apps

#include "settings.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "systems/options.hpp"
#include "systems/over_devices.hpp"

namespace protean::python {
namespace {

std::string type_of(nb::handle value) { return nb::cast<std::string>(value.type().attr("__name__")); }

std::string word(nb::handle value, std::string_view called) {
  if (!nb::isinstance<nb::str>(value))
    throw BadArgument(std::string(called) + " is of type " + type_of(value) + "; it must be a word (str)");
  return nb::cast<std::string>(value);
}

bool is_number(nb::handle value) {
  return !nb::isinstance<nb::bool_>(value) && !nb::isinstance<nb::str>(value) && PyNumber_Check(value.ptr());
}

double number(nb::handle value, std::string_view called) {
  if (!is_number(value))
    throw BadArgument(std::string(called) + " is of type " + type_of(value) + "; it must be a number");
  const double result = PyFloat_AsDouble(value.ptr());
  if (result == -1 && PyErr_Occurred()) throw nb::python_error();
  return result;
}

std::int64_t whole(nb::handle value, std::string_view called) {
  const double given = number(value, called);
  OptionInfo info;
  info.name = called, info.kind = OptionKind::whole;
  info.range = {0, no_limit};
  const OptionValue checked = number_value(info, given, called);
  require_allowed(info, checked, called);
  return std::get<std::int64_t>(checked);
}

// `what` reads the option: "method", "preconditioner"; empty: nobody is asked.
template <class Options>
void set_value(const Option<Options>& option, Options& options, std::string_view name, nb::handle given,
               std::string_view what = {}, std::string_view reader = {}) {
  std::string text;
  OptionValue value;
  if (option.kind == OptionKind::word) {
    text = word(given, name);
    value = std::string_view(text);
  } else if (nb::isinstance<nb::str>(given)) {
    text = word(given, name);
    if (option.zero.empty() || text != option.zero)
      throw BadArgument(std::string(name) + " is '" + text + "'; it must be " + allowed_text(option));
    value = option.kind == OptionKind::whole ? OptionValue(std::int64_t{0}) : OptionValue(0.0);
  } else {
    value = number_value(option, number(given, name), name);
  }
  require_allowed(option, value, name);
  if (!what.empty() && is_unread(option, reader, value))
    refuse_unread(unread_text(option, name, what, reader, "leave it out"));
  option.set(options, value);
}

// Sets the option of this name from a table. False: the table has none.
template <class Options>
bool set_option(std::span<const Option<Options>> table, Options& options, std::string_view name,
                nb::handle given, std::string_view what, std::string_view reader) {
  const Option<Options>* const option = find_option(table, name);
  if (option) set_value(*option, options, name, given, what, reader);
  return option != nullptr;
}

template <class Options>
void add_names(std::span<const Option<Options>> table, std::vector<std::string_view>& names) {
  for (const Option<Options>& option : table) names.push_back(option.name);
}

[[noreturn]] void refuse_name(const std::string& what, std::string_view name,
                              const std::vector<std::string_view>& names) {
  std::string all;
  for (const std::string_view one : names) all += (all.empty() ? "" : ", ") + std::string(one);
  throw BadArgument("there is no " + what + " '" + std::string(name) + "'; there are " + all + "." +
                    detail::did_you_mean(name, names));
}

// An option that another one switches off is refused rather than ignored.
template <class Options>
void require_in_use(std::span<const Option<Options>> table, const Options& options) {
  for (const Option<Options>& option : table)
    if (!option.is_default(options) && !in_use(table, option, options))
      refuse_unread(
          unused_text(option, option.name, find_option(table, option.with)->value(options), "leave it out"));
}

std::vector<std::string_view> ids_of_preconditioners() {
  std::vector<std::string_view> ids;
  for (const PreconditionerEntry& entry : preconditioners()) ids.push_back(entry.id);
  return ids;
}

// A copy of an array of rows x vectors.
std::shared_ptr<const MultiVector<double>> near_null_space_of(nb::handle given) {
  ColumnsArray<const double> array;
  try {
    if (nb::isinstance<nb::str>(given)) throw nb::cast_error();
    // Casts drop masks and imaginary parts.
    const nb::object checked =
        nb::module_::import_("protean._convert").attr("real_array")(given, "near_null_space");
    array = nb::cast<ColumnsArray<const double>>(checked);
  } catch (const nb::cast_error&) {
    throw BadArgument(
        "near_null_space is of type " + type_of(given) +
        "; it must be an array of numbers with two dimensions, rows of the matrix x vectors, such as that "
        "of rigid_body_modes()");
  }
  const auto rows = static_cast<std::int64_t>(array.shape(0)),
             columns = static_cast<std::int64_t>(array.shape(1));
  auto made = std::make_shared<MultiVector<double>>(Context::host(1), rows, columns);
  for (std::int64_t k = 0; k < columns; ++k)
    for (std::int64_t i = 0; i < rows; ++i)
      made->view()(i, k) = array.data()[i * array.stride(0) + k * array.stride(1)];
  return made;
}

// A copy of an array with a label for each row.
std::vector<std::int32_t> labels_of(nb::handle given) {
  const auto fail = [&] {
    throw BadArgument("labels is of type " + type_of(given) +
                      "; it must be an array of whole numbers with one dimension, one for each row");
  };
  const nb::object array = nb::module_::import_("numpy").attr("asarray")(given);
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  if (nb::cast<int>(array.attr("ndim")) != 1 || (kind != "i" && kind != "u")) fail();
  std::vector<std::int32_t> labels;
  for (const nb::handle one : array.attr("tolist")()) {
    const auto label = nb::cast<std::int64_t>(one);
    if (label < 0 || label > std::numeric_limits<std::int32_t>::max())
      throw BadArgument("labels: the label of row " + std::to_string(labels.size()) + " is " +
                        std::to_string(label) + "; it must be a number from 0 to 2147483647");
    labels.push_back(static_cast<std::int32_t>(label));
  }
  return labels;
}

void set_preconditioner(Settings& all, nb::handle given) {
  SolveSettings& settings = all.settings;
  if (nb::isinstance<nb::dict>(given) && nb::borrow<nb::dict>(given).contains("parts")) {
    for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
      const std::string name = word(key, "a key of preconditioner");
      if (name == "parts") {
        for (const nb::handle part : nb::borrow<nb::sequence>(value)) {
          auto [id, options, near_null_space] = preconditioner_of(part);
          settings.parts.push_back({std::move(id), options});
          all.near_null_spaces.push_back(std::move(near_null_space));
        }
      } else if (name == "combine") {
        set_value(solve_setting("combine"), settings, name, value);
      } else if (name != "type" || word(value, "type") != "composition") {
        refuse_name("key of a composition", name, {"parts", "combine", "type"});
      }
    }
    return;
  }
  auto [id, options, near_null_space] = preconditioner_of(given);
  settings.preconditioner = std::move(id), settings.preconditioning = options;
  all.near_null_spaces.push_back(std::move(near_null_space));
}

void set_policy(SolveSettings& settings, nb::handle given) {
  if (given.is_none()) return;
  if (nb::isinstance<nb::str>(given)) return set_value(solve_setting("policy"), settings, "policy", given);
  if (!nb::isinstance<nb::dict>(given))
    throw BadArgument("policy is of type " + type_of(given) +
                      "; it must be None, \"auto\", \"none\", or a dict of options");
  settings.policy = "auto";
  for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
    const std::string name = word(key, "a key of policy");
    if (name == "overlapped") {
      settings.overlapped = nb::cast<bool>(value);
    } else if (!set_option(policy_options(), settings.policy_options, name, value, "", "")) {
      std::vector<std::string_view> names = {"overlapped"};
      add_names(policy_options(), names);
      refuse_name("option of the policy", name, names);
    }
  }
}

constexpr ScheduleTrigger triggers[] = {ScheduleTrigger::iteration, ScheduleTrigger::residual,
                                        ScheduleTrigger::seconds};

SchedulePoint point_of(const nb::dict& given) {
  SchedulePoint point;
  std::string format, order, kernel;
  FormatParams params;
  int conditions = 0;
  for (const auto& [key, value] : given) {
    const std::string name = word(key, "a key of schedule");
    bool trigger = false;
    for (const ScheduleTrigger one : triggers)
      if (to_string(one) == name)
        point.trigger = one, point.at = number(value, name), trigger = true, ++conditions;
    if (trigger) continue;
    if (name == "format") {
      format = word(value, name);
    } else if (name == "order") {
      order = word(value, name);
    } else if (name == "kernel") {
      kernel = word(value, name);
    } else if (name == "parameters") {
      params = parameters_of(value);
    } else if (name == "overlapped") {
      point.overlapped = nb::cast<bool>(value);
    } else {
      refuse_name("key of a point of schedule", name,
                  {"at_iteration", "at_residual", "after_seconds", "format", "parameters", "kernel", "order",
                   "overlapped"});
    }
  }
  if (conditions != 1)
    throw BadArgument("a point of schedule has " + std::to_string(conditions) +
                      " conditions; give one of at_iteration, at_residual, after_seconds");
  if (!(point.at >= 0)) throw BadArgument("the condition of a point of schedule must be 0 or more");
  if (format.empty() && order.empty())
    throw BadArgument("a point of schedule has neither format nor order; give one of them, or both");
  if (format == "auto")
    throw BadArgument("a schedule names its formats; auto does not. Use policy=\"auto\" instead");
  if (format.empty() && (!kernel.empty() || !params.all().empty()))
    throw BadArgument("parameters and kernel belong to a format; name the format, too");
  if (!order.empty()) require_order(order, false), point.to.order = order;
  if (!format.empty()) {
    point.to.entry = &find_format(format);
    point.to.params = std::move(params), point.to.kernel = std::move(kernel);
    (void)resolve_params(*point.to.entry, point.to.params);
  }
  return point;
}

// "all", a number of GPUs, or a sequence of their numbers, as one text.
std::string devices_of(nb::handle given) {
  if (nb::isinstance<nb::str>(given)) return nb::cast<std::string>(given);
  if (is_number(given)) return std::to_string(whole(given, "devices"));
  if (!nb::isinstance<nb::sequence>(given))
    throw BadArgument(
        "devices is of type " + type_of(given) +
        "; it must be \"all\", the number of GPUs, such as 2, or a list of their numbers, such as "
        "[0, 2]");
  std::string text;
  for (const nb::handle one : nb::borrow<nb::sequence>(given))
    text += (text.empty() ? "" : ",") + std::to_string(whole(one, "a number in devices"));
  if (text.find(',') == std::string::npos)
    throw BadArgument(
        "devices is a list of fewer than two GPUs; for one make the matrix with space=\"device\"");
  return text;
}

}  // namespace

FormatParams parameters_of(nb::handle given) {
  FormatParams params;
  if (given.is_none()) return params;
  if (!nb::isinstance<nb::dict>(given))
    throw BadArgument("parameters is of type " + type_of(given) + "; it must be a dict, such as {\"C\": 8}");
  for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
    std::string name = word(key, "a key of parameters");
    if (nb::isinstance<nb::str>(value))
      params.set(std::move(name), nb::cast<std::string>(value));
    else
      params.set(name, whole(value, name));
  }
  return params;
}

NamedPreconditioner preconditioner_of(nb::handle given) {
  NamedPreconditioner made;
  auto& [id, options, near_null_space] = made;
  if (given.is_none()) return made;
  if (nb::isinstance<nb::str>(given)) {
    id = word(given, "preconditioner");
  } else if (nb::isinstance<nb::dict>(given)) {
    const auto dict = nb::borrow<nb::dict>(given);
    if (!dict.contains("type"))
      throw BadArgument(
          "the dict of the preconditioner has no key type; give its name, such as {\"type\": \"ic\"}");
    id = word(dict["type"], "type");
  } else {
    throw BadArgument("preconditioner is of type " + type_of(given) +
                      "; it must be a name, or a dict such as {\"type\": \"ic\", \"fill\": 2}");
  }
  const std::vector<std::string_view> ids = ids_of_preconditioners();
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) refuse_name("preconditioner", id, ids);
  if (!nb::isinstance<nb::dict>(given)) return made;
  for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
    const std::string name = word(key, "a key of preconditioner");
    if (name == "type" || set_option(preconditioner_options(), options, name, value, "preconditioner", id))
      continue;
    if (name == "near_null_space") {
      if (value.is_none()) continue;
      if (!reads_near_null_space(id))
        throw BadArgument("near_null_space is for preconditioners amg and auto, and " + id +
                          " does not read it; leave it out");
      near_null_space = near_null_space_of(value);
      options.near_null_space = near_null_space.get();
      continue;
    }
    if (name == "labels") {
      if (value.is_none()) continue;
      if (id != "fields")
        throw BadArgument("labels is for preconditioner fields, and " + id +
                          " does not read it; leave it out");
      options.fields = fields_of_labels(labels_of(value));
      continue;
    }
    std::vector<std::string_view> names = {"type", "near_null_space", "labels"};
    add_names(preconditioner_options(), names);
    refuse_name("option of a preconditioner", name, names);
  }
  require_in_use(preconditioner_options(), options);
  return made;
}

Settings settings_of(const nb::dict& keywords) {
  Settings all;
  SolveSettings& settings = all.settings;
  if (keywords.contains("method")) set_value(solve_setting("method"), settings, "method", keywords["method"]);
  for (const auto& [key, value] : keywords) {
    const std::string name = word(key, "a keyword");
    const auto setting = std::ranges::find(solve_settings(), name, &Setting::name);
    if (name == "preconditioner") {
      set_preconditioner(all, value);
    } else if (name == "parameters") {
      settings.parameters = parameters_of(value);
    } else if (name == "policy") {
      set_policy(settings, value);
    } else if (name == "devices") {
      if (!value.is_none()) settings.distribution.contexts = detail::contexts_of_devices(devices_of(value));
    } else if (name == "partition") {
      settings.distribution.partition = word(value, name);
      const std::vector<std::string_view> words = {"rows", "graph"};
      if (std::ranges::find(words, settings.distribution.partition) == words.end())
        refuse_name("partition", settings.distribution.partition, words);
    } else if (name == "schedule") {
      if (value.is_none()) continue;
      for (const nb::handle point : nb::borrow<nb::sequence>(value))
        settings.schedule.push_back(point_of(nb::cast<nb::dict>(point)));
    } else if (setting != solve_settings().end() && setting->name != "combine") {
      set_value(*setting, settings, name, value);
    } else if (!set_option(solver_options(), settings.solver, name, value, "method",
                           settings.method.name())) {
      std::vector<std::string_view> names = {"parameters", "schedule", "devices", "partition"};
      for (const Setting& one : solve_settings())
        if (one.name != "combine") names.push_back(one.name);  // in the dict of the preconditioner
      add_names(solver_options(), names);
      refuse_name("option", name, names);
    }
  }
  require_in_use(solver_options(), settings.solver);
  check(settings);
  return all;
}

}  // namespace protean::python

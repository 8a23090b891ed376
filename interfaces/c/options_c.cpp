#include "interfaces/c/options_c.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"
#include "systems/options.hpp"
#include "systems/over_devices.hpp"

namespace protean::capi {

void require_name(const char* what, std::string_view name, const std::vector<std::string_view>& names) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string all;
  for (const std::string_view one : names) all += (all.empty() ? "" : ", ") + std::string(one);
  throw BadArgument("there is no " + std::string(what) + " '" + std::string(name) + "'; there are " + all +
                    "." + detail::did_you_mean(name, names));
}

bool second_of(std::string_view option, std::string_view value, std::string_view first,
               std::string_view second) {
  if (value != first && value != second)
    throw BadArgument(std::string(option) + " is '" + std::string(value) + "'; it must be " +
                      std::string(first) + " or " + std::string(second));
  return value == second;
}

namespace {

// The settings of a solve that are options of a solver here.
std::span<const Option<SolveSettings>> settings_table() {
  static const auto table = [] {
    std::vector<Option<SolveSettings>> options;
    for (const Setting& one : solve_settings())
      if (one.c_option) options.push_back(one);
    return options;
  }();
  return table;
}

// Calls body(table, options of the settings, what reads them, its name) for each table, until it returns true.
template <class Settings, class Body>
bool any_table(Settings& s, Body body) {
  const std::string_view method = s.method, preconditioner = s.preconditioner;
  return body(solver_options(), s.solver, "method", method) ||
         body(preconditioner_options(), s.preconditioning, "preconditioner", preconditioner) ||
         body(policy_options(), s.policy_options, "policy", std::string_view("auto")) ||
         body(settings_table(), s, "solve", std::string_view());
}

std::vector<std::string_view> names(bool words) {
  std::vector<std::string_view> found;
  const SolveSettings none;
  (void)any_table(none, [&](auto table, const auto&, auto, auto) {
    for (const auto& option : table)
      if ((option.kind == OptionKind::word) == words) found.push_back(option.called_in_c());
    return false;
  });
  return found;
}

// Sets the option of this name to value(option). False: there is none, or not of this kind.
template <class Value>
bool set(SolveSettings& settings, std::string_view name, bool word, Value value) {
  return any_table(settings, [&](auto table, auto& options, std::string_view of, std::string_view reader) {
    for (const auto& option : table) {
      if (option.called_in_c() != name || (option.kind == OptionKind::word) != word) continue;
      const OptionValue given = value(option);
      require_allowed(option, given, name);
      if (is_unread(option, reader, given))
        refuse_unread(unread_text(option, name, of, reader, "leave it out"));
      option.set(options, given);
      return true;
    }
    return false;
  });
}

}  // namespace

std::vector<std::string_view> number_option_names() { return names(false); }
std::vector<std::string_view> text_option_names() {
  std::vector<std::string_view> all = names(true);
  all.insert(all.end(), {"devices", "device_partition"});
  return all;
}

void set_number(SolveSettings& settings, std::string_view name, double value) {
  if (!set(settings, name, false,
           [&](const OptionInfo& option) { return number_value(option, value, name); }))
    require_name("option", name, number_option_names());
}
void set_text(SolveSettings& settings, std::string_view name, std::string_view value) {
  if (name == "devices") {
    settings.distribution.contexts = detail::contexts_of_devices(value);
    return;
  }
  if (name == "device_partition") {
    require_name("device_partition", value, {"rows", "graph"});
    settings.distribution.partition = value;
    return;
  }
  if (!set(settings, name, true, [&](const OptionInfo&) { return OptionValue(value); }))
    require_name("option with a word", name, text_option_names());
}

void check_effects(const SolveSettings& settings) {
  (void)any_table(settings, [](auto table, const auto& options, auto, auto) {
    for (const auto& option : table)
      if (!option.is_default(options) && !in_use(table, option, options)) {
        const auto& other = *find_option(table, option.with);
        OptionInfo called = option;
        called.with = other.called_in_c();
        refuse_unread(unused_text(called, option.called_in_c(), other.value(options),
                                  "set it to " + value_text(option, option.default_value()) + " again"));
      }
    return false;
  });
  if (settings.policy != "auto") require_no_policy(settings.policy_options);
}

}  // namespace protean::capi

#include "interfaces/c/options_c.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "formats/choose.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"

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

constexpr const char* expected_iterations = "expected_iterations";
constexpr double most_expected = 1e9;

// Calls body(table, options of the settings, what reads them) for each table, until it returns true.
template <class Body>
bool any_table(Settings& s, Body body) {
  return body(solver_options(), s.solver, "method") ||
         body(preconditioner_options(), s.preconditioner, "preconditioner") ||
         body(policy_options(), s.policy, "policy");
}

std::vector<std::string_view> names(bool words) {
  std::vector<std::string_view> found;
  Settings none;
  (void)any_table(none, [&](auto table, const auto&, auto) {
    for (const auto& option : table)
      if ((option.kind == OptionKind::word) == words) found.push_back(option.called_in_c());
    return false;
  });
  found.emplace_back(words ? "policy" : expected_iterations);
  if (words) found.emplace_back("selector");
  return found;
}

// Sets the option of this name to value(option). False: there is none, or not of this kind.
template <class Value>
bool set(Settings& settings, std::string_view method, std::string_view preconditioner, std::string_view name,
         bool word, Value value) {
  return any_table(settings, [&](auto table, auto& options, std::string_view of) {
    for (const auto& option : table) {
      if (option.called_in_c() != name || (option.kind == OptionKind::word) != word) continue;
      const OptionValue given = value(option);
      require_allowed(option, given, name);
      const std::string_view reader = of == "method" ? method : preconditioner;
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
std::vector<std::string_view> text_option_names() { return names(true); }

void set_number(Settings& settings, std::string_view method, std::string_view preconditioner,
                std::string_view name, double value) {
  if (name == expected_iterations) {
    if (!(value >= 0 && value <= most_expected) || value != std::floor(value))
      throw BadArgument(fmt::format("{} is {}; it must be an integer from 0 (not known) to {:g}", name, value,
                                    most_expected));
    settings.expected_iterations = static_cast<std::int64_t>(value);
    return;
  }
  if (!set(settings, method, preconditioner, name, false,
           [&](const OptionInfo& option) { return number_value(option, value, name); }))
    require_name("option", name, number_option_names());
}
void set_text(Settings& settings, std::string_view method, std::string_view preconditioner,
              std::string_view name, std::string_view value) {
  if (name == "policy")
    settings.use_policy = second_of(name, value, "none", "auto");
  else if (name == "selector")
    require_selector(value), settings.selector = value;
  else if (!set(settings, method, preconditioner, name, true,
                [&](const OptionInfo&) { return OptionValue(value); }))
    require_name("option with a word", name, text_option_names());
}

void check_effects(const Settings& settings) {
  Settings copy = settings;
  (void)any_table(copy, [](auto table, const auto& options, auto) {
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
  if (!settings.use_policy) require_no_policy(settings.policy);
}

}  // namespace protean::capi

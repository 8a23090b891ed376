// The options of the C interface by name. Private to interfaces/c/.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "systems/settings.hpp"

namespace protean::capi {

// The ids, or names, of a table in its order.
template <class Entry>
std::vector<std::string_view> ids_of(std::span<const Entry> entries) {
  std::vector<std::string_view> ids;
  for (const Entry& entry : entries)
    if constexpr (requires { entry.id; })
      ids.push_back(entry.id);
    else
      ids.push_back(entry.name);
  return ids;
}

// Throws BadArgument unless `name` is among the names; the message has all of them.
void require_name(const char* what, std::string_view name, const std::vector<std::string_view>& names);

// Whether `value` is the second of two words. Throws BadArgument for a third.
bool second_of(std::string_view option, std::string_view value, std::string_view first,
               std::string_view second);

// The names of all options whose value is a number, or a word. They are constants that end with 0.
std::vector<std::string_view> number_option_names();
std::vector<std::string_view> text_option_names();

// Set one of them. Throw BadArgument for another name, for a value that it cannot have, and if the method or the
// preconditioner of the settings does not read it.
void set_number(SolveSettings& settings, std::string_view name, double value);
void set_text(SolveSettings& settings, std::string_view name, std::string_view value);

// When a solve begins: throws BadArgument for the first option that is not its default although other options, or the
// want of a policy, keep it from having an effect.
void check_effects(const SolveSettings& settings);

}  // namespace protean::capi

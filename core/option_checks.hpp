// Values of options in messages, who reads an option, and the refusal of an option that has no effect
// (core/options.hpp). Private.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/options.hpp"

namespace protean {

// The value in messages: 'cgs', 3, auto
std::string value_text(const OptionInfo& option, const OptionValue& value);
// A number as the value of this option. Throws BadArgument if the option takes a whole number and this is not one.
OptionValue number_value(const OptionInfo& option, double number, std::string_view called = {});
// "gmres, fgmres", "all except none"; empty for all.
std::string readers_text(const Readers& readers);
// auto or none
bool asks_nothing(const OptionValue& value) noexcept;

// "solver.restart is for methods gmres and fgmres; the method is cg: leave it out, or take one of those". `of`:
// "method".
std::string unread_text(const OptionInfo& option, std::string_view called, std::string_view of,
                        std::string_view reader, std::string_view instead);
// "preconditioner.sweeps is for solve: sweeps; solve is auto: leave it out". `now`: the value of the other option.
std::string unused_text(const OptionInfo& option, std::string_view called, const OptionValue& now,
                        std::string_view instead);
[[noreturn]] void refuse_unread(const std::string& message);  // BadArgument

// Whether `reader` does not read the option, which was given this value. The words auto and none may be given to every
// reader if they are the default, since they ask for nothing.
template <class Options>
bool is_unread(const Option<Options>& one, std::string_view reader, const OptionValue& given) {
  return !one.readers.has(reader) && !(asks_nothing(given) && given == one.default_value());
}

// Whether the other options of its struct let it have an effect.
template <class Options>
bool in_use(std::span<const Option<Options>> table, const Option<Options>& one, const Options& options) {
  return one.with.empty() || find_option(table, one.with)->value(options) == OptionValue(one.with_word);
}

// Throws BadArgument for the first option that is not its default although it has no effect: `reader`, which is a
// `what` ("method"), does not read it, or another option switches it off.
template <class Options>
void require_read(std::span<const Option<Options>> table, const Options& options, std::string_view what,
                  std::string_view reader) {
  for (const Option<Options>& one : table) {
    if (one.is_default(options)) continue;
    const std::string leave = "leave it at " + value_text(one, one.default_value());
    if (!one.readers.has(reader)) refuse_unread(unread_text(one, one.name, what, reader, leave));
    if (!in_use(table, one, options))
      refuse_unread(unused_text(one, one.name, find_option(table, one.with)->value(options), leave));
  }
}

// The options, with the default for each one that `reader` does not read: for programs that use several methods with
// one set of options.
template <class Options>
Options only_read(std::span<const Option<Options>> table, Options options, std::string_view reader) {
  for (const Option<Options>& one : table)
    if (!one.readers.has(reader)) one.set(options, one.default_value());
  return options;
}

}  // namespace protean

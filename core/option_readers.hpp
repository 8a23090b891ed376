// The readers of an option, from a list of types with the options that each reads (solvers/type_list.hpp,
// preconditioners/type_list.hpp).
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "core/options.hpp"

namespace protean::detail {

// A type, and the names of its options with a comma before and after each.
struct TypeReads {
  std::string_view type, options;

  constexpr bool reads(std::string_view option) const noexcept {
    for (std::size_t at = options.find(option); at != options.npos; at = options.find(option, at + 1))
      if (options[at - 1] == ',' && options[at + option.size()] == ',') return true;
    return false;
  }
};

// The name of an option as an argument of a template.
template <std::size_t size>
struct OptionName {
  char text[size] = {};  // ends with 0
  constexpr OptionName(const char (&given)[size]) { std::copy_n(given, size, text); }
  constexpr std::string_view view() const noexcept { return {text, size - 1}; }
};

// The types among `types` that read the option; or the types that do not, if they are fewer.
template <const auto& types, OptionName name>
struct ReadersOf {
  static constexpr auto count = static_cast<std::size_t>(
      std::ranges::count_if(types, [](const TypeReads& one) { return one.reads(name.view()); }));
  static_assert(count > 0, "an option that no type reads");
  static constexpr bool but = 2 * count > std::size(types);
  static constexpr auto listed = [] {
    std::array<std::string_view, but ? std::size(types) - count : count> found;
    std::size_t next = 0;
    for (const TypeReads& one : types)
      if (one.reads(name.view()) != but) found[next++] = one.type;
    return found;
  }();
  static constexpr Readers value = but ? Readers{{}, listed} : Readers{listed, {}};
};

// The entry of an option that some of `types` read.
template <const auto& types, OptionName name, auto member>
constexpr auto option_of_types(OptionInfo info) {
  info.name = name.view(), info.readers = ReadersOf<types, name>::value;
  return option<member>(info);
}

}  // namespace protean::detail

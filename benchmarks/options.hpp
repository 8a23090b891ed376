// Options of the benchmarks: pairs of a name and a value.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/words.hpp"

namespace protean::bench {

// "a,b" -> {a, b}
inline std::vector<std::string> split(const std::string& text, char at = ',') {
  const std::vector<std::string_view> parts = protean::split(text, at);
  return {parts.begin(), parts.end()};
}

// An empty list means all.
inline bool wanted(const std::vector<std::string>& list, std::string_view name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

// Where a value goes: as it is, cut at commas, as a number, or false for "no".
using OptionValue = std::variant<std::string*, std::vector<std::string>*, int*, double*, bool*>;

// Reads "--name value" pairs. False when a name is not known, a value is missing or not a number.
inline bool read_options(int argc, char** argv,
                         std::initializer_list<std::pair<std::string_view, OptionValue>> known) {
  for (int i = 1; i < argc; i += 2) {
    const auto* found =
        std::find_if(known.begin(), known.end(), [&](const auto& option) { return option.first == argv[i]; });
    if (found == known.end() || i + 1 == argc) return false;
    const std::string text = argv[i + 1];
    char* end = nullptr;
    const auto number = [&] { return std::strtod(text.c_str(), &end); };
    if (auto* const* word = std::get_if<std::string*>(&found->second))
      **word = text;
    else if (auto* const* list = std::get_if<std::vector<std::string>*>(&found->second))
      **list = split(text);
    else if (auto* const* integer = std::get_if<int*>(&found->second))
      **integer = static_cast<int>(number());
    else if (auto* const* real = std::get_if<double*>(&found->second))
      **real = number();
    else
      *std::get<bool*>(found->second) = text != "no";
    if (end && (end == text.c_str() || *end != '\0')) return false;
  }
  return true;
}

// The exit code of a program that runs on options that may not be there: 2 with the usage when they are not,
// or with the error's text.
template <class Options, class Run>
int run_program(const char* usage, const std::optional<Options>& options, Run run) {
  if (!options) {
    std::fputs(usage, stderr);
    return 2;
  }
  try {
    return run(*options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}

}  // namespace protean::bench

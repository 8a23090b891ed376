// Options of the benchmarks: pairs of a name and a value.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace protean::bench {

// "a,b" -> {a, b}
inline std::vector<std::string> split(const std::string& text, char at = ',') {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
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

}  // namespace protean::bench

#include "benchmarks/common/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

namespace protean::bench {
namespace {

std::string first_word(const std::string& name) { return name.substr(0, name.find(' ')); }

std::string placeholder(const Option& option) {
  if (const std::size_t space = option.name.find(' '); space != option.name.npos)
    return option.name.substr(space + 1);
  if (!option.rule.words.empty()) {
    const char* between = std::holds_alternative<std::vector<std::string>*>(option.value) ? "," : "|";
    return fmt::format("{}", fmt::join(option.rule.words, between));
  }
  if (std::holds_alternative<int*>(option.value)) return "N";
  if (std::holds_alternative<double*>(option.value)) return "X";
  if (std::holds_alternative<bool*>(option.value)) return "yes|no";
  return std::holds_alternative<std::string*>(option.value) ? "WORD" : "NAME,...";
}

std::string default_of(const Option& option) {
  struct Text {
    std::string operator()(const std::string* value) const { return *value; }
    std::string operator()(const std::vector<std::string>* value) const {
      return fmt::format("{}", fmt::join(*value, ","));
    }
    std::string operator()(const int* value) const { return std::to_string(*value); }
    std::string operator()(const double* value) const { return fmt::format("{:g}", *value); }
    std::string operator()(const bool* value) const { return *value ? "yes" : "no"; }
  };
  return std::visit(Text(), option.value);
}

double number(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0')
    throw BadUsage(fmt::format("{} is '{}'; it must be a number", name, text));
  return value;
}

void set(const Option& option, const std::string& text) {
  const std::string name = first_word(option.name);
  const auto check_word = [&](const std::string& word) {
    const std::vector<std::string>& words = option.rule.words;
    if (!words.empty() && std::find(words.begin(), words.end(), word) == words.end())
      throw BadUsage(fmt::format("{} is '{}'; it must be {}", name, word, fmt::join(words, " or ")));
  };
  const auto checked_number = [&] {
    const double value = number(name, text), least = option.rule.least;
    if (!(option.rule.above ? value > least : value >= least))
      throw BadUsage(fmt::format("{} is {}; it must be {} {}", name, text,
                                 option.rule.above ? "above" : "at least", least));
    return value;
  };
  if (auto* const* word = std::get_if<std::string*>(&option.value)) {
    check_word(text);
    **word = text;
  } else if (auto* const* list = std::get_if<std::vector<std::string>*>(&option.value)) {
    **list = split(text);
    for (const std::string& one : **list) check_word(one);
  } else if (auto* const* integer = std::get_if<int*>(&option.value)) {
    **integer = static_cast<int>(checked_number());
  } else if (auto* const* real = std::get_if<double*>(&option.value)) {
    **real = checked_number();
  } else {
    *std::get<bool*>(option.value) = text != "no";
  }
}

}  // namespace

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool wanted(const std::vector<std::string>& list, std::string_view name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

Rule one_of(std::vector<std::string> words) { return {.words = std::move(words)}; }
Rule at_least(double least) { return {.least = least}; }
Rule above(double least) { return {.least = least, .above = true}; }
Rule required() { return {.required = true}; }

namespace shared {
Option space(std::string& value) {
  return {"--space", &value, "memory and processor", one_of({"host", "device"})};
}
Option threads(int& value) { return {"--threads", &value, "threads of the host", at_least(1)}; }
Option folder(std::string& value) {
  return {"--folder FOLDER", &value, "folder with matrices as .mtx, .mtx.gz or .mtx.xz"};
}
Option only(std::vector<std::string>& value) { return {"--only", &value, "these matrices only"}; }
Option formats(std::vector<std::string>& value, const std::string& help) {
  return {"--formats ID,...", &value, help};
}
Option repeat(int& value, const std::string& help) { return {"--repeat", &value, help, at_least(1)}; }
Option seconds(double& value, const std::string& help) { return {"--seconds", &value, help, above(0)}; }
Option share(double& value) {
  return {"--share", &value, "of the rows that matrices from formulas have on a GPU, 0.01 to 1"};
}
Option entries(double& value) {
  return {"--entries", &value,
          "each matrix of the folder is repeated along the diagonal to about this many; 1: as it is",
          at_least(1)};
}
Option json(std::string& value) { return {"--json FILE", &value, "all figures are written there"}; }
}  // namespace shared

Arguments::Arguments(std::string command, std::string about, std::vector<std::string> words)
    : command_(std::move(command)), about_(std::move(about)), words_(std::move(words)) {}

void Arguments::read(const std::vector<Option>& options) {
  usage_ = fmt::format("usage: {} [options]\n{}\n", command_, about_);
  for (const Option& option : options) {
    const std::string preset = default_of(option);
    usage_ += fmt::format("  {:24} {}{}\n", first_word(option.name) + " " + placeholder(option), option.help,
                          option.rule.required ? " (needed)"
                          : preset.empty()     ? ""
                                               : " (" + preset + ")");
  }
  std::set<std::string> given;
  for (std::size_t i = 0; i < words_.size(); i += 2) {
    if (words_[i] == "--help") throw HelpWanted();
    const auto found = std::find_if(options.begin(), options.end(), [&](const Option& option) {
      return first_word(option.name) == words_[i];
    });
    if (found == options.end()) refuse(fmt::format("there is no option '{}'", words_[i]));
    if (i + 1 == words_.size()) refuse(fmt::format("{} has no value", words_[i]));
    set(*found, words_[i + 1]);
    given.insert(words_[i]);
  }
  for (const Option& option : options)
    if (option.rule.required && !given.contains(first_word(option.name)))
      refuse(fmt::format("{} is needed", first_word(option.name)));
}

}  // namespace protean::bench

#include "apps/command/topics.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "apps/command/formats.hpp"
#include "apps/problem/problem_keys.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/io/vector_file.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::apps {
namespace {

std::string entry(std::string_view id, std::string_view title) {
  return fmt::format("  {:<15} {}\n", id, title);
}

std::string methods_text() {
  std::string text = "Methods (--method NAME, or solver.method):\n";
  for (const SolverEntry& one : solvers())
    text += entry(one.id, fmt::format("{}{}", one.title, one.symmetric ? "; for a symmetric A" : ""));
  return text;
}

std::string preconditioner_list() {
  std::string text = "Preconditioners (--preconditioner NAME, or preconditioner.type):\n";
  for (const PreconditionerEntry& one : preconditioners())
    text += entry(one.id, fmt::format("{}{}{}", one.title, one.symmetric ? "" : " (not for cg, minres)",
                                      one.unavailable.empty() ? "" : "; not in this build"));
  return text + entry("composition", "Several of these, in preconditioner.parts");
}

std::string matrices() {
  std::vector<std::string_view> kinds;
  for (const GeneratorEntry& kind : generators()) kinds.push_back(kind.kind);
  kinds.insert(kinds.end(), {"fem-hex", "fem-tet"});
  return fmt::format(
      "A matrix is a file, or it is generated. Files, whose first bytes say what they are:\n"
      "  Matrix Market                     A.mtx, also A.mtx.gz and A.mtx.xz\n"
      "  Harwell-Boeing, Rutherford-Boeing A.rua, A.rsa, A.rb ..., also .gz and .xz; assembled and real\n"
      "  .pbin                             of `protean convert`; it is mapped, not parsed\n"
      "For files of SciPy, NumPy and MATLAB the error has the command that converts them.\n"
      "Kinds of matrix.generate, which `protean generate --kinds` describes:\n  {}\n",
      fmt::join(kinds, "\n  "));
}

std::string vectors() {
  return fmt::format(
      "Vectors are files ({}), or made: all equal, or random with a seed.\n"
      "The right-hand sides in a Harwell-Boeing file are read where that file is given as rhs.file.\n",
      detail::vector_file_endings());
}

std::string formats() {
  std::string text =
      "Formats (--format ID, or operator.format), by family; `protean formats ID` describes one:\n";
  std::string_view family;
  for (const FormatEntry* one : catalogue()) {
    if (one->family != family) text += fmt::format("{}  {}:", family.empty() ? "" : "\n", one->family);
    family = one->family;
    text += fmt::format(" {}", one->id);
  }
  return text + "\n";
}

std::string exit_codes() {
  return "Exit codes of the commands:\n"
         "  0    the solve has converged; of other commands: done\n"
         "  1    the solve has not converged; of compare: a problem of a suite was broken; of doctor: a\n"
         "       warning\n"
         "  2    bad input: an option, a problem file, a matrix or a vector\n"
         "  3    no memory, no such device or library, an output that cannot be written; of doctor: a fault\n"
         "  130  Ctrl-C; a solve has written its report and its solution\n";
}

struct Topic {
  std::string_view name;
  std::vector<std::string_view> other_names;
  std::string (*choices)();
  std::vector<std::string_view> sections;  // of the problem file
};

std::span<const Topic> topics() {
  static const Topic list[] = {
      {"solver", {"solvers", "method", "methods"}, methods_text, {"solver"}},
      {"preconditioner", {"preconditioners", "pc"}, preconditioner_list, {"preconditioner"}},
      {"matrix", {"matrices", "file", "files"}, matrices, {"matrix"}},
      {"rhs", {"right-hand-side", "vector", "vectors"}, vectors, {"rhs"}},
      {"initial_guess", {"initial-guess", "guess"}, vectors, {"initial_guess"}},
      {"operator", {"operators"}, formats, {"operator"}},
      {"format", {"storage"}, formats, {}},
      {"schedule", {"schedules", "policy"}, nullptr, {"schedule"}},
      {"output", {"outputs", "report", "history", "solution"}, nullptr, {"output"}},
      {"engine", {"engines", "petsc", "partition"}, nullptr, {"engine", "petsc_options", "partition"}},
      {"exit-codes", {"exit", "exit-code", "codes", "exit codes", "exit code"}, exit_codes, {}},
  };
  return list;
}

const Topic* topic_of(std::string_view name) {
  for (const Topic& topic : topics())
    if (topic.name == name ||
        std::find(topic.other_names.begin(), topic.other_names.end(), name) != topic.other_names.end())
      return &topic;
  return nullptr;
}

std::string text_of(const Topic& topic) {
  std::string text = topic.choices ? topic.choices() : "";
  for (const std::string_view section : topic.sections)
    text += fmt::format("{}{}", text.empty() ? "" : "\n", problem_keys_text(section));
  return text;
}

// A method, a preconditioner or a format by its name.
std::string choice_text(std::string_view name) {
  std::string text;
  for (const SolverEntry& one : solvers())
    if (one.id == name)
      text += fmt::format("{}: a method (--method {}). {}{}.\n    {}\n", name, name, one.title,
                          one.symmetric ? "; for a symmetric A" : "", one.source);
  for (const PreconditionerEntry& one : preconditioners())
    if (one.id == name && name != "auto" && name != "none")
      text += fmt::format("{}: a preconditioner (--preconditioner {}). {}.\n", name, name, one.title);
  if (!text.empty()) return text + "`protean help solver` and `protean help preconditioner` have the keys.\n";
  for (const FormatEntry* one : catalogue())
    if (one->id == name) return formats_text(std::string(name));
  return {};
}

// The keys with this name, or with this path.
std::string key_text(std::string_view name) {
  std::string text;
  for (const KeyDoc& key : problem_keys())
    if (key.name == name || key.path() == name)
      if (const std::string one = problem_keys_text(key.path()); text.find(one) == std::string::npos)
        text += one;
  return text;
}

}  // namespace

std::vector<std::string> topic_names() {
  std::vector<std::string> names;
  for (const Topic& topic : topics()) names.emplace_back(topic.name);
  return names;
}

std::string topic_text(std::string_view topic, std::string_view key) {
  if (!key.empty()) {
    const Topic* const whole = topic_of(fmt::format("{} {}", topic, key));
    if (whole) return text_of(*whole);  // "exit codes"
  }
  if (const Topic* const found = topic_of(topic)) {
    if (key.empty()) return text_of(*found);
    if (found->sections.empty())
      throw BadArgument(fmt::format("'{:.50}': `protean help {}` has no keys", key, found->name));
    return problem_keys_text(fmt::format("{}.{}", found->sections.front(), key));
  }
  if (!key.empty()) return {};
  const std::string text = choice_text(topic);
  return text.empty() ? key_text(topic) : text;
}

}  // namespace protean::apps

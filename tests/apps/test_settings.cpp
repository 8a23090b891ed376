// The settings of a solve as data: each entry of solve_settings() goes through every entrance. A new entry is walked
// through them without a change here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/problem/problem_file.hpp"
#include "apps/problem/problem_keys.hpp"
#include "apps/problem/settings.hpp"
#include "apps/report/json.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "interfaces/c/protean.h"
#include "preconditioners/preconditioner.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/linear_system.hpp"
#include "systems/options.hpp"
#include "systems/system_solver.hpp"

namespace protean::apps {
namespace {

using test::has;
using test::message_of;

std::string text_of(const Setting& one, const OptionValue& value) {
  if (const auto* const word = std::get_if<std::string_view>(&value)) return std::string(*word);
  const std::int64_t whole = std::get<std::int64_t>(value);
  return whole == 0 ? std::string(one.zero) : fmt::format("{}", whole);
}

std::vector<OptionValue> values_of(const Setting& one) {
  if (one.name == "kernel") return {std::string_view("native")};
  if (one.kind == OptionKind::word) return {one.words.begin(), one.words.end()};
  return {static_cast<std::int64_t>(one.range.smallest), static_cast<std::int64_t>(one.range.largest),
          std::int64_t{0}};
}

// The other keys of the section that a value needs.
std::string with(const Setting& one) {
  return one.name == "combine" ? "  type: composition\n  parts: [{type: jacobi}]\n" : "";
}
std::string problem(const Setting& one, const std::string& value) {
  std::string text = one.section == "matrix" ? "matrix:\n  generate: {kind: poisson-2d, n: 8}\n"
                                             : "matrix: {generate: {kind: poisson-2d, n: 8}}\n";
  if (one.section == "preconditioner") text += "solver: {method: gmres}\n";
  if (one.section != "matrix") text += fmt::format("{}:\n", one.section) + with(one);
  return text + fmt::format("  {}: {}\n", one.key, value);
}

using SolverHandle = std::unique_ptr<protean_solver, decltype(&protean_solver_free)>;

TEST(EverySetting, GoesThroughEveryEntranceToTheReport) {
  for (const Setting& one : solve_settings())
    for (const OptionValue& value : values_of(one)) {
      const std::string shown = text_of(one, value);
      SCOPED_TRACE(fmt::format("{}.{}: {}", one.section, one.key, shown));
      Problem p;
      const std::string why =
          message_of([&] { p = parse_problem(problem(one, shown), "folder/p.yaml", {}); });
      if (!why.empty()) {  // a format that a problem cannot name alone, or what this build does not have
        EXPECT_TRUE(has(why, "this build") || has(why, "parts")) << why;
        continue;
      }
      EXPECT_EQ(one.value(p.settings), value);
      EXPECT_EQ(one.value(settings_of(p, nullptr, nullptr)), value);
      if (one.name == "format" || one.name == "kernel") {
        EXPECT_TRUE(p.places.empty());
      } else if (one.name != "preconditioner") {
        EXPECT_GT(p.place_of(one.name).line, 0);
      }
      // The report has what is not the default, and what decides in any case.
      const Json report = problem_json(p)[std::string(one.section)];
      if (!one.is_default(p.settings)) {
        const Json& said = report[std::string(one.key)];
        EXPECT_EQ(said.is_string() ? said.get<std::string>() : said.dump(), shown);
      }
      // C++.
      SolveSettings settings;
      one.set(settings, value);
      EXPECT_EQ(one.value(settings), value);
      // C.
      if (!one.c_option) continue;
      protean_solver* made = nullptr;
      ASSERT_EQ(protean_solver_create("cg", "none", &made), PROTEAN_OK);
      const SolverHandle solver(made, protean_solver_free);
      const std::string name(one.called_in_c());
      const auto* const whole = std::get_if<std::int64_t>(&value);
      EXPECT_EQ(whole ? protean_solver_set(made, name.c_str(), static_cast<double>(*whole))
                      : protean_solver_set_text(made, name.c_str(), shown.c_str()),
                PROTEAN_OK)
          << protean_last_error();
    }
}

TEST(EverySetting, IsCheckedAtEveryEntrance) {
  for (const Setting& one : solve_settings()) {
    const bool word = one.kind == OptionKind::word;
    const std::string shown = word ? "no-such-word" : "-1";
    SCOPED_TRACE(fmt::format("{}.{}", one.section, one.key));
    const std::string in_file =
        message_of([&] { (void)parse_problem(problem(one, shown), "folder/p.yaml", {}); });
    EXPECT_TRUE(in_file.starts_with("folder/p.yaml:")) << in_file;
    EXPECT_TRUE(has(in_file, shown)) << in_file;
    SolveSettings settings;
    if (word)
      one.set(settings, std::string_view("no-such-word"));
    else
      one.set(settings, std::int64_t{-1});
    if (one.name != "combine" &&
        one.name != "kernel") {  // an enumeration; and the kernels depend on the format
      const std::string why = message_of([&] { check(settings); });
      EXPECT_TRUE(has(why, shown)) << why;
    }
    if (!one.c_option) continue;
    protean_solver* made = nullptr;
    ASSERT_EQ(protean_solver_create("cg", "none", &made), PROTEAN_OK);
    const SolverHandle solver(made, protean_solver_free);
    const std::string name(one.called_in_c());
    EXPECT_EQ(word ? protean_solver_set_text(made, name.c_str(), shown.c_str())
                   : protean_solver_set(made, name.c_str(), -1),
              PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(has(protean_last_error(), name + " is ") || has(protean_last_error(), shown))
        << protean_last_error();
  }
}

TEST(EverySetting, IsInHelpUnderItsKey) {
  std::set<std::string_view> names;
  for (const Setting& one : solve_settings()) {
    const std::string path = fmt::format("{}.{}", one.section, one.key);
    EXPECT_TRUE(names.insert(one.name).second) << path;
    const std::string help = problem_keys_text(path);
    EXPECT_TRUE(help.starts_with(path + ": ")) << help;
    EXPECT_TRUE(has(help, one.about)) << help;
    const std::string standard = one.name == "kernel" ? "native" : text_of(one, one.default_value());
    EXPECT_TRUE(has(help, " Default: " + standard + ".")) << help;
  }
  EXPECT_THROW((void)solve_setting("formt"), std::out_of_range);
}

// A solver in C has the options of the table and of the other tables.
TEST(EverySetting, IsAnOptionOfASolverInCOrAnArgument) {
  std::set<std::string> names;
  for (const protean_kind kind : {PROTEAN_KIND_OPTION, PROTEAN_KIND_TEXT_OPTION})
    for (std::int64_t i = 0; const char* const name = protean_name(kind, i); ++i) names.insert(name);
  for (const Setting& one : solve_settings())
    EXPECT_EQ(names.contains(std::string(one.called_in_c())), one.c_option) << one.name;
}

// A change of the settings of a kept system keeps the preconditioner, unless the table says that it is another one.
TEST(EverySetting, RemakesWhatItsEntrySays) {
  const auto context = test::test_context();
  const auto csr = generate(context, "poisson-2d", {{"n", 16}});
  for (const Setting& one : solve_settings()) {
    if (one.name == "kernel") continue;  // has one word here
    SCOPED_TRACE(one.name);
    SolveSettings settings{.method = "cg", .preconditioner = "ssor"}, other = settings;
    if (one.name == "combine") settings.parts = other.parts = {{"jacobi"}, {"ssor"}};
    if (one.kind == OptionKind::word) {
      for (const std::string_view word : {"fcg", "ic0", "symmetric", "ell", "rcm", "auto", "zhao"})
        if (std::ranges::find(one.words, word) != one.words.end() && !one.differs(settings, other))
          one.set(other, word);
    } else {
      one.set(other, std::int64_t{17});
    }
    ASSERT_TRUE(one.differs(settings, other));
    for (const Remakes what : {Remakes::preconditioner, Remakes::choice, Remakes::first_choice})
      EXPECT_EQ(any_differs(what, settings, other), one.remakes == what);
    LinearSystem<double> system(csr, settings);
    system.set_up();
    const auto* const before = system.solver().preconditioner();
    system.set(other);
    system.set_up();
    // A matrix in another format or order is another one, with a preconditioner of its own. A new one is made before
    // the old one is destroyed.
    if (one.name == "format" || one.name == "order") continue;
    EXPECT_EQ(system.solver().preconditioner() == before, one.remakes != Remakes::preconditioner);
  }
}

// The three words of `policy`, from every entrance with the same meaning.
TEST(Policy, MayChangeByItsWord) {
  const auto context = test::test_context();
  const auto csr = generate(context, "poisson-2d", {{"n", 60}});
  const std::vector<double> b(static_cast<std::size_t>(csr.rows()), 1.0);
  struct Case {
    const char *policy, *format;
    std::int64_t expected;
    bool decides;
  };
  for (const Case& one :
       {Case{"by-format", "auto", 0, true}, Case{"by-format", "auto", 50, false},
        Case{"by-format", "ell", 0, false}, Case{"auto", "auto", 50, true}, Case{"auto", "ell", 0, true},
        Case{"none", "auto", 0, false}, Case{"none", "ell", 0, false}}) {
    SCOPED_TRACE(
        fmt::format("policy {}, format {}, expected_iterations {}", one.policy, one.format, one.expected));
    SolveSettings settings{
        .method = "cg", .preconditioner = "jacobi", .format = one.format, .policy = one.policy};
    settings.context = context, settings.expected_iterations = one.expected;
    std::vector<double> x(b.size(), 0.0);
    const SolveResult done = solve(csr, b, x, settings);
    EXPECT_TRUE(done.converged());
    EXPECT_EQ(done.policy, one.decides);
    if (!one.decides) { EXPECT_TRUE(done.switches.empty()); }
  }
}

TEST(Policy, OptionsOfItAreForAutoAlone) {
  const std::string matrix = "matrix: {file: A.mtx}\nschedule: ";
  const auto why = [&](const std::string& schedule) {
    return message_of([&] { (void)parse_problem(matrix + schedule, "p.yaml", {}); });
  };
  EXPECT_EQ(why("{policy: auto, worst_factor: 2, overlapped: true}"), "");
  EXPECT_EQ(why("{policy: none, machine: m.yaml}"), "");
  EXPECT_EQ(why("{policy: by-format}"), "");
  EXPECT_EQ(
      why("{policy: none, worst_factor: 2}"),
      "p.yaml:2:26: schedule.worst_factor is for schedule.policy auto; the policy is none: leave it out");
  EXPECT_TRUE(
      has(why("{policy: by-format, overlapped: true}"), "schedule.overlapped is for schedule.policy auto"));
  EXPECT_TRUE(has(why("{policy: always}"), "by-format, auto, none"));
}

}  // namespace
}  // namespace protean::apps

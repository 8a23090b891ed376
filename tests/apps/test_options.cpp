// Options as data: each entry of the tables of the library goes through every entrance. A new entry is walked through
// them without a change here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <sstream>

#include "apps/problem/problem_file.hpp"
#include "apps/problem/problem_keys.hpp"
#include "apps/report/json.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/option_checks.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "interfaces/c/protean.h"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"
#include "support/command.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::apps {
namespace {

using test::has;
using test::message_of;

constexpr double infinity = std::numeric_limits<double>::infinity();

using SolverHandle = std::unique_ptr<protean_solver, decltype(&protean_solver_free)>;
SolverHandle c_solver(std::string_view method, std::string_view preconditioner) {
  protean_solver* made = nullptr;
  (void)protean_solver_create(std::string(method).c_str(), std::string(preconditioner).c_str(), &made);
  return {made, protean_solver_free};  // null if this build does not have it
}

protean_status c_set(protean_solver* solver, const OptionInfo& option, const OptionValue& value) {
  const std::string name(option.called_in_c());
  if (const auto* const word = std::get_if<std::string_view>(&value))
    return protean_solver_set_text(solver, name.c_str(), std::string(*word).c_str());
  const auto* const real = std::get_if<double>(&value);
  return protean_solver_set(solver, name.c_str(),
                            real ? *real : static_cast<double>(std::get<std::int64_t>(value)));
}

// The structs of options, each with its place in a problem file, in its JSON report and in the C interface.
struct OfSolvers {
  using Options = SolverOptions;
  static constexpr const char *section = "solver", *of = "method", *of_in_c = "method";
  static auto table() { return solver_options(); }
  static const Options& in(const Problem& p) { return p.settings.solver; }
  static std::vector<std::string_view> readers() {
    std::vector<std::string_view> ids;
    for (const SolverEntry& entry : solvers()) ids.push_back(entry.id);
    return ids;
  }
  static std::string before(std::string_view reader) { return fmt::format("method: {}", reader); }
  static SolverHandle c(std::string_view reader) { return c_solver(reader, "none"); }
  static void make(std::string_view reader, const Options& options) {
    (void)make_solver<double>(reader, options);
  }
  static bool available(std::string_view) { return true; }
};

struct OfPreconditioners {
  using Options = PreconditionerOptions;
  static constexpr const char *section = "preconditioner", *of = "type", *of_in_c = "preconditioner";
  static auto table() { return preconditioner_options(); }
  static const Options& in(const Problem& p) { return p.settings.preconditioning; }
  static std::vector<std::string_view> readers() {
    std::vector<std::string_view> ids;
    for (const PreconditionerEntry& entry : preconditioners()) ids.push_back(entry.id);
    return ids;
  }
  static std::string before(std::string_view reader) { return fmt::format("type: {}", reader); }
  static SolverHandle c(std::string_view reader) { return c_solver("gmres", reader); }
  static void make(std::string_view reader, const Options& options) {
    const auto A = make_matrix(find_format("csr"), generate(test::test_context(), "poisson-2d", {{"n", 8}}),
                               test::test_context());
    (void)make_preconditioner<double>(reader, *A, options);
  }
  static bool available(std::string_view reader) {
    for (const PreconditionerEntry& entry : preconditioners())
      if (entry.id == reader) return entry.unavailable.empty();
    return false;
  }
};

struct OfThePolicy {
  using Options = PolicyOptions;
  static constexpr const char *section = "schedule", *of = "policy", *of_in_c = "policy";
  static auto table() { return policy_options(); }
  static const Options& in(const Problem& p) { return p.settings.policy_options; }
  static std::vector<std::string_view> readers() { return {"auto"}; }
  static std::string before(std::string_view reader) { return fmt::format("policy: {}", reader); }
  static SolverHandle c(std::string_view) {
    SolverHandle made = c_solver("cg", "none");
    (void)protean_solver_set_text(made.get(), "policy", "auto");
    return made;
  }
  static void make(std::string_view, const Options& options) { check_policy(options); }
  static bool available(std::string_view) { return true; }
};

std::string text_of(const OptionInfo& option, const OptionValue& value) {
  if (const auto* const word = std::get_if<std::string_view>(&value)) return std::string(*word);
  const auto* const real = std::get_if<double>(&value);
  if (real && std::isinf(*real)) return *real > 0 ? ".inf" : "-.inf";
  if (real && std::isnan(*real)) return ".nan";
  if (real) return fmt::format("{}", *real);
  const std::int64_t whole = std::get<std::int64_t>(value);
  return whole == 0 && !option.zero.empty() ? std::string(option.zero) : fmt::format("{}", whole);
}

OptionValue of_kind(const OptionInfo& option, double number) {
  if (option.kind == OptionKind::whole) return static_cast<std::int64_t>(number);
  return number;
}

// A word of a syntax instead of a list.
bool is_text(const OptionInfo& option) { return option.kind == OptionKind::word && option.words.empty(); }

// Values at both ends of the range, each word; and those just beyond.
std::vector<OptionValue> good_values(const OptionInfo& option) {
  std::vector<OptionValue> values(option.words.begin(), option.words.end());
  if (is_text(option)) {  // what is allowed has an example in quotes
    const std::size_t begin = option.allowed.find('\'') + 1;
    return {option.allowed.substr(begin, option.allowed.rfind('\'') - begin)};
  }
  if (option.kind == OptionKind::word) return values;
  const auto& [smallest, largest, open_below, open_above] = option.range;
  values.push_back(of_kind(option, open_below ? std::nextafter(smallest, infinity) : smallest));
  if (!std::isinf(largest))
    values.push_back(of_kind(option, open_above ? std::nextafter(largest, -infinity) : largest));
  else
    values.push_back(of_kind(option, option.kind == OptionKind::whole ? 9007199254740991.0 : infinity));
  if (!option.zero.empty()) values.push_back(of_kind(option, 0));
  return values;
}
std::vector<OptionValue> bad_values(const OptionInfo& option) {
  if (is_text(option)) return {};  // its reader knows its syntax
  if (option.kind == OptionKind::word) return {std::string_view("no-such-word")};
  const auto& [smallest, largest, open_below, open_above] = option.range;
  if (option.kind == OptionKind::whole) {
    std::vector<OptionValue> values{static_cast<std::int64_t>(smallest) - (option.zero.empty() ? 1 : 2)};
    if (!std::isinf(largest)) values.push_back(static_cast<std::int64_t>(largest) + 1);
    return values;
  }
  std::vector<OptionValue> values{open_below ? smallest : std::nextafter(smallest, -infinity),
                                  std::numeric_limits<double>::quiet_NaN()};
  if (open_above) values.push_back(largest);
  if (!open_above && !std::isinf(largest)) values.push_back(std::nextafter(largest, infinity));
  return values;
}

bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

// Words that need a library which this build does not have, and the options that are read with these words only.
bool is_absent(const OptionInfo& option, const OptionValue& value) {
  const auto absent = [&](const auto& word) {
    const std::string_view text = to_string(word);
    return !unavailable(word).empty() && (option.with_word == text || value == OptionValue(text));
  };
  return absent(AmgSetup::classical) || absent(SubdomainPartition::metis);
}

template <class Of>
class EveryOption : public testing::Test {
 protected:
  using Options = typename Of::Options;

  static std::string path_of(const OptionInfo& option) {
    return fmt::format("{}.{}", Of::section, option.name);
  }
  // The text of a problem whose last line gives the option; empty: none.
  static std::string problem(std::string_view reader, const OptionInfo& option, const std::string& value) {
    std::string text = "matrix: {generate: {kind: poisson-2d, n: 8}}\n";
    if (option.on_device) text += "operator: {space: device}\n";
    if (std::string(Of::section) == "preconditioner") text += "solver: {method: gmres}\n";
    text += fmt::format("{}:\n  {}\n", Of::section, Of::before(reader));
    if (!option.with.empty()) text += fmt::format("  {}: {}\n", option.with, option.with_word);
    if (!value.empty()) text += fmt::format("  {}: {}\n", option.name, value);
    return text;
  }
  static std::string place(const std::string& text) {
    return fmt::format("folder/p.yaml:{}:", std::count(text.begin(), text.end(), '\n'));
  }
  static std::string reader_of(const OptionInfo& option) {
    std::string found;
    for (const std::string_view reader : Of::readers())
      if (option.readers.has(reader) && (found.empty() || !Of::available(found))) found = reader;
    return found;
  }
  static Options with_companion(const Option<Options>& option) {
    Options options;
    if (!option.with.empty()) find_option(Of::table(), option.with)->set(options, option.with_word);
    return options;
  }
};

using All = testing::Types<OfSolvers, OfPreconditioners, OfThePolicy>;
TYPED_TEST_SUITE(EveryOption, All);

TYPED_TEST(EveryOption, GoesThroughEveryEntranceToTheReport) {
  using Of = TypeParam;
  for (const auto& option : Of::table()) {
    const std::string reader = this->reader_of(option), path = this->path_of(option);
    SCOPED_TRACE(path + " of " + reader);
    ASSERT_FALSE(reader.empty());
    for (const OptionValue& value : good_values(option)) {
      const bool available = Of::available(reader) && !is_absent(option, value);
      const std::string shown = text_of(option, value);
      SCOPED_TRACE(shown);
      const std::string file = this->problem(reader, option, shown), bare = this->problem(reader, option, "");
      const std::vector<std::string> set{path + "=" + shown};
      for (const bool on_command_line : {false, true}) {
        Problem p;
        std::vector<std::string> settings = on_command_line ? set : std::vector<std::string>();
        const auto read = [&] {
          p = parse_problem(on_command_line ? bare : file, "folder/p.yaml", settings);
        };
        std::string why = message_of(read);
        if (has(why, "runs on a GPU only"))
          settings.emplace_back("operator.space=device"), why = message_of(read);
        if (!available) {
          EXPECT_TRUE(has(why, "this build has no")) << why;
          continue;
        }
        ASSERT_EQ(why, "");
        EXPECT_EQ(option.value(Of::in(p)), value);
        // The report.
        const Json json = problem_json(p)[Of::section][std::string(option.name)];
        if (const auto* const real = std::get_if<double>(&value); real && std::isinf(*real)) {
          EXPECT_TRUE(json.is_null());
        } else if (real) {
          EXPECT_EQ(json.get<double>(), *real);
        } else if (json.is_number()) {
          EXPECT_EQ(json.get<std::int64_t>(), std::get<std::int64_t>(value));
        } else {
          EXPECT_EQ(json.get<std::string>(), shown);
        }
      }
      // C++.
      auto options = this->with_companion(option);
      option.set(options, value);
      EXPECT_EQ(option.value(options), value);
      if (available) {
        const std::string why = message_of([&] { Of::make(reader, options); });
        EXPECT_TRUE(why.empty() || has(why, "runs on a GPU only")) << why;
      }
      // C.
      if (const auto solver = Of::c(reader)) {
        EXPECT_EQ(c_set(solver.get(), option, value), PROTEAN_OK) << protean_last_error();
      } else {
        EXPECT_FALSE(Of::available(reader));
      }
    }
  }
}

TYPED_TEST(EveryOption, IsCheckedAtEveryEntrance) {
  using Of = TypeParam;
  for (const auto& option : Of::table()) {
    const std::string reader = this->reader_of(option), path = this->path_of(option);
    for (const OptionValue& value : bad_values(option)) {
      const std::string shown = text_of(option, value);
      SCOPED_TRACE(path + " of " + reader + ": " + shown);
      const std::string range = option.kind == OptionKind::word    ? std::string(option.words.back())
                                : option.kind == OptionKind::whole ? "a whole number"
                                                                   : "number";
      const std::string file = this->problem(reader, option, shown);
      const std::string in_file = message_of([&] { (void)parse_problem(file, "folder/p.yaml"); });
      EXPECT_TRUE(begins(in_file, this->place(file))) << in_file;
      const std::vector<std::string> set{path + "=" + shown};
      const std::string bare = this->problem(reader, option, "");
      const std::string by_set = message_of([&] { (void)parse_problem(bare, "folder/p.yaml", set); });
      EXPECT_TRUE(begins(by_set, "--set " + path + "=" + shown + ": ")) << by_set;
      for (const std::string& message : {in_file, by_set}) {
        EXPECT_TRUE(has(message, path + " is ")) << message;
        EXPECT_TRUE(has(message, range)) << message;
      }
      // C++: an enumeration cannot have another word.
      auto options = this->with_companion(option);
      option.set(options, value);
      if (!std::get_if<std::string_view>(&value) || option.value(options) == value) {
        const std::string why = message_of([&] { Of::make(reader, options); });
        EXPECT_TRUE(begins(why, std::string(option.name) + " is ")) << why;
        EXPECT_TRUE(has(why, allowed_text(option))) << why;
      }
      if (const auto solver = Of::c(reader)) {
        EXPECT_EQ(c_set(solver.get(), option, value), PROTEAN_BAD_ARGUMENT);
        const std::string why = protean_last_error();
        EXPECT_TRUE(begins(why, std::string(option.called_in_c()) + " is ")) << why;
        EXPECT_TRUE(has(why, allowed_text(option))) << why;
        EXPECT_EQ(c_set(solver.get(), option, option.default_value()), PROTEAN_OK) << protean_last_error();
      }
    }
    if (option.kind == OptionKind::whole) {
      if (const auto solver = Of::c(reader)) {
        EXPECT_EQ(c_set(solver.get(), option, 1.5), PROTEAN_BAD_ARGUMENT);
      }
      const std::string file = this->problem(reader, option, "1.5");
      EXPECT_TRUE(begins(message_of([&] { (void)parse_problem(file, "folder/p.yaml"); }), this->place(file)));
    }
  }
}

// What nobody would read is refused with its place, and the message names who reads it.
TYPED_TEST(EveryOption, IsRefusedWhereItDoesNothing) {
  using Of = TypeParam;
  for (const auto& option : Of::table())
    for (const std::string_view reader : Of::readers()) {
      if (option.readers.has(reader)) continue;
      for (const OptionValue& value : good_values(option)) {
        const std::string shown = text_of(option, value), path = this->path_of(option);
        SCOPED_TRACE(fmt::format("{} of {}: {}", path, reader, shown));
        const bool silent = asks_nothing(value) && value == option.default_value();
        OptionInfo alone = option;
        alone.with = {};
        const std::string file = this->problem(reader, alone, shown);
        const std::string in_file = message_of([&] { (void)parse_problem(file, "folder/p.yaml"); });
        const std::vector<std::string> set{path + "=" + shown};
        const std::string bare = this->problem(reader, alone, "");
        const std::string by_set = message_of([&] { (void)parse_problem(bare, "folder/p.yaml", set); });
        const std::string first(option.readers.only.empty() ? option.readers.but[0] : option.readers.only[0]);
        if (silent) {
          EXPECT_TRUE(in_file.empty() || has(in_file, "this build has no")) << in_file;
        } else {
          EXPECT_TRUE(begins(in_file, this->place(file))) << in_file;
          EXPECT_TRUE(begins(by_set, "--set " + path + "=" + shown + ": ")) << by_set;
          const std::string end = fmt::format("; the {} is {}: leave it out, or take", Of::of, reader);
          for (const std::string& message : {in_file, by_set}) {
            EXPECT_TRUE(has(message, path + " is for ")) << message;
            EXPECT_TRUE(has(message, first)) << message;
            EXPECT_TRUE(has(message, end)) << message;
          }
        }
        auto options = this->with_companion(option);
        option.set(options, value);
        if (!option.is_default(options)) {
          const std::string why = message_of([&] { Of::make(reader, options); });
          EXPECT_TRUE(has(why, " is for ") && has(why, "leave it at ")) << why;
        }
        if (const auto solver = Of::c(reader)) {
          EXPECT_EQ(c_set(solver.get(), option, value), silent ? PROTEAN_OK : PROTEAN_BAD_ARGUMENT);
          if (!silent) {
            EXPECT_TRUE(has(protean_last_error(), std::string(option.called_in_c()) + " is for "))
                << protean_last_error();
          }
        }
      }
    }
}

std::string slurp(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TYPED_TEST(EveryOption, IsInHelpManualAndDocuments) {
  using Of = TypeParam;
  const std::string readme = slurp(std::filesystem::path(PROTEAN_SOURCE) / "problems/README.md");
  for (const auto& option : Of::table()) {
    const std::string path = this->path_of(option);
    SCOPED_TRACE(path);
    const std::string help = problem_keys_text(path);
    EXPECT_TRUE(begins(help, path + ": ")) << help;
    EXPECT_TRUE(has(help, option.about)) << help;
    const OptionValue value = option.default_value();
    EXPECT_TRUE(has(help, " Default: " + text_of(option, value) + ".")) << help;
    for (const std::string_view word : option.words) EXPECT_TRUE(has(help, word)) << help;
    for (const std::string_view reader : option.readers.only) EXPECT_TRUE(has(help, reader)) << help;
    // `protean help problem`, the manual and completion print the texts of these keys (CommandOptions).
    EXPECT_TRUE(has(problem_keys_text(), help)) << help;
    EXPECT_FALSE(option.about.ends_with('.') || has(std::string(option.about), "\n"));
    EXPECT_TRUE(has(readme, fmt::format("`{}`", path)));
    bool found = false;
    const protean_kind kind =
        option.kind == OptionKind::word ? PROTEAN_KIND_TEXT_OPTION : PROTEAN_KIND_OPTION;
    for (std::int64_t i = 0; const char* const name = protean_name(kind, i); ++i)
      found |= option.called_in_c() == name;
    EXPECT_TRUE(found);
  }
}

// What the table says about itself.
TYPED_TEST(EveryOption, IsAnEntryThatMakesSense) {
  using Of = TypeParam;
  std::set<std::string_view> names;
  const auto readers = Of::readers();
  const typename Of::Options defaults;
  for (const auto& option : Of::table()) {
    SCOPED_TRACE(option.name);
    EXPECT_TRUE(names.insert(option.name).second) << "twice";
    EXPECT_NO_THROW(require_allowed(option, option.value(defaults)));
    for (const auto list : {option.readers.only, option.readers.but})
      for (const std::string_view one : list) {
        if (one == "auto") continue;  // one of several
        EXPECT_NE(std::find(readers.begin(), readers.end(), one), readers.end()) << one << " is nobody";
      }
    EXPECT_TRUE(option.words.empty() || option.kind == OptionKind::word);
    if (is_text(option)) { EXPECT_TRUE(has(std::string(option.allowed), "a text such as '")); }
    if (option.with.empty()) continue;
    const auto* const other = find_option(Of::table(), option.with);
    ASSERT_NE(other, nullptr);
    EXPECT_NO_THROW(require_allowed(*other, option.with_word));
  }
}

// Options of a table and of the C interface have one list of names there.
TEST(Options, OfTheCInterfaceHaveNamesOfTheirOwn) {
  for (const protean_kind kind : {PROTEAN_KIND_OPTION, PROTEAN_KIND_TEXT_OPTION}) {
    std::set<std::string> names;
    for (std::int64_t i = 0; const char* const name = protean_name(kind, i); ++i)
      EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_GT(names.size(), 9u);
  }
}

TEST(Options, OfANullSpaceAreReadByTheMethodsForSymmetricMatrices) {
  const auto* const option = find_option(solver_options(), "null_space");
  for (const SolverEntry& entry : solvers())
    EXPECT_EQ(option->readers.has(entry.id), entry.symmetric) << entry.id;
}

std::string refused(const std::string& problem, std::vector<std::string> settings = {}) {
  return message_of([&] { (void)parse_problem(problem, "p.yaml", settings); });
}

// An option that depends on another section.
TEST(Options, ThatDependOnOtherSections) {
  const std::string matrix = "matrix: {file: A.mtx}\n";
  EXPECT_EQ(refused(matrix + "solver: {device_steps: graph}"),
            "p.yaml:2:24: solver.device_steps has no effect on a host; leave it out, or take operator.space: "
            "device");
  EXPECT_TRUE(
      begins(refused(matrix, {"solver.device_steps=resident"}), "--set solver.device_steps=resident: "));
  EXPECT_EQ(refused(matrix + "solver: {device_steps: graph}\noperator: {space: device}"), "");
  EXPECT_EQ(refused(matrix + "solver: {device_steps: auto}"), "");

  const std::string expected = "operator: {expected_iterations: 50}\n";
  EXPECT_EQ(refused(matrix + expected), "");
  EXPECT_EQ(refused(matrix + expected + "schedule: {policy: auto}"), "");
  const std::string in_ell = "operator: {format: ell, expected_iterations: 50}\n";
  const std::string why = refused(matrix + in_ell);
  EXPECT_TRUE(begins(why, "p.yaml:2:46: operator.expected_iterations is for format auto, ")) << why;
  EXPECT_TRUE(has(why, "the format is ell: leave it out")) << why;
  EXPECT_TRUE(begins(refused(matrix + "operator: {format: ell}", {"operator.expected_iterations=9"}),
                     "--set operator.expected_iterations=9: "));
  EXPECT_EQ(refused("matrix: {file: A.mtx, order: auto}\n" + in_ell), "");
  EXPECT_EQ(refused(matrix + in_ell + "schedule: {policy: auto}"), "");
  for (const std::string_view selector : selector_words())
    EXPECT_EQ(refused(matrix + "operator: {selector: " + std::string(selector) + "}"), "") << selector;
  const std::string unknown = refused(matrix + "operator: {selector: zaho}");
  EXPECT_TRUE(begins(unknown, "p.yaml:2:22: operator.selector is 'zaho'")) << unknown;
  for (const std::string_view selector : selector_words())
    EXPECT_TRUE(has(unknown, std::string(selector))) << unknown;
  const std::string named = refused(matrix + "operator: {format: ell, selector: zhao}");
  EXPECT_TRUE(has(named, "operator.selector is for format auto and schedule.policy auto; the format is ell"))
      << named;
  EXPECT_EQ(refused(matrix + "operator: {format: ell, selector: zhao}\nschedule: {policy: auto}"), "");

  const std::string elements = "matrix: {generate: {kind: fem-hex, storage: element}}\n" + expected;
  EXPECT_TRUE(has(refused(elements), "the solve is on element matrices"));
  EXPECT_EQ(refused(elements + "schedule: {policy: auto}"), "");
}

class OptionsOfTheCommand : public test::CommandTest {};

TEST_F(OptionsOfTheCommand, NumbersThatAreNoneAreRefused) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 8}}\noutput: {solution: x.mtx}\n");
  for (const char* minutes : {"nan", "inf", "0", "-1", "ten"}) {
    const auto o = run({"solve", "p.yaml", "--checkpoint", minutes});
    EXPECT_EQ(o.code, 2) << minutes;
    EXPECT_TRUE(has(o.err, "--checkpoint")) << o.err;
    EXPECT_TRUE(has(o.err, "must be a number above 0")) << o.err;
  }
  EXPECT_EQ(run({"solve", "p.yaml", "--checkpoint", "1", "--quiet"}).code, 0);
}

}  // namespace
}  // namespace protean::apps

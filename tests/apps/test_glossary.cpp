// The words of CONTRIBUTING.md about auto and policy: each name is in the tables, and each auto of the tables is named.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/problem/problem_keys.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"
#include "support/command.hpp"
#include "support/text.hpp"
#include "systems/options.hpp"

namespace protean::apps {
namespace {

using test::has;

std::string without_ticks(std::string text) {
  std::erase(text, '`');
  const std::size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == std::string::npos ? std::string() : text.substr(begin, end - begin + 1);
}

// The cells of the rows of a table, without its head.
std::vector<std::vector<std::string>> rows_of(const std::string& section) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(section);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '|') continue;
    std::vector<std::string> cells;
    std::istringstream parts(line.substr(1));
    for (std::string cell; std::getline(parts, cell, '|');) cells.push_back(without_ticks(cell));
    rows.push_back(std::move(cells));
  }
  rows.erase(rows.begin(), rows.begin() + std::min<std::ptrdiff_t>(2, std::ssize(rows)));
  return rows;
}

// The words in `ticks` from `begin` to the next empty line.
std::set<std::string> words_after(const std::string& section, std::string_view begin) {
  const std::size_t from = section.find(begin);
  const std::string text = section.substr(from, section.find("\n\n", from) - from);
  std::set<std::string> words;
  for (std::size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at + 1)) {
    const std::size_t end = text.find('`', at + 1);
    words.insert(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return words;
}

std::string section_of_contributing() {
  const std::string page = test::slurp(std::filesystem::path(PROTEAN_SOURCE) / "CONTRIBUTING.md");
  const std::size_t begin = page.find("### Auto, and what may change"), end = page.find("\n## ", begin);
  return begin == std::string::npos ? std::string() : page.substr(begin, end - begin);
}

template <class Options>
bool has_auto(const Option<Options>& option) {
  return option.zero == "auto" || std::ranges::find(option.words, "auto") != option.words.end();
}

TEST(Glossary, HasTheNamesOfTheTables) {
  const std::string section = section_of_contributing();
  const std::string header = test::slurp(std::filesystem::path(PROTEAN_SOURCE) / "interfaces/c/protean.h");
  const auto rows = rows_of(section);
  ASSERT_EQ(rows.size(), 7u);
  std::set<std::string> named;
  for (const auto& row : rows) {
    SCOPED_TRACE(row.front());
    ASSERT_EQ(row.size(), 6u);
    const std::string &name = row[0], &key = row[1], &member = row[2], &in_c = row[3];
    EXPECT_EQ(member, name);
    EXPECT_TRUE(named.insert(name).second);
    EXPECT_TRUE(std::ranges::any_of(problem_keys(), [&](const KeyDoc& one) { return one.path() == key; }))
        << key;
    const auto setting = std::ranges::find(solve_settings(), name, &Setting::name);
    if (setting != solve_settings().end()) {
      EXPECT_EQ(key, std::string(setting->section) + "." + std::string(setting->key));
      EXPECT_EQ(setting->c_option, in_c == name);
    } else {
      ASSERT_NE(find_option(preconditioner_options(), name), nullptr);
      EXPECT_EQ(in_c, find_option(preconditioner_options(), name)->called_in_c());
    }
    if (in_c.ends_with("()")) { EXPECT_TRUE(has(header, " " + in_c.substr(0, in_c.size() - 1))) << in_c; }
  }
  // Each setting and each option with the word auto.
  for (const Setting& one : solve_settings())
    EXPECT_EQ(named.contains(std::string(one.name)), has_auto(one)) << one.name;
  std::set<std::string> others = words_after(section, "In all other options"), wanted{"auto"};
  const auto add = [&](const auto& table) {
    for (const auto& option : table)
      if (has_auto(option) && !named.contains(std::string(option.name))) wanted.emplace(option.name);
  };
  add(solver_options()), add(preconditioner_options()), add(policy_options());
  EXPECT_EQ(others, wanted);
}

TEST(Glossary, HasTheWordsOfThePolicy) {
  const std::string section = section_of_contributing();
  const Setting& policy = solve_setting("policy");
  std::vector<std::string_view> found;
  for (const std::string_view word : {"auto", "none", "by-format"}) {
    EXPECT_TRUE(has(section, "\n- `" + std::string(word) + "`")) << word;
    found.push_back(word);
  }
  EXPECT_TRUE(std::ranges::is_permutation(found, policy.words));
  EXPECT_EQ(policy.default_value(), OptionValue(std::string_view("by-format")));
  EXPECT_TRUE(has(section, "- `by-format`, the default"));
}

}  // namespace
}  // namespace protean::apps

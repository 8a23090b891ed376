// Help, man pages, completion, and hints at what was meant.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "apps/problem/problem_file.hpp"
#include "apps/problem/problem_keys.hpp"
#include "command_options.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;
using apps::KeyDoc;

TEST_F(CommandOptions, OptionsOfABareMatrixAreChecked) {
  write("a.mtx", spd_file), write("b.mtx", b_file);
  expect_refused({"solve", "a.mtx", "--method", "gc"},
                 "--method gc: solver.method is 'gc'; it must be one of: cg");
  expect_refused({"solve", "a.mtx", "--tolerance", "2"}, "--tolerance 2: solver.relative_tolerance");
  expect_refused({"solve", "a.mtx", "--rhs", "c.mtx"}, "rhs.file: there is no file");
  expect_refused({"solve", "a.mtx", "--solution", "./a.mtx"}, "would overwrite matrix.file");
  expect_refused({"solve", "none.mtx"}, "matrix.file: there is no file 'none.mtx'.");
  write("wide.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1\n");
  expect_refused({"solve", "wide.mtx"}, "2 rows and 3 columns");
}

// The longest stretch of one letter in the text.
std::size_t longest_run(const std::string& text, char letter) {
  std::size_t longest = 0, now = 0;
  for (const char c : text) longest = std::max(longest, now = c == letter ? now + 1 : 0);
  return longest;
}

TEST_F(CommandOptions, NoMessageQuotesMoreThanALineOfAFile) {
  const std::string junk(300'000, 'q');
  const auto expect_short = [&](const std::string& message, const std::string& about) {
    EXPECT_LE(longest_run(message, 'q'), 200u) << about;
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << about;
  };
  const std::string long_matrix = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 ";
  for (const auto& [name, text] :
       {std::pair<std::string, std::string>{"p.yaml", junk},
        {"p.yaml", junk + "\n" + junk},
        {"p.yaml", junk + ": 1"},
        {"p.yaml", "matrix: {file: " + junk + "}"},
        {"p.yaml", "matrix: !" + junk + " 3"},
        {"p.yaml", "matrix: \"" + junk + "\""},
        {"p.yaml", "%%MatrixMarket matrix coordinate real general\n" + junk},
        {"p.yaml", "suite: [" + junk + "]"},
        {"p.yaml", "suite: [{problem: " + junk + "}]"},
        {"p.yaml", "matrix: {generate: {kind: poisson-2d, " + junk + ": 1}}"},
        {"p.yaml",
         "matrix: {generate: {kind: poisson-2d}}\noperator: {format: sell-c-sigma, parameters: {C: " + junk +
             "}}"},
        {"p.yaml", "matrix: {generate: {kind: poisson-2d}}\noperator: {format: sum, parameters: {parts: " +
                       junk + "}}"},
        {"p.yaml",
         "matrix: {generate: {kind: poisson-2d}}\noperator: {format: sum, parts: [{format: dia, take: " +
             junk + "}]}"},
        {"a.mtx", junk},
        {"a.mtx", long_matrix + junk},
        {"a.mtx", "%%MatrixMarket matrix coordinate real " + junk}}) {
    write(name, text);
    for (const char* command : {"solve", "compare"}) {
      const Outcome o = run({command, name});
      const std::string about = std::string(command) + " " + text.substr(0, 80);
      EXPECT_EQ(o.code, 2) << about;
      EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << about;
      expect_short(o.err.substr(0, o.err.size() - 1), about);
    }
  }
  // At each key.
  for (const KeyDoc& key : apps::problem_keys()) {
    if (key.path().find_first_of("[(") != std::string::npos || key.path() == "title") continue;
    const std::string base =
        key.section == "matrix" || key.section == "matrix.generate" || key.name == "matrix"
            ? ""
            : "matrix: {generate: {kind: poisson-2d}}\n";
    try {
      (void)apps::parse_problem(base, "p.yaml", std::vector<std::string>{key.path() + "=" + junk});
      ADD_FAILURE() << key.path() << " takes anything";
    } catch (const Error& error) { expect_short(error.what(), key.path()); }
  }
}

// The keys that the reader names when it meets one that it does not know.
std::set<std::string> accepted(const std::string& problem) {
  try {
    (void)apps::parse_problem(problem, "p.yaml");
  } catch (const BadFile& error) {
    const std::string message = error.what(), marker = "Allowed here: ";
    const std::size_t begin = message.find(marker);
    EXPECT_NE(begin, std::string::npos) << message;
    std::string names = message.substr(begin + marker.size());
    names.resize(names.find('.'));
    std::set<std::string> keys;
    std::istringstream words(names);
    for (std::string word; std::getline(words, word, ',');)
      keys.insert(word.substr(word.find_first_not_of(' ')));
    return keys;
  }
  ADD_FAILURE() << problem;
  return {};
}

TEST_F(CommandOptions, HelpProblemPrintsWhatTheReaderAccepts) {
  const Outcome o = run({"help", "problem"});
  ASSERT_EQ(o.code, 0) << o.err;
  std::map<std::string, std::set<std::string>> printed;  // by section
  std::istringstream lines(o.out);
  const std::regex entry(R"(([a-z_.\[\]]+)( \(([a-z0-9, -]+)\))?: .+)");
  std::string line, next;
  while (std::getline(lines, line)) {
    std::smatch found;
    if (!std::regex_match(line, found, entry)) continue;
    ASSERT_TRUE(std::getline(lines, next));
    EXPECT_TRUE(next.rfind("    ", 0) == 0 && next.size() > 10) << line << " has no meaning";
    EXPECT_FALSE(next.find("Default") == std::string::npos && next.find("Required") == std::string::npos &&
                 line.find("[]") == std::string::npos && line.find("rhs.") == std::string::npos &&
                 line.find("initial_guess.") == std::string::npos)
        << line << " has no default";
    const std::string path = found[1];
    const std::size_t dot = path.rfind('.');
    const std::string owner = dot == std::string::npos ? "" : path.substr(0, dot);
    const std::string kind = found[3];
    if (kind.empty() || owner != "matrix.generate")
      printed[kind.empty() ? owner : owner + " " + kind].insert(
          path.substr(dot == std::string::npos ? 0 : dot + 1));
    else
      for (const char* one : {"fem-hex", "fem-tet"})
        if (kind.find(one) != std::string::npos) printed[owner + " " + one].insert(path.substr(dot + 1));
  }
  const std::string matrix = "matrix: {generate: {kind: poisson-2d}}\n";
  const std::map<std::string, std::string> wrong = {
      {"", "zzz: 1"},
      {"matrix", "matrix: {zzz: 1}"},
      {"matrix.generate fem-hex", "matrix: {generate: {kind: fem-hex, zzz: 1}}"},
      {"matrix.generate fem-tet", "matrix: {generate: {kind: fem-tet, zzz: 1}}"},
      {"rhs", matrix + "rhs: {zzz: 1}"},
      {"rhs.solution", matrix + "rhs: {solution: {zzz: 1}}"},
      {"initial_guess", matrix + "initial_guess: {zzz: 1}"},
      {"solver", matrix + "solver: {zzz: 1}"},
      {"preconditioner", matrix + "preconditioner: {zzz: 1}"},
      {"operator", matrix + "operator: {zzz: 1}"},
      {"operator.parts[]", matrix + "operator: {format: sum, parts: [{zzz: 1}]}"},
      {"schedule", matrix + "schedule: {zzz: 1}"},
      {"schedule[]", matrix + "schedule: [{zzz: 1}]"},
      {"partition", matrix + "partition: {zzz: 1}"},
      {"output", matrix + "output: {zzz: 1}"}};
  std::set<std::string> seen;
  for (const auto& [section, problem] : wrong) {
    std::set<std::string> names = accepted(problem);
    if (section.rfind("matrix.generate ", 0) == 0) {
      EXPECT_EQ(names.erase("kind"), 1u);
      EXPECT_TRUE(printed["matrix.generate"].count("kind"));
    }
    EXPECT_EQ(printed[section], names) << "section " << section;
    seen.insert(section);
  }
  for (const std::string rule : {"diagonals", "band", "rows", "width", "blocks"}) {
    std::set<std::string> names =
        accepted(matrix + "operator: {format: sum, parts: [{format: dia, take: {rule: " + rule +
                 ", zzz: 1}}, {format: csr}]}");
    names.erase("rule");
    EXPECT_EQ(printed["operator.parts[].take " + rule], names) << rule;
    seen.insert("operator.parts[].take " + rule);
  }
  seen.insert({"matrix.generate", "operator.parts[].take"});
  for (const auto& [section, names] : printed)
    EXPECT_TRUE(seen.count(section)) << section << " is no section";
}

TEST_F(CommandOptions, HelpProblemPrintsTheDefaultsOfTheReader) {
  write("a.mtx", spd_file);
  ASSERT_EQ(run({"solve", "a.mtx", "--report", "r.json"}).code, 0);
  const Json problem = Json::parse(files().at("r.json"))["problem"];
  int compared = 0;
  for (const KeyDoc& key : apps::problem_keys()) {
    const std::string section(key.section), name(key.name);
    if (!problem.contains(section) || !problem[section].is_object() || !problem[section].contains(name))
      continue;
    const Json& value = problem[section][name];
    const std::string text = run({"help", "problem", key.path()}).out;
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, std::regex(" Default: (.+)\\.\n"))) << text;
    const std::string printed = found[1];
    if (value.is_number()) {
      EXPECT_EQ(std::stod(printed), value.get<double>()) << key.path();
    } else if (value.is_boolean()) {
      EXPECT_EQ(printed, value.get<bool>() ? "true" : "false") << key.path();
    } else if (value.is_string() && name != "file" && section != "output") {
      EXPECT_EQ(printed, value.get<std::string>()) << key.path();
    } else if (value.is_null()) {
      EXPECT_TRUE(printed == ".inf" || printed == "none") << key.path() << printed;
    }
    ++compared;
  }
  EXPECT_GT(compared, 15);
  EXPECT_NE(run({"help", "problem", "solver"}).out.find("solver.restart: whole number from 1 to 100000"),
            std::string::npos);
  EXPECT_EQ(run({"help", "problem", "solver"}).out.find("operator.format"), std::string::npos);
  expect_refused({"help", "problem", "slover"}, "Did you mean 'solver'");
  expect_refused({"help", "sovle"}, "Did you mean 'solve'");
}

TEST_F(CommandOptions, WrongUseNamesWhatIsMissingAndTheHelpOfTheCommand) {
  expect_refused(
      {"solve"},
      "solve needs P.yaml|A.mtx: Problem file (YAML), or a matrix: .mtx, .rua, .rsa, .rb (also .gz, "
      ".xz), .pbin. See `protean solve --help`.");
  expect_refused({"compare"}, "compare needs ");
  expect_refused({"compare"}, "See `protean compare --help`.");
  expect_refused({"inspect", "a.mtx", "--fast"},
                 "inspect has no option '--fast'. See `protean inspect --help`.");
  expect_refused({"sovle", "a.mtx"}, "Did you mean 'solve'? See `protean --help`.");
  expect_refused({"--fast"}, "See `protean --help`.");
}

TEST_F(CommandOptions, TheReadmeOfProblemsHasEachKey) {
  const std::string readme = slurp(std::filesystem::path(PROTEAN_SOURCE) / "problems/README.md");
  for (const KeyDoc& key : apps::problem_keys())
    for (const char* section : {"matrix", "solver", "preconditioner", "operator", "output"})
      if (key.section == section) {
        EXPECT_NE(readme.find(std::string("`").append(key.path())), std::string::npos) << key.path();
      }
}

TEST_F(CommandOptions, GenerateListsItsKinds) {
  const Outcome o = run({"generate", "--kinds"});
  ASSERT_EQ(o.code, 0) << o.err;
  for (const GeneratorEntry& kind : generators()) {
    EXPECT_NE(o.out.find(std::string(kind.kind) + ": "), std::string::npos) << kind.kind;
    for (const GeneratorParam& param : kind.params)
      EXPECT_NE(o.out.find("      " + std::string(param.name) + ": "), std::string::npos) << param.name;
  }
  for (const char* text : {"fem-hex: ", "fem-tet: ", "      degree: ", "      mesh: "})
    EXPECT_NE(o.out.find(text), std::string::npos) << text;
}

TEST_F(CommandOptions, ManPagesHaveWhatHelpSays) {
  const auto plain = [](std::string text) {
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"\\-", "-"}, {"\\&", ""}, {"\\e", "\\"}})
      for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
  };
  for (const char* command :
       {"solve", "compare", "formats", "inspect", "generate", "tune", "convert", "help"}) {
    const Outcome page = run({"help", "--man", command}), help = run({command, "--help"});
    ASSERT_EQ(page.code, 0) << page.err;
    EXPECT_EQ(page.out.rfind(".TH PROTEAN\\-", 0), 0u);
    const std::string text = plain(page.out);
    const std::regex option("--[a-z-]+");
    int options = 0;
    for (std::sregex_iterator found(help.out.begin(), help.out.end(), option), end; found != end;
         ++found, ++options)
      EXPECT_NE(text.find(found->str()), std::string::npos) << command << found->str();
    EXPECT_GT(options, 1) << command;
  }
  const std::string problem = plain(run({"help", "--man", "problem"}).out);
  for (const KeyDoc& key : apps::problem_keys())
    EXPECT_NE(problem.find(key.path() + ": "), std::string::npos);
  EXPECT_NE(run({"help", "--man"}).out.find(".TH PROTEAN 1"), std::string::npos);
}

TEST_F(CommandOptions, BashCompletesCommandsOptionsAndWords) {
  const Outcome script = run({"help", "--completion", "bash"});
  ASSERT_EQ(script.code, 0) << script.err;
  write("completion", script.out);
  const auto completed = [&](const std::string& words) {
    const std::string line =
        "cd " + work_.string() + " && . ./completion && COMP_WORDS=(protean " + words +
        ") && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _protean; echo ${COMPREPLY[@]} > out";
    EXPECT_EQ(std::system(("bash -c '" + line + "'").c_str()), 0) << words;
    return slurp(work_ / "out");
  };
  EXPECT_EQ(completed("so"), "solve\n");
  EXPECT_EQ(completed("solve --met"), "--method\n");
  EXPECT_EQ(completed("solve --method gm"), "gmres\n");
  EXPECT_EQ(completed("solve --preconditioner jac"), "jacobi\n");
  EXPECT_EQ(completed("solve --order clu"), "cluster\n");
  EXPECT_EQ(completed("formats sell-pack"), "sell-packed\n");
  EXPECT_EQ(completed("solve --set solver.rest"), "solver.restart=\n");
  EXPECT_EQ(completed("help prob"), "problem\n");
  EXPECT_EQ(completed("tune --met"), "\n");
  EXPECT_EQ(run({"help", "--completion", "csh"}).code, 2);
}

bool has_command(const std::string& name) {
  return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0;
}

TEST_F(CommandOptions, ZshCompletesCommandsOptionsAndWords) {
  if (!has_command("zsh")) GTEST_SKIP() << "zsh is not installed";
  const Outcome script = run({"help", "--completion", "zsh"});
  ASSERT_EQ(script.code, 0) << script.err;
  write("completion", script.out), write("a-matrix.mtx", spd_file);
  // A terminal of zsh, in which a key completes the line and writes it to a file.
  write("terminal",
        "zmodload zsh/zpty\n"
        "zpty z 'zsh -f -i'\n"
        "zpty -w z 'PS1=; autoload -U compinit; compinit -D -u; . ./completion; finish() { zle "
        "expand-or-complete; print -r -- \"$BUFFER\" > out.new; mv out.new out; exit }; zle -N finish; "
        "bindkey \"^T\" finish; print READY'\n"
        "zpty -r -m z line '*READY*READY*'\n"
        "zpty -w -n z \"$1\"$'\\C-t'\n"
        "for i in {1..400}; do [[ -e out ]] && break; sleep 0.05; done\n"
        "zpty -d z\n");
  const auto completed = [&](const std::string& words) {
    std::filesystem::remove(work_ / "out");
    const std::string line =
        "cd " + work_.string() + " && zsh -f terminal 'protean " + words + "' < /dev/null";
    EXPECT_EQ(std::system(line.c_str()), 0) << words;
    return slurp(work_ / "out");
  };
  EXPECT_EQ(completed("so"), "protean solve \n");
  EXPECT_EQ(completed("solve --precond"), "protean solve --preconditioner=\n");
  EXPECT_EQ(completed("compare --precond"), "protean compare --preconditioner\n");  // and --preconditioners
  EXPECT_EQ(completed("solve --method gm"), "protean solve --method gmres \n");
  EXPECT_EQ(completed("solve --set solver.rest"), "protean solve --set solver.restart=\n");
  EXPECT_EQ(completed("formats sell-pack"), "protean formats sell-packed \n");
  EXPECT_EQ(completed("solve a-mat"), "protean solve a-matrix.mtx \n");
}

TEST_F(CommandOptions, FishCompletesCommandsOptionsAndWords) {
  if (!has_command("fish")) GTEST_SKIP() << "fish is not installed";
  const Outcome script = run({"help", "--completion", "fish"});
  ASSERT_EQ(script.code, 0) << script.err;
  write("completion", script.out), write("a-matrix.mtx", spd_file);
  const auto completed = [&](const std::string& words) {
    const std::string line = "cd " + work_.string() +
                             " && HOME=$PWD fish --no-config -c 'source completion; " +
                             "complete -C \"protean " + words + "\"' > out";
    EXPECT_EQ(std::system(line.c_str()), 0) << words;
    const std::string out = slurp(work_ / "out");
    return out.substr(0, out.find_first_of("\t\n"));
  };
  EXPECT_EQ(completed("so"), "solve");
  EXPECT_EQ(completed("compare --precond"), "--preconditioner");
  EXPECT_EQ(completed("solve --method gm"), "gmres");
  EXPECT_EQ(completed("solve --set solver.rest"), "solver.restart=");
  EXPECT_EQ(completed("formats sell-pack"), "sell-packed");
  EXPECT_EQ(completed("solve a-mat"), "a-matrix.mtx");
}

// Each option of each command is in the script of each shell.
TEST_F(CommandOptions, CompletionHasEachOption) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = run({"help", "--completion", shell}).out;
    for (const char* command :
         {"solve", "compare", "formats", "inspect", "generate", "tune", "convert", "help"}) {
      const std::string help = run({command, "--help"}).out;
      const std::string options = help.substr(0, help.find("Example"));
      const std::regex option("\n  (?:-.,)?--([a-z-]+)");
      for (std::sregex_iterator found(options.begin(), options.end(), option), end; found != end; ++found) {
        const std::string name = (*found)[1];
        EXPECT_NE(script.find((std::string(shell) == "fish" ? " -l " : "--") + name), std::string::npos)
            << shell << " " << command << " " << name;
      }
    }
  }
  expect_refused({"help", "--completion", "csh"}, "bash, zsh, fish");
}

TEST_F(CommandOptions, AnUnknownOptionIsNamedWithTheNearest) {
  write("a.mtx", spd_file);
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"solve", "a.mtx", "--tol", "1e-3"}, "solve has no option '--tol'. Did you mean '--tolerance'?"},
           {{"solve", "--tol=1e-3", "a.mtx"}, "solve has no option '--tol'. Did you mean '--tolerance'?"},
           {{"solve", "--tol", "1e-3"}, "solve has no option '--tol'. Did you mean '--tolerance'?"},
           {{"solve", "a.mtx", "--maxiter", "3"},
            "solve has no option '--maxiter'. Did you mean '--max-iterations'?"},
           {{"solve", "a.mtx", "--rtol", "3"}, "solve has no option '--rtol'. Did you mean '--tolerance'?"},
           {{"compare", "a.mtx", "--metod", "cg"},
            "compare has no option '--metod'. Did you mean '--method'?"},
           {{"solve", "a.mtx", "--qqqqqqqqqqqqqq"}, "solve has no option '--qqqqqqqqqqqqqq'. See"},
           {{"solve", "a.mtx", "b.mtx", "c.mtx"}, "solve takes no further argument 'b.mtx'"}})
    expect_refused(arguments, "protean: error: " + message);
}

TEST_F(CommandOptions, WhatANewcomerWritesHasAHint) {
  write("a.mtx", spd_file), write("junk.txt", "hello world\n"), write("binary", std::string("ab\0\1 cd", 8));
  const std::string cube = "matrix: {file: a.mtx}\n";
  const auto expect_yaml = [&](const std::string& text, const std::string& part) {
    write("p.yaml", text);
    expect_refused({"solve", "p.yaml"}, part);
  };
  expect_yaml("matrix: a.mtx", "Write matrix: {file: a.mtx}");
  expect_yaml(cube + "solver: cg", "Write solver: {method: cg}");
  expect_yaml(cube + "preconditioner: jacobi", "Write preconditioner: {type: jacobi}");
  expect_yaml(cube + "rhs: ones", "Write rhs: {solution: ones}");
  expect_yaml(cube + "rhs: b.mtx", "Write rhs: {file: b.mtx}");
  expect_yaml(cube + "operator: csr", "Write operator: {format: csr}");
  expect_yaml(cube + "solver: {tolerance: 1e-3}", "Did you mean 'relative_tolerance'?");
  expect_yaml(cube + "operator: {format: CSR}", "Did you mean 'csr'?");
  expect_yaml("matrix: {file: ~/a.mtx}", "Only a shell replaces `~`");
  for (const auto& [arguments, part] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"solve", "junk.txt"}, "or else a matrix file: Matrix Market begins with '%%MatrixMarket'"},
           {{"inspect", "junk.txt"}, "or else a matrix file: Matrix Market begins with '%%MatrixMarket'"},
           {{"solve", "binary"}, "and no matrix that is known here"},
           {{"solve", "https://example.org/a.mtx"}, "download it first"},
           {{"solve", "a.mtx", "--method", "cg", "--method", "gmres"},
            "--method is given 2 times; give it once"},
           {{"solve", "a.mtx", "--tolerance"}, "--tolerance needs a value: --tolerance NUMBER"},
           {{"tune", "--budget", "0"}, "--budget: '0' must be a number above 0"},
           {{"compare", "a.mtx", "--budget", "soon"}, "--budget: 'soon' must be a number above 0"},
           {{"a.mtx"}, "Did you mean 'solve a.mtx'?"},
           {{"version"}, "Did you mean '--version'?"},
           {{"-V"}, "protean has no option '-V'. Did you mean '--version'?"},
           {{"compare", "a.mtx", "--formats", "elll"}, "there is no format 'elll'. Did you mean 'ell'?"}})
    expect_refused(arguments, part);
}

// Without a terminal lines have 80 characters at most, and nothing is lost.
TEST_F(CommandOptions, FormatsFitTheWidth) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"formats"}, {"formats", "adell-plus"}}) {
    std::istringstream lines(run(words).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
  const auto joined = [](const std::string& text) {
    return std::regex_replace(text, std::regex("\\s+"), " ");
  };
  const std::string listed = joined(run({"formats"}).out),
                    details = joined(run({"formats", "adell-plus"}).out);
  for (const FormatEntry* entry : catalogue()) {
    EXPECT_NE(listed.find(fmt::format(" {} {}", entry->id, entry->title)), std::string::npos) << entry->id;
    for (const ParamDoc& param : settable_params(*entry))
      EXPECT_NE(listed.find(fmt::format("{}={}", param.name, param.default_value)), std::string::npos);
  }
  EXPECT_NE(details.find("entries of a slot: one, two of a row, two of a column"), std::string::npos)
      << details;
}

}  // namespace
}  // namespace protean::test

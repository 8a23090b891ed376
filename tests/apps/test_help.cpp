// `protean help TOPIC`: the topics that are no commands.
#include <nlohmann/json.hpp>

#include "apps/command/topics.hpp"
#include "apps/problem/problem_keys.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

class Help : public CommandTest {
 protected:
  std::string help(const std::vector<std::string>& words) {
    std::vector<std::string> all{"help"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(o.err, "");
    return o.out;
  }
  static void expect_has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& part) {
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 2) << o.out;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    expect_has(o.err, part);
  }
};

TEST_F(Help, ASectionHasItsKeysAndWhatCanBeChosen) {
  for (const char* section :
       {"matrix", "rhs", "initial_guess", "solver", "preconditioner", "operator", "schedule", "output"})
    expect_has(help({section}), apps::problem_keys_text(section));
  expect_has(help({"engine"}), apps::problem_keys_text("partition"));
  const std::string methods = help({"methods"}), preconditioner = help({"preconditioner"});
  for (const SolverEntry& one : solvers()) {
    expect_has(methods, "\n  " + std::string(one.id) + " ");
    expect_has(methods, std::string(one.title));
  }
  for (const PreconditionerEntry& one : preconditioners()) {
    expect_has(preconditioner, "\n  " + std::string(one.id) + " ");
    expect_has(preconditioner, std::string(one.title));
  }
  const std::string formats = help({"formats"});
  for (const FormatEntry* one : catalogue()) expect_has(formats, " " + std::string(one->id));
  expect_has(formats, "--family");
  EXPECT_EQ(formats, run({"formats", "--help"}).out + "\n" + help({"format"}));
  expect_has(help({"matrix"}), "A.rua");
  expect_has(help({"matrix"}), "\n  poisson-3d\n");
  expect_has(help({"rhs"}), ".npy");
}

TEST_F(Help, TopicsHaveTheNamesThatPeopleTry) {
  const std::pair<const char*, const char*> same[] = {{"method", "solver"},
                                                      {"methods", "solver"},
                                                      {"solvers", "solver"},
                                                      {"preconditioners", "preconditioner"},
                                                      {"pc", "preconditioner"},
                                                      {"matrices", "matrix"},
                                                      {"file", "matrix"},
                                                      {"vectors", "rhs"},
                                                      {"initial-guess", "initial_guess"},
                                                      {"storage", "format"},
                                                      {"policy", "schedule"},
                                                      {"report", "output"},
                                                      {"petsc", "engine"},
                                                      {"exit", "exit-codes"}};
  for (const auto& [name, topic] : same) EXPECT_EQ(help({name}), help({topic})) << name;
  const std::string codes = help({"exit-codes"});
  EXPECT_EQ(help({"exit", "codes"}), codes);
  for (const char* code : {"\n  0 ", "\n  1 ", "\n  2 ", "\n  3 ", "\n  130 "}) expect_has(codes, code);
}

TEST_F(Help, AKeyAMethodAPreconditionerAndAFormatAreDescribedByName) {
  const std::string restart = apps::problem_keys_text("solver.restart");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"restart"},
                                                {"solver.restart"},
                                                {"solver", "restart"},
                                                {"method", "restart"}})
    EXPECT_EQ(help(words), restart) << words[0];
  expect_has(help({"gmres"}), "a method (--method gmres)");
  expect_has(help({"jacobi"}), "a preconditioner (--preconditioner jacobi)");
  EXPECT_EQ(help({"sell-packed"}), run({"formats", "sell-packed"}).out);
}

TEST_F(Help, AnUnknownTopicIsRefusedWithTheTopics) {
  for (const std::string& topic : apps::topic_names()) expect_refused({"help", "nothing"}, topic);
  expect_refused({"help", "precondtioner"}, "Did you mean 'preconditioner'?");
  expect_refused({"help", "solver", "restrat"}, "no key 'solver.restrat'");
  expect_refused({"help", "exit-codes", "many"}, "has no keys");
  expect_refused({"help", "--man", "solver"}, "`protean help --man problem` is one of all keys");
  expect_refused({"help", "solve", "many"}, "a command has no keys");
  expect_refused({"help", "nothing", "many"}, "there is no help on 'nothing'");
}

}  // namespace
}  // namespace protean::test

// The command with schedule: {policy: auto}: report, summary, --explain.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <string_view>

#include "apps/small_rules.hpp"
#include "apps/solve/explain.hpp"
#include "core/generate/generate.hpp"
#include "core/io/pbin.hpp"
#include "core/permutation.hpp"
#include "formats/selectors/selector.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

// A table in which the conversion to sell-packed takes nearly no time and its product is ten times as fast as
// csr.
constexpr const char* hopeful =
    "machine: test\n"
    "matrices:\n"
    "  - {matrix: a, space: host, rows: 10000, nonzeros: 50000,\n"
    "     formats: [[csr, 640000, 1e-3, 0], [sell-packed, 440000, 1e-4, 1e-6]]}\n";
constexpr const char* hopeless =
    "machine: test\n"
    "matrices:\n"
    "  - {matrix: a, space: host, rows: 10000, nonzeros: 50000,\n"
    "     formats: [[csr, 640000, 1e-3, 0], [sell-packed, 440000, 9.9e-4, 1], [order-rcm, 640000, 1e-3, "
    "1e-6]]}\n"
    // Unlike the matrices of the tests: a format that gains nothing anywhere is not even looked at.
    "  - {matrix: b, space: host, rows: 10000000, nonzeros: 900000000,\n"
    "     formats: [[csr, 10840000000, 1, 0], [sell-packed, 7000000000, 0.5, 1]]}\n";

class PolicyCommand : public CommandTest {
 protected:
  void write_problem(const std::string& schedule, const std::string& table = hopeful) {
    write("machine.yaml", table);
    write("p.yaml",
          "matrix: {generate: {kind: anisotropic-2d, n: 200, epsilon_y: 0.01}}\n"
          "solver: {method: cg, relative_tolerance: 1.0e-9}\n"
          "preconditioner: {type: jacobi}\n"
          "operator: {threads: 1}\n"
          "output: {report: r.json}\n"
          "schedule: " +
              schedule + "\n");
  }
};

TEST_F(PolicyCommand, ChangesToWhatTheTablePromisesAndReportsWhy) {
  for (const char* overlapped : {"true", "false"}) {
    // The largest allowance, because a pause of the machine during the solve counts as time spent.
    write_problem(std::string("{policy: auto, machine: machine.yaml, worst_factor: 10, overlapped: ") +
                  overlapped + "}");
    const Outcome outcome = finish(start({"solve", "p.yaml", "--explain"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json r = Json::parse(files()["r.json"]);
    EXPECT_EQ(r["operator"]["format"], "csr");
    EXPECT_LE(r["residual"]["true_relative"].get<double>(), 1e-9);
    bool begun = false;
    for (const Json& d : r["decisions"]) {
      EXPECT_FALSE(d["reason"].get<std::string>().empty());
      if (d["action"] != "begin") continue;
      begun = true;
      EXPECT_EQ(d["to"], "sell-packed");
      EXPECT_GT(d["gain_seconds_per_iteration"].get<double>(), 0);
      EXPECT_TRUE(d["remaining_iterations"].contains("likely"));
    }
    EXPECT_TRUE(begun);
    if (std::string_view(overlapped) == "true" && r["switches"].empty()) {
      // The thread that builds has a low priority. On a busy machine the solve may end first.
      ASSERT_GE(r["failed_switches"].size(), 1U);
      EXPECT_EQ(r["failed_switches"][0]["to"], "sell-packed");
      continue;
    }
    ASSERT_GE(r["switches"].size(), 1U);
    EXPECT_EQ(r["switches"][0]["to"], "sell-packed");
    EXPECT_NE(r["policy"]["machine"].get<std::string>().find("machine.yaml"), std::string::npos);
    int candidates = 0;
    for (const Json& c : r["policy"]["candidates"]) {
      ++candidates;
      if (c["format"] == "sell-packed") {
        EXPECT_GT(c["predicted"]["product_seconds"].get<double>(), 0);
        EXPECT_GT(c["measured"]["product_seconds"].get<double>(), 0);
        EXPECT_TRUE(c["ran"].get<bool>());
      }
      EXPECT_NE(c["format"], "ell") << "the table says nothing of it, so nobody asks about its bytes";
    }
    EXPECT_GE(candidates, 2);
    EXPECT_NE(outcome.out.find("csr -> sell-packed"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("Predictions from the machine table"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("would save"), std::string::npos) << outcome.out;
  }
}

TEST_F(PolicyCommand, StaysAndSaysWhy) {
  write_problem("{policy: auto, machine: machine.yaml}", hopeless);
  const Outcome outcome = finish(start({"solve", "p.yaml", "--explain"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json r = Json::parse(files()["r.json"]);
  EXPECT_TRUE(r["switches"].empty());
  ASSERT_FALSE(r["decisions"].empty());
  EXPECT_NE(outcome.out.find("switches     none: no format is expected to be faster"), std::string::npos)
      << outcome.out;
}

// The first decision about the order of the rows.
std::string why_order_stays(const Json& report) {
  for (const Json& d : report["decisions"])
    if (d["to"] == "order rcm" && d["action"] == "stay") return d["reason"];
  return {};
}

// A mesh of 147456 rows in a random numbering, in a table in which an order costs nearly nothing.
TEST_F(PolicyCommand, PutsAShuffledMeshInOrder) {
  write_problem("");  // for the table
  const ContextPtr context = Context::host(1);
  const CsrMatrix<double> mesh = generate(context, "poisson-2d", {{"n", 384.0}});
  std::vector<double> values(mesh.values, mesh.values + mesh.nonzeros());
  for (std::int64_t i = 0; i < mesh.rows(); ++i)
    for (std::int64_t k = mesh.pattern.row_ptr[i]; k < mesh.pattern.row_ptr[i + 1]; ++k)
      if (mesh.pattern.col[k] == i) values[static_cast<std::size_t>(k)] *= 1.003;  // 150 iterations suffice
  CsrMatrix<double> shifted = mesh;
  shifted.values = values.data();
  std::vector<std::int32_t> order(static_cast<std::size_t>(mesh.rows()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(3));
  const PermutedMatrix<double> shuffled(context, shifted, Permutation(context, order));
  write_pbin(*context, (work_ / "a.pbin").string(), shuffled.matrix());
  write("machine.yaml",
        "machine: test\n"
        "matrices:\n"
        "  - {matrix: a, space: host, rows: 100000, nonzeros: 500000,\n"
        "     formats: [[csr, 6400000, 1e-3, 0], [order-rcm, 6400000, 2e-3, 1e-6]]}\n");
  write("p.yaml",
        "matrix: {file: a.pbin}\n"
        "rhs: {solution: {random: 3}}\n"
        "solver: {method: cg, relative_tolerance: 1.0e-9}\n"
        "preconditioner: {type: jacobi}\n"
        "operator: {threads: 1}\n"
        "output: {report: r.json}\n"
        "schedule: {policy: auto, machine: machine.yaml, worst_factor: 10, overlapped: false}\n");
  const Outcome outcome = finish(start({"solve", "p.yaml", "--explain"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json r = Json::parse(slurp(work_ / "r.json"));
  EXPECT_LE(r["residual"]["true_relative"].get<double>(), 1e-9);
  EXPECT_LE(r["error"]["relative"].get<double>(), 1e-6) << "x is in the order of the file";
  ASSERT_GE(r["switches"].size(), 1U) << outcome.out;
  EXPECT_EQ(r["switches"][0]["order"]["from"], "none");
  EXPECT_EQ(r["switches"][0]["order"]["to"], "rcm");
  EXPECT_GT(r["switches"][0]["order"]["seconds"].get<double>(), 0);
  EXPECT_EQ(why_order_stays(r), "");
  int in_order = 0;
  for (const Json& c : r["policy"]["candidates"])
    if (c["format"] == "csr in order rcm") {
      ++in_order;
      EXPECT_EQ(c["order"], "rcm");
      EXPECT_GT(c["measured"]["product_seconds"].get<double>(), 0);
    }
  EXPECT_EQ(in_order, 1);
  EXPECT_NE(outcome.out.find("order none -> rcm"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("csr in order rcm would save"), std::string::npos) << outcome.out;
}

// Every row reads x at random, in any order.
TEST_F(PolicyCommand, LeavesARandomGraphInItsOrderAndSaysWhy) {
  write_problem("{policy: auto, machine: machine.yaml, worst_factor: 10, overlapped: false}", hopeless);
  const Outcome outcome = finish(start(
      {"solve", "p.yaml", "--explain", "--set", "matrix.generate={kind: random-spd, n: 140000, degree: 6}",
       "--set", "solver.relative_tolerance=1e-14", "--set", "solver.max_iterations=100"}));
  const Json r = Json::parse(files()["r.json"]);
  EXPECT_TRUE(r["switches"].empty());
  const std::string why = why_order_stays(r);
  EXPECT_NE(why.find("the order of the rows stays: rows now read"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(why), std::string::npos) << outcome.out;
}

TEST_F(PolicyCommand, TheEnvironmentNamesATableAndTheBuiltInOneIsLast) {
  write_problem("{policy: auto}");
  ASSERT_EQ(finish(start({"solve", "p.yaml", "--quiet"})).code, 0);
  EXPECT_EQ(Json::parse(files()["r.json"])["policy"]["machine"], "built in");
  setenv("PROTEAN_MACHINE", "machine.yaml", 1);
  ASSERT_EQ(finish(start({"solve", "p.yaml", "--quiet"})).code, 0);
  unsetenv("PROTEAN_MACHINE");
  EXPECT_EQ(Json::parse(files()["r.json"])["policy"]["machine"], "machine.yaml");
}

TEST_F(PolicyCommand, WhatIsWrongIsRefused) {
  write_problem("{policy: auto, machine: nowhere.yaml}");
  Outcome outcome = finish(start({"solve", "p.yaml"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("schedule.machine: there is no file"), std::string::npos) << outcome.err;
  write_problem("{policy: auto, worst_factor: 0.5}");
  EXPECT_EQ(finish(start({"solve", "p.yaml"})).code, 2);
  write_problem("[]");
  // Format auto has its own policy, unless the number of iterations is known.
  EXPECT_EQ(finish(start({"solve", "p.yaml", "--explain"})).code, 0);
  outcome = finish(start({"solve", "p.yaml", "--explain", "--set", "operator.format=csr"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("Stays as named: format csr"), std::string::npos) << outcome.out;
}

// A choice before the solve is explained, too: what it wanted and took, and the ranking behind it.
TEST_F(PolicyCommand, AChoiceBeforeTheSolveIsExplained) {
  write_problem("[]");
  for (const char* setting : {"operator.expected_iterations=5000", "operator.deterministic=true"}) {
    const Outcome outcome = finish(start({"solve", "p.yaml", "--explain", "--set", setting}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json report = Json::parse(files()["r.json"]);
    const Json& choice = report["operator"]["choice"];
    EXPECT_EQ(choice["taken"], report["operator"]["format"]);
    EXPECT_EQ(choice["wanted"], choice["taken"]);
    EXPECT_FALSE(choice.contains("refused"));
    EXPECT_NE(outcome.out.find("Chosen before the solve: wanted " + choice["wanted"].get<std::string>() +
                               ", taken " + choice["taken"].get<std::string>()),
              std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("sell-c-sigma"), std::string::npos) << "a format that was not taken";
    EXPECT_NE(outcome.out.find("conversion"), std::string::npos);
  }
}

// The formats of the rows of a table that --explain prints.
std::vector<std::string> rows_of_table(const std::string& text) {
  std::vector<std::string> formats;
  std::istringstream lines(text.substr(text.find("bytes    product")));
  std::string line, format;
  std::getline(lines, line);
  while (std::getline(lines, line) && std::istringstream(line) >> format) formats.push_back(format);
  return formats;
}

// The table is the ranking that decided, by the selector that was named; `inspect` and `compare` say the same.
TEST_F(PolicyCommand, ExplainsTheSelectorThatDecided) {
  write_problem("[]");
  std::set<std::string> answers;
  for (const FormatSelector* selector : selectors()) {
    const std::string name(selector->name());
    const std::vector<std::string> question{"--set", "matrix.generate.n=60",
                                            "--set", "operator.expected_iterations=500",
                                            "--set", "operator.selector=" + name};
    const auto asked = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), question.begin(), question.end());
      return run(arguments);
    };
    const Outcome outcome = asked({"solve", "p.yaml", "--explain"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json report = Json::parse(files()["r.json"]);
    const Json& choice = report["operator"]["choice"];
    EXPECT_EQ(choice["selector"], name);
    std::vector<std::string> ranked;
    for (const Json& format : choice["ranking"]) ranked.push_back(format["format"]);
    ASSERT_FALSE(ranked.empty()) << name;
    EXPECT_EQ(rows_of_table(outcome.out), ranked) << name << outcome.out;
    EXPECT_EQ(outcome.out.find("Ranked by selector " + name) != std::string::npos, name != "model")
        << outcome.out;
    EXPECT_EQ(outcome.out.find("Predictions from the machine table") != std::string::npos, name == "model")
        << outcome.out;
    if (name != "model") { EXPECT_EQ(choice["wanted"], ranked.front()) << name; }
    const auto known = selector->formats();
    for (const std::string& format : ranked)
      EXPECT_TRUE(known.empty() || format == "csr" ||
                  std::find(known.begin(), known.end(), format) != known.end())
          << name << " knows no " << format;
    std::string table = name;
    for (const std::string& format : ranked) table += " " + format;
    answers.insert(table.substr(name.size()));
    if (selector->measures()) continue;  // another measurement may have another result
    const Outcome inspected = asked({"inspect", "p.yaml", "--json"});
    ASSERT_EQ(inspected.code, 0) << inspected.err;
    EXPECT_EQ(Json::parse(inspected.out)["auto"]["format"], choice["wanted"]) << name;
  }
  EXPECT_GE(answers.size(), 4u) << "selectors that differ";
  const std::vector<std::string> compare{"compare",
                                         "p.yaml",
                                         "--formats",
                                         "csr,bcsr,dia",
                                         "--kernels",
                                         "native",
                                         "--report",
                                         "c.json",
                                         "--quiet",
                                         "--set",
                                         "operator.expected_iterations=500",
                                         "--set"};
  for (const auto& [selector, format] : {std::pair{"choi", "csr"}, std::pair{"abu-sufah", "dia"}}) {
    std::vector<std::string> arguments = compare;
    arguments.push_back(std::string("operator.selector=") + selector);
    ASSERT_EQ(run(arguments).code, 0);
    EXPECT_EQ(Json::parse(files()["c.json"])["auto"]["format"], format) << selector;
  }
}

// If a policy decides, the selector has named the formats that it considers.
TEST_F(PolicyCommand, ExplainsWhoseFormatsThePolicyConsiders) {
  write_problem("{policy: auto, machine: machine.yaml, worst_factor: 10, overlapped: false}");
  const Outcome model = run({"solve", "p.yaml", "--explain"});
  ASSERT_EQ(model.code, 0) << model.err;
  EXPECT_EQ(model.out.find("of selector"), std::string::npos) << model.out;
  const Outcome other = run({"solve", "p.yaml", "--explain", "--set", "operator.selector=abu-sufah"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.out.find("Considered: csr and the first 3 formats of selector abu-sufah"),
            std::string::npos)
      << other.out;
}

TEST_F(PolicyCommand, SaysWhereNoFormatWasLookedAt) {
  write_problem("[]");
  const Outcome outcome = run({"solve", "p.yaml", "--explain", "--set", "operator.expected_iterations=1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("No other format was looked at."), std::string::npos) << outcome.out;
  EXPECT_FALSE(Json::parse(files()["r.json"])["operator"]["choice"].contains("ranking"));
}

TEST(Explain, SaysWhyNothingWasThoughtOf) {
  EXPECT_NE(apps::explain_text({}).find("ended before"), std::string::npos);
  DecisionRecord left_alone;
  left_alone.reason = "the solve keeps the matrix in shared memory";
  const std::string text =
      apps::explain_text({.machine = {}, .candidates = {}, .decisions = {left_alone}, .real = {}});
  EXPECT_NE(text.find(left_alone.reason), std::string::npos);
  EXPECT_EQ(text.find("ended before"), std::string::npos);
}

// A solve that looks often prints the first and the last decisions to stay between two that change something.
TEST(Explain, ALongRunOfDecisionsToStayIsCounted) {
  apps::Explanation e;
  CandidateRecord candidate;
  candidate.format = "csr";
  e.candidates = {candidate};
  const auto decide = [&](std::int64_t iteration, SwitchAction action) {
    DecisionRecord d;
    d.iteration = iteration, d.action = action, d.reason = "for a reason";
    e.decisions.push_back(d);
  };
  for (int k = 0; k < 30; ++k) decide(k, SwitchAction::stay);
  decide(30, SwitchAction::begin);
  for (int k = 31; k < 35; ++k) decide(k, SwitchAction::stay);
  const std::string text = apps::explain_text(e);
  for (const char* line :
       {"it      0  stay", "it      1  stay", "27 more times", "it     29  stay", "it     30  begin",
        "it     31  stay", "it     32  stay", "it     33  stay", "it     34  stay"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(text.find("it      2  stay"), std::string::npos) << text;
}

// 100 iterations are 100 products of cg, which the conversion does not pay for, and 200 of bicgstab.
TEST_F(SmallRules, AutoReckonsWithTwoProductsAnIterationOfBicgstab) {
  write_machine();
  write("p.yaml",
        "matrix: {generate: {kind: poisson-2d, n: 60}}\noperator: {expected_iterations: 100}\n"
        "output: {report: r.json}\n");
  setenv("PROTEAN_MACHINE", "machine.yaml", 1);
  for (const auto& [method, format] : {std::pair{"cg", "csr"}, std::pair{"bicgstab", "dia"}}) {
    const Outcome o = run({"solve", "p.yaml", "--quiet", "--set", std::string("solver.method=") + method});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(Json::parse(files().at("r.json"))["operator"]["format"], format) << method;
  }
  unsetenv("PROTEAN_MACHINE");
}

}  // namespace
}  // namespace protean::test

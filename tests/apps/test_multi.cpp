// Several right-hand sides in problem files: made, read, solved, reported, written, and what is refused with them.
#include <string>

#include "nlohmann/json.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

class MultiCommand : public CommandTest {
 protected:
  void problem(const std::string& rhs, const std::string& more = {}) {
    write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 14}}\nrhs: " + rhs +
                        "\nsolver: {method: cg}\npreconditioner: {type: jacobi}\noperator: {format: csr}\n" +
                        more);
  }
  Json report() const { return Json::parse(slurp(work_ / "r.json")); }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& part) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }
};

TEST_F(MultiCommand, EachColumnHasAnEntryInTheReport) {
  problem("{random: 3, columns: 5}", "output: {report: r.json, solution: X.mtx}\n");
  const Outcome outcome = run({"solve", "p.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("5 right-hand sides, 5 converged"), std::string::npos) << outcome.out;
  const Json json = report();
  ASSERT_EQ(json["columns"].size(), 5u);
  EXPECT_EQ(json["multi"]["product"], "in one pass");
  EXPECT_EQ(json["multi"]["preconditioner"], "diagonal");
  std::int64_t most = 0;
  for (std::size_t j = 0; j < 5; ++j) {
    const Json& column = json["columns"][j];
    EXPECT_EQ(column["reason"], "relative-tolerance");
    EXPECT_LE(column["residual"]["true_relative"].get<double>(), 1e-8);
    most = std::max(most, column["iterations"].get<std::int64_t>());
    // The same right-hand side alone: the seeds follow each other.
    problem("{random: " + std::to_string(3 + j) + "}", "output: {report: one.json}\n");
    ASSERT_EQ(run({"solve", "p.yaml", "--quiet"}).code, 0);
    const Json one = Json::parse(slurp(work_ / "one.json"));
    EXPECT_FALSE(one.contains("columns"));
    EXPECT_NEAR(column["residual"]["rhs"].get<double>(), one["residual"]["rhs"].get<double>(), 1e-12);
    EXPECT_LE(std::abs(column["iterations"].get<std::int64_t>() - one["iterations"].get<std::int64_t>()), 1);
  }
  EXPECT_EQ(json["multi"]["iterations"], most);
  EXPECT_EQ(json["iterations"], most) << "the report itself is of the longest column";
  // One pass a step, one for the residuals at the beginning, and at most one for each column that ends.
  EXPECT_LE(json["multi"]["passes"].get<std::int64_t>(), most + 1 + 5 * 2);
  EXPECT_NE(slurp(work_ / "X.mtx").find("196 5\n"), std::string::npos);
}

// The steps are the steps of one right-hand side, with the same restarts.
TEST_F(MultiCommand, GmresHasItsRestartInEachColumn) {
  problem("{random: 3, columns: 3}", "output: {report: r.json}\n");
  ASSERT_EQ(
      run({"solve", "p.yaml", "--quiet", "--set", "solver.method=gmres", "--set", "solver.restart=9"}).code,
      0);
  const Json json = report();
  for (std::size_t j = 0; j < 3; ++j) {
    problem("{random: " + std::to_string(3 + j) + "}", "output: {report: one.json}\n");
    ASSERT_EQ(
        run({"solve", "p.yaml", "--quiet", "--set", "solver.method=gmres", "--set", "solver.restart=9"}).code,
        0);
    const Json one = Json::parse(slurp(work_ / "one.json"));
    EXPECT_LE(std::abs(json["columns"][j]["iterations"].get<std::int64_t>() -
                       one["iterations"].get<std::int64_t>()),
              1);
    EXPECT_GT(one["iterations"].get<std::int64_t>(), 18);
  }
}

TEST_F(MultiCommand, FilesOfSeveralColumnsAreReadAndWritten) {
  problem("{solution: {random: 1}, columns: 3}", "output: {report: r.json, solution: X.npy}\n");
  ASSERT_EQ(run({"solve", "p.yaml", "--quiet"}).code, 0);
  EXPECT_LE(report()["error"]["relative"].get<double>(), 1e-6);
  const Json solved = report();
  for (const Json& column : solved["columns"]) EXPECT_LE(column["error"]["relative"].get<double>(), 1e-6);
  // What was written is the solution of another problem, and its initial guess.
  problem("{solution: {file: X.npy}}", "initial_guess: {file: X.npy}\noutput: {report: r.json}\n");
  ASSERT_EQ(run({"solve", "p.yaml", "--quiet"}).code, 0);
  const Json again = report();
  ASSERT_EQ(again["columns"].size(), 3u);
  for (const Json& column : again["columns"]) EXPECT_EQ(column["iterations"], 0);
  std::string text = "%%MatrixMarket matrix array real general\n196 2\n";
  for (int i = 0; i < 2 * 196; ++i) text += i == 5 ? "1\n" : "0\n";
  write("B.mtx", text);
  problem("{file: B.mtx}", "output: {report: r.json}\n");
  ASSERT_EQ(run({"solve", "p.yaml", "--quiet"}).code, 0);
  EXPECT_EQ(report()["columns"][0]["reason"], "relative-tolerance");
  EXPECT_EQ(report()["columns"][1]["reason"], "zero-right-hand-side");
}

TEST_F(MultiCommand, AFileAndTheKeyHaveTheSameNumberOfColumns) {
  std::string text = "%%MatrixMarket matrix array real general\n196 3\n";
  for (int i = 0; i < 3 * 196; ++i) text += std::to_string(i % 7) + "\n";
  write("B.mtx", text);
  problem("\n  file: B.mtx\n  columns: 3");
  EXPECT_EQ(run({"solve", "p.yaml", "--quiet"}).code, 0);
  problem("\n  file: B.mtx\n  columns: 1");
  expect_refused({"solve", "p.yaml"}, "p.yaml:4:12: rhs.columns is 1, but 'B.mtx' has 3 columns");
  expect_refused({"compare", "p.yaml"}, "p.yaml:4:12: rhs.columns is 1, but 'B.mtx' has 3 columns");
  problem("\n  solution: {file: B.mtx}\n  columns: 4");
  expect_refused({"solve", "p.yaml"}, "p.yaml:4:12: rhs.columns is 4, but 'B.mtx' has 3 columns");
}

TEST_F(MultiCommand, AColumnThatDoesNotConvergeIsNamed) {
  problem("{random: 3, columns: 4}", "output: {report: r.json}\n");
  const Outcome outcome = run({"solve", "p.yaml", "--set", "solver.max_iterations=5"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("max-iterations"), std::string::npos);
  EXPECT_EQ(report()["status"], "not-converged");
  EXPECT_EQ(report()["columns"].size(), 4u);
}

TEST_F(MultiCommand, AScheduleChangesTheFormat) {
  problem("{random: 3, columns: 3}",
          "schedule:\n  - {at_iteration: 4, format: sell-packed, overlapped: false}\n"
          "  - {at_residual: 1.0e-4, format: csr, order: rcm, overlapped: false}\n"
          "  - {at_iteration: 5000, format: csr}\noutput: {report: r.json}\n");
  const Outcome outcome = run({"solve", "p.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("it 4: csr -> sell-packed"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("not-reached"), std::string::npos) << outcome.out;
  const Json json = report();
  ASSERT_EQ(json["switches"].size(), 2u);
  EXPECT_EQ(json["switches"][0]["iteration"], 4);
  EXPECT_EQ(json["switches"][1]["order"]["to"], "rcm");
  ASSERT_EQ(json["decisions"].size(), 3u);
  EXPECT_EQ(json["decisions"][0]["action"], "switched");
  EXPECT_LE(json["decisions"][1]["relative_residual"].get<double>(), 1e-4);
  for (const Json& column : json["columns"])
    EXPECT_LE(column["residual"]["true_relative"].get<double>(), 1e-8);
}

TEST_F(MultiCommand, ThePolicyDecidesAndExplains) {
  write("p.yaml",
        "matrix: {generate: {kind: poisson-3d, n: 24}}\nrhs: {random: 3, columns: 4}\nsolver: {method: cg}\n"
        "preconditioner: {type: none}\noutput: {report: r.json}\n");
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--set", "schedule.policy=auto"}}) {
    std::vector<std::string> arguments{"solve", "p.yaml", "--explain", "--set",
                                       "solver.relative_tolerance=1e-12"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const Json json = report();
    ASSERT_EQ(json["columns"].size(), 4u);
    EXPECT_TRUE(json.contains("policy"));
    EXPECT_NE(json["operator"]["reason"].get<std::string>().find("policy"), std::string::npos);
    // A machine of other speeds may find no reason to look.
    if (!json["policy"]["candidates"].empty()) {
      EXPECT_NE(outcome.out.find("Products of 4 right-hand sides"), std::string::npos) << outcome.out;
    }
  }
  // Chosen before the solve: the ranking, with products of all right-hand sides.
  const Outcome chosen = run({"solve", "p.yaml", "--explain", "--set", "operator.expected_iterations=5000"});
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_NE(chosen.out.find("Chosen before the solve"), std::string::npos) << chosen.out;
}

TEST_F(MultiCommand, WhatIsForOneRightHandSideIsRefused) {
  problem("{random: 3, columns: 2}");
  expect_refused({"solve", "p.yaml", "--set", "output.history=h.csv"}, "output.history");
  expect_refused({"compare", "p.yaml"}, "2 right-hand sides");
  expect_refused({"solve", "p.yaml", "--set", "rhs.columns=0"}, "rhs.columns");
  problem("{value: 1, columns: 2}");
  expect_refused({"solve", "p.yaml"}, "random");
}

}  // namespace
}  // namespace protean::test

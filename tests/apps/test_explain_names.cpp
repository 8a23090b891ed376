// `protean solve --explain` says what was named and what may change, and reports changes of method and preconditioner
// of one right-hand side and of several.
#include <string>

#include <fmt/format.h>

#include "nlohmann/json.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

class ExplainNames : public CommandTest {
 protected:
  // A grid with another diagonal, which makes it indefinite: symmetric, with a positive diagonal.
  void write_matrix(double diagonal) {
    constexpr int side = 24;
    std::string entries;
    int count = 0;
    const auto add = [&](int i, int j, double value) {
      entries += fmt::format("{} {} {}\n", i + 1, j + 1, value), ++count;
    };
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j) {
        const int at = i * side + j;
        add(at, at, diagonal + 1e-3 * (at % 7));
        if (j > 0) add(at, at - 1, -1);
        if (i > 0) add(at, at - side, -1);
      }
    write("A.mtx", fmt::format("%%MatrixMarket matrix coordinate real symmetric\n{} {} {}\n{}", side * side,
                               side * side, count, entries));
  }
  void problem(const std::string& rhs, const std::string& more) {
    write("p.yaml", "matrix: {file: A.mtx}\nrhs: " + rhs + "\noutput: {report: r.json}\n" + more);
  }
  Json report() const { return Json::parse(slurp(work_ / "r.json")); }
  static void expect_said(const Outcome& outcome, const std::string& part) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in" << outcome.out;
  }
};

TEST_F(ExplainNames, ANamedFormatHidesNoChangeOfMethod) {
  write_matrix(3.7);
  problem("{value: 1}", "operator: {format: csr}\npreconditioner: {type: jacobi}\n");
  const Outcome outcome = run({"solve", "p.yaml", "--explain"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  expect_said(outcome, "Stays as named: format csr, preconditioner jacobi\n");
  expect_said(outcome, "May change in the solve: method auto\n");
  expect_said(outcome, "Method auto began with cg\n");
  expect_said(outcome, "changed     minres: indefinite-operator");
  EXPECT_EQ(report()["solver"]["changes"].size(), 1u);
  EXPECT_FALSE(report()["solver"]["changes"][0].contains("columns"));
}

TEST_F(ExplainNames, SaysWhatMayChange) {
  write_matrix(4.1);
  const auto explained = [&](const std::string& more) {
    problem("{value: 1}", more);
    const Outcome outcome = run({"solve", "p.yaml", "--explain"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  };
  const Outcome named =
      explained("operator: {format: ell}\nsolver: {method: cg}\npreconditioner: {type: jacobi}\n");
  expect_said(named, "Stays as named: format ell, method cg, preconditioner jacobi\n");
  expect_said(named, "May change in the solve: nothing\n");
  EXPECT_EQ(named.out.find("Method auto"), std::string::npos);
  const Outcome open = explained("");
  expect_said(open, "Stays as named: nothing\n");
  expect_said(open, "May change in the solve: format auto, method auto, preconditioner auto\n");
  expect_said(open, "Method auto stayed with cg: the matrix is symmetric");
  expect_said(open, "Preconditioner auto stayed with jacobi");
  const Outcome scheduled =
      explained("operator: {format: csr}\nschedule: [{at_iteration: 3, format: ell}]\n");
  expect_said(scheduled, "the format, which the schedule changes at its points");
  const Outcome policy = explained("operator: {format: csr}\nschedule: {policy: auto}\n");
  expect_said(policy, "the format, which policy auto changes");
  const Outcome before = explained("operator: {expected_iterations: 50}\n");
  expect_said(before, "format auto after its choice before the solve");
}

TEST_F(ExplainNames, SeveralRightHandSidesAreReportedInTheSameWay) {
  write_matrix(3.7);
  problem("{random: 4, columns: 3}", "operator: {format: csr}\npreconditioner: {type: jacobi}\n");
  const Outcome outcome = run({"solve", "p.yaml", "--explain"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  expect_said(outcome, "changed     minres: indefinite-operator");
  expect_said(outcome, ", 3 right-hand sides)");
  expect_said(outcome, ": cg -> minres\n");
  const Json json = report();
  EXPECT_EQ(json["solver"]["chosen"], "minres");
  ASSERT_EQ(json["solver"]["changes"].size(), 1u);
  const Json& change = json["solver"]["changes"][0];
  EXPECT_EQ(change["from"], "cg");
  EXPECT_EQ(change["to"], "minres");
  EXPECT_EQ(change["action"], "changed");
  EXPECT_EQ(change["columns"], 3);
  for (const Json& column : json["columns"]) EXPECT_EQ(column["status"], "converged");
  write_matrix(4.1);
  problem("{random: 4, columns: 3}", "operator: {format: csr}\n");
  ASSERT_EQ(run({"solve", "p.yaml"}).code, 0);
  EXPECT_EQ(report()["solver"]["changes"], Json::array());
  EXPECT_EQ(report()["preconditioner"]["changes"], Json::array());
}

// Storage auto says why it took double, whatever the reason is.
TEST_F(ExplainNames, StorageAutoAlwaysSaysWhyItTookDouble) {
  write_matrix(4.1);
  for (const std::string method : {"gmres", "bicgstab2", "minres"})
    for (const std::string rhs : {"{value: 1}", "{random: 4, columns: 2}"}) {
      problem(rhs, "solver: {method: " + method + "}\npreconditioner: {type: ic0, storage: auto}\n");
      const Outcome outcome = run({"solve", "p.yaml", "--explain"});
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      const Json M = report()["preconditioner"];
      EXPECT_EQ(M["storage"], "double");
      ASSERT_TRUE(M.contains("storage_reason")) << method;
      EXPECT_NE(M["storage_reason"].get<std::string>().find("method " + method), std::string::npos);
      expect_said(outcome, "storage auto: double, since method " + method);
    }
  problem("{value: 1}", "solver: {method: cg}\npreconditioner: {type: ic0, storage: auto}\n");
  ASSERT_EQ(run({"solve", "p.yaml"}).code, 0);
  EXPECT_EQ(report()["preconditioner"]["storage"], "float");
  EXPECT_FALSE(report()["preconditioner"].contains("storage_reason"));
  problem("{value: 1}", "solver: {method: gmres}\npreconditioner: {type: ic0, storage: double}\n");
  ASSERT_EQ(run({"solve", "p.yaml"}).code, 0);
  EXPECT_FALSE(report()["preconditioner"].contains("storage_reason")) << "double was named";
  problem("{value: 1}", "solver: {method: cg}\npreconditioner: {type: auto, storage: auto}\n");
  ASSERT_EQ(run({"solve", "p.yaml"}).code, 0);
  EXPECT_NE(
      report()["preconditioner"]["storage_reason"].get<std::string>().find("jacobi has no form in float"),
      std::string::npos);
}

}  // namespace
}  // namespace protean::test

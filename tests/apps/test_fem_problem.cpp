// Finite-element problems in problem files and in the command, assembled and on element matrices.
#include <nlohmann/json.hpp>

#include "apps/problem/problem_file.hpp"
#include "core/error.hpp"
#include "support/command.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

using nlohmann::json;

apps::Problem read(const std::string& text) { return apps::parse_problem(text, "folder/p.yaml"); }

std::string hex(const std::string& more, const std::string& rest = "") {
  return "matrix: {generate: {kind: fem-hex, " + more + "}}\n" + rest;
}

std::string complaint(const std::string& text) {
  return message_of<BadFile>([&] { (void)read(text); });
}

TEST(FemProblemFile, IsRead) {
  const auto p =
      read(hex("degree: 3, n: 7, distortion: 0.05, physics: elasticity, young: 2, storage: element",
               "operator: {variant: gather, threads: 2}"));
  ASSERT_TRUE(p.matrix.fem);
  EXPECT_EQ(p.matrix.kind, "fem-hex");
  EXPECT_EQ(p.matrix.fem->degree, 3);
  EXPECT_EQ(p.matrix.fem->n, 7);
  EXPECT_EQ(p.matrix.fem->distortion, 0.05);
  EXPECT_EQ(p.matrix.fem->physics, apps::fem::Physics::elasticity);
  EXPECT_EQ(p.matrix.fem->material.young, 2);
  EXPECT_FALSE(p.matrix.fem->assembled);
  EXPECT_EQ(p.op.variant, ElementScatter::gather);
  const auto plain = read(hex("n: 3"));
  EXPECT_TRUE(plain.matrix.fem->assembled);
  EXPECT_EQ(plain.matrix.fem->degree, 1);
  const auto mesh = read("matrix: {generate: {kind: fem-tet, mesh: a/b.msh}}");
  EXPECT_EQ(mesh.matrix.fem->mesh, "folder/a/b.msh");
}

TEST(FemProblemFile, WhatDoesNotGoTogetherIsRefused) {
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos ? testing::AssertionSuccess()
                                                : testing::AssertionFailure() << text << " lacks " << part;
  };
  for (const char* key : {"format: csr", "format: auto", "kernel: native", "parameters: {}"}) {
    const std::string text = complaint(hex("storage: element", std::string("operator: {") + key + "}"));
    EXPECT_TRUE(has(text, "p.yaml:2:")) << key;
    EXPECT_TRUE(has(text, "has no meaning here")) << key;
  }
  EXPECT_TRUE(
      has(complaint(hex("n: 3", "operator: {variant: gather}")), "needs matrix.generate.storage: element"));
  EXPECT_TRUE(has(complaint("matrix: {file: A.mtx}\noperator: {variant: gather}"), "storage: element"));
  EXPECT_TRUE(
      has(complaint(hex("storage: element", "operator: {variant: colored}")), "Did you mean 'coloured'"));
  EXPECT_TRUE(has(complaint(hex("degree: 5")), "degree"));
  const auto point = [](const std::string& more) {
    return "schedule: [{at_iteration: 2, format: element" + more + "}]";
  };
  EXPECT_TRUE(has(complaint(hex("n: 3", point(""))), "there is no format 'element'"));
  EXPECT_TRUE(
      has(complaint(hex("storage: element", point(", kernel: native"))), "no meaning with format element"));
  EXPECT_TRUE(read(hex("storage: element", point(""))).settings.schedule[0].to.elements);
  EXPECT_TRUE(read(hex("storage: element", "schedule: {policy: auto}")).settings.policy == "auto");
  EXPECT_TRUE(has(complaint(hex("physics: poison")), "Did you mean 'poisson'"));
  EXPECT_TRUE(has(complaint(hex("young: 2")), "belongs to physics: elasticity"));
  EXPECT_TRUE(has(complaint(hex("mesh: a.msh")), "mesh"));
  EXPECT_TRUE(has(complaint("matrix: {generate: {kind: fem-tet, degree: 1}}"), "degree"));
  EXPECT_TRUE(
      has(complaint("matrix: {generate: {kind: fem-tet, mesh: a.msh, n: 3}}"), "belongs to the cube"));
  EXPECT_TRUE(has(complaint("matrix: {generate: {kind: fem-hexa}}"), "Did you mean 'fem-hex'"));
}

class FemCommand : public CommandTest {
 protected:
  json solve(const std::string& problem) {
    write("p.yaml", problem + "output: {report: r.json, solution: x.mtx}\n");
    const Outcome outcome = run({"solve", "p.yaml"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(slurp(work_ / "r.json"));
  }
};

TEST_F(FemCommand, ElementMatricesAndTheAssembledMatrixGiveTheSameSolve) {
  for (const char* physics : {"poisson", "elasticity"}) {
    const std::string what = std::string("degree: 2, n: 5, distortion: 0.05, physics: ") + physics;
    const std::string rest = "rhs: {solution: {random: 3}}\npreconditioner: {type: jacobi}\n";
    const json assembled = solve(hex(what, rest));
    EXPECT_NE(assembled["operator"]["format"].get<std::string>().rfind("lma", 0), 0u);
    for (const char* variant : {"automatic", "atomic", "coloured", "gather"}) {
      const json on_elements =
          solve(hex(what + ", storage: element", rest + "operator: {variant: " + variant + "}\n"));
      if (variant != std::string("automatic")) {
        EXPECT_EQ(on_elements["operator"]["format"], std::string("lma-") + variant);
      }
      EXPECT_EQ(on_elements["matrix"]["rows"], assembled["matrix"]["rows"]);
      EXPECT_EQ(on_elements["matrix"]["elements"], 125);
      EXPECT_NEAR(on_elements["iterations"].get<int>(), assembled["iterations"].get<int>(), 2);
      EXPECT_LT(on_elements["error"]["relative"].get<double>(), 1e-6);
      EXPECT_FALSE(on_elements["problem"]["operator"].contains("format"));
      // The matrix and the operator in the report are again a problem that can be solved.
      write("again.yaml", json({{"matrix", on_elements["problem"]["matrix"]},
                                {"operator", on_elements["problem"]["operator"]}})
                              .dump());
      EXPECT_EQ(run({"solve", "again.yaml", "--quiet"}).code, 0);
    }
  }
}

TEST_F(FemCommand, AScheduleAssemblesWhileTheSolveRuns) {
  const std::string what = "degree: 2, n: 8, storage: element";
  const std::string rest = "rhs: {solution: {random: 3}}\npreconditioner: {type: jacobi}\n";
  const json plain = solve(hex(what, rest));
  EXPECT_TRUE(plain["switches"].empty());
  for (const char* variant : {"atomic", "coloured", "gather"}) {
    const json changed = solve(hex(
        what, rest + "operator: {threads: 1, variant: " + variant +
                  "}\nschedule: [{at_iteration: 3, format: sell-packed, overlapped: false}, "
                  "{at_iteration: 6, format: element, overlapped: false}, "
                  "{at_iteration: 9, format: csr, overlapped: false}, {at_iteration: 12, format: ell}]\n"));
    const std::string name = std::string("lma-") + variant;
    EXPECT_NEAR(changed["iterations"].get<int>(), plain["iterations"].get<int>(), 3);
    EXPECT_LE(changed["residual"]["true_relative"].get<double>(), 1e-8);
    EXPECT_LT(changed["error"]["relative"].get<double>(), 1e-6);
    const json& switches = changed["switches"];
    ASSERT_GE(switches.size(), 3u);  // the last one may not be ready before the solve ends
    EXPECT_EQ(switches[0]["from"], name);
    EXPECT_EQ(switches[0]["to"], "sell-packed");
    EXPECT_EQ(switches[0]["iteration"], 3);
    EXPECT_GT(switches[0]["assemble_seconds"].get<double>(), 0);
    EXPECT_EQ(switches[1]["to"], name);
    EXPECT_EQ(switches[2]["to"], "csr");
    EXPECT_EQ(switches[2]["assemble_seconds"].get<double>(), 0);
    EXPECT_EQ(changed["decisions"][0]["action"], "switched");
    EXPECT_EQ(changed["problem"]["schedule"][1]["format"], "element");
    // The problem in the report is again a problem that can be solved.
    json again = changed["problem"];
    write(
        "again.yaml",
        json({{"matrix", again["matrix"]}, {"operator", again["operator"]}, {"schedule", again["schedule"]}})
            .dump());
    EXPECT_EQ(run({"solve", "again.yaml", "--quiet"}).code, 0);
  }
}

TEST_F(FemCommand, ThePolicyIsExplainedFromElementMatricesToo) {
  write(
      "machine.yaml",
      "machine: test\nmatrices:\n  - {matrix: a, space: host, rows: 10000, nonzeros: 600000,\n     formats: "
      "[[csr, 7200000, 1e-3, 0], [sell-packed, 7200000, 1e-6, 1e-9], [lma-atomic, 7200000, 1e-3, 0],\n"
      "               [assembly, 7200000, 1e-3, 1e-9]]}\n");
  write("p.yaml", hex("degree: 2, n: 10, storage: element",
                      "operator: {threads: 1, variant: atomic}\npreconditioner: {type: jacobi}\n"
                      "output: {report: r.json}\nsolver: "
                      "{relative_tolerance: 1.0e-11}\nschedule: {policy: auto, machine: machine.yaml, "
                      "overlapped: false, worst_factor: 10}\n"));
  const Outcome outcome = run({"solve", "p.yaml", "--explain"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json r = json::parse(slurp(work_ / "r.json"));
  EXPECT_EQ(r["operator"]["format"], "lma-atomic");
  ASSERT_GE(r["switches"].size(), 1u);
  EXPECT_EQ(r["switches"][0]["from"], "lma-atomic");
  EXPECT_EQ(r["switches"][0]["to"], "sell-packed");
  EXPECT_GT(r["switches"][0]["assemble_seconds"].get<double>(), 0);
  // The first decision may be to wait for a forecast.
  bool begun = false;
  for (const json& d : r["decisions"]) begun = begun || d["action"] == "begin";
  EXPECT_TRUE(begun);
  bool own = false;
  for (const json& c : r["policy"]["candidates"]) {
    if (c["format"] != "lma-atomic") continue;
    own = true;
    EXPECT_TRUE(c["ran"].get<bool>());
    EXPECT_GT(c["measured"]["product_seconds"].get<double>(), 0);
  }
  EXPECT_TRUE(own);
  EXPECT_NE(outcome.out.find("lma-atomic -> sell-packed, assembled and converted in"), std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("would save"), std::string::npos) << outcome.out;
}

TEST_F(FemCommand, TetrahedraOfACubeAndOfAFile) {
  EXPECT_LT(solve("matrix: {generate: {kind: fem-tet, n: 5, storage: element}}\n")["error"]["relative"]
                .get<double>(),
            1e-6);
  // Four tetrahedra around a node inside one.
  write("m.msh", R"($MeshFormat
2.2 0 8
$EndMeshFormat
$Nodes
5
1 0 0 0
2 1 0 0
3 0 1 0
4 0 0 1
5 .2 .2 .2
$EndNodes
$Elements
4
1 4 0 1 2 3 5
2 4 0 1 2 4 5
3 4 0 1 3 4 5
4 4 0 2 3 4 5
$EndElements
)");
  const json report = solve("matrix: {generate: {kind: fem-tet, mesh: m.msh}}\n");
  EXPECT_EQ(report["matrix"]["rows"], 1);
  EXPECT_EQ(report["problem"]["matrix"]["generate"]["mesh"], "m.msh");
}

TEST_F(FemCommand, BadInputEndsWithTwoAndLeavesNothing) {
  const auto refused = [&](const std::string& problem, const std::string& why,
                           const std::vector<std::string>& command = {"solve", "p.yaml"}) {
    write("p.yaml", problem);
    const auto before = files();
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
    EXPECT_EQ(files(), before);
  };
  refused("matrix: {generate: {kind: fem-tet, mesh: none.msh}}\n", "there is no file");
  write("bad.msh", "$MeshFormat\n4.0 0 8\n$EndMeshFormat\n");
  refused("matrix: {generate: {kind: fem-tet, mesh: bad.msh}}\n", "bad.msh:2");
  refused(hex("n: 1"), "nothing to solve");
  refused(hex("n: 1, storage: element"), "nothing to solve");
  refused(hex("n: 3, storage: element"), "storage: assembled", {"compare", "p.yaml"});
}

}  // namespace
}  // namespace protean::test

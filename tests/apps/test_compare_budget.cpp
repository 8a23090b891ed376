// `protean compare` with a budget, broken problems, and outputs that must not be overwritten.
#include <nlohmann/json.hpp>

#include <filesystem>

#include "compare_command.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

TEST_F(Compare, ASuiteGoesOnPastABrokenProblem) {
  write("a.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  write("b.yaml", "matrix: {file: not-there.mtx}\n");
  write("suite.yaml",
        "suite:\n  - a.yaml\n  - b.yaml\n  - {problem: a.yaml, set: {solver.relative_tolerance: 1.0e-4}}\n");
  const Outcome o =
      run({"compare", "suite.yaml", "--formats", "csr", "--kernels", "native", "--report", "r.json"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("b.yaml"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("1 of 3 problems"), std::string::npos) << o.err;
  const Json r = parse(o, files());
  ASSERT_EQ(r["suite"].size(), 2u);
  EXPECT_EQ(r["broken"].size(), 1u);
  EXPECT_EQ(r["suite"][1]["problem"]["solver"]["relative_tolerance"], 1e-4);
  // The list of broken problems comes last.
  const std::size_t list = o.err.find("1 of 3 problems");
  EXPECT_NE(o.err.find("b.yaml", list), std::string::npos) << o.err;
  write("c.yaml", "matrix: [\n");
  write("all.yaml", "suite: [c.yaml, b.yaml]\n");
  const Outcome none = run({"compare", "all.yaml"});
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("2 of 2 problems"), std::string::npos) << none.err;
}

TEST_F(Compare, TheBudgetIsKept) {
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 300, epsilon_y: 1.0e-6}}\n"
        "solver: {method: cg, relative_tolerance: 1.0e-300, max_iterations: 1e9}\n");
  const Outcome o = run({"compare", "p.yaml", "--budget", "2", "--report", "r.json", "--kernels", "native"});
  EXPECT_EQ(o.code, 0) << o.err;
  const Json r = parse(o, files());
  // On a busy machine the budget may be spent before the first solve.
  for (const Json& v : r["results"]) {
    const std::string why = v["why"];
    if (v["status"] == "not-converged") { EXPECT_NE(why.find("time-limit"), std::string::npos) << why; }
    if (v["status"] == "failed") {
      EXPECT_NE(why.find("budget"), std::string::npos) << why;
      EXPECT_EQ(v["not_run"], "budget");
    } else {
      EXPECT_FALSE(v.contains("not_run"));
    }
    EXPECT_NE(v["status"], "converged");
  }
}

TEST_F(Compare, TimeThatIsLeftGoesToASolveThatWasCut) {
  // The share of csr, a quarter of the budget, is too short for its solve. The others are refused and leave theirs. The
  // system is large: of a small one GMRES(2) finds a solution without any residual in about 3 s.
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 500, epsilon_y: 1.0e-6}}\n"
        "solver: {method: gmres, restart: 2, relative_tolerance: 1.0e-300, max_iterations: 1e9, max_seconds: "
        "3}\n");
  const Outcome o = run({"compare", "p.yaml", "--budget", "10", "--formats", "csr,bsr4,bcsr-choi,bin-bcsr",
                         "--kernels", "native", "--report", "r.json"});
  EXPECT_EQ(o.code, 0) << o.err;
  const Json r = parse(o, files());
  ASSERT_EQ(r["results"].size(), 4u);
  for (const Json& v : r["results"]) {
    if (v["format"] != "csr") {
      EXPECT_EQ(v["status"], "refused") << v["format"];
      continue;
    }
    EXPECT_EQ(v["status"], "not-converged") << v["why"];
    EXPECT_FALSE(v.contains("not_run"));
    EXPECT_GE(v["seconds"]["solve"].get<double>(), 2.9) << "the limit of the problem, not the budget";
  }
}

TEST_F(Compare, WhatTheBudgetCutsIsNotRanked) {
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 500, epsilon_y: 1.0e-6}}\n"
        "solver: {method: gmres, restart: 2, relative_tolerance: 1.0e-300, max_iterations: 1e9}\n");
  const Outcome o = run({"compare", "p.yaml", "--budget", "3", "--formats", "csr", "--kernels", "native",
                         "--report", "r.json", "--html", "r.html"});
  EXPECT_EQ(o.code, 0) << o.err;
  const Json r = parse(o, files());
  ASSERT_EQ(r["results"].size(), 1u);
  EXPECT_EQ(r["results"][0]["not_run"], "budget") << r["results"][0];
  EXPECT_FALSE(r["results"][0].contains("seconds")) << "times of a part of a solve";
  EXPECT_EQ(r["out_of_time"], true);
  EXPECT_NE(files().at("r.html").find("\"runs\":[]"), std::string::npos);
  EXPECT_NE(o.out.find("best: no solve was finished; the fastest product has csr"), std::string::npos)
      << o.out;
  EXPECT_TRUE(r["best"].is_null());
  EXPECT_NE(o.out.find("has left out the solves of 1 of 1 formats"), std::string::npos) << o.out;
}

TEST_F(Compare, WhatWasNotRunIsNotCalledAFailure) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  const Outcome o = run({"compare", "p.yaml", "--budget", "1e-9", "--formats", "csr,ell", "--kernels",
                         "native", "--report", "r.json", "--csv", "r.csv", "--html", "r.html"});
  EXPECT_EQ(o.code, 0) << o.err;
  const auto written = files();
  const Json report = parse(o, written);
  for (const Json& v : report["results"]) {
    EXPECT_EQ(v["status"], "failed");
    EXPECT_EQ(v["not_run"], "budget");
  }
  EXPECT_NE(o.out.find("not run: the budget of"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("failed"), std::string::npos) << o.out;
  EXPECT_NE(written.at("r.csv").find(",failed,"), std::string::npos);
  EXPECT_NE(written.at("r.csv").find("\"not run: the budget of"), std::string::npos) << written.at("r.csv");
  EXPECT_NE(written.at("r.html").find("\"not run\""), std::string::npos);
}

TEST_F(Compare, NothingThatIsReadIsOverwritten) {
  write("m.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2\n2 2 4\n");
  write("b.mtx", "%%MatrixMarket matrix array real general\n2 1\n1\n1\n");
  write("p.yaml", "matrix: {file: m.mtx}\nrhs: {file: b.mtx}\ninitial_guess: {file: b.mtx}\n");
  write("broken.yaml", "matrix: [\n");
  write("s.yaml", "suite: [broken.yaml, p.yaml]\n");
  std::filesystem::create_symlink("m.mtx", work_ / "link.html");
  const auto before = files();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"compare", "p.yaml", "--report", "p.yaml"}, "the problem file"},
      {{"compare", "p.yaml", "--csv", "./x/../m.mtx"}, "matrix.file"},
      {{"compare", "p.yaml", "--html", "link.html"}, "matrix.file"},
      {{"compare", "p.yaml", "--html", "b.mtx"}, "rhs.file"},
      {{"compare", "s.yaml", "--report", "s.yaml"}, "the suite"},
      {{"compare", "s.yaml", "--html", "m.mtx"}, "matrix.file"},
      {{"compare", "s.yaml", "--html", "broken.yaml"}, "the problem file"},
      {{"compare", "p.yaml", "--html", "o", "--csv", "./o"}, "--csv and --html are the same file"}};
  for (const auto& [arguments, text] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
    EXPECT_EQ(files(), before) << o.err;
  }
}

TEST_F(Compare, BadInputWritesNothing) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"compare", "p.yaml", "--formats", "cssr"}, "there is no format 'cssr'. Did you mean 'csr'?"},
      {{"compare", "p.yaml", "--formats", "jad", "--kernels", "kokkos"}, "no format of --formats jad"},
      {{"compare", "p.yaml", "--kernels", ","}, "--kernels names no kernel"},
      {{"compare", "p.yaml", "--kernels", "natve"}, "native"},
      {{"compare", "p.yaml", "--spaces", "moon"}, "the spaces are host and device"},
      {{"compare", "p.yaml", "--report", "no/such/folder.json"}, "--report"},
      {{"compare", "p.yaml", "--report", "r", "--html", "./r"}, "--report and --html are the same file"},
      {{"compare", "none.yaml", "--report", "r.json"}, "none.yaml"},
      {{"compare", "p.yaml", "--budget", "-1"}, "budget"}};
  for (const auto& [arguments, text] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
    EXPECT_EQ(files().size(), 1u) << o.err;
  }
}

}  // namespace
}  // namespace protean::test

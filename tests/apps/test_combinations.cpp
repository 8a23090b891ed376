// `protean compare --preconditioners`: every combination, the best of them, and what the defaults miss.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "apps/compare/combinations.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

class Combinations : public CommandTest {
 protected:
  static constexpr const char* poisson =
      "title: a grid\nmatrix: {generate: {kind: poisson-2d, n: 24}}\nrhs: {solution: ones}\n";
  Json report(const Outcome& outcome) const {
    const auto written = files();
    EXPECT_TRUE(written.count("r.json")) << outcome.err;
    return written.count("r.json") ? Json::parse(written.at("r.json")) : Json();
  }
};

TEST_F(Combinations, SolveWithEachOneAndNameTheBestAndWhatTheDefaultMisses) {
  write("p.yaml", poisson);
  const Outcome done = run({"compare", "p.yaml", "--preconditioners", "jacobi,ic0", "--formats", "csr,ell",
                            "--report", "r.json", "--csv", "r.csv"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json compared = report(done);
  std::set<std::string> names;
  double least = 1e300;
  for (const Json& one : compared["combinations"]) {
    names.insert(one["preconditioner"].get<std::string>() + " " + one["format"].get<std::string>());
    ASSERT_EQ(one["status"], "converged") << one;
    EXPECT_EQ(one["method"], "cg");
    EXPECT_LE(one["residual"]["true_relative"].get<double>(), 1e-8);
    EXPECT_GT(one["seconds"]["total"].get<double>(), 0);
    EXPECT_LE(one["seconds"]["solve"].get<double>(), 1.01 * one["seconds"]["total"].get<double>());
    least = std::min(least, one["seconds"]["total"].get<double>());
    if (one["format"] != "auto") { EXPECT_EQ(one["last"]["format"], one["format"]); }
    if (one["preconditioner"] != "auto") { EXPECT_EQ(one["last"]["preconditioner"], one["preconditioner"]); }
    // ic0 of this grid needs fewer iterations than jacobi, which says that it was used.
    if (one["preconditioner"] == "ic0") { EXPECT_LT(one["iterations"], 40); }
    if (one["preconditioner"] == "jacobi") { EXPECT_GT(one["iterations"], 40); }
  }
  EXPECT_TRUE(names.count("auto auto") && names.count("jacobi auto") && names.count("ic0 auto"));
  EXPECT_EQ(compared["best"]["seconds"]["total"].get<double>(), least);
  ASSERT_EQ(compared["default"].size(), 1U);
  EXPECT_GE(compared["default"][0]["over_best"].get<double>(), 1);
  EXPECT_NE(done.out.find("the default takes"), std::string::npos) << done.out;
  const std::string csv = files().at("r.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'),
            static_cast<std::ptrdiff_t>(compared["combinations"].size() + 1));
}

TEST_F(Combinations, NameWhatIsRefusedAndGoOn) {
  // A zero on the diagonal: no jacobi, no ic0.
  const char* const matrix =
      "%%MatrixMarket matrix coordinate real general\n3 3 5\n1 2 1\n2 1 2\n2 2 4\n3 3 5\n1 3 1\n";
  write("a.mtx", matrix);
  const Outcome done = run(
      {"compare", "a.mtx", "--preconditioners", "none,jacobi,ic0", "--formats", "csr", "--report", "r.json"});
  ASSERT_EQ(done.code, 0) << done.err;
  std::map<std::string, std::string> status;
  const Json compared = report(done);
  for (const Json& one : compared["combinations"])
    if (one["format"] == "auto") {
      status[one["preconditioner"]] = one["status"];
      if (one["status"] != "converged") { EXPECT_FALSE(one["why"].get<std::string>().empty()); }
    }
  EXPECT_EQ(status["none"], "converged");
  EXPECT_EQ(status["auto"], "converged");
  EXPECT_NE(status["jacobi"], "converged");
  EXPECT_NE(status["ic0"], "converged");
}

TEST_F(Combinations, RefuseWhatCannotBeComparedSo) {
  write("p.yaml", poisson);
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"compare", "p.yaml"});
    const Outcome done = run(arguments);
    EXPECT_EQ(done.code, 2) << done.out;
    return done.err;
  };
  EXPECT_NE(error({"--preconditioners", "jacoby"}).find("Did you mean 'jacobi'"), std::string::npos);
  EXPECT_NE(error({"--preconditioners", ","}).find("names no preconditioner"), std::string::npos);
  EXPECT_NE(error({"--preconditioners", "all", "--html", "p.html"}).find("--html"), std::string::npos);
  EXPECT_NE(error({"--preconditioners", "all", "--selectors", "all"}).find("--selectors"), std::string::npos);
  EXPECT_NE(error({"--preconditioners", "all", "--kernels", "mkl"}).find("--kernels"), std::string::npos);
  EXPECT_NE(error({"--preconditioners", "all", "--set", "preconditioner.parts=[{type: jacobi}, {type: ic0}]"})
                .find("preconditioner.parts"),
            std::string::npos);
}

// A budget leaves solves out and says so. The first one, the default, is made in any case.
TEST_F(Combinations, KeepTheirBudget) {
  write("p.yaml", poisson);
  const Outcome done =
      run({"compare", "p.yaml", "--preconditioners", "all", "--budget", "0.0001", "--report", "r.json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json compared = report(done);
  EXPECT_TRUE(compared["out_of_time"].get<bool>());
  for (const Json& one : compared["combinations"])
    if (one["status"] != "converged") { EXPECT_EQ(one["not_run"], "budget") << one; }
}

TEST_F(Combinations, OfASuiteGoOnAfterABrokenProblem) {
  write("s.yaml", "suite: [p.yaml, q.yaml]\n");
  write("p.yaml", poisson);
  write("q.yaml", "matrix: {file: missing.mtx}\n");
  const Outcome done =
      run({"compare", "s.yaml", "--preconditioners", "jacobi", "--formats", "csr", "--report", "r.json"});
  EXPECT_EQ(done.code, 1);
  const Json compared = report(done);
  EXPECT_EQ(compared["suite"].size(), 1U);
  EXPECT_EQ(compared["broken"].size(), 1U);
}

}  // namespace
}  // namespace protean::test

// What the command says about the preconditioner.
#include <nlohmann/json.hpp>

#include "command_problems.hpp"
#include "core/context.hpp"
#include "core/option_checks.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

TEST_F(Command, ReportsThePreconditioner) {
  write("p.yaml", poisson);
  const auto solved = [&](std::vector<std::string> settings) {
    std::vector<std::string> words = {"solve", "p.yaml"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return std::pair(o.out, Json::parse(files().at("r.json")));
  };
  const auto [text, jacobi] = solved({});
  EXPECT_EQ(jacobi["preconditioner"]["type"], "jacobi");
  EXPECT_GE(jacobi["preconditioner"]["bytes"].get<double>(), 900 * 8);
  EXPECT_FALSE(jacobi["problem"]["preconditioner"].contains("fill"));
  const auto [factors, ic] = solved({"preconditioner.type=ic", "preconditioner.fill=2"});
  EXPECT_LT(ic["iterations"].get<int>(), jacobi["iterations"].get<int>() / 2);
  EXPECT_EQ(ic["preconditioner"]["shift"], 0);
  EXPECT_GT(ic["preconditioner"]["entries"].get<int>(), 900 + 4 * 870) << "no fill";
  EXPECT_EQ(ic["problem"]["preconditioner"]["fill"], 2);
  EXPECT_NE(factors.find("cg, preconditioner ic (shift 0, entries "), std::string::npos) << factors;
  const auto [shown, both] = solved(
      {"preconditioner={type: composition, combine: symmetric, parts: [{type: block-jacobi, block_size: 4}, "
       "{type: ic0}]}"});
  EXPECT_LT(both["iterations"].get<int>(), jacobi["iterations"].get<int>() / 2);
  EXPECT_EQ(both["problem"]["preconditioner"]["combine"], "symmetric");
  EXPECT_EQ(both["problem"]["preconditioner"]["parts"][1]["type"], "ic0");
  EXPECT_EQ(both["preconditioner"]["blocks"], 225);
  EXPECT_NE(shown.find("cg, preconditioner composition (blocks 225, block_size 4, shift 0"),
            std::string::npos)
      << shown;
  const auto [nodes, elastic] =
      solved({"matrix={generate: {kind: elasticity-3d, n: 3}}", "preconditioner={type: block-jacobi}"});
  EXPECT_EQ(elastic["problem"]["preconditioner"]["block_size"], "auto");
  EXPECT_EQ(elastic["preconditioner"]["block_size"], 3);
  EXPECT_NE(nodes.find("cg, preconditioner block-jacobi (blocks 48, block_size 3)"), std::string::npos)
      << nodes;
  const Outcome refused = run({"solve", "p.yaml", "--set", "preconditioner.type=ilu0"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("use ic0 instead"), std::string::npos) << refused.err;
}

// The report has each option that the preconditioner reads, so that it says what was solved.
// Of a body of 6 x 6 x 6 elements, whose nodes with the smallest x are fixed and removed. amg takes fewer iterations
// with the coordinates of the nodes, and with the translations given as vectors the same number as with only unknowns:
// 3.
TEST_F(Command, VectorsNearTheNullSpaceOfAnElasticBody) {
  write("p.yaml",
        "matrix: {generate: {kind: elasticity-3d, n: 6}}\nrhs: {value: 1}\n"
        "preconditioner: {type: amg, unknowns: 3}\noperator: {format: csr}\noutput: {report: r.json}\n");
  std::string places = "%%MatrixMarket matrix array real general\n294 3\n",
              translations = "%%MatrixMarket matrix array real general\n882 3\n";
  for (int axis = 0; axis < 3; ++axis)
    for (int node = 0; node < 294; ++node) {
      const int at[] = {node % 6 + 1, node / 6 % 7, node / 42};
      places += std::to_string(at[axis]) + "\n";
      for (int k = 0; k < 3; ++k) translations += axis == k ? "1\n" : "0\n";
    }
  write("places.mtx", places), write("translations.mtx", translations);
  const auto iterations = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"solve", "p.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(files().at("r.json"))["iterations"].get<int>();
  };
  const int constants = iterations({}),
            modes = iterations({"--set", "preconditioner={type: amg, coordinates: places.mtx}"});
  EXPECT_LT(modes, constants);
  EXPECT_EQ(iterations({"--set", "preconditioner.coordinates=places.mtx"}), modes);
  EXPECT_EQ(iterations({"--set", "preconditioner.near_null_space=translations.mtx"}), constants);
  // compare solves in the same way.
  EXPECT_EQ(run({"compare", "p.yaml", "--formats", "csr", "--set", "preconditioner.coordinates=places.mtx",
                 "--report", "c.json"})
                .code,
            0);
  EXPECT_NE(files().at("c.json").find("\"iterations\": " + std::to_string(modes)), std::string::npos)
      << files().at("c.json");
  const std::pair<const char*, const char*> wrong[] = {
      {"preconditioner={type: amg, coordinates: translations.mtx}",
       "a row for each node, and the matrix has 882 rows"},
      {"preconditioner={type: amg, near_null_space: places.mtx}", "it must have 882 rows, as the matrix"},
      {"preconditioner={type: amg, unknowns: 2, coordinates: places.mtx}", "preconditioner.unknowns is 2"},
      {"preconditioner={type: jacobi, coordinates: places.mtx}", "is for preconditioner.type amg or auto"},
      {"preconditioner={type: amg, near_null_space: translations.mtx, coordinates: places.mtx}", "has both"},
      {"preconditioner={type: composition, parts: [{type: amg, coordinates: places.mtx}]}",
       "not part of a composition"},
      {"preconditioner={type: amg, coordinates: nothing.mtx}", "nothing.mtx"},
  };
  for (const auto& [set, text] : wrong) {
    const Outcome o = run({"solve", "p.yaml", "--set", set});
    EXPECT_EQ(o.code, 2) << set;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
  }
}

TEST_F(Command, ReportsTheOptionsOfEveryPreconditioner) {
  write("p.yaml", poisson);
  for (const PreconditionerEntry& entry : preconditioners()) {
    if (!entry.unavailable.empty()) continue;
    std::string spec = "{type: " + std::string(entry.id);
    PreconditionerOptions used;
    if (find_option(preconditioner_options(), "solve")->readers.has(entry.id))
      spec += ", solve: sweeps", used.solve = TriangularSolve::sweeps;
    const Outcome o = run({"solve", "p.yaml", "--method", "gmres", "--set", "preconditioner=" + spec + "}"});
    EXPECT_EQ(o.code, 0) << o.err;
    const Json report = Json::parse(files().at("r.json"));
    for (const Option<PreconditionerOptions>& option : preconditioner_options())
      EXPECT_EQ(report["problem"]["preconditioner"].contains(std::string(option.name)),
                (option.readers.has(entry.id) || option.readers.only.empty()) &&
                    in_use(preconditioner_options(), option, used))
          << entry.id << ' ' << option.name;
  }
}

}  // namespace
}  // namespace protean::test

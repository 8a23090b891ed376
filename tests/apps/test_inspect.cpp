// `protean inspect` as a program.
#include <nlohmann/json.hpp>

#include "apps/small_rules.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "support/battery.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

class Inspect : public CommandTest {};

TEST_F(Inspect, SaysWhatThereIs) {
  // 1 2 . | . . . | . 3 4: one diagonal entry is missing, one row is empty
  write("a.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 1\n1 2 2\n3 2 3\n3 3 4\n");
  const Outcome o = run({"inspect", "a.mtx", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json r = Json::parse(o.out);
  EXPECT_EQ(r["rows"], 3);
  EXPECT_EQ(r["nonzeros"], 4);
  EXPECT_DOUBLE_EQ(r["features"]["memory_footprint_mib"].get<double>(), (4 * 12 + 4 * 4) / 1048576.0);
  EXPECT_DOUBLE_EQ(r["features"]["mean_row_length"].get<double>(), 4.0 / 3);
  EXPECT_DOUBLE_EQ(r["features"]["skew"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(r["features"]["neighbours"].get<double>(), 1);
  EXPECT_EQ(r["row_length"]["histogram"],
            Json::parse(R"([{"lengths":"0","rows":1},{"lengths":"1","rows":0},{"lengths":"2-3","rows":2}])"));
  EXPECT_EQ(r["structure"]["structurally_symmetric"], false);
  EXPECT_EQ(r["structure"]["full_diagonal"], false);
  EXPECT_EQ(r["structure"]["diagonals"], 3);
  EXPECT_EQ(r["structure"]["lower_bandwidth"], 1);
  EXPECT_EQ(r["picture"]["counts"], Json::parse("[1,1,0,0,0,0,0,1,1]"));
}

// 2 flops an entry over the bytes of csr, x and y, at the bandwidths of the machine table.
TEST_F(Inspect, SaysTheRoofsOfTheMachineTable) {
  write("a.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 1\n1 2 2\n3 2 3\n3 3 4\n");
  write("m.yaml", "roofs: [{space: host, memory: 1.0e10, cache: 4.0e10, cache_bytes: 1000}]\nmatrices: []\n");
  EXPECT_FALSE(Json::parse(run({"inspect", "a.mtx", "--json"}).out).contains("roofs"));
  EXPECT_EQ(run({"inspect", "a.mtx"}).out.find("roofs"), std::string::npos);
  setenv("PROTEAN_MACHINE", "m.yaml", 1);
  const Outcome text = run({"inspect", "a.mtx"}), json = run({"inspect", "a.mtx", "--json"});
  unsetenv("PROTEAN_MACHINE");
  ASSERT_EQ(json.code, 0) << json.err;
  const double bytes = (4 * 12 + 4 * 4) + 8 * 6;
  const Json roofs = Json::parse(json.out)["roofs"];
  EXPECT_DOUBLE_EQ(roofs["memory_gflops"].get<double>(), 8 / bytes * 10);
  EXPECT_DOUBLE_EQ(roofs["cache_gflops"].get<double>(), 8 / bytes * 40);
  EXPECT_NE(text.out.find("memory 0.714 GFLOPS (10 GB/s), last-level cache 2.86 GFLOPS (40 GB/s)"),
            std::string::npos)
      << text.out;
}

TEST_F(Inspect, FindsTheConstantNullSpaceWithWhichAProblemIsSolved) {
  const std::string head = "%%MatrixMarket matrix coordinate real symmetric\n3 3 5\n";
  // 0.1 + 0.2 - 0.3 is not 0 in double precision, but within rounding.
  write("neumann.mtx", head + "1 1 0.1\n2 1 -0.1\n2 2 0.3\n3 2 -0.2\n3 3 0.2\n");
  write("regular.mtx", head + "1 1 0.1\n2 1 -0.1\n2 2 0.3000001\n3 2 -0.2\n3 3 0.2\n");
  EXPECT_EQ(Json::parse(run({"inspect", "neumann.mtx", "--json"}).out)["structure"]["zero_row_sums"], true);
  EXPECT_EQ(Json::parse(run({"inspect", "regular.mtx", "--json"}).out)["structure"]["zero_row_sums"], false);
  EXPECT_NE(run({"inspect", "neumann.mtx"}).out.find("solver.null_space: constant"), std::string::npos);
  EXPECT_EQ(run({"inspect", "regular.mtx"}).out.find("null_space"), std::string::npos);
  write("b.mtx", "%%MatrixMarket matrix array real general\n3 1\n1\n1\n1\n");
  const std::string system = "matrix: {file: neumann.mtx}\nsolver: {null_space: constant}\n";
  write("p.yaml", system), write("q.yaml", system + "rhs: {file: b.mtx}\n");
  EXPECT_EQ(run({"solve", "p.yaml", "--set", "rhs.solution.random=3"}).code, 0);
  const Outcome inconsistent = run({"solve", "q.yaml"});
  EXPECT_EQ(inconsistent.code, 1);
  EXPECT_NE((inconsistent.out + inconsistent.err).find("inconsistent"), std::string::npos);
  EXPECT_EQ(run({"solve", "p.yaml", "--set", "solver.method=gmres"}).code, 2);
}

TEST_F(Inspect, PromisesTheBytesThatFormatsAllocate) {
  const CsrMatrix<double> csr = generate(test_context(), "anisotropic-2d", {{"n", 25}});
  write("p.yaml", "matrix: {generate: {kind: anisotropic-2d, n: 25}}\n");
  const Outcome o = run({"inspect", "p.yaml", "--formats", "all", "--json", "--threads", "1"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json r = Json::parse(o.out);
  ASSERT_EQ(r["formats"].size(), catalogue().size());
  const ContextPtr context = Context::host(1);
  for (const Json& f : r["formats"]) {
    const FormatEntry& entry = find_format(f["format"].get<std::string>());
    if (!f["admitted"].get<bool>()) {
      EXPECT_THROW((void)make_matrix(entry, csr, context), FormatRefused) << entry.id;
      EXPECT_FALSE(f["why"].get<std::string>().empty());
      continue;
    }
    EXPECT_EQ(f["bytes"].get<std::size_t>(), make_matrix(entry, csr, context)->bytes()) << entry.id;
  }
}

TEST_F(Inspect, ComparesTheOrders) {
  // the path 1 - 3 - 2 - 4
  write("a.mtx",
        "%%MatrixMarket matrix coordinate real symmetric\n4 4 7\n1 1 1\n2 2 1\n3 3 1\n4 4 1\n3 1 1\n3 2 1\n4 "
        "2 1\n");
  const Json r = Json::parse(run({"inspect", "a.mtx", "--json"}).out);
  ASSERT_EQ(r["orders"].size(), 5);
  EXPECT_EQ(r["orders"][0]["order"], "none");
  EXPECT_EQ(r["orders"][0]["bandwidth"], 2);
  EXPECT_EQ(r["orders"][0]["profile"], 4);
  EXPECT_EQ(r["orders"][0]["lines_of_x"], 1);
  EXPECT_EQ(r["orders"][1]["order"], "rcm");
  EXPECT_EQ(r["orders"][1]["bandwidth"], 1);
  EXPECT_EQ(r["orders"][1]["profile"], 3);
  EXPECT_EQ(r["structure"]["bandwidth_after_rcm"], 1);
  write("b.mtx", "%%MatrixMarket matrix coordinate real general\n1 2 1\n1 2 1\n");
  EXPECT_EQ(Json::parse(run({"inspect", "b.mtx", "--json"}).out)["orders"].size(), 1) << "a rectangular one";
}

TEST_F(Inspect, ShowsAPictureAndTheChoiceOfAuto) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 30}}\n");
  const Outcome with = run({"inspect", "p.yaml"}), without = run({"inspect", "p.yaml", "--no-picture"});
  ASSERT_EQ(with.code, 0) << with.err;
  EXPECT_NE(with.out.find("\xe2\xa3"), std::string::npos);
  EXPECT_EQ(without.out.find("\xe2\xa3"), std::string::npos);
  for (const char* text : {"format: auto takes", "reverse Cuthill-McKee", "cross-row similarity", "csr"})
    EXPECT_NE(without.out.find(text), std::string::npos) << text;
}

// One long row: only formats that share a row between threads are considered.
TEST_F(Inspect, ShowsTheFormatsThatAutoConsiders) {
  write("a.mtx", matrix_with_a_long_row(3000));
  const Json shown = Json::parse(run({"inspect", "a.mtx", "--json"}).out);
  std::vector<std::string> sharing, ids;
  for (const FormatEntry* entry : layouts())
    if (entry->traits.shares_rows && !entry->traits.chosen_by_name) sharing.emplace_back(entry->id);
  sharing.resize(std::min<std::size_t>(12, sharing.size()));  // the most on a shortlist
  for (const Json& format : shown["formats"]) ids.push_back(format["format"]);
  EXPECT_EQ(ids, sharing);
  EXPECT_EQ(ids.front(), "csr");
  EXPECT_NE(std::find(ids.begin(), ids.end(), "coo"), ids.end());
  EXPECT_EQ(shown["formats_left_out"], catalogue().size() - sharing.size());
  const Outcome text = run({"inspect", "a.mtx"});
  EXPECT_NE(text.out.find("--formats all"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("\n  ell "), std::string::npos) << text.out;

  const Json all = Json::parse(run({"inspect", "a.mtx", "--json", "--formats", "all"}).out);
  EXPECT_EQ(all["formats"].size(), catalogue().size());
  EXPECT_EQ(all["formats_left_out"], 0);
  const Json named = Json::parse(run({"inspect", "a.mtx", "--json", "--formats", "jad,csr"}).out);
  ASSERT_EQ(named["formats"].size(), 2u);
  EXPECT_EQ(named["formats"][1]["format"], "jad");
  const Outcome wrong = run({"inspect", "a.mtx", "--formats", "cssr"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("Did you mean 'csr'"), std::string::npos) << wrong.err;
}

TEST_F(Inspect, LooksAtRectangularAndAtEmptyRows) {
  write("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n4 2 1\n2 2\n");
  const Outcome o = run({"inspect", "a.mtx"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("rectangular"), std::string::npos) << o.out;
}

TEST_F(Inspect, BadInput) {
  write("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n");
  EXPECT_EQ(run({"inspect", "none.mtx"}).code, 2);
  const Outcome o = run({"inspect", "a.mtx"});
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.err.find("a.mtx:3"), std::string::npos) << o.err;
  EXPECT_EQ(run({"inspect", "a.mtx", "--set", "matrix.file=b.mtx"}).code, 2);
}

TEST_F(SmallRules, InspectShowsPaddingAndTheWiderBandwidth) {
  // Row 5 has an entry 5 columns to the left; no row has more than one to the right.
  write("a.mtx",
        "%%MatrixMarket matrix coordinate pattern general\n6 6 8\n1 1\n1 2\n2 2\n3 3\n4 4\n5 5\n6 1\n6 6\n");
  const Outcome o = run({"inspect", "a.mtx", "--no-picture"});
  ASSERT_EQ(o.code, 0) << o.err;
  std::istringstream lines(o.out);
  bool bandwidth = false, csr = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  bandwidth ")) {
      bandwidth = true;
      EXPECT_NE(line.find(" 5;"), std::string::npos) << line;
    }
    if (line.starts_with("  csr ")) {
      csr = true;
      EXPECT_TRUE(line.ends_with(" 0.0 %")) << line;
    }
  }
  EXPECT_TRUE(bandwidth && csr) << o.out;
}

}  // namespace
}  // namespace protean::test

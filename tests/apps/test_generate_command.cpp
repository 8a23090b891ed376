// `protean generate` as a program, and its presets.
#include <cmath>

#include "apps/matrix/presets.hpp"
#include "apps/problem/problem_file.hpp"
#include "apps/small_rules.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "core/statistics.hpp"
#include "support/battery.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

class Generate : public CommandTest {};

constexpr const char* spec =
    "matrix: {generate: {kind: artificial, n: 20000, mean: 12, deviation: 3, similarity: 0.7, seed: 5}}\n";

TEST_F(Generate, WritesTheMatrixOfTheLibraryAndSaysWhatItBecame) {
  write("a.yaml", spec);
  const CsrMatrix<double> expected =
      generate(test_context(), "artificial",
               {{"n", 20000}, {"mean", 12}, {"deviation", 3}, {"similarity", 0.7}, {"seed", 5}});
  for (const char* name : {"a.pbin", "a.mtx", "a.mtx.gz", "a.mtx.xz"}) {
    const Outcome o = run({"generate", "a.yaml", "-o", name});
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(o.err, "");
    for (const char* text :
         {"20 000 rows", "240 000 nonzeros", "cross-row similarity", "asked for", "bandwidth"})
      EXPECT_NE(o.out.find(text), std::string::npos) << o.out;
    EXPECT_EQ(o.out.find("off by"), std::string::npos) << o.out;
    EXPECT_TRUE(identical(read_matrix(test_context(), (work_ / name).string()), expected)) << name;
  }
}

TEST_F(Generate, SaysWhichFeaturesAreNotReached) {
  write("a.yaml", "matrix: {generate: {kind: artificial, n: 500, mean: 2, neighbours: 1.9}}\n");
  const Outcome o = run({"generate", "a.yaml", "-o", "a.mtx"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("off by -"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("More than 5 % off: "), std::string::npos) << o.out;
}

TEST_F(Generate, BadInputWritesNothing) {
  write("a.yaml", spec);
  write("m.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n");
  write("f.yaml", "matrix: {file: m.mtx}\n");
  const auto before = files();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"generate", "-o", "a.mtx"}, "one of SPEC.yaml, a KIND, and --preset"},
      {{"generate", "a.yaml", "--preset", "friends/cant", "-o", "a.mtx"},
       "one of SPEC.yaml, a KIND, and --preset"},
      {{"generate", "poisson-4d", "-o", "a.mtx"}, "poisson-3d"},
      {{"generate", "poisson-3d: 1", "-o", "a.mtx"}, "kind poisson-3d: 1:1:"},
      {{"generate", "b.yaml", "-o", "a.mtx"}, "b.yaml: cannot be opened"},
      {{"generate", "a.yaml"}, "-o"},
      {{"generate", "a.yaml", "-o", "a.txt"}, ".pbin"},
      {{"generate", "a.yaml", "-o", "no/a.mtx"}, "folder"},
      {{"generate", "f.yaml", "-o", "a.mtx"}, "convert"},
      {{"generate", "--preset", "friends/cnat", "-o", "a.mtx"}, "'cant'"},
      {{"generate", "--preset", "friends/cant/0", "-o", "a.mtx"}, "1 to 1000000"},
      {{"generate", "--preset", "table1/small/20/100/0.5", "-o", "a.mtx"}, "table1/small/20/100/0.5/0.95"},
      {{"generate", "--preset", "table1/small/20/101/0.5/0.95", "-o", "a.mtx"}, "0, 100, 1000, 10000"},
      {{"generate", "--preset", "table1/small/20/100/0.5/0.95/1.4", "-o", "a.mtx"}, "at most 1"},
      {{"generate", "--preset", "table1/small/500/10000/0.5/0.95", "-o", "a.mtx"}, "longest row"},
      {{"generate", "--preset", "frends/cant", "-o", "a.mtx"}, "friends/NAME"}};
  for (const auto& [arguments, text] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
    EXPECT_EQ(files(), before) << o.err;
  }
}

TEST_F(Generate, AKindNeedsNoFile) {
  write("p.yaml", "matrix: {generate: {kind: poisson-3d, n: 6}}\n");
  ASSERT_EQ(run({"generate", "p.yaml", "-o", "a.mtx"}).code, 0);
  const Outcome o = run({"generate", "poisson-3d", "-o", "b.mtx", "--set", "matrix.generate.n=6"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(files()["b.mtx"], files()["a.mtx"]);
  // A file of that name comes first.
  write("banded", "matrix: {generate: {kind: poisson-3d, n: 6}}\n");
  ASSERT_EQ(run({"generate", "banded", "-o", "c.mtx"}).code, 0);
  EXPECT_EQ(files()["c.mtx"], files()["a.mtx"]);
}

TEST_F(Generate, APresetHasItsFeatures) {
  // scircuit of Table III, a twentieth of its size.
  const Outcome o = run({"generate", "--preset", "friends/scircuit", "-o", "a.pbin", "--set",
                         "matrix.generate.n=8550", "--quiet"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "");
  const Statistics s =
      statistics(*test_context(), read_pbin(test_context(), (work_ / "a.pbin").string()).pattern);
  EXPECT_NEAR(s.mean, 5.61, 0.01);
  EXPECT_NEAR(s.features.skew, 61.95, 0.02 * 61.95);
  EXPECT_NEAR(s.features.cross_row_similarity, 0.5, 0.025);
  EXPECT_NEAR(s.features.neighbours, 1, 0.05);
}

// Table I has no bandwidth: it is free, and may be left out.
TEST(Presets, TheBandwidthIsAFeature) {
  const auto bandwidth = [](const std::string& name) {
    return apps::parse_problem(apps::preset_problem(name), name).matrix.params.at("bandwidth");
  };
  EXPECT_EQ(bandwidth("table1/small/20/100/0.5/0.95"), 0.3);
  EXPECT_EQ(bandwidth("table1/small/20/100/0.5/0.95/0.05"), 0.05);
  EXPECT_EQ(bandwidth("table1/small/20/100/0.5/0.95/0.3"), 0.3);
  EXPECT_EQ(bandwidth("table1/small/20/100/0.5/0.95/1"), 1);
}

TEST(Presets, AllAreProblemsWithTheSizeOfTheirTable) {
  const std::string text = apps::presets_text();
  const auto spec_of = [](const std::string& name) {
    return apps::parse_problem(apps::preset_problem(name), name).matrix;
  };
  const auto mib = [](const apps::MatrixSpec& m) {
    return (m.params.at("n") * (12 * m.params.at("mean") + 4) + 4) / 1048576;
  };
  std::istringstream lines(text.substr(text.find("neighbours\n") + 11));
  int friends = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    double size = 0, mean = 0, skew = 0, similarity = 0, neighbours = 0;
    ASSERT_TRUE(words >> name >> size >> mean >> skew >> similarity >> neighbours) << line;
    ++friends;
    const apps::MatrixSpec m = spec_of("friends/" + name);
    EXPECT_EQ(m.kind, "artificial");
    EXPECT_NEAR(mib(m), size, 0.01 * size) << line;
    EXPECT_NEAR(m.params.at("skew"), skew, 1e-6 * skew) << line;
    // The longest row fits.
    const double cols = m.params.at("cols") > 0 ? m.params.at("cols") : m.params.at("n");
    EXPECT_LE(m.params.at("mean") * (1 + m.params.at("skew")), cols) << line;
    for (const int k : {1, 2, 70}) {
      const apps::MatrixSpec other = spec_of("friends/" + name + "/" + std::to_string(k));
      for (const char* feature : {"mean", "skew", "similarity", "neighbours"}) {
        EXPECT_GE(other.params.at(feature), 0.699 * m.params.at(feature)) << line;
        EXPECT_LE(other.params.at(feature), 1.301 * m.params.at(feature)) << line;
      }
      EXPECT_NE(other.params.at("mean"), m.params.at("mean"));
    }
  }
  EXPECT_EQ(friends, 45);
  // scircuit has 170998 rows.
  EXPECT_NEAR(spec_of("friends/scircuit").params.at("n"), 170998, 100);
  for (const char* name : {"table1/small/5/0/0.05/0.05", "table1/large/500/10000/0.95/1.9"})
    EXPECT_EQ(spec_of(name).kind, "artificial");
  EXPECT_NEAR(mib(spec_of("table1/middle/20/100/0.5/1.4")), 128, 1);
}

TEST_F(SmallRules, GenerateDoesNotOverwriteItsProblemByAnotherName) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 5}}\n");
  std::filesystem::create_symlink("p.yaml", work_ / "p.mtx");
  const auto before = files();
  const Outcome o = run({"generate", "p.yaml", "-o", "p.mtx"});
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_NE(o.err.find("would overwrite the problem file"), std::string::npos) << o.err;
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace protean::test

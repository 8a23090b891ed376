// matrix.scale, and what the command says of a negative definite matrix and of numbers that are too small.
#include <cmath>

#include <nlohmann/json.hpp>

#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "support/battery.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

class Scale : public CommandTest {
 protected:
  Json report(std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.end(), {"--report", "r.json"});
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, code) << o.out << o.err;
    out_ = o.out;
    return Json::parse(files().at("r.json"));
  }
  // The entries of a file with a vector.
  std::vector<double> vector(const std::string& name) {
    std::istringstream text(files().at(name));
    std::string line;
    do std::getline(text, line);
    while (line[0] == '%');
    std::vector<double> result;
    for (double value; text >> value;) result.push_back(value);
    return result;
  }
  std::string out_;
};

// -2 on the diagonal, 1 next to it: if only one side is scaled, x = -1 is wrong just by its sign.
const std::string negative =
    "%%MatrixMarket matrix coordinate real general\n3 3 7\n"
    "1 1 -2\n1 2 1\n2 1 1\n2 2 -2\n2 3 1\n3 2 1\n3 3 -2\n";
const std::string b = "%%MatrixMarket matrix array real general\n3 1\n-1\n0\n-1\n";

TEST_F(Scale, ANegativeDefiniteMatrixIsNamedAndSolvedWithTheSameX) {
  write("a.mtx", negative);
  write("b.mtx", b);
  write("p.yaml", "matrix: {file: a.mtx}\nrhs: {file: b.mtx}\noutput: {solution: x.mtx}\n");
  for (const char* type : {"none", "jacobi"}) {
    const std::string preconditioner = std::string("preconditioner.type=") + type;
    Json r = report({"solve", "p.yaml", "--method", "cg", "--set", preconditioner}, 1);
    EXPECT_EQ(r["reason"], "negative-definite");
    EXPECT_NE(out_.find("matrix.scale"), std::string::npos) << out_;
    EXPECT_NE(out_.find("all 3 diagonal entries are"), std::string::npos) << out_;
    r = report({"solve", "p.yaml", "--method", "cg", "--set", preconditioner, "--set", "matrix.scale=-1"}, 0);
    EXPECT_EQ(r["problem"]["matrix"]["scale"], -1);
    EXPECT_EQ(r["residual"]["rhs"], std::sqrt(2.0));
    const std::vector<double> x = vector("x.mtx");
    ASSERT_EQ(x.size(), 3u);
    for (double v : x) EXPECT_NEAR(v, 1, 1e-12);
  }
}

TEST_F(Scale, ASystemOfTinyNumbersIsSolvedWhenScaled) {
  std::string tiny = "%%MatrixMarket matrix coordinate real general\n3 3 3\n";
  for (int i = 1; i <= 3; ++i)
    tiny += std::to_string(i) + " " + std::to_string(i) + " " + std::to_string(i) + "e-170\n";
  write("a.mtx", tiny);
  write("p.yaml",
        "matrix: {file: a.mtx}\nrhs: {value: 6e-170}\npreconditioner: {type: none}\noutput: {solution: "
        "x.mtx}\n");
  Json r = report({"solve", "p.yaml"}, 1);
  EXPECT_EQ(r["reason"], "underflow");
  EXPECT_NE(out_.find("1e-339"), std::string::npos) << out_;
  EXPECT_NE(out_.find("matrix.scale"), std::string::npos) << out_;
  r = report({"solve", "p.yaml", "--set", "matrix.scale=1e170"}, 0);
  const std::vector<double> x = vector("x.mtx");
  ASSERT_EQ(x.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(x[i], 6.0 / (i + 1), 1e-7);
}

TEST_F(Scale, HoldsForGeneratedMatricesElementsAndComparisons) {
  write("g.yaml",
        "matrix: {generate: {kind: poisson-2d, n: 8}, scale: -2}\nrhs: {random: 3}\nsolver: {method: cg}\n");
  EXPECT_EQ(report({"solve", "g.yaml"}, 1)["reason"], "negative-definite");
  report({"solve", "g.yaml", "--set", "matrix.scale=2"}, 0);
  Json r = report({"compare", "g.yaml", "--formats", "csr,ell", "--set", "matrix.scale=4"}, 0);
  EXPECT_EQ(r["results"][0]["status"], "converged");
  r = report({"compare", "g.yaml", "--formats", "csr,ell"}, 0);
  EXPECT_NE(r["results"][0]["why"].get<std::string>().find("negative-definite"), std::string::npos);
  write("e.yaml",
        "matrix: {generate: {kind: fem-hex, n: 5, storage: element}, scale: -3}\nsolver: {method: cg}\n"
        "output: {solution: x.mtx}\n");
  for (const char* key : {"rhs={value: 1}", "rhs={solution: ones}"}) {
    EXPECT_EQ(report({"solve", "e.yaml", "--set", key}, 1)["reason"], "negative-definite");
    report({"solve", "e.yaml", "--set", key, "--set", "matrix.scale=1"}, 0);
    const std::vector<double> x = vector("x.mtx");
    report({"solve", "e.yaml", "--set", key, "--set", "matrix.scale=1000"}, 0);
    const std::vector<double> y = vector("x.mtx");
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-6 * std::abs(x[i]));
  }
}

TEST_F(Scale, IsOneFactorOfAllThatIsWritten) {
  const CsrMatrix<double> plain = generate(test_context(), "poisson-2d", {{"n", 8}});
  write("g.yaml", "matrix: {generate: {kind: poisson-2d, n: 8}, scale: -2.5}\n");
  ASSERT_EQ(run({"generate", "g.yaml", "-o", "a.mtx"}).code, 0);
  ASSERT_EQ(run({"generate", "g.yaml", "-o", "a.pbin"}).code, 0);
  ASSERT_EQ(run({"convert", "a.mtx", "b.pbin", "--scale", "-4"}).code, 0);
  for (const auto& [name, factor] : {std::pair{"a.mtx", -2.5}, {"a.pbin", -2.5}, {"b.pbin", 10.0}}) {
    const CsrMatrix<double> read = read_matrix(test_context(), (work_ / name).string());
    ASSERT_TRUE(same_pattern(read.pattern, plain.pattern));
    for (std::int64_t i = 0; i < plain.nonzeros(); ++i)
      ASSERT_EQ(read.values[i], factor * plain.values[i]) << name;
  }
}

TEST_F(Scale, BadFactorsAreRefused) {
  write("a.mtx", negative);
  write("huge.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1e200\n");
  write("p.yaml", "matrix: {file: a.mtx,\n  scale: 0}\n");
  write("q.yaml", "matrix: {file: huge.mtx,\n  scale: 1e200}\n");
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"solve", "p.yaml"}, "p.yaml:2:10: matrix.scale is 0"},
      {{"solve", "p.yaml", "--set", "matrix.scale=.nan"}, "matrix.scale"},
      {{"solve", "p.yaml", "--set", "matrix.scale=minus"}, "matrix.scale"},
      {{"solve", "q.yaml"}, "q.yaml:2:10: with a scale of 1e+200 an entry of the matrix becomes infinite"},
      {{"convert", "huge.mtx", "c.mtx", "--scale", "1e200"}, "becomes infinite"},
      {{"convert", "a.mtx", "c.mtx", "--scale", "0"}, "--scale: 0 is not a factor"},
      {{"convert", "a.mtx", "c.mtx", "--scale", "inf"}, "--scale"}};
  for (const auto& [arguments, text] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << text;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
  }
  EXPECT_FALSE(files().contains("c.mtx"));
}

TEST_F(Scale, InspectTellsTheSignOfTheDiagonal) {
  write("a.mtx", negative);
  write("m.mtx",
        "%%MatrixMarket matrix coordinate real general\n5 5 5\n1 1 1\n2 2 2\n3 3 -1\n4 4 0\n5 1 1\n");
  write("p.yaml", "matrix: {file: a.mtx, scale: -1}\n");
  const auto signs = [&](const char* input) {
    const Outcome o = run({"inspect", input, "--json"});
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(o.out)["structure"]["diagonal_signs"];
  };
  EXPECT_EQ(signs("a.mtx"), Json({{"positive", 0}, {"negative", 3}, {"zero", 0}}));
  EXPECT_EQ(signs("p.yaml"), Json({{"positive", 3}, {"negative", 0}, {"zero", 0}}));
  EXPECT_EQ(signs("m.mtx"), Json({{"positive", 2}, {"negative", 1}, {"zero", 2}}));
  EXPECT_NE(run({"inspect", "a.mtx"}).out.find("full, all negative (for cg: matrix.scale: -1)"),
            std::string::npos);
  EXPECT_NE(run({"inspect", "p.yaml"}).out.find("full, all positive"), std::string::npos);
  EXPECT_NE(run({"inspect", "m.mtx"}).out.find("2 positive, 1 negative, 2 zero or missing"),
            std::string::npos);
}

}  // namespace
}  // namespace protean::test

// What `protean solve` and `protean inspect` say of systems and machines on which a status alone would mislead.
#include <nlohmann/json.hpp>
#include <string>

#include "apps/solve/notes.hpp"
#include "core/processors.hpp"
#include "support/command.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

class Notes : public CommandTest {
 protected:
  // A Laplacian on a grid of 12 x 12 with this value on the diagonal of the first 12 rows.
  void write_penalty(const std::string& penalty) {
    std::string entries;
    int count = 0;
    const auto add = [&](int i, int j, const std::string& value) {
      entries += std::to_string(i + 1) + " " + std::to_string(j + 1) + " " + value + "\n", ++count;
    };
    for (int i = 0; i < 144; ++i) {
      add(i, i, i < 12 ? penalty : "4");
      if (i % 12 > 0) add(i, i - 1, "-1");
      if (i >= 12) add(i, i - 12, "-1");
    }
    write("penalty.mtx", "%%MatrixMarket matrix coordinate real symmetric\n144 144 " + std::to_string(count) +
                             "\n" + entries);
  }
  Json report() const { return Json::parse(files().at("r.json")); }
};

TEST_F(Notes, OfRowsThatTheNormDoesNotSee) {
  write("p.yaml",
        "matrix: {file: penalty.mtx}\nrhs: {solution: {random: 1}}\npreconditioner: {type: jacobi}\n"
        "output: {report: r.json}\n");
  for (const std::string penalty : {"1e30", "1e12"}) {
    write_penalty(penalty);
    const Outcome blind = run({"solve", "p.yaml", "--method", "cg"});
    EXPECT_EQ(blind.code, 0) << blind.err;
    EXPECT_GT(report()["error"]["relative"].get<double>(), 0.1) << "all rows are seen: this is no test";
    const std::string note = report()["note"].get<std::string>();
    EXPECT_TRUE(note.starts_with("The stopping test does not see ")) << note;
    EXPECT_GE(std::stoi(note.substr(31)), 120) << note;
    EXPECT_TRUE(
        has(note, " of 144 rows, the first of them row 12 (from 0), and x does not meet their equations"))
        << note;
    EXPECT_TRUE(has(note, "Take solver.residual_norm: diagonal")) << note;
    EXPECT_TRUE(has(blind.out, "  note         The stopping test does not see")) << blind.out;
    for (const char* method : {"cg", "minres", "bicgstab"}) {
      const Outcome seeing =
          run({"solve", "p.yaml", "--method", method, "--set", "solver.residual_norm=diagonal"});
      EXPECT_EQ(seeing.code, 0) << method << seeing.out << seeing.err;
      EXPECT_LE(report()["error"]["relative"].get<double>(), 1e-6) << method;
      EXPECT_FALSE(report().contains("note")) << method << report()["note"];
      EXPECT_EQ(report()["residual"]["norm"], "2-norm of rows divided by the diagonal");
      EXPECT_TRUE(has(seeing.out, "(2-norm of rows divided by the diagonal,")) << seeing.out;
    }
  }
}

// Unknowns of 1e11 and of 1 with coefficients of one size: the diagonal does not distinguish them. One step of cg
// solves the large ones.
TEST_F(Notes, OfFieldsOfDifferentSizes) {
  std::string matrix = "%%MatrixMarket matrix coordinate real symmetric\n40 40 40\n",
              b = "%%MatrixMarket matrix array real general\n40 1\n";
  for (int i = 1; i <= 40; ++i) {
    matrix += std::to_string(i) + " " + std::to_string(i) + " " + (i <= 20 ? "2" : "3") + "\n";
    b += i <= 20 ? "1e11\n" : "1\n";
  }
  write("a.mtx", matrix), write("b.mtx", b);
  write("p.yaml", "matrix: {file: a.mtx}\nrhs: {file: b.mtx}\noutput: {report: r.json}\n");
  EXPECT_EQ(run({"solve", "p.yaml", "--method", "cg", "--set", "preconditioner.type=none"}).code, 0);
  const std::string note = report()["note"].get<std::string>();
  EXPECT_TRUE(has(note, "does not see 20 of 40 rows, the first of them row 20")) << note;
  EXPECT_TRUE(has(note, "Take a smaller solver.relative_tolerance")) << note;
  // Of columns, too.
  write("b.mtx", "%%MatrixMarket matrix array real general\n40 2\n" + b.substr(b.find("40 1\n") + 5) +
                     b.substr(b.find("40 1\n") + 5));
  EXPECT_EQ(run({"solve", "p.yaml", "--method", "cg", "--set", "preconditioner.type=none"}).code, 0);
  EXPECT_TRUE(
      has(report()["note"].get<std::string>(), "Right-hand side 0: The stopping test does not see 20"))
      << report()["note"];
}

// Prescribed values by rows of the identity next to stiff rows: no residual sees them, and they are met.
TEST_F(Notes, OfSmallRowsThatAreMetThereAreNone) {
  std::string matrix = "%%MatrixMarket matrix coordinate real symmetric\n40 40 77\n",
              b = "%%MatrixMarket matrix array real general\n40 1\n";
  for (int i = 1; i <= 40; ++i) {
    matrix += std::to_string(i) + " " + std::to_string(i) + (i == 1 || i == 40 ? " 1\n" : " 2e11\n");
    if (i > 2 && i < 40) matrix += std::to_string(i) + " " + std::to_string(i - 1) + " -1e11\n";
    b += i == 1 || i == 40 ? "0\n" : "1e9\n";
  }
  write("a.mtx", matrix), write("b.mtx", b);
  write("p.yaml", "matrix: {file: a.mtx}\nrhs: {file: b.mtx}\noutput: {report: r.json}\n");
  EXPECT_EQ(run({"solve", "p.yaml", "--method", "cg"}).code, 0);
  EXPECT_FALSE(report().contains("note")) << report()["note"];
}

TEST_F(Notes, OfOrdinarySystemsThereAreNone) {
  for (const char* kind : {"poisson-2d", "anisotropic-2d", "elasticity-3d", "convection-diffusion-3d"})
    for (const char* rhs : {"{solution: ones}", "{random: 3}", "{value: 1}"}) {
      write("p.yaml",
            std::string("matrix: {generate: {kind: ") + kind + ", n: 6}}\nrhs: " + rhs +
                "\nsolver: {method: gmres}\npreconditioner: {type: jacobi}\noutput: {report: r.json}\n");
      const Outcome o = run({"solve", "p.yaml"});
      if (o.code == 2) continue;  // there is no such right-hand side
      EXPECT_EQ(o.code, 0) << kind << rhs << o.out << o.err;
      EXPECT_FALSE(report().contains("note")) << kind << rhs << report()["note"];
    }
}

TEST_F(Notes, OfMoreThreadsThanProcessors) {
  EXPECT_EQ(apps::note_on_threads(2, 2), "");
  EXPECT_TRUE(has(apps::note_on_threads(64, 2), "64 threads share 2 processors"))
      << apps::note_on_threads(64, 2);
  EXPECT_TRUE(has(apps::note_on_threads(64, 2), "operator.threads: 2 (--threads 2)"));
  const int processors = detail::usable_processors();
  ASSERT_GE(processors, 1);
  if (processors >= 1000) GTEST_SKIP() << "no more threads than these processors are allowed";
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 8}}\noutput: {report: r.json}\n");
  for (const int more : {0, 1}) {
    const Outcome o = run({"solve", "p.yaml", "--threads", std::to_string(processors + more)});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(report().contains("note"), more == 1);
    EXPECT_EQ(has(o.out, std::to_string(processors + more) + " threads share"), more == 1) << o.out;
  }
}

TEST_F(Notes, OfASystemWithoutSolutionDoNotSpeakOfManySolutions) {
  std::string matrix = "%%MatrixMarket matrix coordinate real symmetric\n50 50 99\n",
              b = "%%MatrixMarket matrix array real general\n50 1\n";
  for (int i = 1; i <= 50; ++i) {
    matrix += std::to_string(i) + " " + std::to_string(i) + (i == 1 || i == 50 ? " 1\n" : " 2\n");
    if (i > 1) matrix += std::to_string(i) + " " + std::to_string(i - 1) + " -1\n";
    b += i % 2 ? "1.02\n" : "-0.98\n";
  }
  write("a.mtx", matrix), write("b.mtx", b);
  write("p.yaml", "matrix: {file: a.mtx}\nrhs: {file: b.mtx}\noutput: {report: r.json}\n");
  for (const char* method : {"cg", "fcg", "minres", "bicgstab", "bicgstab2", "idr", "gmres", "fgmres"}) {
    const Outcome o = run({"solve", "p.yaml", "--method", method, "--set", "preconditioner.type=none"});
    EXPECT_EQ(o.code, 1) << method << o.out;
    EXPECT_EQ(report()["reason"], "inconsistent") << method << o.out;
    EXPECT_TRUE(has(report()["advice"].get<std::string>(), "no x solves the system")) << method << o.out;
    EXPECT_FALSE(report().contains("note")) << method << report()["note"];
  }
}

// The pressure of an enclosed flow is known up to a constant, and sources that do not add up to zero fit no flow.
TEST_F(Notes, OfAFlowWithoutSolution) {
  const std::string flow =
      "matrix: {generate: {kind: taylor-hood-2d, n: 6}}\nsolver: {max_iterations: 60}\n"
      "preconditioner: {type: fields}\noutput: {report: r.json}\n";
  write("p.yaml", flow + "rhs: {random: 1}\n");
  EXPECT_EQ(run({"solve", "p.yaml"}).code, 1);
  const std::string note = report()["note"];
  EXPECT_EQ(note.rfind("No x solves the system", 0), 0u) << note;
  const std::size_t at = note.find("No residual is below ");
  ASSERT_NE(at, std::string::npos) << note;
  const double least = std::stod(note.substr(at + 21));
  EXPECT_GE(report()["residual"]["true_relative"].get<double>(), 0.99 * least) << note;
  EXPECT_GT(least, 1e-4);
  write("p.yaml", flow + "rhs: {solution: ones}\n");
  EXPECT_EQ(run({"solve", "p.yaml"}).code, 0);
  const std::string many = report()["note"];
  EXPECT_NE(many.find("x is one of many solutions"), std::string::npos) << many;
}

TEST_F(Notes, InspectShowsRowsThatTheLargestHide) {
  write_penalty("1e30");
  const Outcome text = run({"inspect", "penalty.mtx"});
  EXPECT_TRUE(has(text.out, "132 of 144 rows are below 1e-08 of the largest")) << text.out;
  EXPECT_TRUE(has(text.out, "solver.residual_norm: diagonal")) << text.out;
  const Json sizes = Json::parse(run({"inspect", "penalty.mtx", "--json"}).out)["structure"]["row_sizes"];
  EXPECT_EQ(sizes["below_tolerance"], 132);
  EXPECT_DOUBLE_EQ(sizes["smallest"].get<double>(), 6);
  EXPECT_NEAR(sizes["largest"].get<double>(), 1e30, 1e16);
  // A problem file has its own tolerance.
  write("p.yaml", "matrix: {file: penalty.mtx}\nsolver: {relative_tolerance: 1.0e-40}\n");
  EXPECT_EQ(
      Json::parse(run({"inspect", "p.yaml", "--json"}).out)["structure"]["row_sizes"]["below_tolerance"], 0);
  write_penalty("4");
  EXPECT_FALSE(has(run({"inspect", "penalty.mtx"}).out, "residual_norm"));
}

}  // namespace
}  // namespace protean::test

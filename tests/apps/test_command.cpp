// The command as a program: exit codes, files, report, Ctrl-C.
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <sstream>

#include "apps/command/formats.hpp"
#include "core/context.hpp"
#include "core/io/matrix_market.hpp"
#include "core/option_checks.hpp"
#include "core/ordering.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "support/command.hpp"
#include "support/stokes.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

const std::string poisson = R"(matrix: {generate: {kind: poisson-2d, n: 30}}
rhs: {solution: ones}
solver: {method: cg, relative_tolerance: 1.0e-9}
preconditioner: {type: jacobi}
output: {solution: x.mtx, report: r.json, history: h.csv}
)";
// A problem that cannot reach its tolerance, so its solve takes long.
const std::string endless = R"(matrix: {generate: {kind: anisotropic-2d, n: 400, epsilon_y: 1.0e-6}}
solver: {method: cg, relative_tolerance: 1.0e-300, max_iterations: 1e9}
output: {solution: x.mtx, report: r.json, history: h.csv}
)";

class Command : public CommandTest {};

TEST_F(Command, SolvesAndReports) {
  write("p.yaml", poisson);
  const Outcome o = run({"solve", "p.yaml"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "") << "no progress when piped";
  EXPECT_NE(o.out.find("converged (relative-tolerance)"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find('\x1b'), std::string::npos);
  const auto left = files();
  EXPECT_EQ(left.size(), 4u) << "no temporary file stays";

  const Json r = Json::parse(left.at("r.json"));
  EXPECT_EQ(r["status"], "converged");
  EXPECT_EQ(r["reason"], "relative-tolerance");
  EXPECT_GT(r["iterations"].get<int>(), 10);
  EXPECT_LE(r["residual"]["true_relative"].get<double>(), 1e-9);
  EXPECT_GT(r["residual"]["true_relative"].get<double>(), 0);
  EXPECT_LE(r["residual"]["recurrence_relative"].get<double>(), 1e-9);
  EXPECT_EQ(r["residual"]["norm"], "2-norm");
  EXPECT_LT(r["error"]["relative"].get<double>(), 1e-6);
  double sum = 0;
  for (const char* key : {"read", "convert", "setup", "solve"}) sum += r["seconds"][key].get<double>();
  EXPECT_GE(r["seconds"]["total"].get<double>(), sum);
  EXPECT_GT(r["memory"]["matrix_bytes"].get<double>(), 900 * 5 * 8 / 2);
  EXPECT_GT(r["memory"]["peak_bytes"].get<double>(), r["memory"]["matrix_bytes"].get<double>());
  EXPECT_EQ(r["operator"]["space"], "host");
  EXPECT_EQ(r["operator"]["kernel"], "native");
  EXPECT_TRUE(r["operator"]["parameters"].is_object());
  EXPECT_TRUE(r["operator"].contains("reason")) << "auto says why";
  EXPECT_TRUE(r["switches"].is_array());
  EXPECT_TRUE(r["switches"].empty());
  for (const char* key : {"cpu", "cores", "memory_bytes", "threads", "version", "compiler"})
    EXPECT_TRUE(r["machine"].contains(key)) << key;
  EXPECT_EQ(r["problem"]["matrix"]["generate"]["n"], 30);
  EXPECT_EQ(r["problem"]["solver"]["max_iterations"], 10000);
  EXPECT_EQ(r["problem"]["rhs"]["solution"], "ones");

  // The history has a heading and a line for each iteration, from 0 on.
  const std::string& history = left.at("h.csv");
  EXPECT_EQ(std::count(history.begin(), history.end(), '\n'), r["iterations"].get<int>() + 2);
  EXPECT_EQ(history.rfind("iteration,residual,relative_residual,seconds\n0,", 0), 0u);
  // x has 900 values near 1.
  std::istringstream x(left.at("x.mtx"));
  std::string line;
  do std::getline(x, line);
  while (line[0] == '%');
  EXPECT_EQ(line, "900 1");
  int count = 0;
  for (double value; x >> value; ++count) EXPECT_NEAR(value, 1, 1e-6);
  EXPECT_EQ(count, 900);
}

TEST_F(Command, ReportAndSetFromTheCommandLine) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 30}}\n");
  const Outcome o = run({"solve", "--set", "solver.relative_tolerance=1e-4", "p.yaml", "--set",
                         "operator.format=csr", "--report", "out.json", "--quiet", "--threads", "1"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(o.err, "");
  const Json r = Json::parse(files().at("out.json"));
  EXPECT_EQ(r["operator"]["format"], "csr");
  EXPECT_EQ(r["machine"]["threads"], 1);
  EXPECT_EQ(r["problem"]["solver"]["relative_tolerance"], 1e-4);
  EXPECT_FALSE(r["operator"].contains("reason"));
}

TEST_F(Command, KernelKokkosRunsProductsAndVectorOperations) {
#if !defined(PROTEAN_KOKKOS_COUNTER)
  write("p.yaml", poisson);
  const Outcome o = run({"solve", "p.yaml", "--set", "operator={format: csr, kernel: kokkos}"});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("Kokkos was not found"), std::string::npos) << o.err;
  EXPECT_EQ(files().size(), 1u) << "nothing written";
  GTEST_SKIP() << unavailable(VectorKernels::kokkos);
#else
  write("p.yaml", poisson);
  const auto solve_with = [&](const std::string& kernel) {
    // Environment variables that Kokkos reads when it starts in the process of the command.
    setenv("KOKKOS_PROFILE_LIBRARY", PROTEAN_KOKKOS_COUNTER, 1);
    setenv("PROTEAN_KOKKOS_LOOPS", "loops", 1);
    const Outcome o =
        run({"solve", "p.yaml", "--set", "operator={format: csr, kernel: " + kernel + ", threads: 1}"});
    unsetenv("KOKKOS_PROFILE_LIBRARY");
    unsetenv("PROTEAN_KOKKOS_LOOPS");
    EXPECT_EQ(o.code, 0) << o.err;
    return o;
  };
  (void)solve_with("native");
  EXPECT_FALSE(files().contains("loops")) << "native kernels started Kokkos";
  EXPECT_EQ(Json::parse(files().at("r.json"))["operator"]["vector_kernels"], "native");

  const Outcome o = solve_with("kokkos");
  EXPECT_NE(o.out.find("vector operations: kokkos"), std::string::npos) << o.out;
  const Json r = Json::parse(files().at("r.json"));
  EXPECT_EQ(r["operator"]["kernel"], "kokkos");
  EXPECT_EQ(r["operator"]["vector_kernels"], "kokkos");
  EXPECT_EQ(r["operator"]["note"].get<std::string>().rfind("Kokkos ", 0), 0u);
  std::map<std::string, int> loops;
  std::istringstream lines(files().at("loops"));
  int count = 0;
  for (std::string name; lines >> count >> name;) loops[name] = count;
  const int iterations = r["iterations"];
  for (const char* name : {"protean::csr", "protean::dot", "protean::cg_residual", "protean::cg_direction"})
    EXPECT_GE(loops[name], iterations) << name;
#endif
}

TEST_F(Command, ChangesTheFormatAtTheScheduledPoints) {
  write("p.yaml", poisson + R"(operator: {format: csr, threads: 2}
schedule:
  - {at_iteration: 7, format: sell-c-sigma, parameters: {C: 16}, overlapped: false}
  - {at_residual: 1.0e-4, format: coo, overlapped: false}
  - {at_iteration: 9, format: sell-c-sigma, parameters: {C: 16}}
  - {at_iteration: 11, format: bcsr, parameters: {max_fill: 1}, overlapped: false}
  - {after_seconds: 1.0e6, format: ell}
)");
  const Outcome o = run({"solve", "p.yaml"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "") << "no line about switches when piped";
  EXPECT_NE(o.out.find("csr -> sell-c-sigma"), std::string::npos) << o.out;
  const Json r = Json::parse(files().at("r.json"));
  EXPECT_EQ(r["operator"]["format"], "csr");
  ASSERT_EQ(r["switches"].size(), 2u) << r["switches"];
  const Json& first = r["switches"][0];
  EXPECT_EQ(first["iteration"], 7);
  EXPECT_EQ(first["from"], "csr");
  EXPECT_EQ(first["to"], "sell-c-sigma");
  EXPECT_EQ(first["parameters"]["C"], 16);
  EXPECT_EQ(first["overlapped"], false);
  EXPECT_EQ(first["reason"], "at_iteration 7");
  EXPECT_GT(first["convert_seconds"].get<double>(), 0);
  EXPECT_FALSE(first.contains("kernel")) << "it did not change";
  EXPECT_EQ(r["switches"][1]["to"], "coo");
  const int at = r["switches"][1]["iteration"];
  EXPECT_GT(at, 7);
  ASSERT_EQ(r["failed_switches"].size(), 1u);
  EXPECT_EQ(r["failed_switches"][0]["to"], "bcsr");
  EXPECT_EQ(r["failed_switches"][0]["failure"], "refused");
  std::map<std::string, int> actions;
  for (const Json& decision : r["decisions"]) ++actions[decision["action"].get<std::string>()];
  EXPECT_EQ(actions["switched"], 2);
  EXPECT_EQ(actions["stayed"], 1);
  EXPECT_EQ(actions["failed"], 1);
  EXPECT_EQ(actions["not-reached"], 1);
  EXPECT_EQ(r["problem"]["schedule"].size(), 5u);
  EXPECT_EQ(r["problem"]["schedule"][1]["at_residual"], 1e-4);
}

TEST_F(Command, AChangeOfKernelIsReported) {
  write("p.yaml", poisson +
                      "operator: {format: csr}\n"
                      "schedule: [{at_iteration: 3, format: csr, kernel: mkl, overlapped: false}]\n");
  const Outcome o = run({"solve", "p.yaml"});
  EXPECT_EQ(o.code, 0) << o.err;
  const Json r = Json::parse(files().at("r.json"));
  if (r["switches"].empty()) {
    EXPECT_EQ(r["failed_switches"][0]["failure"], "refused");
    EXPECT_NE(r["failed_switches"][0]["why"].get<std::string>().find("MKL"), std::string::npos);
    GTEST_SKIP() << "MKL is not in this build";
  }
  EXPECT_EQ(r["switches"][0]["kernel"], "mkl");
}

TEST_F(Command, NotConvergedIsOne) {
  write("p.yaml", poisson);
  const Outcome o = run({"solve", "p.yaml", "--set", "solver.max_iterations=3"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.out.find("NOT CONVERGED (max-iterations)"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("advice"), std::string::npos) << o.out;
  const Json r = Json::parse(files().at("r.json"));
  EXPECT_EQ(r["status"], "not-converged");
  EXPECT_EQ(r["reason"], "max-iterations");
  EXPECT_EQ(r["iterations"], 3);
  EXPECT_GT(r["residual"]["true_relative"].get<double>(), 1e-9);
}

// The setup counts, and a limit of 0 ends it at its first checkpoint: the guess is the result.
TEST_F(Command, MaxSecondsEndsASetup) {
  write("p.yaml", poisson);
  for (const char* type : {"ic0", "ic", "amg"}) {
    const Outcome o = run({"solve", "p.yaml", "--set", "solver.max_seconds=0", "--preconditioner", type});
    EXPECT_EQ(o.code, 1) << o.err;
    const Json r = Json::parse(files().at("r.json"));
    EXPECT_EQ(r["reason"], "time-limit");
    EXPECT_EQ(r["iterations"], 0);
    EXPECT_EQ(
        r["detail"].get<std::string>().find(std::string("the setup of preconditioner ") + type + " took"), 0)
        << r["detail"];
    EXPECT_NE(r["advice"].get<std::string>().find("max_seconds"), std::string::npos) << r["advice"];
  }
}

// A shifted Laplacian is symmetric and indefinite; an entry of rounding on one side does not make it unsymmetric.
TEST_F(Command, RoundingOnOneSideIsNoAsymmetry) {
  std::string entries;
  int count = 0;
  const auto add = [&](int i, int j, const char* value) {
    entries += std::to_string(i) + ' ' + std::to_string(j) + ' ' + value + '\n', ++count;
  };
  for (int i = 1; i <= 40; ++i) {
    add(i, i, "0.5");
    if (i > 1) add(i, i - 1, "-1"), add(i - 1, i, "-1");
  }
  add(3, 30, "1e-17"), add(7, 20, "0");
  write("a.mtx",
        "%%MatrixMarket matrix coordinate real general\n40 40 " + std::to_string(count) + '\n' + entries);
  const Outcome o = run({"solve", "a.mtx", "--method", "cg"});
  EXPECT_EQ(o.code, 1) << o.out;
  EXPECT_EQ(o.out.find("not symmetric"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("minres"), std::string::npos) << o.out;
  EXPECT_EQ(run({"solve", "a.mtx", "--method", "minres"}).code, 0);
  const Outcome inspected = run({"inspect", "a.mtx"});
  EXPECT_NE(
      inspected.out.find("symmetric up to rounding, pattern not symmetric: entries differ by up to 1e-17"),
      std::string::npos)
      << inspected.out;
  EXPECT_EQ(Json::parse(run({"inspect", "a.mtx", "--json"}).out)["structure"]["asymmetry"], 1e-17);
}

TEST_F(Command, ZeroRightHandSide) {
  write("p.yaml", poisson);
  const Outcome o = run({"solve", "p.yaml", "--set", "rhs={value: 0}"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(Json::parse(files().at("r.json"))["reason"], "zero-right-hand-side");
}

TEST_F(Command, CgOnAnUnsymmetricMatrixSaysSo) {
  write("p.yaml", "matrix: {generate: {kind: banded, n: 500}}\nsolver: {method: cg, max_iterations: 5}\n");
  const Outcome o = run({"solve", "p.yaml"});
  EXPECT_EQ(o.code, 1) << o.out;
  EXPECT_NE(o.out.find("not symmetric"), std::string::npos) << o.out;
  // A matrix with a negative diagonal is not called definite as well: -A has no symmetry either.
  write("a.mtx",
        "%%MatrixMarket matrix coordinate real general\n3 3 5\n1 1 -2\n1 2 1\n2 2 -3\n2 3 1\n3 3 -4\n");
  const Outcome negative = run({"solve", "a.mtx", "--method", "cg"});
  EXPECT_EQ(negative.code, 1) << negative.out;
  EXPECT_NE(negative.out.find("The matrix is not symmetric"), std::string::npos) << negative.out;
  EXPECT_EQ(negative.out.find("solve -A x = -b"), std::string::npos) << negative.out;
  EXPECT_EQ(negative.out.find("Solve -A x = -b"), std::string::npos) << negative.out;
}

// A small residual, and an x far from the one that b was made of: only the pressures' differences are determined.
TEST_F(Command, ASolveWithASingularMatrixSaysSo) {
  const ContextPtr host = Context::host(1);
  write_matrix_market(*host, (work_ / "stokes.mtx").string(), stokes(host, 6), {});
  write("p.yaml",
        "matrix: {file: stokes.mtx}\nrhs: {solution: ones}\nsolver: {method: minres}\noutput: {report: "
        "r.json}\n");
  const Outcome o = run({"solve", "p.yaml"});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_NE(o.out.find("The matrix is singular"), std::string::npos) << o.out;
  const Json r = Json::parse(files().at("r.json"));
  EXPECT_EQ(r["status"], "converged");
  EXPECT_GT(r["error"]["relative"].get<double>(), 0.1);
  const std::string note = r["note"].get<std::string>();
  EXPECT_NE(note.find("the pressure"), std::string::npos) << note;
  EXPECT_NE(note.find("set_null_space"), std::string::npos) << note;
  // A problem that has one solution has no note; nor has one whose null space is given.
  write("q.yaml", "matrix: {generate: {kind: poisson-2d, n: 8}}\noutput: {report: r.json}\n");
  EXPECT_EQ(run({"solve", "q.yaml"}).code, 0);
  EXPECT_FALSE(Json::parse(files().at("r.json")).contains("note"));
  write("neumann.mtx",
        "%%MatrixMarket matrix coordinate real symmetric\n3 3 5\n1 1 1\n2 1 -1\n2 2 3\n3 2 -2\n3 3 2\n");
  write("n.yaml", "matrix: {file: neumann.mtx}\nrhs: {solution: {random: 1}}\noutput: {report: r.json}\n");
  EXPECT_EQ(run({"solve", "n.yaml", "--set", "solver.method=minres"}).code, 0);
  EXPECT_NE(Json::parse(files().at("r.json"))["note"].get<std::string>().find("solver.null_space: constant"),
            std::string::npos);
  EXPECT_EQ(run({"solve", "n.yaml", "--set", "solver.null_space=constant"}).code, 0);
  EXPECT_FALSE(Json::parse(files().at("r.json")).contains("note"));
}

TEST_F(Command, TheSameAnswerInEveryRun) {
  write("p.yaml", poisson);
  ASSERT_EQ(run({"solve", "p.yaml", "--set", "rhs={random: 3}"}).code, 0);
  const std::string first = files().at("x.mtx");
  ASSERT_EQ(run({"solve", "p.yaml", "--set", "rhs={random: 3}"}).code, 0);
  EXPECT_EQ(files().at("x.mtx"), first);
  ASSERT_EQ(run({"solve", "p.yaml", "--set", "rhs={random: 4}"}).code, 0);
  EXPECT_NE(files().at("x.mtx"), first);
}

TEST_F(Command, StartsFromTheGivenVector) {
  write("p.yaml", poisson);
  ASSERT_EQ(run({"solve", "p.yaml", "--set", "solver.relative_tolerance=1e-12"}).code, 0);
  std::filesystem::rename(work_ / "x.mtx", work_ / "x0.mtx");
  ASSERT_EQ(run({"solve", "p.yaml", "--set", "initial_guess.file=x0.mtx"}).code, 0);
  EXPECT_EQ(Json::parse(files().at("r.json"))["iterations"], 0);
}

TEST_F(Command, InterruptWritesReportAndSolution) {
  write("p.yaml", endless);
  const pid_t child = start({"solve", "p.yaml", "--threads", "1"});
  EXPECT_TRUE(wait_until_solving(child));
  kill(child, SIGINT);
  const Outcome o = finish(child);
  EXPECT_EQ(o.code, 130) << o.err;
  const auto left = files();
  ASSERT_TRUE(left.count("r.json")) << o.out << o.err;
  const Json r = Json::parse(left.at("r.json"));
  EXPECT_EQ(r["status"], "not-converged");
  EXPECT_EQ(r["reason"], "interrupted");
  EXPECT_GT(r["iterations"].get<int>(), 0);
  EXPECT_TRUE(left.count("x.mtx"));
  EXPECT_TRUE(left.count("h.csv"));
  EXPECT_EQ(left.size(), 4u);
}

TEST_F(Command, InterruptedWhileAFormatIsPreparedEndsBoth) {
  // The format changes so often that one is nearly always being built.
  std::string schedule = "schedule:\n";
  for (int at = 1; at < 2000; at += 2)
    schedule += "  - {at_iteration: " + std::to_string(at) +
                ", format: " + (at % 4 == 1 ? "jad" : "sell-packed") + "}\n";
  write("p.yaml", endless + schedule);
  const pid_t child = start({"solve", "p.yaml", "--threads", "2"});
  EXPECT_TRUE(wait_until_solving(child));
  kill(child, SIGINT);
  const Outcome o = finish(child);
  EXPECT_EQ(o.code, 130) << o.err;
  ASSERT_TRUE(files().count("r.json")) << o.out << o.err;
  const Json r = Json::parse(files().at("r.json"));
  EXPECT_EQ(r["reason"], "interrupted");
  EXPECT_FALSE(r["decisions"].empty());
}

TEST_F(Command, KeepsAnOldReportWhenKilled) {
  write("p.yaml", endless);
  write("r.json", "old");
  const pid_t child = start({"solve", "p.yaml", "--threads", "1"});
  EXPECT_TRUE(wait_until_solving(child));
  kill(child, SIGKILL);
  EXPECT_EQ(finish(child).code, 128 + SIGKILL);
  EXPECT_EQ(files().at("r.json"), "old");
}

TEST_F(Command, ConvertsBothWays) {
  write("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 2.5\n2 1 -1\n2 2 0.1\n");
  for (const char* to : {"a.pbin", "b.mtx.gz", "b.mtx.xz", "b.mtx"}) {
    const Outcome o = run({"convert", "a.mtx", to});
    EXPECT_EQ(o.code, 0) << o.err;
  }
  EXPECT_EQ(run({"convert", "a.pbin", "c.mtx"}).code, 0);
  EXPECT_EQ(run({"convert", "b.mtx.xz", "d.mtx"}).code, 0);
  EXPECT_EQ(run({"convert", "b.mtx.gz", "e.mtx"}).code, 0);
  const auto left = files();
  EXPECT_EQ(left.at("b.mtx"), left.at("c.mtx"));
  EXPECT_EQ(left.at("b.mtx"), left.at("d.mtx"));
  EXPECT_EQ(left.at("b.mtx"), left.at("e.mtx"));
  write("p.yaml", "matrix: {file: a.pbin}\nsolver: {method: bicgstab}\n");
  EXPECT_EQ(run({"solve", "p.yaml"}).code, 0);
}

// The path 1 - 3 - 2 - 4 in the order of the path, and where each row was.
TEST_F(Command, ConvertsIntoAnOrder) {
  write("a.mtx",
        "%%MatrixMarket matrix coordinate real symmetric\n4 4 7\n1 1 11\n2 2 22\n3 3 33\n4 4 44\n3 1 13\n3 2 "
        "23\n"
        "4 2 24\n");
  const Outcome o = run({"convert", "a.mtx", "b.mtx", "--order", "rcm", "--permutation", "p.mtx"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("bandwidth 2 -> 1"), std::string::npos) << o.out;
  const auto left = files();
  const std::string& p = left.at("p.mtx");
  const bool forwards = p.ends_with("1\n3\n2\n4\n");
  EXPECT_TRUE(forwards || p.ends_with("4\n2\n3\n1\n")) << p;
  const std::vector<std::string> entries =
      forwards ? std::vector<std::string>{"1 1 11", "2 1 13", "2 2 33", "4 3 24"}
               : std::vector<std::string>{"4 4 11", "4 3 13", "3 3 33", "2 1 24"};
  for (const std::string& entry : entries)
    EXPECT_NE(left.at("b.mtx").find(entry), std::string::npos) << entry << left.at("b.mtx");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--order", "rcm"},
                                                {"--permutation", "q.mtx"},
                                                {"--order", "rmc", "--permutation", "q.mtx"},
                                                {"--order", "none", "--permutation", "q.mtx"},
                                                {"--order", "auto", "--permutation", "q.mtx"},
                                                {"--order", "rcm", "--permutation", "c.mtx"}}) {
    std::vector<std::string> all{"convert", "a.mtx", "c.mtx"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(run(all).code, 2) << words.back();
  }
  EXPECT_EQ(files(), left) << "nothing is written where something is refused";
  write("r.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 3 1\n");
  const Outcome rectangular = run({"convert", "r.mtx", "c.mtx", "--order", "rcm", "--permutation", "q.mtx"});
  EXPECT_EQ(rectangular.code, 2);
  EXPECT_NE(rectangular.err.find("must be square"), std::string::npos) << rectangular.err;
  EXPECT_EQ(files().size(), left.size() + 1);
}

// A file with its own right-hand side, guess and history: all in the order of the file.
TEST_F(Command, SolvesInEveryOrder) {
  std::string b = "%%MatrixMarket matrix array real general\n400 1\n";
  for (int i = 0; i < 400; ++i) b += std::to_string(i % 17) + "\n";
  write("b.mtx", b);
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 20}}\nrhs: {file: b.mtx}\ninitial_guess: {random: 3}\n"
        "solver: {relative_tolerance: 1.0e-10}\npreconditioner: {type: jacobi}\n"
        "output: {solution: x.mtx, report: r.json}\n");
  const auto numbers = [this] {
    std::istringstream text(files().at("x.mtx"));
    std::vector<double> all;
    for (std::string line; std::getline(text, line);)
      if (!line.starts_with('%')) all.push_back(std::atof(line.c_str()));
    return all;
  };
  ASSERT_EQ(run({"solve", "p.yaml"}).code, 0);
  const std::vector<double> expected = numbers();
  const Json plain = Json::parse(files().at("r.json"));
  EXPECT_FALSE(plain.contains("order"));
  for (const char* order : {"rcm", "length", "cluster", "auto"})
    for (const char* schedule :
         {"", "schedule=[{at_iteration: 3, format: sell-packed, overlapped: false}]"}) {
      SCOPED_TRACE(std::string(order) + " " + schedule);
      std::vector<std::string> words{"solve", "p.yaml", "--set", std::string("matrix.order=") + order};
      if (*schedule) words.insert(words.end(), {"--set", schedule});
      const Outcome o = run(words);
      ASSERT_EQ(o.code, 0) << o.err;
      const Json r = Json::parse(files().at("r.json"));
      EXPECT_EQ(r["order"]["order"], std::string_view(order) == "auto" ? "none" : order)
          << "auto: x is small";
      EXPECT_NEAR(r["iterations"].get<double>(), plain["iterations"].get<double>(), 2);
      EXPECT_GT(r["operator"]["products"].get<int>(), 3);
      EXPECT_EQ(r["problem"]["matrix"]["order"], order);
      const std::vector<double> x = numbers();
      ASSERT_EQ(x.size(), expected.size());
      for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], expected[i], 1e-5) << i;
    }
  const Outcome refused = run({"compare", "p.yaml", "--set", "matrix.order=rcm"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("convert --order"), std::string::npos) << refused.err;
}

// Orders in the middle of a solve: the same x and nearly the same iterations, and a report of each change.
TEST_F(Command, ChangesTheOrderInTheSolve) {
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 20}}\nrhs: {solution: {random: 3}}\n"
        "solver: {relative_tolerance: 1.0e-10}\npreconditioner: {type: jacobi}\noutput: {report: r.json}\n"
        "operator: {format: csr}\n"
        "schedule:\n"
        "  - {at_iteration: 3, order: rcm, overlapped: false}\n"
        "  - {at_iteration: 5, format: sell-c-sigma, order: length, overlapped: false}\n"
        "  - {at_iteration: 7, format: ell, overlapped: false}\n"
        "  - {at_iteration: 9, order: none, overlapped: false}\n");
  const Outcome o = run({"solve", "p.yaml"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("order none -> rcm"), std::string::npos) << o.out;
  const Json r = Json::parse(files().at("r.json"));
  ASSERT_EQ(r["switches"].size(), 4);
  EXPECT_EQ(r["switches"][0]["order"]["from"], "none");
  EXPECT_EQ(r["switches"][0]["order"]["to"], "rcm");
  EXPECT_GT(r["switches"][0]["order"]["seconds"], 0);
  EXPECT_EQ(r["switches"][1]["order"]["to"], "length");
  EXPECT_EQ(r["switches"][1]["to"], "sell-c-sigma");
  EXPECT_FALSE(r["switches"][2].contains("order"));
  EXPECT_EQ(r["switches"][2]["to"], "ell");
  EXPECT_EQ(r["switches"][3]["order"]["to"], "none");
  EXPECT_EQ(r["decisions"][0]["to"], "order rcm");
  EXPECT_EQ(r["problem"]["schedule"][0]["order"], "rcm");
  EXPECT_LT(r["error"]["relative"].get<double>(), 1e-6);
  ASSERT_EQ(run({"solve", "p.yaml", "--set", "schedule=[{at_iteration: 100000, format: csr}]"}).code, 0);
  const Json plain = Json::parse(files().at("r.json"));
  EXPECT_NEAR(r["iterations"].get<double>(), plain["iterations"].get<double>(), 1);
  const auto other_products = [](const Json& report) {
    return report["operator"]["products"].get<int>() - report["iterations"].get<int>();
  };
  EXPECT_EQ(other_products(r), other_products(plain)) << "those of the new orders count too";

  // A format that refuses the matrix in that order: the solve goes on without the change.
  const Outcome stays = run({"solve", "p.yaml", "--set", "operator.format=dia", "--set",
                             "schedule=[{at_iteration: 3, order: rcm, overlapped: false}]"});
  EXPECT_EQ(stays.code, 0) << stays.err;
  EXPECT_NE(stays.out.find("not to dia in order rcm (refused)"), std::string::npos) << stays.out;
  EXPECT_EQ(Json::parse(files().at("r.json"))["failed_switches"][0]["order"], "rcm");

  // Refused before anything is read: a missing ability has exit code 3, a wrong file 2.
  const auto refused = [&](const std::string& schedule, int code, const std::string& text,
                           std::vector<std::string> more = {}) {
    std::vector<std::string> words{"solve", "p.yaml", "--set", "schedule=" + schedule};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  };
  refused("[{at_iteration: 3, order: rmc}]", 2, "rcm");
  for (const OrderingEntry& entry : orderings()) {
    if (entry.unavailable.empty()) continue;
    const std::string id(entry.id);
    refused("[{at_iteration: 3, order: " + id + "}]", 3, "schedule[0].order: order " + id,
            {"--set", "matrix={file: missing.mtx}"});
    refused("[]", 3, "matrix.order: order " + id, {"--set", "matrix={file: missing.mtx, order: " + id + "}"});
  }
  refused("[{at_iteration: 3}]", 2, "'format' or 'order'");
  refused("[{at_iteration: 3, order: rcm, kernel: native}]", 2, "add the key 'format'");
}

TEST_F(Command, HelpVersionAndUsage) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"},
                                                {"solve", "--help"},
                                                {"formats", "--help"},
                                                {"convert", "--help"}}) {
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0);
    EXPECT_NE(o.out.find("Example"), std::string::npos) << o.out;
    EXPECT_EQ(o.err, "");
  }
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  for (const char* word : {"protean ", "compiler", "SIMD", "OpenMP", "Kokkos", "MKL", "hypre", "CUDA"})
    EXPECT_NE(version.out.find(word), std::string::npos) << word;
  const Outcome typo = run({"slove", "p.yaml"});
  EXPECT_EQ(typo.code, 2);
  EXPECT_NE(typo.err.find("Did you mean 'solve'"), std::string::npos) << typo.err;
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"solve"}).code, 2);
  EXPECT_EQ(run({"solve", "p.yaml", "--quite"}).code, 2);
  EXPECT_EQ(run({"solve", "p.yaml", "--threads", "-1"}).code, 2);
}

TEST_F(Command, FormatsAsJsonAndText) {
  const Outcome json = run({"formats", "--json"});
  EXPECT_EQ(json.code, 0);
  EXPECT_TRUE(Json::parse(json.out).is_array());
  EXPECT_EQ(run({"formats"}).code, 0);
  EXPECT_EQ(run({"formats", "csr"}).code, 0);
  EXPECT_EQ(run({"formats", "csrr"}).code, 2);
  for (const Json& entry : Json::parse(json.out)) {
    const FormatEntry& format = find_format(entry["id"].get<std::string>());
    EXPECT_EQ(entry["engine"], format.engine) << format.id;
    EXPECT_EQ(entry["base"], format.base.empty() ? Json(nullptr) : Json(format.base)) << format.id;
  }
}

TEST_F(Command, FormatsOfOneFamily) {
  const Outcome ell = run({"formats", "--family", "ell", "--json"});
  ASSERT_EQ(ell.code, 0) << ell.err;
  std::size_t expected = 0;
  for (const FormatEntry* entry : catalogue()) expected += entry->family == "ell";
  EXPECT_EQ(Json::parse(ell.out).size(), expected);
  for (const Json& entry : Json::parse(ell.out)) EXPECT_EQ(entry["family"], "ell");
  const Outcome text = run({"formats", "--family", "ell"});
  EXPECT_NE(text.out.find("\nell\n  ell "), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find(" csr "), std::string::npos) << text.out;
  const Outcome wrong = run({"formats", "--family", "el"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("Did you mean 'ell'"), std::string::npos) << wrong.err;
  EXPECT_EQ(run({"formats", "csr", "--family", "row"}).code, 2);
}

TEST_F(Command, FormatsSayWhatAPresetIsInEachSpace) {
  const Outcome text = run({"formats", "csr-scalar"});
  EXPECT_NE(text.out.find("preset of       csr\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("on the host     kernel native of csr with balance = rows\n"), std::string::npos)
      << text.out;
  EXPECT_EQ(run({"formats", "csr"}).out.find("on the host"), std::string::npos);
  const Outcome json = run({"formats", "csr-scalar", "--json"});
  EXPECT_EQ(Json::parse(json.out)[0]["fixed_parameters"]["host"], Json({{"balance", "rows"}})) << json.out;
}

// Families in the order in which they come first, and each preset under its base. One whose base is not listed, or
// belongs to another family, stands alone.
TEST(FormatsTable, PresetsAreIndentedUnderTheirBase) {
  const auto entry = [](std::string_view family, std::string_view id, std::string_view base) {
    FormatEntry made{family, id, "a title", "", {}, {}, {}, nullptr};
    made.base = base;
    return made;
  };
  const FormatEntry entries[] = {entry("row", "plain", ""),         entry("slices", "sliced", ""),
                                 entry("row", "preset-1", "plain"), entry("slices", "other", "plain"),
                                 entry("row", "second", ""),        entry("row", "preset-2", "plain"),
                                 entry("row", "alone", "absent")};
  std::vector<const FormatEntry*> all;
  for (const FormatEntry& e : entries) all.push_back(&e);
  std::istringstream table(apps::formats_table(all));
  std::vector<std::string> lines;
  for (std::string line; std::getline(table, line);) lines.push_back(line.substr(0, line.find("  a title")));
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  lines.erase(lines.begin(), lines.begin() + 2);  // the heading
  EXPECT_EQ(lines, (std::vector<std::string>{"row", "  plain", "    preset-1", "    preset-2", "  second",
                                             "  alone", "slices", "  sliced", "  other"}));
}

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
// with the coordinates of the nodes, and with the translations given as vectors as many as with unknowns: 3 alone.
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

// In deterministic mode every format and any number of threads give the same file, bit for bit.
TEST_F(Command, DeterministicMode) {
  const std::string quick = R"(matrix: {generate: {kind: convection-diffusion-3d, n: 16}}
solver: {method: bicgstab, relative_tolerance: 1.0e-9}
preconditioner: {type: jacobi}
operator: {format: csr, deterministic: true}
output: {solution: x.mtx, report: r.json}
)";
  write("p.yaml", quick);
  std::string first;
  for (const char* format : {"csr", "sell-packed", "hyb", "dia", "csc"})
    for (const char* threads : {"1", "2"}) {
      const Outcome o =
          run({"solve", "p.yaml", "--threads", threads, "--set", std::string("operator.format=") + format});
      ASSERT_EQ(o.code, 0) << o.err;
      EXPECT_NE(o.out.find(", deterministic"), std::string::npos) << o.out;
      const auto left = files();
      if (first.empty()) first = left.at("x.mtx");
      EXPECT_EQ(first, left.at("x.mtx")) << format << ", threads " << threads;
      const Json r = Json::parse(left.at("r.json"));
      EXPECT_EQ(r["operator"]["deterministic"], true);
      EXPECT_EQ(r["problem"]["operator"]["deterministic"], true);
    }
  const Outcome usual = run({"solve", "p.yaml", "--set", "operator.deterministic=false"});
  EXPECT_EQ(usual.code, 0);
  EXPECT_EQ(usual.out.find("deterministic"), std::string::npos);
  EXPECT_EQ(Json::parse(files().at("r.json"))["operator"]["deterministic"], false);
}

}  // namespace
}  // namespace protean::test

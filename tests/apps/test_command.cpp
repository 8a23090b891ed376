// The command as a program: exit codes, files, report, Ctrl-C.
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <sstream>

#include "command_problems.hpp"
#include "core/context.hpp"
#include "core/io/matrix_market.hpp"
#include "support/command.hpp"
#include "support/stokes.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

// A problem that cannot reach its tolerance, so its solve takes long.
const std::string endless = R"(matrix: {generate: {kind: anisotropic-2d, n: 400, epsilon_y: 1.0e-6}}
solver: {method: cg, relative_tolerance: 1.0e-300, max_iterations: 1e9}
output: {solution: x.mtx, report: r.json, history: h.csv}
)";

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
  EXPECT_EQ(history.rfind("iteration,residual,relative_residual,seconds,values\n0,", 0), 0u);
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
      EXPECT_NE(o.out.find("deterministic\n"), std::string::npos) << o.out;
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

// The command without problem files: a bare matrix, options for keys, `help problem`, lines of a monitor, files that
// grow, checkpoints, `-`, endings of outputs, man pages and completion.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "command_options.hpp"
#include "core/identical.hpp"
#include "core/io/matrix_market.hpp"
#include "support/command.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

const std::string poisson =
    "matrix: {generate: {kind: poisson-2d, n: 30}}\nsolver: {relative_tolerance: 1.0e-9}\n";

const std::string endless = R"(matrix: {generate: {kind: anisotropic-2d, n: 300, epsilon_y: 1.0e-6}}
solver: {method: cg, relative_tolerance: 1.0e-300, max_iterations: 1e9}
)";

TEST_F(CommandOptions, SolvesABareMatrix) {
  write("a.mtx", spd_file), write("b.mtx", b_file);
  for (const char* copy : {"a.mtx.gz", "a.mtx.xz", "a.pbin"})
    ASSERT_EQ(run({"convert", "a.mtx", copy}).code, 0);
  write("a.dat", spd_file);  // known by its first bytes
  std::filesystem::copy(work_ / "a.mtx.gz", work_ / "a");
  for (const char* name : {"a.mtx", "a.mtx.gz", "a.mtx.xz", "a.pbin", "a.dat", "a"}) {
    std::filesystem::remove(work_ / "x.mtx");
    const Outcome o = run({"solve",
                           name,
                           "--rhs",
                           "b.mtx",
                           "--method",
                           "gmres",
                           "--preconditioner",
                           "jacobi",
                           "--tolerance",
                           "1e-11",
                           "--max-iterations",
                           "77",
                           "--restart",
                           "9",
                           "--format",
                           "ell",
                           "--order",
                           "rcm",
                           "--space",
                           "host",
                           "--solution",
                           "x.mtx",
                           "--history",
                           "h.csv",
                           "--report",
                           "r.json"});
    ASSERT_EQ(o.code, 0) << name << o.err;
    const Json problem = Json::parse(files().at("r.json"))["problem"];
    EXPECT_EQ(problem["matrix"]["file"], name);
    EXPECT_EQ(problem["solver"]["method"], "gmres");
    EXPECT_EQ(problem["solver"]["relative_tolerance"], 1e-11);
    EXPECT_EQ(problem["solver"]["max_iterations"], 77);
    EXPECT_EQ(problem["solver"]["restart"], 9);
    EXPECT_EQ(problem["preconditioner"]["type"], "jacobi");
    EXPECT_EQ(problem["operator"]["format"], "ell");
    EXPECT_EQ(problem["matrix"]["order"], "rcm");
    EXPECT_EQ(files().at("h.csv").rfind("iteration,", 0), 0u);
    const auto x = numbers_of("x.mtx");
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(x.at(i), static_cast<double>(i + 1), 1e-9);
  }
  // Without options: cg, x = 1; also in another folder, with --set, and compared.
  std::filesystem::create_directory(work_ / "sub");
  std::filesystem::copy(work_ / "a.mtx", work_ / "sub/a.mtx");
  EXPECT_EQ(run({"solve", "sub/a.mtx", "--set", "solver.relative_tolerance=1e-3"}).code, 0);
  EXPECT_EQ(run({"solve", "sub/a.mtx", "--rhs", "b.mtx"}).code, 0) << "options begin at the working folder";
  EXPECT_EQ(run({"compare", "a.mtx", "--formats", "csr,ell", "--budget", "5", "--quiet"}).code, 0);
}

TEST_F(CommandOptions, TheRightHandSideIsNamed) {
  write("a.mtx", spd_file), write("b.mtx", b_file);
  write("p.yaml", "matrix: {file: a.mtx}\n");
  const std::string otherwise = "b = A x, x of random numbers in [-1, 1), seed 1 (no rhs was given)";
  for (const auto& [arguments, text] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"a.mtx"}, otherwise},
           {{"p.yaml"}, otherwise},
           {{"a.mtx", "--set", "rhs={solution: ones}"}, "b = A x, x = 1 everywhere"},
           {{"a.mtx", "--set", "rhs.random=7"}, "b of random numbers in [-1, 1), seed 7"},
           {{"a.mtx", "--set", "rhs.value=2"}, "b = 2 everywhere"},
           {{"a.mtx", "--rhs", "b.mtx"}, "b of "}}) {
    std::vector<std::string> solve{"solve", "--report", "r.json"}, compare{"compare", "--formats", "csr"};
    solve.insert(solve.end(), arguments.begin(), arguments.end());
    compare.insert(compare.end(), arguments.begin(), arguments.end());
    const Outcome solved = run(solve);
    EXPECT_NE(solved.out.find("  rhs          " + text), std::string::npos) << solved.out << solved.err;
    if (arguments.size() == 1 || text == "b of ") {
      const Outcome compared = run(compare);
      EXPECT_NE(compared.out.find("  rhs: " + text), std::string::npos) << compared.out << compared.err;
    }
    const Json report = Json::parse(files().at("r.json"));
    EXPECT_EQ(report["rhs"]["text"].get<std::string>().rfind(text, 0), 0u) << report["rhs"];
    EXPECT_EQ(report["rhs"]["given"], text != otherwise);
  }
  const Json report = Json::parse(run({"solve", "a.mtx", "--json"}).out);
  EXPECT_EQ(report["problem"]["rhs"], Json::parse(R"({"solution": {"random": 1}})"));
}

TEST_F(CommandOptions, JsonIsTheReportAlone) {
  write("a.mtx", spd_file);
  const Outcome o = run({"solve", "a.mtx", "--json", "--report", "r.json"});
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.err, "");
  EXPECT_EQ(Json::parse(o.out)["iterations"], Json::parse(files().at("r.json"))["iterations"]);
  expect_refused({"solve", "a.mtx", "--json", "--solution", "-"}, "both the standard output");
}

TEST_F(CommandOptions, AQuietSolveThatDoesNotConvergeSaysSoInOneLine) {
  write("p.yaml", poisson);
  for (const char* flag : {"--quiet", "--json"}) {
    const Outcome o = run({"solve", "p.yaml", flag, "--max-iterations", "3"});
    EXPECT_EQ(o.code, 1);
    EXPECT_EQ(o.err.rfind("protean: not converged: max-iterations, 3 iterations. ", 0), 0u) << o.err;
    EXPECT_GT(o.err.size(), 80u) << "without advice";
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
  EXPECT_EQ(run({"solve", "p.yaml", "--quiet", "--max-iterations", "3"}).out, "");
  EXPECT_EQ(run({"solve", "p.yaml", "--quiet"}).err, "");
}

TEST_F(CommandOptions, TheMonitorPrintsLinesWhenPiped) {
  write("p.yaml", poisson);
  // Nothing that may change while it runs: a change has a line of its own.
  const Outcome o = run({"solve", "p.yaml", "--monitor", "10", "--quiet", "--set", "schedule.policy=none",
                         "--set", "solver.method=cg", "--set", "preconditioner.type=none"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "");
  std::istringstream lines(o.err);
  const std::regex form(R"(iteration (\d+)  relative residual \d\.\d{3}e[+-]\d\d  .+)");
  int expected = 0;
  for (std::string line; std::getline(lines, line); expected += 10) {
    std::smatch found;
    ASSERT_TRUE(std::regex_match(line, found, form)) << line;
    EXPECT_EQ(std::stoi(found[1]), expected);
  }
  EXPECT_GE(expected, 30);

  // A line every 0.1 s: no more of them than the run had time for, however long a busy machine let it take. The first
  // and the last line come without waiting. Lines about changes of the format, and a warning, are not counted.
  write("e.yaml", endless);
  const auto begin = std::chrono::steady_clock::now();
  const Outcome timed = run({"solve", "e.yaml", "--monitor", "0.1s", "--set", "solver.max_seconds=1"});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(timed.code, 1);
  std::istringstream timed_lines(timed.err);
  int count = 0;
  for (std::string line; std::getline(timed_lines, line);) count += std::regex_match(line, form);
  EXPECT_GE(count, 2);
  EXPECT_LE(count, took.count() / 0.1 + 3);
  for (const char* text : {"0", "-1", "often", "1.5", "0s", "s", "5ss"})
    expect_refused({"solve", "p.yaml", "--monitor", text}, "--monitor");
}

TEST_F(CommandOptions, TheHistoryGrowsDuringTheSolve) {
  write("p.yaml", endless + "output: {history: h.csv}\n");
  const pid_t child = start({"solve", "p.yaml", "--threads", "1"});
  const auto size = [&] {
    std::error_code code;
    const auto bytes = std::filesystem::file_size(work_ / "h.csv", code);
    return code ? std::uintmax_t{0} : bytes;
  };
  EXPECT_TRUE(wait_for([&] { return size() > 0; })) << "no history while it solves";
  const auto first = size();
  EXPECT_TRUE(wait_for([&] { return size() > first; })) << "it does not grow";
  kill(child, SIGKILL);
  EXPECT_EQ(finish(child).code, 128 + SIGKILL);
  // Each line is there once.
  std::istringstream lines(files().at("h.csv"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "iteration,residual,relative_residual,seconds,values");
  long expected = 0;
  while (std::getline(lines, line) && !lines.eof()) EXPECT_EQ(std::stol(line), expected++) << line;
  EXPECT_GT(expected, 10);
}

TEST_F(CommandOptions, AHistoryThatGrewIsCompleteAtTheEnd) {
  write("p.yaml", endless + "output: {history: h.csv, report: r.json}\n");
  ASSERT_EQ(run({"solve", "p.yaml", "--set", "solver.max_seconds=2.5"}).code, 1);
  const std::string history = files().at("h.csv");
  EXPECT_EQ(std::count(history.begin(), history.end(), '\n'),
            Json::parse(files().at("r.json"))["iterations"].get<long>() + 2);
}

// Also if the solve computes in another order of the rows.
TEST_F(CommandOptions, ACheckpointOfAnOrderedSolve) {
  const std::string change = "schedule: [{at_iteration: 3, order: rcm, overlapped: false}]\n";
  for (const auto& [more, option] :
       {std::pair<std::string, std::string>{"", "matrix.order=rcm"}, {change, "title=two"}}) {
    SCOPED_TRACE(option);
    write("p.yaml", endless + more);
    const pid_t child = start({"solve", "p.yaml", "--threads", "1", "--checkpoint", "0.005", "--set", option,
                               "--solution", "x.mtx"});
    EXPECT_TRUE(wait_for([&] { return std::filesystem::exists(work_ / "x.mtx"); })) << "no checkpoint";
    kill(child, SIGKILL);
    EXPECT_EQ(finish(child).code, 128 + SIGKILL);
    std::filesystem::rename(work_ / "x.mtx", work_ / "x0.mtx");
    EXPECT_EQ(
        run({"solve", "p.yaml", "--initial-guess", "x0.mtx", "--max-iterations", "0", "--report", "r.json"})
            .code,
        1);
    EXPECT_LT(Json::parse(files().at("r.json"))["error"]["relative"].get<double>(), 0.999);
  }
}

TEST_F(CommandOptions, ACheckpointIsKeptAndContinued) {
  write("p.yaml", endless);
  const pid_t child =
      start({"solve", "p.yaml", "--threads", "1", "--checkpoint", "0.005", "--solution", "x.mtx"});
  EXPECT_TRUE(wait_for([&] { return std::filesystem::exists(work_ / "x.mtx"); })) << "no checkpoint";
  kill(child, SIGKILL);
  EXPECT_EQ(finish(child).code, 128 + SIGKILL);
  EXPECT_EQ(files().size(), 2u) << "no temporary file stays";
  EXPECT_NE(files().at("x.mtx").find("of a solve that goes on"), std::string::npos);
  std::filesystem::rename(work_ / "x.mtx", work_ / "x0.mtx");
  // The error of cg falls in each iteration; the error of x = 0 is 1.
  EXPECT_EQ(
      run({"solve", "p.yaml", "--initial-guess", "x0.mtx", "--max-iterations", "0", "--report", "r.json"})
          .code,
      1);
  EXPECT_LT(Json::parse(files().at("r.json"))["error"]["relative"].get<double>(), 0.999);
  expect_refused({"solve", "p.yaml", "--checkpoint", "1"}, "--checkpoint keeps the solution in a file");
  expect_refused({"solve", "p.yaml", "--checkpoint", "1", "--solution", "-"}, "--checkpoint");
  expect_refused({"solve", "p.yaml", "--checkpoint", "0", "--solution", "x.mtx"}, "--checkpoint");
}

TEST_F(CommandOptions, TerminationIs143) {
  write("p.yaml", endless + "output: {solution: x.mtx}\n");
  const pid_t child = start({"solve", "p.yaml", "--threads", "1"});
  EXPECT_TRUE(wait_until_solving(child));
  kill(child, SIGTERM);
  EXPECT_EQ(finish(child).code, 143);
  EXPECT_TRUE(files().count("x.mtx"));
}

TEST_F(CommandOptions, AnInterruptedComparisonIs130) {
  write("p.yaml", endless);
  const pid_t child =
      start({"compare", "p.yaml", "--threads", "1", "--formats", "csr,ell", "--report", "c.json"});
  EXPECT_TRUE(wait_until_solving(child));
  kill(child, SIGINT);
  const Outcome o = finish(child);
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_TRUE(files().count("c.json"));
}

TEST_F(CommandOptions, AHyphenIsTheStandardOutput) {
  write("p.yaml", poisson), write("a.mtx", spd_file);
  const Outcome report = run({"solve", "p.yaml", "--report", "-"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_EQ(Json::parse(report.out)["status"], "converged");
  EXPECT_NE(report.err.find("converged (relative-tolerance)"), std::string::npos) << "the summary";
  const Outcome solution = run({"solve", "p.yaml", "--solution", "-", "--quiet"});
  EXPECT_EQ(solution.out.rfind("%%MatrixMarket matrix array", 0), 0u);
  EXPECT_EQ(solution.err, "");
  EXPECT_EQ(run({"solve", "p.yaml", "--set", "output.history=-"}).out.rfind("iteration,", 0), 0u);
  const Outcome converted = run({"convert", "a.mtx", "-"});
  EXPECT_EQ(converted.out.rfind("%%MatrixMarket matrix coordinate", 0), 0u) << converted.err;
  EXPECT_NE(converted.err.find("nonzeros"), std::string::npos);
  EXPECT_EQ(run({"generate", "p.yaml", "-o", "-"}).out.rfind("%%MatrixMarket", 0), 0u);
  const Outcome compared = run({"compare", "a.mtx", "--formats", "csr", "--csv", "-"});
  EXPECT_EQ(compared.out.rfind("problem,format", 0), 0u) << compared.out;
  EXPECT_EQ(files().size(), 2u) << "no file called -";
  expect_refused({"solve", "p.yaml", "--report", "-", "--solution", "-"}, "both the standard output");
  // A long history through a pipe has each line once.
  write("e.yaml", endless);
  const Outcome grown = run({"solve", "e.yaml", "--set", "solver.max_seconds=2.2", "--history", "-"});
  std::istringstream lines(grown.out);
  std::string line;
  std::getline(lines, line);
  for (long expected = 0; std::getline(lines, line); ++expected) ASSERT_EQ(std::stol(line), expected);
}

TEST_F(CommandOptions, TheEndingDecidesWhatASolutionIs) {
  write("a.mtx", spd_file), write("b.mtx", b_file);
  for (const char* name : {"x.mtx", "x.mtx.gz", "x.mtx.xz", "x.npy"}) {
    const Outcome o = run({"solve", "a.mtx", "--rhs", "b.mtx", "--tolerance", "1e-12", "--solution", name});
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(numbers_of(name), numbers_of("x.mtx")) << name;
    EXPECT_EQ(run({"solve", "a.mtx", "--rhs", "b.mtx", "--initial-guess", name, "--report", "r.json"}).code,
              0);
    EXPECT_EQ(Json::parse(files().at("r.json"))["iterations"], 0) << name;
  }
  EXPECT_EQ(files().at("x.npy").rfind("\x93NUMPY", 0), 0u);
  EXPECT_EQ(files().at("x.mtx.gz").rfind("\x1f\x8b", 0), 0u);
  std::filesystem::remove(work_ / "r.json");
  for (const char* name : {"x.txt", "x", "x.gz", "x.npy.gz", "x.pbin"}) {
    expect_refused({"solve", "a.mtx", "--solution", name}, "must end in .mtx, .mtx.gz, .mtx.xz or .npy");
    expect_refused({"solve", "a.mtx", "--set", std::string("output.solution=") + name}, "must end in");
  }
  EXPECT_EQ(run({"solve", "a.mtx", "--solution", "/dev/null"}).code, 0);
}

TEST_F(CommandOptions, ConvertKeepsSymmetric) {
  write("a.mtx", spd_file);
  write("g.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 4\n1 1 1\n1 2 5\n2 1 5.5\n2 2 1\n");
  ASSERT_EQ(run({"convert", "a.mtx", "a.pbin"}).code, 0);
  ASSERT_EQ(run({"convert", "a.pbin", "b.mtx"}).code, 0);
  EXPECT_EQ(files().at("b.mtx"), spd_file) << "the lower triangle, row by row";
  EXPECT_TRUE(
      identical(read_matrix(test_context(), work_ / "a.mtx"), read_matrix(test_context(), work_ / "b.mtx")));
  ASSERT_EQ(run({"convert", "g.mtx", "h.mtx"}).code, 0);
  EXPECT_EQ(files().at("h.mtx"), files().at("g.mtx"));
}

TEST_F(CommandOptions, OutputsOfTheCommandLineBeginAtTheWorkingFolder) {
  std::filesystem::create_directory(work_ / "sub");
  write("sub/p.yaml", poisson + "output: {history: h.csv}\n");
  ASSERT_EQ(run({"solve", "sub/p.yaml", "--report", "r.json", "--set", "output.solution=x.mtx"}).code, 0);
  const auto left = files();
  for (const char* name : {"r.json", "x.mtx", "sub/h.csv"}) EXPECT_TRUE(left.count(name)) << name;
  ASSERT_EQ(run({"solve", "sub/p.yaml", "--set", "output={report: s.json}"}).code, 0);
  EXPECT_TRUE(files().count("s.json"));
  EXPECT_EQ(files().size(), 5u + 1) << "files and the folder";
}

TEST_F(CommandOptions, ComparesWithTheOptionsOfASolve) {
  write("a.mtx", spd_file), write("b.mtx", b_file);
  const Outcome o = run({"compare", "a.mtx", "--formats", "csr", "--method", "gmres", "--preconditioner",
                         "jacobi", "--tolerance", "1e-5", "--rhs", "b.mtx", "--report", "r.json", "--quiet"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json problem = Json::parse(files().at("r.json"))["problem"];
  EXPECT_EQ(problem["solver"]["method"], "gmres");
  EXPECT_EQ(problem["solver"]["relative_tolerance"], 1e-5);
  EXPECT_EQ(problem["preconditioner"]["type"], "jacobi");
  EXPECT_TRUE(problem["rhs"]["file"].get<std::string>().ends_with("b.mtx"));
  expect_refused({"compare", "a.mtx", "--method", "gc"}, "--method gc: solver.method is 'gc'");
}

}  // namespace
}  // namespace protean::test

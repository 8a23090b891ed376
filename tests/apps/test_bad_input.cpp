// Bad input to the command: the exit code is right, there is one message with place and hint, and no file is
// written.
#include <sys/resource.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/memory.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

const std::string banner = "%%MatrixMarket matrix coordinate real general\n";
const std::string outputs = "output: {solution: x.mtx, report: r.json, history: h.csv}\n";
const std::string from_file = "matrix: {file: a.mtx}\nsolver: {method: cg}\n" + outputs;

struct Bad {
  const char* name;
  std::string problem;                // p.yaml
  std::string matrix;                 // a.mtx
  std::vector<std::string> contains;  // of the message
  int code = 2;
  std::vector<std::string> arguments = {};
  std::string vector = {};  // b.mtx
};

constexpr std::size_t most_memory = std::size_t{32} << 30;

class BadInput : public CommandTest, public ::testing::WithParamInterface<Bad> {};

TEST_P(BadInput, IsRefusedWithOneMessageAndNothingWritten) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // a machine without a GPU, whatever this one has
  const Bad& bad = GetParam();
  if (!bad.problem.empty()) write("p.yaml", bad.problem);
  if (!bad.matrix.empty()) write("a.mtx", bad.matrix);
  if (!bad.vector.empty()) write("b.mtx", bad.vector);
  // A machine on which a large problem is too large, too.
  const bool limit = std::string_view(bad.name) == "TooLarge" && available_memory() > most_memory;
  rlimit former{};
  if (limit) {
    ASSERT_EQ(getrlimit(RLIMIT_DATA, &former), 0);
    const rlimit wanted{most_memory, former.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_DATA, &wanted), 0);
  }
  const auto before = files();
  std::vector<std::string> words{"solve", "p.yaml"};
  words.insert(words.end(), bad.arguments.begin(), bad.arguments.end());
  const Outcome o = run(words);
  if (limit) { EXPECT_EQ(setrlimit(RLIMIT_DATA, &former), 0); }
  EXPECT_EQ(o.code, bad.code) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(o.err.rfind("protean: error: ", 0), 0u) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  for (const std::string& part : bad.contains)
    EXPECT_NE(o.err.find(part), std::string::npos) << part << "\n" << o.err;
  EXPECT_EQ(files(), before);
}

const std::string good = banner + "2 2 2\n1 1 4\n2 2 5\n";
std::string generated(const std::string& more) {
  return "matrix: {generate: {kind: poisson-2d, n: 5}}\n" + more + "\n" + outputs;
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadInput,
    ::testing::Values(
        Bad{"NoProblemFile", "", "", {"p.yaml", "No such file"}},
        Bad{"MissingMatrix", from_file, "", {"p.yaml:1:16", "a.mtx", "there is no file"}},
        Bad{"MissingMatrixNearName",
            "matrix: {file: b.mtx}\n" + outputs,
            good,
            {"p.yaml:1:16", "Did you mean 'a.mtx'"}},
        Bad{"MatrixIsAFolder", "matrix: {file: .}\n" + outputs, "", {"p.yaml:1:16", "folder"}},
        Bad{"EmptyMatrixFile", from_file, " ", {"a.mtx"}},
        Bad{"Truncated", from_file, banner + "2 2 3\n1 1 4\n2 2 5\n", {"a.mtx", "3"}},
        Bad{"TooManyEntries", from_file, banner + "2 2 1\n1 1 4\n2 2 5\n", {"a.mtx:4"}},
        Bad{"CutInALine", from_file, banner + "2 2 2\n1 1 4\n2 2", {"a.mtx:4"}},
        Bad{"NotANumber", from_file, banner + "2 2 2\n1 1 4\n2 2 five\n", {"a.mtx:4"}},
        Bad{"RowOutOfRange", from_file, banner + "2 2 2\n1 1 4\n3 2 5\n", {"a.mtx:4"}},
        Bad{"ColumnOutOfRange", from_file, banner + "2 2 2\n1 1 4\n2 3 5\n", {"a.mtx:4"}},
        Bad{"ZeroIndex", from_file, banner + "2 2 2\n0 1 4\n2 2 5\n", {"a.mtx:3"}},
        Bad{"NegativeIndex", from_file, banner + "2 2 2\n1 1 4\n2 -2 5\n", {"a.mtx:4"}},
        Bad{"IndexOverflow", from_file, banner + "2 2 2\n1 1 4\n99999999999999999999 2 5\n", {"a.mtx:4"}},
        Bad{"SizeOverflow", from_file, banner + "99999999999999999999 2 2\n1 1 4\n2 2 5\n", {"a.mtx:2"}},
        Bad{"MoreThanMemory",
            from_file,
            banner + "2000000000 2000000000 4000000000000000\n1 1 4\n",
            {"a.mtx:2", "memory"},
            3},
        Bad{"NegativeSize", from_file, banner + "-2 2 2\n1 1 4\n", {"a.mtx:2"}},
        Bad{"WrongBanner",
            from_file,
            "%%MatrixMarkt matrix coordinate real general\n1 1 1\n1 1 1\n",
            {"a.mtx:1"}},
        Bad{"NoBanner", from_file, "1 1 1\n1 1 1\n", {"a.mtx:1"}},
        Bad{"Complex",
            from_file,
            "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 0\n",
            {"a.mtx:1", "complex"}},
        Bad{"Hermitian",
            from_file,
            "%%MatrixMarket matrix coordinate real hermitian\n1 1 1\n1 1 1\n",
            {"a.mtx:1", "hermitian"}},
        Bad{"NanValue", from_file, banner + "2 2 2\n1 1 nan\n2 2 5\n", {"a.mtx:3"}},
        Bad{"InfValue", from_file, banner + "2 2 2\n1 1 4\n2 2 inf\n", {"a.mtx:4"}},
        Bad{"DuplicateEntry",
            "matrix: {file: a.mtx, duplicates: refuse}\n" + outputs,
            banner + "2 2 3\n1 1 4\n2 2 5\n1 1 3\n",
            {"a.mtx"}},
        Bad{"NotSquare",
            from_file,
            banner + "2 3 2\n1 1 4\n2 2 5\n",
            {"p.yaml:1", "2 rows and 3 columns", "square"}},
        Bad{"Empty0x0", from_file, banner + "0 0 0\n", {"empty", "0 x 0"}},
        Bad{"ZeroDiagonalJacobi",
            from_file + "preconditioner: {type: jacobi}\n",
            banner + "2 2 2\n1 2 4\n2 1 5\n",
            {"diagonal"}},
        Bad{"BrokenXz",
            from_file,
            std::string("\xFD"
                        "7zXZ\0 broken",
                        13),
            {"a.mtx"}},
        Bad{"BrokenGz", from_file, "\x1f\x8b broken", {"a.mtx"}},
        Bad{"RhsTooShort",
            generated("rhs: {file: b.mtx}"),
            "",
            {"p.yaml:2:13", "2 entries", "25 rows"},
            2,
            {},
            "%%MatrixMarket matrix array real general\n2 1\n1\n2\n"},
        Bad{"RhsTooLong",
            "matrix: {generate: {kind: poisson-2d, n: 1}}\n" + outputs + "rhs: {file: b.mtx}",
            "",
            {"p.yaml:3:13", "2 entries", "1 rows"},
            2,
            {},
            "%%MatrixMarket matrix array real general\n2 1\n1\n2\n"},
        Bad{"RhsMissing", generated("rhs: {file: b.mtx}"), "", {"p.yaml:2:13", "rhs.file"}},
        Bad{"GuessTooShort",
            generated("initial_guess: {file: b.mtx}"),
            "",
            {"p.yaml:2:23", "2 entries"},
            2,
            {},
            "%%MatrixMarket matrix array real general\n2 1\n1\n2\n"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Problem, BadInput,
    ::testing::Values(
        Bad{"UnknownKey", generated("solver: {metod: cg}"), "", {"p.yaml:2:10", "Did you mean 'method'"}},
        Bad{"WrongType", generated("solver: {max_iterations: lots}"), "", {"p.yaml:2:26", "whole number"}},
        Bad{"DuplicateKey", generated("solver: {}\nsolver: {}"), "", {"p.yaml:3:1", "second time"}},
        Bad{"NegativeTolerance", generated("solver: {relative_tolerance: -1}"), "", {"p.yaml:2:30"}},
        Bad{"ToleranceOfOne",
            generated("solver: {relative_tolerance: 1}"),
            "",
            {"p.yaml:2:30", "solver.relative_tolerance is '1'", "of at least 0 and below 1"}},
        Bad{"InfiniteTolerance",
            generated("solver: {absolute_tolerance: .inf}"),
            "",
            {"p.yaml:2:30", "solver.absolute_tolerance"}},
        Bad{"UnknownFormat", generated("operator: {format: scr}"), "", {"p.yaml:2:20", "Did you mean"}},
        Bad{"UnknownKernel",
            generated("operator: {format: csr, kernel: natve}"),
            "",
            {"p.yaml:2:33", "Did you mean 'native'"}},
        Bad{"UnknownMethod", generated("solver: {method: gc}"), "", {"p.yaml:2:18", "Did you mean 'cg'"}},
        Bad{"FormatOfOthers1", generated("operator: {format: crs}"), "", {"'crs'", "Did you mean 'csr'?"}},
        Bad{"FormatOfOthers2", generated("operator: {format: ccs}"), "", {"'ccs'", "Did you mean 'csc'?"}},
        Bad{"FormatOfOthers3", generated("operator: {format: bsr}"), "", {"'bsr'", "Did you mean 'bcsr'?"}},
        Bad{"FormatOfOthers4",
            generated("operator: {format: coordinate}"),
            "",
            {"'coordinate'", "Did you mean 'coo'?"}},
        Bad{"FormatOfOthers5",
            generated("operator: {format: sliced-ell}"),
            "",
            {"'sliced-ell'", "Did you mean 'sell'?"}},
        Bad{"FormatOfOthers6",
            generated("operator: {format: ellpack}"),
            "",
            {"'ellpack'", "Did you mean 'ell'?"}},
        Bad{"FormatOfOthers7",
            generated("operator: {format: diagonal}"),
            "",
            {"'diagonal'", "Did you mean 'dia'?"}},
        Bad{"FormatExchangedLetters",
            generated("operator: {format: scr}"),
            "",
            {"'scr'", "Did you mean 'csr'?"}},
        Bad{"MethodOfOthers1",
            generated("solver: {method: conjugate-gradient}"),
            "",
            {"'conjugate-gradient'", "Did you mean 'cg'?"}},
        Bad{"MethodOfOthers2", generated("solver: {method: pcg}"), "", {"'pcg'", "Did you mean 'cg'?"}},
        Bad{"MethodOfOthers3",
            generated("solver: {method: bicg-stab}"),
            "",
            {"'bicg-stab'", "Did you mean 'bicgstab'?"}},
        Bad{"MethodOfOthers4",
            generated("solver: {method: BiCGStab(2)}"),
            "",
            {"'BiCGStab(2)'", "Did you mean 'bicgstab2'?"}},
        Bad{"PreconditionerOfOthers1",
            generated("preconditioner: {type: diagonal}"),
            "",
            {"'diagonal'", "Did you mean 'jacobi'?"}},
        Bad{"PreconditionerOfOthers2",
            generated("preconditioner: {type: icc}"),
            "",
            {"'icc'", "Did you mean 'ic0'?"}},
        Bad{"PreconditionerOfOthers3",
            generated("preconditioner: {type: ILU(0)}"),
            "",
            {"'ILU(0)'", "Did you mean 'ilu0'?"}},
        Bad{"PreconditionerOfOthers4",
            generated("preconditioner: {type: boomeramg}"),
            "",
            {"'boomeramg'", "Did you mean 'amg'?"}},
        Bad{"PreconditionerOfOthers5",
            generated("preconditioner: {type: multigrid}"),
            "",
            {"'multigrid'", "Did you mean 'amg'?"}},
        Bad{"PreconditionerOfOthers6",
            generated("preconditioner: {type: sor}"),
            "",
            {"'sor'", "Did you mean 'ssor'?"}},
        Bad{"SpaceOfOthers", generated("operator: {space: gpu}"), "", {"'gpu'", "Did you mean 'device'?"}},
        Bad{"Device", generated("operator: {space: device}"), "", {"operator.space", "host"}, 3},
        Bad{"TooLarge", "matrix: {generate: {kind: poisson-3d, n: 1290}}\n" + outputs, "", {"GiB"}, 3},
        Bad{"RefusedFormat",
            "matrix: {generate: {kind: graph-laplacian, n: 3000}}\noperator: {format: dia}\n" + outputs,
            "",
            {"format 'dia' refused"}},
        Bad{"SetUnknown",
            generated(""),
            "",
            {"--set solver.metod=cg", "Did you mean 'method'"},
            2,
            {"--set", "solver.metod=cg"}},
        Bad{"SetMalformed", generated(""), "", {"--set solver", "key.path=value"}, 2, {"--set", "solver"}},
        Bad{"ReportInMissingFolder",
            generated(""),
            "",
            {"--report", "no/r.json", "folder"},
            2,
            {"--report", "no/r.json"}},
        Bad{"SolutionInMissingFolder",
            "matrix: {generate: {kind: poisson-2d, n: 5}}\noutput: {solution: no/x.mtx}\n",
            "",
            {"p.yaml:2:20", "no/x.mtx"}},
        Bad{"ReportIsAFolder", generated(""), "", {"folder"}, 2, {"--report", "."}},
        Bad{"SameOutputTwice",
            "matrix: {generate: {kind: poisson-2d, n: 5}}\noutput: {solution: x.mtx, report: ./x.mtx}\n",
            "",
            {"p.yaml:2", "the same file"}},
        Bad{"WouldOverwriteTheMatrix",
            "matrix: {file: a.mtx}\noutput: {solution: ./a.mtx}\n",
            good,
            {"p.yaml:2", "overwrite"}},
        Bad{"WouldOverwriteTheProblem", generated(""), "", {"overwrite"}, 2, {"--report", "p.yaml"}},
        Bad{"BadOption", generated(""), "", {"--threads"}, 2, {"--threads", "many"}}),
    [](const auto& test) { return std::string(test.param.name); });

class Outputs : public CommandTest {};

TEST_F(Outputs, FullDiskIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  write("p.yaml", generated(""));
  std::filesystem::remove(work_ / "x.mtx");
  const Outcome o = run({"solve", "p.yaml", "--report", "/dev/full", "--set", "output.solution=null2/x.mtx"});
  EXPECT_EQ(o.code, 2);
  write("q.yaml", "matrix: {generate: {kind: poisson-2d, n: 5}}\noutput: {report: /dev/full}\n");
  const Outcome full = run({"solve", "q.yaml"});
  EXPECT_EQ(full.code, 3) << full.err;
  EXPECT_NE(full.err.find("/dev/full"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("the solve had ended: relative-tolerance after "), std::string::npos) << full.err;
  EXPECT_NE(full.out.find("/dev/full: NOT WRITTEN"), std::string::npos) << "the summary: " << full.out;
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

// The limit on the size of a file acts like a disk that has room only for small files.
TEST_F(Outputs, EachIsWrittenWhateverBecomesOfTheOthers) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 60}}\nsolver: {relative_tolerance: 1.0e-3}\n");
  write("h.csv", "old"), write("r.json", "{\"status\": \"old\"}");
  const auto with_limit = [&](const std::string& arguments) {
    const std::string line = "cd " + work_.string() +
                             " && ulimit -f 16 && " PROTEAN_COMMAND " solve p.yaml " + arguments +
                             " > out 2> err";
    const int status = std::system(("bash -c '" + line + "'").c_str());
    return Outcome{WEXITSTATUS(status), slurp(work_ / "out"), slurp(work_ / "err")};
  };
  const Outcome o = with_limit("--solution x.mtx --history h.csv --report r.json");
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_EQ(o.err.rfind("protean: error: output.solution: cannot write", 0), 0u) << o.err;
  EXPECT_NE(o.err.find("x.mtx"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("ulimit -f"), std::string::npos) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_NE(o.out.find("x.mtx: NOT WRITTEN"), std::string::npos) << o.out;
  EXPECT_FALSE(std::filesystem::exists(work_ / "x.mtx"));
  EXPECT_EQ(files().at("h.csv").rfind("iteration,", 0), 0u);
  const auto report = nlohmann::json::parse(files().at("r.json"));
  EXPECT_EQ(report["status"], "converged");
  ASSERT_EQ(report["not_written"].size(), 1u);
  EXPECT_EQ(report["not_written"][0]["output"], "output.solution");
  // A report that does not fit leaves no older one.
  const std::string title(20000, 't');
  const Outcome none = with_limit("--history h2.csv --report r.json --set title=" + title);
  EXPECT_EQ(none.code, 3) << none.err;
  EXPECT_NE(none.err.find("--report: cannot write"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("the report of an earlier run was removed"), std::string::npos) << none.err;
  EXPECT_FALSE(std::filesystem::exists(work_ / "r.json"));
  EXPECT_TRUE(std::filesystem::exists(work_ / "h2.csv"));
}

TEST_F(Outputs, AReportOfAnEarlierRunDoesNotOutliveAFailedOne) {
  const std::string old = "{\"status\": \"converged\"}";
  write("r.json", old), write("target.json", old), write("c.csv", old);
  std::filesystem::create_symlink("target.json", work_ / "link.json");
  write("bad.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 2 x\n");
  EXPECT_EQ(run({"solve", "bad.mtx", "--report", "link.json"}).code, 2);
  EXPECT_TRUE(std::filesystem::is_symlink(work_ / "link.json"));
  EXPECT_EQ(files().at("target.json"), "");
  EXPECT_EQ(run({"compare", "bad.mtx", "--report", "r.json", "--csv", "c.csv"}).code, 2);
  EXPECT_FALSE(files().count("r.json"));
  EXPECT_FALSE(files().count("c.csv"));
  write("r.json", old);
  EXPECT_EQ(run({"solve", "bad.mtx", "--report", "r.json"}).code, 2);
  EXPECT_FALSE(files().count("r.json"));
  // A run that did not begin touches nothing.
  write("r.json", old);
  EXPECT_EQ(run({"solve", "bad.mtx", "--report", "r.json", "--method", "gc"}).code, 2);
  EXPECT_EQ(run({"solve", "none.mtx", "--report", "r.json"}).code, 2);
  EXPECT_EQ(files().at("r.json"), old);
}

TEST_F(Outputs, ComparisonsAreWrittenOneByOne) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  write("p.yaml", generated(""));
  const Outcome o =
      run({"compare", "p.yaml", "--formats", "csr", "--quiet", "--report", "/dev/full", "--csv", "c.csv"});
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_EQ(o.err.rfind("protean: error: --report: cannot write '/dev/full'", 0), 0u) << o.err;
  EXPECT_EQ(files().at("c.csv").rfind("problem,format", 0), 0u);
}

TEST_F(Outputs, ReadOnlyFolderIsAnError) {
  write("p.yaml", generated(""));
  obeys_permissions_ = true;
  std::filesystem::permissions(work_,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const Outcome o = run({"solve", "p.yaml"});
  std::filesystem::permissions(work_, std::filesystem::perms::owner_all);
  if (o.code == 97) GTEST_SKIP() << "root cannot give up its rights here";
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_EQ(files().size(), 1u);
}

class Conversion : public CommandTest {};

TEST_F(Conversion, RefusalsWriteNothing) {
  write("a.mtx", good);
  write("bad.mtx", banner + "2 2 2\n1 1 4\n");
  const auto before = files();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"convert", "a.mtx", "b.txt"}, "must end in"},
      {{"convert", "no.mtx", "b.pbin"}, "there is no file 'no.mtx'"},
      {{"convert", "a.mtx", "a.mtx"}, "would overwrite the matrix"},
      {{"convert", "bad.mtx", "b.pbin"}, "bad.mtx"},
      {{"convert", "a.mtx", "no/b.pbin"}, "folder"},
      {{"convert", "a.mtx"}, "convert needs B: New file"},
      {{"convert", ".", "b.pbin"}, "folder"}};
  for (const auto& [words, part] : cases) {
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 2) << part;
    EXPECT_NE(o.err.find(part), std::string::npos) << o.err;
    EXPECT_EQ(files(), before);
  }
}

}  // namespace
}  // namespace protean::test

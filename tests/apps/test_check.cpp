// `protean check`: the errors of `protean solve` without reading the matrix, and what a solve would do.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command_problems.hpp"
#include "core/error.hpp"
#include "core/io/matrix_head.hpp"
#include "support/text.hpp"

namespace protean {
namespace {

using Json = nlohmann::json;
using test::has;
using test::Outcome;

class CheckCommand : public test::CommandTest {
 protected:
  // A header with entries that no reader of the whole file would take.
  void write_head(const std::string& name, const std::string& sizes, const std::string& form = "general") {
    write(name, "%%MatrixMarket matrix coordinate real " + form + "\n" + sizes + "\nno entries\n");
  }
};

TEST_F(CheckCommand, ReadsTheHeaderOfTheMatrixOnly) {
  write_head("A.mtx", "1000000 1000000 7000000", "symmetric");
  write("p.yaml",
        "matrix: {file: A.mtx}\nsolver: {method: gmres, restart: 60}\npreconditioner: {type: ilu0}\n");
  const auto before = files();
  const Outcome o = run({"check", "p.yaml", "--set", "output.solution=x.mtx"});
  EXPECT_EQ(o.code, 0) << o.err;
  for (const char* part :
       {"Matrix Market, symmetric, 1 000 000 rows, 7 000 000 entries in the file", "gmres (restart 60)",
        "ilu0", "x: x.mtx", "the format and the order of the rows", "nothing was solved"})
    EXPECT_TRUE(has(o.out, part)) << part << o.out;
  EXPECT_EQ(files(), before) << "it writes no file";
  EXPECT_EQ(run({"solve", "p.yaml"}).code, 2) << "the matrix is broken behind its header";
}

TEST_F(CheckCommand, SaysWhatMayChange) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 30}}\n");
  const Outcome automatic = run({"check", "p.yaml"});
  for (const char* part : {"generated: poisson-2d, n 30", "the method:", "the preconditioner:", "the format"})
    EXPECT_TRUE(has(automatic.out, part)) << part << automatic.out;
  const Outcome fixed =
      run({"check", "p.yaml", "--method", "cg", "--preconditioner", "jacobi", "--format", "ell"});
  EXPECT_TRUE(has(fixed.out, "may change      nothing")) << fixed.out;
  const Outcome planned = run({"check", "p.yaml", "--method", "cg", "--preconditioner", "jacobi", "--set",
                               "schedule=[{at_iteration: 20, format: sell-c-sigma, parameters: {C: 16}}]"});
  EXPECT_TRUE(has(planned.out, "may change      at iteration 20: sell-c-sigma, C 16")) << planned.out;
  const Outcome chosen = run({"check", "p.yaml", "--set", "operator.expected_iterations=50"});
  EXPECT_TRUE(has(chosen.out, "the format: chosen before the solve")) << chosen.out;
}

// The message is the one of a solve, to the letter.
TEST_F(CheckCommand, HasTheErrorsOfASolve) {
  write_head("A.mtx", "5 5 9"), write_head("wide.mtx", "5 7 9"), write_head("empty.mtx", "0 0 0");
  write("broken.mtx", "%%MatrixMarket matrix coordinate complex general\n5 5 9\n");
  write("table.yaml", "machine: [\n");
  const std::vector<std::pair<int, std::string>> problems = {
      {2, "matrix: {file: A.mtx}\nsolvr: {}\n"},
      {2, "matrix: {file: A.mtx}\nsolver: {method: cgg}\n"},
      {2, "matrix: {file: A.mtx}\nsolver: {method: cg}\npreconditioner: {type: ilu0}\n"},
      {2, "matrix: {file: B.mtx}\n"},
      {2, "matrix: {file: wide.mtx}\n"},
      {2, "matrix: {file: empty.mtx}\n"},
      {2, "matrix: {file: broken.mtx}\n"},
      {2, "matrix: {file: A.mtx}\nrhs: {file: b.mtx}\n"},
      {2, "matrix: {file: A.mtx}\noutput: {solution: x.txt}\n"},
      {2, "matrix: {file: A.mtx}\noutput: {report: A.mtx}\n"},
      {2, "matrix: {file: A.mtx}\noutput: {report: nowhere/r.json}\n"},
      {2, "matrix: {generate: {kind: poisson-2d, n: 8}}\nschedule: {policy: auto, machine: table.yaml}\n"}};
  for (const auto& [code, text] : problems) {
    write("p.yaml", text);
    // An empty or wide matrix is found when it has been read, so it must be whole for the solve.
    if (has(text, "wide")) write("wide.mtx", "%%MatrixMarket matrix coordinate real general\n5 7 1\n1 1 2\n");
    if (has(text, "empty")) write("empty.mtx", "%%MatrixMarket matrix coordinate real general\n0 0 0\n");
    const Outcome check = run({"check", "p.yaml"}), solve = run({"solve", "p.yaml"});
    EXPECT_EQ(solve.code, code) << text << solve.err;
    EXPECT_EQ(check.code, solve.code) << text << check.err;
    EXPECT_EQ(check.err, solve.err) << text;
    EXPECT_EQ(check.out, "") << text;
  }
}

TEST_F(CheckCommand, PrintsJson) {
  write_head("A.mtx", "30 30 99");
  const Outcome o = run({"check", "A.mtx", "--json", "--threads", "1", "--method", "cg"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json json = Json::parse(o.out);
  EXPECT_EQ(json["valid"], true);
  EXPECT_EQ(json["problem"]["solver"]["method"], "cg");
  EXPECT_EQ(json["matrix"]["rows"], 30);
  EXPECT_EQ(json["matrix"]["entries_in_file"], 99);
  EXPECT_EQ(json["threads"], 1);
  EXPECT_FALSE(json["may_change"].empty());
}

TEST_F(CheckCommand, RefusesWhatItDoesNotHave) {
  write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 2 1\n");
  const Outcome o = run({"check", "A.mtx", "--format", "split"}),
                solve = run({"solve", "A.mtx", "--format", "split"});
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_EQ(o.err, solve.err);
  EXPECT_EQ(run({"check"}).code, 2);
  EXPECT_EQ(run({"check", "A.mtx", "--quiet"}).code, 2) << "an option of solve that says nothing here";
}

TEST_F(CheckCommand, KnowsTheHeadsOfAllForms) {
  write("A.mtx", "%%MatrixMarket matrix coordinate real general\n4 4 4\n1 2 1\n2 2 1\n3 3 1\n4 4 1\n");
  ASSERT_EQ(run({"convert", "A.mtx", "A.pbin", "--quiet"}).code, 0);
  ASSERT_EQ(run({"convert", "A.mtx", "A.mtx.xz", "--quiet"}).code, 0);
  write("A.rua",
        "Title                                                                   Key\n"
        "             3             1             1             1             0\n"
        "RUA                        4             4             4             0\n"
        "(5I6)           (4I6)           (4F6.1)\n"
        "     1     2     3     4     5\n     1     2     3     4\n   1.0   1.0   1.0   1.0\n");
  for (const auto& [file, form] : {std::pair{"A.mtx", "Matrix Market, general"},
                                   {"A.mtx.xz", "Matrix Market, general"},
                                   {"A.pbin", ".pbin"},
                                   {"A.rua", "Harwell-Boeing, general"}}) {
    const auto head = io_detail::read_matrix_head((work_ / file).string());
    EXPECT_EQ(head.form, form);
    EXPECT_EQ(head.rows, 4);
    EXPECT_EQ(head.cols, 4);
    EXPECT_EQ(head.entries, 4);
  }
  write_head("sparse.mtx", "2000000000 2000000000 1");
  EXPECT_THROW((void)io_detail::read_matrix_head((work_ / "sparse.mtx").string()), BadFile);
  EXPECT_THROW((void)io_detail::read_matrix_head((work_ / "none.mtx").string()), BadFile);
}

}  // namespace
}  // namespace protean

// Preconditioner fields at the command: texts, files, what the report says, and what is refused.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "command_problems.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

const std::string stokes_problem =
    "matrix: {generate: {kind: stokes-2d, n: 12}}\nrhs: {solution: ones}\n"
    "output: {report: r.json}\npreconditioner:\n  type: fields\n";

TEST_F(Command, FieldsOfASaddlePoint) {
  write("p.yaml", stokes_problem);
  const auto solved = [&](std::vector<std::string> sets) {
    std::vector<std::string> words = {"solve", "p.yaml"};
    for (std::string& set : sets)
      words.emplace_back("--set"), words.push_back("preconditioner." + std::move(set));
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return std::pair(Json::parse(files().at("r.json")), o.out);
  };
  // Found; the summary says what.
  const auto [found, text] = solved({});
  const std::string reason = found["preconditioner"]["reason"];
  EXPECT_NE(reason.find("two fields: the diagonal entries of rows 264 to 407 (counted from 0) are zero"),
            std::string::npos)
      << reason;
  EXPECT_NE(reason.find("; recipe schur-upper by the diagonal; inner u amg, p jacobi; taken because field p"),
            std::string::npos)
      << reason;
  EXPECT_NE(text.find("two fields: the diagonal entries"), std::string::npos) << text;
  EXPECT_EQ(text.find("auto: two fields"), std::string::npos) << text;
  EXPECT_EQ(found["preconditioner"]["fields"], 2);
  EXPECT_EQ(found["solver"]["chosen"], "gmres");
  EXPECT_EQ(found["problem"]["preconditioner"]["recipe"], "auto");
  const int iterations = found["iterations"];
  // Named, and by labels: the same.
  EXPECT_EQ(solved({"fields=u 0-263, p 264-"}).first["iterations"], iterations);
  for (const char* const list : {"[{name: u, rows: 0-263}, {name: p, rows: 264-}]",
                                 "[{name: u, rows: [0-99, 100-263]}, {rows: 264-407, name: p}]",
                                 "[{name: u, rows: 0-99 100-263}, {name: p, rows: [264-]}]"})
    EXPECT_EQ(solved({std::string("fields=") + list}).first["iterations"], iterations) << list;
  std::string labels = "%%MatrixMarket matrix array real general\n408 1\n";
  for (int i = 0; i < 408; ++i) labels += i < 264 ? "0\n" : "1\n";
  write("labels.mtx", labels);
  EXPECT_EQ(solved({"labels=labels.mtx"}).first["iterations"], iterations);
  // A given operator: the mass matrix of the cells, which is the identity here.
  std::string mass = "%%MatrixMarket matrix coordinate real general\n144 144 144\n";
  for (int i = 1; i <= 144; ++i) mass += std::to_string(i) + " " + std::to_string(i) + " 1\n";
  write("mass.mtx", mass);
  const Json given = solved({"schur_operator=mass.mtx", "inner=p jacobi"}).first;
  EXPECT_NE(given["preconditioner"]["reason"].get<std::string>().find("by the given operator"),
            std::string::npos);
  EXPECT_LT(given["iterations"], 60);
  // An inner method.
  const Json inner = solved({"inner=u amg method=cg tolerance=1e-3, p ic0"}).first;
  EXPECT_EQ(inner["solver"]["chosen"], "fgmres");
  // auto.
  EXPECT_EQ(solved({"type=auto"}).first["iterations"], iterations);
  EXPECT_EQ(Json::parse(files().at("r.json"))["preconditioner"]["chosen"], "fields");
}

// What was found is written, and the file that names it gives the same solve.
TEST_F(Command, FoundFieldsAreWritten) {
  write("p.yaml", stokes_problem);
  Outcome o = run({"solve", "p.yaml", "--set", "output.fields=found.mtx"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("found.mtx"), std::string::npos) << o.out;
  const Json found = Json::parse(files().at("r.json"));
  EXPECT_EQ(found["problem"]["output"]["fields"], "found.mtx");
  std::istringstream lines(files().at("found.mtx"));
  std::string line, labels;
  std::int64_t rows = -1;  // the first number is the line of sizes
  while (std::getline(lines, line)) {
    if (line.starts_with("%")) {
      if (!line.starts_with("%%")) { EXPECT_NE(line.find("two fields"), std::string::npos) << line; }
    } else if (++rows > 0) {
      EXPECT_EQ(std::stod(line), rows <= 264 ? 0 : 1) << rows;
    }
  }
  EXPECT_EQ(rows, 408);
  o = run({"solve", "p.yaml", "--set", "preconditioner.labels=found.mtx"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(Json::parse(files().at("r.json"))["iterations"], found["iterations"]);
  // auto, which finds none in another matrix.
  write("q.yaml", "matrix: {generate: {kind: poisson-2d, n: 3}}\noutput: {fields: none.mtx}\n");
  o = run({"solve", "q.yaml"});
  ASSERT_EQ(o.code, 0) << o.err;
  const std::string none = files().at("none.mtx");
  EXPECT_NE(none.find("no fields were found"), std::string::npos) << none;
  EXPECT_EQ(none.find("1\n1\n"), std::string::npos) << none;
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"preconditioner.type=jacobi"}, "preconditioner.type is jacobi; take fields or auto"},
      {{"output.fields=found.txt"}, "output.fields 'found.txt': the name must end in"}};
  for (const auto& [sets, text] : wrong) {
    std::vector<std::string> words = {"solve", "q.yaml"};
    for (const std::string& set : sets) words.emplace_back("--set"), words.push_back(set);
    o = run(words);
    EXPECT_EQ(o.code, 2) << text;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
  }
}

TEST_F(Command, FieldsAreExplainedIfFoundAndIfNamed) {
  const std::string found = "two fields: the diagonal entries of rows 264 to 407";
  write("p.yaml", stokes_problem);
  const auto explained = [&](const std::string& type) {
    return run({"solve", "p.yaml", "--explain", "--set", "preconditioner.type=" + type}).out;
  };
  const std::string taken = explained("auto"), named = explained("fields");
  EXPECT_NE(taken.find("Preconditioner auto stayed with fields: " + found), std::string::npos) << taken;
  EXPECT_NE(named.find("What it made of the matrix: " + found), std::string::npos) << named;
  EXPECT_EQ(named.find("Preconditioner auto"), std::string::npos) << named;
}

TEST_F(Command, FieldsThatAreRefused) {
  write("p.yaml", stokes_problem);
  write("short.mtx", "%%MatrixMarket matrix array real general\n2 1\n0\n1\n");
  std::string half = "%%MatrixMarket matrix array real general\n408 1\n";
  for (int i = 0; i < 408; ++i) half += i == 7 ? "0.5\n" : "1\n";
  write("half.mtx", half);
  const std::pair<const char*, const char*> wrong[] = {
      {"fields=u 0-263, p 263-", "row 263 (counted from 0) is in field u and again in field p"},
      {"fields=u 0-263, p 265-", "row 264 (counted from 0) is in no field"},
      {"fields=u 0-263, p 264-408", "has row 408, and the matrix has rows 0 to 407"},
      {"recipe=shur-full", "Did you mean 'schur-full'?"},
      {"inner=u amg, T jacobi", "there is no field 'T'"},
      {"inner=u amq", "Did you mean 'amg'?"},
      {"inner=whole ilu0", "'whole' is what recipe cpr-quasi-impes"},
      {"labels=short.mtx", "'short.mtx' has 2 numbers; it must have 408"},
      {"labels=half.mtx", "number 7 (from 0) of 'half.mtx' is 0.5"},
      {"labels=nothing.mtx", "nothing.mtx"},
      {"schur_operator=nothing.mtx", "nothing.mtx"},
  };
  for (const auto& [set, text] : wrong) {
    const Outcome o = run({"solve", "p.yaml", "--set", std::string("preconditioner.") + set});
    EXPECT_EQ(o.code, 2) << set << o.out;
    EXPECT_NE(o.err.find(text), std::string::npos) << set << ": " << o.err;
  }
  const std::pair<const char*, const char*> places[] = {
      {"  fields: u 0-263, p 264-\n  labels: short.mtx\n", "p.yaml:7:"},
      {"  fields: []\n", "p.yaml:6:11: preconditioner.fields is empty; write a list such as"},
      {"  fields:\n    - {name: u, rows: 0-263}\n    - p 264-\n",
       "p.yaml:8:7: preconditioner.fields[1] is not a map"},
      {"  fields: [{name: u}]\n", "preconditioner.fields[0] has no rows"},
      {"  fields: [{name: u, rows: []}]\n", "preconditioner.fields[0].rows is empty"},
      {"  fields: [{name: u v, rows: 0-}]\n",
       "preconditioner.fields[0].name is 'u v'; the name of a field has no blank"},
      {"  fields: [{name: u, rows: \"0-3, 4-\"}]\n", "put blanks between ranges, or make a list"},
      {"  fields: [{name: u, row: 0-}]\n", "preconditioner.fields[0]"},
      {"  fields: [{name: u, rows: 0-263}, {name: p, rows: 263-}]\n",
       "row 263 (counted from 0) is in field u and again in field p"},
      {"  fields: \"\"\n", "preconditioner.fields is the text \"\"; it must be a word or text"},
  };
  for (const auto& [lines, text] : places) {
    write("p.yaml", stokes_problem + lines);
    const Outcome o = run({"solve", "p.yaml"});
    EXPECT_EQ(o.code, 2) << lines;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
  }
  write("p.yaml",
        "matrix: {generate: {kind: poisson-2d, n: 8}}\npreconditioner: {type: amg, labels: short.mtx}\n");
  EXPECT_NE(run({"solve", "p.yaml"}).err.find("labels is for preconditioner.type fields; the type is amg"),
            std::string::npos);
}

}  // namespace
}  // namespace protean::test

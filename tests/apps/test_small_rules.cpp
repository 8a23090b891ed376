// Figures that are shown to a user, and small rules of the command.
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <limits>

#include "apps/command/lists.hpp"
#include "apps/compare/compare.hpp"
#include "apps/compare/compare_report.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/machine/measure.hpp"
#include "apps/problem/system.hpp"
#include "apps/solve/report.hpp"
#include "formats/catalogue.hpp"
#include "support/battery.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

TEST(Timing, QuartilesLieBetweenTheTwoNearestTimes) {
  const apps::Timing t = apps::timing_of({10, 1, 3, 2});
  EXPECT_DOUBLE_EQ(t.median, 2.5);
  EXPECT_DOUBLE_EQ(t.lower, 1.75);
  EXPECT_DOUBLE_EQ(t.upper, 4.75);
  EXPECT_EQ(t.runs, 4);
  EXPECT_DOUBLE_EQ(apps::timing_of({7}).median, 7);
}

// csr and what must be there count for the length; the best of the others that are wanted fill it up.
TEST(Shortlist, HasTheBestFormatsAndThoseThatMustBeThere) {
  const auto entry = [](const char* id) { return &find_format(id); };
  std::vector<RankedFormat> ranked;
  for (const char* id : {"dia", "hyb", "jad", "csr", "ell", "coo"}) ranked.push_back({entry(id), {}, 0});
  const auto all = [](const FormatEntry&) { return true; };
  const auto ids = [](const std::vector<const FormatEntry*>& entries) {
    std::vector<std::string> names;
    for (const FormatEntry* e : entries) names.emplace_back(e->id);
    return names;
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(ids(apps::shortlist(ranked)), (Ids{"csr", "ell", "jad", "dia", "coo", "hyb"}));
  EXPECT_EQ(ids(apps::shortlist(ranked, {}, all, 3)), (Ids{"csr", "dia", "hyb"}));
  const FormatEntry* const always[] = {entry("coo"), entry("bcsr"), entry("csr")};
  EXPECT_EQ(ids(apps::shortlist(ranked, always, all, 4)), (Ids{"csr", "dia", "coo", "bcsr"}));
  const auto no_diagonals = [](const FormatEntry& e) { return e.family != "diagonal"; };
  EXPECT_EQ(ids(apps::shortlist(ranked, {}, no_diagonals, 3)), (Ids{"csr", "jad", "hyb"}));
  EXPECT_EQ(ids(apps::shortlist({}, {}, all, 3)), (Ids{"csr"}));
}

TEST(RelativeError, IsRelativeToTheKnownSolution) {
  Vector<double> x(test_context(), 2), exact(test_context(), 2);
  exact[0] = 30, exact[1] = 40, x[0] = 30, x[1] = 45;
  EXPECT_DOUBLE_EQ(apps::relative_error(x, exact), 5.0 / 50);
  exact[0] = exact[1] = 0, x[0] = 3, x[1] = 4;
  EXPECT_DOUBLE_EQ(apps::relative_error(x, exact), 5) << "of a solution that is 0 the error itself";
}

// All times and residuals differ, so that none can stand for another.
apps::SolveRecord record_of_different_numbers() {
  apps::SolveRecord r;
  r.problem.matrix.file = {"A.mtx", "A.mtx", {}};
  r.problem.title = "different numbers";
  r.result.reason = StopReason::relative_tolerance;
  r.result.iterations = 50, r.result.seconds = 2;
  r.result.true_relative = 1.5e-9, r.result.recurrence_relative = 2.5e-9;
  r.result.true_residual = 3.5e-9, r.result.recurrence_residual = 4.5e-9;
  r.result.initial_residual = 5.5, r.result.rhs_norm = 6.5;
  r.seconds.start = 0.01, r.seconds.read = 0.02, r.seconds.upload = 0.03, r.seconds.convert = 0.04;
  r.seconds.setup = 0.05, r.seconds.solve = 2.5, r.seconds.download = 0.06, r.seconds.write = 0.07;
  r.seconds.total = 7.5;
  r.rows = 1000, r.nonzeros = 5000, r.matrix_bytes = 60000, r.threads = 2, r.format = "csr",
  r.kernel = "native";
  return r;
}

TEST(Report, EachNumberStandsUnderItsName) {
  const Json report = Json::parse(apps::report_json(record_of_different_numbers()));
  const std::pair<const char*, double> numbers[] = {{"/seconds/start", 0.01},
                                                    {"/seconds/read", 0.02},
                                                    {"/seconds/upload", 0.03},
                                                    {"/seconds/convert", 0.04},
                                                    {"/seconds/setup", 0.05},
                                                    {"/seconds/solve", 2.5},
                                                    {"/seconds/download", 0.06},
                                                    {"/seconds/write", 0.07},
                                                    {"/seconds/total", 7.5},
                                                    {"/residual/true_relative", 1.5e-9},
                                                    {"/residual/recurrence_relative", 2.5e-9},
                                                    {"/residual/true", 3.5e-9},
                                                    {"/residual/recurrence", 4.5e-9},
                                                    {"/residual/initial", 5.5},
                                                    {"/residual/rhs", 6.5},
                                                    {"/iterations", 50},
                                                    {"/memory/matrix_bytes", 60000}};
  for (const auto& [place, number] : numbers)
    EXPECT_EQ(report.at(Json::json_pointer(place)).get<double>(), number) << place;
}

TEST(Report, SaysWhatAMatrixChose) {
  apps::SolveRecord record = record_of_different_numbers();
  EXPECT_FALSE(Json::parse(apps::report_json(record))["operator"].contains("tuning"));
  record.tuning = {{{"columns", "raw", "bytes"}, {"unroll", "4", "time"}}, true, 12};
  EXPECT_EQ(Json::parse(apps::report_json(record))["operator"]["tuning"],
            Json::parse(R"({"settled": true, "measurements": 12,
                            "choices": [{"option": "columns", "value": "raw", "by": "bytes"},
                                        {"option": "unroll", "value": "4", "by": "time"}]})"));
  // A line may end within the row.
  const auto row = [&] {
    std::string words = apps::summary(record);
    std::replace(words.begin(), words.end(), '\n', ' ');
    words.erase(std::unique(words.begin(), words.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
                words.end());
    return words;
  };
  EXPECT_NE(row().find("options: columns raw (bytes), unroll 4 (time)"), std::string::npos) << row();
  const std::string unsettled = "the solve ended before all were tried";
  EXPECT_EQ(row().find(unsettled), std::string::npos);
  record.tuning.settled = false;
  EXPECT_NE(row().find("unroll 4 (time); " + unsettled), std::string::npos) << row();
  EXPECT_EQ(row().find("a product: predicted"), std::string::npos);
}

TEST(Report, SaysWhatAMatrixPredictedAndWhatItTook) {
  apps::SolveRecord record = record_of_different_numbers();
  record.parts = {{"csr", 75, 900, "GPU"}, {"ell", 25, 300, "host"}};
  record.tuning.choices = {{"share", "75", "time"}};
  record.tuning.corrections = 2, record.tuning.predicted_seconds = 2e-5;
  const auto report = [&] { return Json::parse(apps::report_json(record))["operator"]; };
  EXPECT_EQ(report()["tuning"]["corrections"], 2);
  EXPECT_EQ(report()["tuning"]["predicted_seconds"], 2e-5);
  EXPECT_FALSE(report()["tuning"].contains("measured_seconds"));
  EXPECT_FALSE(report()["tuning"].contains("note"));
  EXPECT_EQ(report()["parts"], Json::parse(R"([{"format": "csr", "entries": 75, "bytes": 900, "where": "GPU"},
                                               {"format": "ell", "entries": 25, "bytes": 300, "where": "host"}])"));
  EXPECT_NE(apps::summary(record).find("not measured"), std::string::npos) << apps::summary(record);
  record.tuning.measured_seconds = 4e-5, record.tuning.note = "no memory";
  EXPECT_EQ(report()["tuning"]["measured_seconds"], 4e-5);
  EXPECT_EQ(report()["tuning"]["note"], "no memory");
  const std::string text = apps::summary(record);
  for (const char* part : {"csr on the GPU(75%) ell on the host(25%)",
                           "predicted 20 us, measured 40 us; 2 corrections", "stay as they are: no memory"})
    EXPECT_NE(text.find(part), std::string::npos) << part << '\n' << text;
}

TEST(Report, TheSummaryHasTheTimeOfAnIterationOfTheSolveAlone) {
  const std::string text = apps::summary(record_of_different_numbers());
  EXPECT_NE(text.find("40 ms an iteration"), std::string::npos) << text;
  EXPECT_NE(text.find("(12.00 bytes a nonzero)"), std::string::npos) << text;
  EXPECT_NE(text.find("solve 2.5 s, total 7.5 s"), std::string::npos) << text;
}

apps::Comparison one_comparison(const std::string& title) {
  apps::Comparison one;
  one.rows = 1000, one.nonzeros = 5'000'000, one.threads = 2;
  one.problem.title = title;
  apps::Variant v;
  v.format = "csr", v.kernel = "native", v.status = "converged", v.why = "two\nlines";
  v.product = {2e-3, 2e-3, 2e-3, 9}, v.solve = {1, 1, 1, 3}, v.convert = {0.1, 0.1, 0.1, 3};
  v.iterations = 100, v.matrix_bytes = 60'000'000, v.stored_values = 5'000'000;
  one.variants.push_back(v);
  one.best = 0;
  return one;
}

TEST(CompareTable, HasBillionsOfOperationsASecond) {
  // 2 operations an entry: 1e7 in 2 ms.
  const std::string table = apps::compare_table(one_comparison("a"));
  EXPECT_NE(table.find(" 5.00 "), std::string::npos) << table;
  EXPECT_NE(table.find(" 12.00 "), std::string::npos) << table;
}

TEST(CompareCsv, QuotesAndNewlinesStayWithinTheirField) {
  const std::string csv = apps::compare_csv({one_comparison("a \"quoted\", title")});
  EXPECT_NE(csv.find("\"a \"\"quoted\"\", title\",csr,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\"two lines\""), std::string::npos) << csv;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2) << "the names and one line";
}

class SmallRules : public CommandTest {
 protected:
  // One matrix on which csr takes 1 ms a product and dia half of it after a conversion of 50 ms.
  void write_machine() {
    write("machine.yaml",
          "machine: \"made up\"\nmatrices:\n"
          "  - {matrix: \"m\", space: host, rows: 3600, nonzeros: 17760, formats: "
          "[[csr, 227524, 1.0e-3, 0], [dia, 144020, 0.5e-3, 5.0e-2]]}\n");
  }
};

TEST_F(SmallRules, ATableOfTheHostAloneLeavesTheGpuToTheBuiltInOne) {
  write_machine();
  const apps::ChosenMachine chosen = apps::choose_machine((work_ / "machine.yaml").string());
  const auto in = [&](Space space) {
    return std::count_if(chosen.table()->matrices.begin(), chosen.table()->matrices.end(),
                         [&](const MeasuredMatrix& m) { return m.space == space; });
  };
  EXPECT_EQ(in(Space::host), 1);
  EXPECT_GT(in(Space::device), 5);
}

// 100 iterations are 100 products of cg, which the conversion does not pay for, and 200 of bicgstab.
TEST_F(SmallRules, AutoReckonsWithTwoProductsAnIterationOfBicgstab) {
  write_machine();
  write("p.yaml",
        "matrix: {generate: {kind: poisson-2d, n: 60}}\noperator: {expected_iterations: 100}\n"
        "output: {report: r.json}\n");
  setenv("PROTEAN_MACHINE", "machine.yaml", 1);
  for (const auto& [method, format] : {std::pair{"cg", "csr"}, std::pair{"bicgstab", "dia"}}) {
    const Outcome o = run({"solve", "p.yaml", "--quiet", "--set", std::string("solver.method=") + method});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(Json::parse(files().at("r.json"))["operator"]["format"], format) << method;
  }
  unsetenv("PROTEAN_MACHINE");
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

TEST_F(SmallRules, GenerateDoesNotOverwriteItsProblemByAnotherName) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 5}}\n");
  std::filesystem::create_symlink("p.yaml", work_ / "p.mtx");
  const auto before = files();
  const Outcome o = run({"generate", "p.yaml", "-o", "p.mtx"});
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_NE(o.err.find("would overwrite the problem file"), std::string::npos) << o.err;
  EXPECT_EQ(files(), before);
}

TEST_F(SmallRules, ASuiteNamesItsProblemsFromItsOwnFolder) {
  std::filesystem::create_directory(work_ / "sub");
  write("sub/a.yaml", "matrix: {generate: {kind: poisson-2d, n: 10}}\n");
  write("sub/suite.yaml", "suite: [a.yaml]\n");
  const Outcome o = run({"compare", "sub/suite.yaml", "--formats", "csr", "--kernels", "native", "--quiet"});
  EXPECT_EQ(o.code, 0) << o.err;
}

TEST(ProblemKeys, OfThePolicyHaveTheirEffect) {
  const apps::Problem p = apps::parse_problem(
      "matrix: {file: A.mtx}\nschedule: {policy: auto, worst_factor: 1.25, most_switches: 7}\n", "p.yaml",
      {});
  EXPECT_EQ(p.schedule.policy.worst_factor, 1.25);
  EXPECT_EQ(p.schedule.policy.most_switches, 7);
}

}  // namespace
}  // namespace protean::test

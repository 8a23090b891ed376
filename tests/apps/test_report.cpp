// The progress line, durations, the report of a solve, and formats as JSON.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "apps/command/formats.hpp"
#include "apps/report/progress.hpp"
#include "apps/solve/explain.hpp"
#include "apps/solve/report.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "operators/kernel_admission.hpp"

namespace protean::apps {
namespace {

using Json = nlohmann::json;

TEST(Progress, LineSaysRatesAndTimeLeft) {
  // From 1 to 1e-4 in 100 iterations and 2 s: another 100 iterations and 2 s to 1e-8.
  const IterationInfo start{0, 1, 1, 0, 0}, now{100, 1e-4, 1e-4, 2, 0};
  const std::string line = progress_line(now, start, 1, 1e-8, 10000, 200, false);
  EXPECT_EQ(line, "============------------  it 100     residual 1.00e-04  50 it/s  x0.912/it  2 s left");
}

TEST(Progress, LineFitsTheTerminal) {
  const IterationInfo start{0, 1, 1, 0, 0}, now{100, 1e-4, 1e-4, 2, 0};
  for (int width : {0, 1, 10, 30, 60, 80})
    EXPECT_LE(progress_line(now, start, 1, 1e-8, 10000, width, false).size(),
              static_cast<std::size_t>(width));
}

TEST(Progress, NoProgressNeverDividesByZero) {
  const IterationInfo zero{0, 0, 0, 0, 0};
  EXPECT_NE(progress_line(zero, zero, 0, 0, 0, 80, true), "");
  const IterationInfo stuck{10, 1, 1, 1, 0};
  EXPECT_NE(progress_line(stuck, {0, 1, 1, 0, 0}, 1, 1e-8, 20, 120, false).find("(at most)"),
            std::string::npos);
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration(0), "0 us");
  EXPECT_EQ(duration(7.64e-8), "0.076 us");
  EXPECT_EQ(duration(4e-6), "4 us");
  EXPECT_EQ(duration(9.96e-6), "10 us");
  EXPECT_EQ(duration(76.4e-6), "76 us");
  EXPECT_EQ(duration(0.0123), "12.3 ms");
  EXPECT_EQ(duration(1.5), "1.5 s");
  EXPECT_EQ(duration(200), "3 min 20 s");
  EXPECT_EQ(duration(7500), "2 h 05 min");
}

SolveRecord solved() {
  SolveRecord record;
  record.problem.matrix.file = {"a.mtx", "folder/a.mtx", {}};
  record.rows = 1000, record.nonzeros = 4000, record.threads = 2;
  record.format = "csr", record.kernel = "native";
  record.matrix_bytes = 52'000, record.peak_bytes = std::size_t{3} << 20;
  record.result.reason = StopReason::relative_tolerance;
  record.result.iterations = 50, record.result.seconds = 0.025;
  record.seconds.read = 1.5, record.seconds.convert = 0.0025, record.seconds.setup = 4e-6;
  record.seconds.solve = 0.25, record.seconds.total = 200;
  return record;
}

TEST(Report, HistoryIsInSeconds) {
  IterationInfo rounded{7, 2, 0.25, 1.5, 0};
  rounded.rounded = true;
  EXPECT_EQ(history_csv({{0, 8, 1, 0, 0}, rounded}),
            "iteration,residual,relative_residual,seconds,values\n"
            "0,8,1,0.000000000,double\n"
            "7,2,0.25,1.500000000,float\n");
}

TEST(Report, ChangesNameHowValuesAreStored) {
  SolveRecord record = solved();
  SwitchRecord change;
  change.iteration = 20, change.from = "csr", change.to = "sell-packed";
  change.from_kernel = change.to_kernel = "native";
  change.from_values = "double", change.to_values = "float (rounded)";
  record.switches = {change, change};
  record.switches[1].to_values = "double";
  const auto json = nlohmann::json::parse(report_json(record))["switches"];
  EXPECT_EQ(json[0]["values"]["from"], "double");
  EXPECT_EQ(json[0]["values"]["to"], "float (rounded)");
  EXPECT_NE(switch_text(record.switches[0]).find("csr -> sell-packed, values double -> float (rounded), "),
            std::string::npos)
      << switch_text(record.switches[0]);
  EXPECT_EQ(switch_text(record.switches[1]).find("values"), std::string::npos) << "they stay";
}

TEST(Report, SummaryGivesEachFigureInItsUnit) {
  const std::string text = summary(solved());
  for (const char* part :
       {"a.mtx: 1 000 rows, 4 000 nonzeros\n", "matrix 50.8 KiB (13.00 bytes a nonzero), peak 3.0 MiB\n",
        "500 us an iteration\n", "read 1.5 s, convert 2.5 ms, setup 4 us, solve 250 ms, total 3 min 20 s"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
}

TEST(Report, SummaryNamesADictionary) {
  auto record = solved();
  EXPECT_EQ(summary(record).find("dictionary"), std::string::npos);
  record.values = "dictionary", record.values_reason = "few values";
  EXPECT_NE(summary(record).find("values       dictionary: few values\n"), std::string::npos)
      << summary(record);
}

TEST(Report, JsonIsInSecondsAndBytes) {
  const auto json = nlohmann::json::parse(report_json(solved()));
  EXPECT_EQ(json["seconds"]["read"], 1.5);
  EXPECT_EQ(json["seconds"]["convert"], 0.0025);
  EXPECT_EQ(json["seconds"]["setup"], 4e-6);
  EXPECT_EQ(json["seconds"]["solve"], 0.25);
  EXPECT_EQ(json["seconds"]["total"], 200);
  EXPECT_EQ(json["memory"]["matrix_bytes"], 52'000);
  EXPECT_EQ(json["memory"]["peak_bytes"], 3 << 20);
  EXPECT_EQ(json["iterations"], 50);
  EXPECT_EQ(json["matrix"]["nonzeros"], 4000);
}

TEST(Formats, JsonDescribesTheWholeCatalogue) {
  const auto list = nlohmann::json::parse(formats_json(""));
  ASSERT_EQ(list.size(), catalogue().size());
  for (const auto& entry : list) {
    for (const char* key :
         {"id", "family", "title", "source", "kernels", "spaces", "parameters", "deterministic"})
      EXPECT_TRUE(entry.contains(key)) << key;
    EXPECT_EQ(entry["kernels"].empty(), entry["spaces"].empty());
    const FormatEntry& format = find_format(entry["id"].get<std::string>());
    const auto runs_in = entry["spaces"].get<std::vector<std::string>>();
    EXPECT_EQ(!runs_in.empty() && runs_in[0] == "host", detail::why_not_on_host(format).empty())
        << entry["id"];
    EXPECT_EQ(entry["parameters"].size(), settable_params(format).size());
    // Kernel -> spaces in which it keeps a fixed order. On a host sums of other formats have no such kernel.
    const auto spaces = entry["deterministic_mode"].value("native", nlohmann::json::array());
    const bool on_host = std::find(spaces.begin(), spaces.end(), "host") != spaces.end();
    EXPECT_EQ(on_host, format.family != "composed") << entry["id"];
  }
}

TEST(Formats, KernelsSayWhetherTheyHaveDeterministicMode) {
  EXPECT_NE(formats_text("csr").find("deterministic mode: host"), std::string::npos) << formats_text("csr");
  const auto csr = nlohmann::json::parse(formats_json("csr"))[0];
  if (csr["deterministic_mode"].contains("kokkos")) {
    EXPECT_TRUE(csr["deterministic_mode"]["kokkos"].empty());
    EXPECT_NE(formats_text("csr").find("refused in deterministic mode"), std::string::npos);
  }
}

TEST(Formats, OneOrAnErrorWithAHint) {
  EXPECT_NE(formats_text("csr").find("source"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(formats_json("csr")).size(), 1u);
  for (auto* call : {+[](const std::string& id) { return formats_text(id); },
                     +[](const std::string& id) { return formats_json(id); }}) {
    try {
      (void)call("csv");
      FAIL();
    } catch (const BadArgument& error) {
      EXPECT_NE(std::string(error.what()).find("Did you mean 'csr'"), std::string::npos) << error.what();
    }
  }
}

// Three tries and two ways back are five lines, and the limit is three.
TEST(Summary, SaysWhichChangesTheLimitOfThePolicyCounts) {
  SolveRecord record = solved();
  record.policy.decides = true;
  const auto change = [&](const char* from, const char* to) {
    SwitchRecord one;
    one.from = from, one.to = to, one.from_kernel = one.to_kernel = "native";
    record.switches.push_back(one);
  };
  change("csr", "ell");
  EXPECT_EQ(summary(record).find("most_switches"), std::string::npos) << "all are counted";
  change("ell", "csr"), change("csr", "dia"), change("dia", "csr"), change("csr", "sell-packed");
  EXPECT_NE(summary(record).find("3 of at most 3 changes (most_switches); 2 back to csr do not count"),
            std::string::npos)
      << summary(record);
  record.policy.decides = false;
  EXPECT_EQ(summary(record).find("most_switches"), std::string::npos) << "a schedule has no limit";
}

// All times and residuals differ, so that none can stand for another.
SolveRecord record_of_different_numbers() {
  SolveRecord r;
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

// Of method auto in the middle of the solve: the report, the summary and --explain.
TEST(Report, SaysWhichMethodWentOn) {
  SolveRecord record = solved();
  record.method = "gmres",
  record.method_reason = "gmres took the place of idr at iteration 40: it broke down";
  MethodChange first, second, none;
  first.iteration = 20, first.seconds = 0.25, first.relative_residual = 0.5;
  first.from = "gmres", first.to = "idr", first.reason = "slow cycles";
  second = first;
  second.iteration = 40, second.from = "idr", second.to = "gmres", second.restart = 120,
  second.reason = "it broke down";
  none.action = MethodChange::Action::refused, none.from = "gmres", none.to = "idr",
  none.reason = "no memory";
  record.method_changes = {first, second, none};
  const Json solver = Json::parse(report_json(record))["solver"];
  EXPECT_EQ(solver["chosen"], "gmres");
  ASSERT_EQ(solver["changes"].size(), 3u);
  EXPECT_EQ(solver["changes"][0], (Json{{"iteration", 20},
                                        {"seconds", 0.25},
                                        {"relative_residual", 0.5},
                                        {"action", "changed"},
                                        {"from", "gmres"},
                                        {"to", "idr"},
                                        {"reason", "slow cycles"}}));
  EXPECT_EQ(solver["changes"][1]["restart"], 120);
  EXPECT_EQ(solver["changes"][2]["action"], "refused");
  const std::string text = summary(record);
  for (const char* part :
       {"gmres(120), preconditioner", "it 20: gmres -> idr\n", "it 40: idr -> gmres\n", "not idr\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  const std::string explained = explain_method(record.method_reason, record.method_changes);
  EXPECT_NE(explained.find("Method auto began with gmres\n"), std::string::npos) << explained;
  EXPECT_NE(explained.find("gmres(120): it broke down (residual 5.0e-01)"), std::string::npos) << explained;
  EXPECT_EQ(explain_method("", {}), "") << "the method was named";
  record.method_changes.clear();
  EXPECT_EQ(Json::parse(report_json(record))["solver"]["changes"], Json::array());
}

TEST(Report, EachNumberStandsUnderItsName) {
  const Json report = Json::parse(report_json(record_of_different_numbers()));
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
  SolveRecord record = record_of_different_numbers();
  EXPECT_FALSE(Json::parse(report_json(record))["operator"].contains("tuning"));
  record.tuning = {{{"columns", "raw", "bytes"}, {"unroll", "4", "time"}}, true, 12};
  EXPECT_EQ(Json::parse(report_json(record))["operator"]["tuning"],
            Json::parse(R"({"settled": true, "measurements": 12,
                            "choices": [{"option": "columns", "value": "raw", "by": "bytes"},
                                        {"option": "unroll", "value": "4", "by": "time"}]})"));
  // A line may end within the row.
  const auto row = [&] {
    std::string words = summary(record);
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
  SolveRecord record = record_of_different_numbers();
  record.parts = {{"csr", 75, 900, "GPU"}, {"ell", 25, 300, "host"}};
  record.tuning.choices = {{"share", "75", "time"}};
  record.tuning.corrections = 2, record.tuning.predicted_seconds = 2e-5;
  const auto report = [&] { return Json::parse(report_json(record))["operator"]; };
  EXPECT_EQ(report()["tuning"]["corrections"], 2);
  EXPECT_EQ(report()["tuning"]["predicted_seconds"], 2e-5);
  EXPECT_FALSE(report()["tuning"].contains("measured_seconds"));
  EXPECT_FALSE(report()["tuning"].contains("note"));
  EXPECT_EQ(report()["parts"], Json::parse(R"([{"format": "csr", "entries": 75, "bytes": 900, "where": "GPU"},
                                               {"format": "ell", "entries": 25, "bytes": 300, "where": "host"}])"));
  EXPECT_NE(summary(record).find("not measured"), std::string::npos) << summary(record);
  record.tuning.measured_seconds = 4e-5, record.tuning.note = "no memory";
  EXPECT_EQ(report()["tuning"]["measured_seconds"], 4e-5);
  EXPECT_EQ(report()["tuning"]["note"], "no memory");
  const std::string text = summary(record);
  for (const char* part : {"csr on the GPU(75%) ell on the host(25%)",
                           "predicted 20 us, measured 40 us; 2 corrections", "stay as they are: no memory"})
    EXPECT_NE(text.find(part), std::string::npos) << part << '\n' << text;
}

TEST(Report, TheSummaryHasTheTimeOfAnIterationOfTheSolveAlone) {
  const std::string text = summary(record_of_different_numbers());
  EXPECT_NE(text.find("40 ms an iteration"), std::string::npos) << text;
  EXPECT_NE(text.find("(12.00 bytes a nonzero)"), std::string::npos) << text;
  EXPECT_NE(text.find("solve 2.5 s, total 7.5 s"), std::string::npos) << text;
}

}  // namespace
}  // namespace protean::apps

// The progress line, durations, the report of a solve, and formats as JSON.
#include <gtest/gtest.h>
#include <algorithm>

#include <nlohmann/json.hpp>

#include "apps/command/formats.hpp"
#include "apps/report/progress.hpp"
#include "apps/solve/report.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "operators/kernel_admission.hpp"

namespace protean::apps {
namespace {

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
  EXPECT_EQ(history_csv({{0, 8, 1, 0, 0}, {7, 2, 0.25, 1.5, 0}}),
            "iteration,residual,relative_residual,seconds\n"
            "0,8,1,0.000000000\n"
            "7,2,0.25,1.500000000\n");
}

TEST(Report, SummaryGivesEachFigureInItsUnit) {
  const std::string text = summary(solved());
  for (const char* part :
       {"a.mtx: 1 000 rows, 4 000 nonzeros\n", "matrix 50.8 KiB (13.00 bytes a nonzero), peak 3.0 MiB\n",
        "500 us an iteration\n", "read 1.5 s, convert 2.5 ms, setup 4 us, solve 250 ms, total 3 min 20 s"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
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
    // Kernel -> spaces where it keeps a fixed order. On a host sums of other formats have none.
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

}  // namespace
}  // namespace protean::apps

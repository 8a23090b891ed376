// How `protean reproduce` judges: what decides a statement, what is counted, and what the figures are made of.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "research/reproduce/tools.hpp"
#include "research/reproduce/write.hpp"

namespace protean::test {
namespace {

using research::Exhibit;
using research::ExhibitRow;
namespace exhibits = research::exhibits;

// One run of each measurement: nothing here depends on a time.
constexpr apps::TimingLimits once{.fewest = 1, .most = 1, .seconds = 0, .batch = 0};

research::Cell number(double value) { return {{}, {}, value, {}}; }

Exhibit of_rows(std::vector<ExhibitRow> rows) {
  Exhibit e;
  e.id = "s0-table-5", e.paper = "S0";
  e.columns = {{"CSR", "GFLOPS", "csr", 2}};
  e.rows = std::move(rows);
  return e;
}
// A rule that looks at some rows.
auto all_above_one(std::vector<std::string> names) {
  return [names = std::move(names)](const exhibits::Numbers& n) -> exhibits::Judged {
    bool above = true;
    for (const std::string& name : names)
      if (const auto value = n(name, "CSR")) above = above && *value > 1;
    return {above, "seen"};
  };
}

// A stand-in has the printed features and not the pattern, so alone it decides nothing.
TEST(Judgement, StandInsAloneDecideNothing) {
  Exhibit e = of_rows({{"a", "like:a", {number(2)}},
                       {"b", "like:b, 0.1 of its rows", {number(3)}},
                       {"pde", "", {number(4)}},
                       {"dense", "formula, 0.5 of its rows", {number(4)}}});
  exhibits::judge(e, "stand-ins", "1", all_above_one({"a", "b"}));
  exhibits::judge(e, "one of them is there", "1", all_above_one({"a", "b", "pde"}));
  exhibits::judge(e, "none is a stand-in", "1", all_above_one({"pde", "dense"}));
  exhibits::judge(e, "of the stand-ins themselves", "1", all_above_one({"a", "b"}), true,
                  exhibits::About::stand_ins);
  exhibits::judge_ours(e, "all rows", "1", {false, "seen"});
  ASSERT_EQ(e.findings.size(), 5u);
  EXPECT_FALSE(e.findings[0].holds.has_value());
  EXPECT_EQ(e.findings[0].evidence, "all 2 matrices are stand-ins: not judged");
  EXPECT_EQ(e.findings[1].holds, true);
  EXPECT_EQ(e.findings[1].evidence, "seen; 2 of 3 are stand-ins");
  EXPECT_EQ(e.findings[2].holds, true);
  EXPECT_EQ(e.findings[2].evidence, "seen");
  EXPECT_EQ(e.findings[3].holds, true);
  EXPECT_EQ(e.findings[4].holds, false);
  EXPECT_EQ(e.findings[4].evidence, "seen; 2 of 4 are stand-ins");
}

// A mean over stand-ins is made of them, too.
TEST(Judgement, AMeanOverStandInsDecidesNothing) {
  Exhibit e = of_rows({{"a", "like:a", {number(2)}}, {"b", "like:b", {number(3)}}});
  e.rows.push_back({"mean", exhibits::made_of_all(e), {number(2.5)}});
  exhibits::judge(e, "the mean", "1", all_above_one({"mean"}));
  exhibits::judge_ours(e, "all", "1", {true, "seen"});
  exhibits::note_matrices(e);
  EXPECT_FALSE(e.findings[0].holds.has_value());
  EXPECT_EQ(e.findings[0].evidence, "all 2 matrices are stand-ins: not judged");
  EXPECT_FALSE(e.findings[1].holds.has_value());
  EXPECT_EQ(e.findings[1].evidence, "all 2 matrices are stand-ins: not judged");
  ASSERT_EQ(e.limits.size(), 1u);
  EXPECT_EQ(e.limits[0].substr(0, 30), "2 of 2 matrices are not there;");
  Exhibit real = of_rows({{"a", "like:a", {number(2)}}, {"b", "", {number(3)}}});
  EXPECT_EQ(exhibits::made_of_all(real), "");
}

// In the exhibits that are made: whatever a statement is decided by, no verdict rests on stand-ins alone.
TEST(Judgement, NoExhibitJudgesStandInsAlone) {
  research::LabOptions options;
  options.threads = 2, options.most_entries = 3000, options.most_formula_entries = 3000,
  options.limits = once;
  research::Lab lab(options, apps::built_in_papers());
  std::set<std::string> open;
  for (const char* id :
       {"s0-table-5", "s0-table-9", "s0-figure-11", "s0-figure-15", "s1-table-1", "s1-table-3", "s1-figure-7",
        "s1-figure-11", "s1-figure-14", "s1-figure-16", "s3-table-3"}) {
    const Exhibit e = research::run_entry(research::find_entry(id), lab);
    for (const research::Finding& finding : e.findings) {
      // The matrices of S1 are in no folder here. If the vendor's kernel is not there, there are no numbers either.
      EXPECT_TRUE(e.paper != "S1" || !finding.holds) << id << ": " << finding.evidence;
      if (finding.evidence.find("stand-ins: not judged") == std::string::npos) continue;
      EXPECT_FALSE(finding.holds.has_value());
      if (e.paper != "S1") open.insert(std::string(id) + ": " + finding.statement.substr(0, 20));
    }
  }
  const std::set<std::string> expected = {
      "s0-figure-11: The longest row is m", "s0-figure-15: ML_Laplace in ELL ru",
      "s0-table-5: HDI is far below the", "s0-table-5: Of the padded format",
      "s0-table-9: HDI has at least thr"};
  EXPECT_EQ(open, expected);
}

// Points whose features repeat with a small period, as in a data set that was made by loops over its features.
TEST(Judgement, PartsOfADataSetHaveAllValues) {
  for (const double share : {3.0 / 27, 16.0 / 27, 1.0})
    for (const std::size_t period : {1, 2, 3, 4, 5, 6, 8, 15, 16}) {
      std::vector<int> taken(period);
      const std::size_t rounds = 90;
      for (std::size_t k = 0; k < rounds * period; ++k) taken[k % period] += exhibits::in_part(k, share);
      for (const int count : taken) EXPECT_NEAR(count / static_cast<double>(rounds), share, 0.1) << period;
    }
}

// Tables 5 to 8 of S0 show the same products here: a statement counts once, and holds if it holds in each.
TEST(Judgement, AStatementOfSeveralTablesCountsOnce) {
  std::vector<Exhibit> run;
  for (const char* id : {"s0-table-5", "s0-table-6", "s0-table-7"}) {
    Exhibit e = of_rows({});
    e.id = id;
    e.findings = {{"same", "5.2", true, true, "1.20", false}};
    run.push_back(std::move(e));
  }
  run[0].findings.push_back({"differs", "5.2", true, true, "2 of 3", false});
  run[1].findings.push_back({"differs", "5.2", false, true, "0 of 3", false});
  run[2].findings.push_back({"differs", "5.2", {}, {}, "", false});
  run[2].findings.push_back({"open", "5.2", {}, {}, "", false});
  Exhibit other = of_rows({});
  other.id = "s1-table-3", other.paper = "S1";
  other.findings = {{"same", "6", false, {}, "0.8", false}};
  run.push_back(other);
  const std::vector<research::PaperStatement> statements = research::statements_of(run);
  ASSERT_EQ(statements.size(), 4u) << "statements of two papers are two";
  EXPECT_EQ(statements[0].exhibits(), "s0-table-5, s0-table-6, s0-table-7");
  EXPECT_EQ(statements[0].evidence(), "1.20");
  EXPECT_EQ(statements[0].holds(), true);
  EXPECT_EQ(statements[1].holds(), false);
  EXPECT_EQ(statements[1].evidence(), "2 of 3; 0 of 3");
  EXPECT_EQ(statements[1].in_paper(), true);
  EXPECT_FALSE(statements[2].holds().has_value());
  const std::string page = research::exhibits_summary(run);
  EXPECT_NE(
      page.find("Of 4 distinct findings of the papers 1 hold on this machine, 2 do not, 1 cannot be judged."),
      std::string::npos)
      << page;
  EXPECT_NE(page.find("| s0-table-5, s0-table-6, s0-table-7 | same | 5.2 | holds | 1.20 | hold |"),
            std::string::npos)
      << page;
}

// Table 2 of clSpMV compares its cocktail, which may have eight sizes of blocks, with the best size of each format.
TEST(Judgement, TheBestSingleFormatHasAllSizesOfBlocks) {
  research::LabOptions options;
  options.threads = 1, options.most_entries = 3000, options.limits = once;
  research::Lab lab(options, apps::built_in_papers());
  const Exhibit e = research::run_entry(research::find_entry("s2-table-2"), lab);
  ASSERT_EQ(e.rows.size(), 20u);
  const apps::PaperTable& table = lab.papers()["s2-table-1"];
  for (const ExhibitRow& row : e.rows) {
    // What has been measured is kept, so that nothing is measured again.
    const research::Specimen& specimen = lab.matrix(table.text(*table.find(row.name), "file"));
    const double best = *e.ours(row.name, "Best single");
    bool reached = false;
    for (const char* format : {"bcsr", "bell", "bsellpack"})
      for (const char* rows : {"1", "2", "4", "8"})
        for (const char* cols : {"4", "8"})
          if (const auto speed = lab.gflops(specimen, {format, {{"rows", rows}, {"cols", cols}}, {}, true})) {
            EXPECT_LE(*speed, best) << row.name << ": " << format << " " << rows << "x" << cols;
            reached = reached || *speed == best;
          }
    EXPECT_EQ(reached, e.find(row.name, "Best single format")->word.find("x") != std::string::npos)
        << row.name;
  }
}

// Figures 17 and 18 of S1: quadrilaterals, whose longest rows have (2 degree + 1)^2 entries.
TEST(Judgement, DegreesHaveTheRowsOfThePaper) {
  research::LabOptions options;
  options.threads = 2, options.most_entries = 30000, options.limits = once;
  research::Lab lab(options, apps::built_in_papers());
  for (const char* id : {"s1-figure-17", "s1-figure-18"}) {
    const Exhibit e = research::run_entry(research::find_entry(id), lab);
    ASSERT_EQ(e.rows.size(), 4u) << id;
    for (int degree = 1; degree <= 4; ++degree) {
      const std::string row = "degree " + std::to_string(degree);
      EXPECT_EQ(e.ours(row, "row length"), (2 * degree + 1) * (2 * degree + 1)) << id;
      for (const char* column : {"CSR", "ELLPACK", "LMA"}) EXPECT_TRUE(e.ours(row, column)) << id << column;
    }
    // The paper adds with atomic operations in single precision, and with colours in double.
    const bool single = id == std::string("s1-figure-17");
    EXPECT_TRUE(e.ours("degree 1", single ? "LMA with colours" : "LMA with atomic operations")) << id;
    EXPECT_EQ(e.findings.size(), 3u);
    for (const research::Finding& finding : e.findings)
      EXPECT_TRUE(finding.holds.has_value()) << finding.statement;
  }
}

}  // namespace
}  // namespace protean::test

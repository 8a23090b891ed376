// `protean reproduce`: the tables of the papers, each exhibit at a tiny size, and the command.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/papers/paper_table.hpp"
#include "apps/report/chart.hpp"
#include "core/error.hpp"
#include "core/words.hpp"
#include "research/reproduce/entries.hpp"
#include "research/reproduce/reproduce.hpp"
#include "research/reproduce/write.hpp"
#include "support/command.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

using apps::PaperTable;
using apps::PaperTables;
using research::Exhibit;

TEST(PaperTable, ReadsNumbersWordsAndNothing) {
  const PaperTable table("t",
                         "# source\n# about\nmatrix\tsize\tformat\na\t2K\tCSR\nb\t-\tinf\nc\t4.35M\t1.5\n");
  EXPECT_EQ(table.source(), "source");
  EXPECT_EQ(table.about(), "about");
  ASSERT_EQ(table.rows(), 3u);
  EXPECT_EQ(table.number(0, "size"), 2000);
  EXPECT_EQ(table.number(2, "size"), 4.35e6);
  EXPECT_FALSE(table.number(1, "size").has_value());
  EXPECT_FALSE(table.number(0, "format").has_value());
  EXPECT_FALSE(table.number(1, "format").has_value()) << "inf is a word";
  EXPECT_EQ(table.find("c"), 2u);
  EXPECT_FALSE(table.find("d").has_value());
  EXPECT_THROW((void)table.text(0, "sizes"), BadArgument);
}

TEST(PaperTable, RefusesARowThatLacksAField) {
  try {
    PaperTable("t", "matrix\tsize\na\t1\nb\n");
    FAIL();
  } catch (const BadArgument& error) {
    EXPECT_NE(std::string(error.what()).find("t, line 3: 1 fields"), std::string::npos) << error.what();
  }
  EXPECT_THROW(PaperTable("t", "matrix\tsize\n"), BadArgument);
}

// The number of rows that each table has in its paper.
TEST(PaperTables, AreComplete) {
  const std::pair<const char*, std::size_t> sizes[] = {
      {"s0-table-3", 34}, {"s0-table-5", 34},  {"s0-table-6", 34}, {"s0-table-7", 34}, {"s0-table-8", 34},
      {"s0-table-9", 34}, {"s0-table-10", 14}, {"s1-table-1", 15}, {"s1-table-2", 5},  {"s1-table-3", 6},
      {"s2-table-1", 20}, {"s2-table-2", 20},  {"s2-table-3", 21}, {"s2-table-4", 20}, {"s3-table-1", 5},
      {"s3-table-3", 45}, {"s3-table-4", 10},  {"s4-table-2", 16}};
  const PaperTables& papers = apps::built_in_papers();
  for (const auto& [name, rows] : sizes) {
    EXPECT_EQ(papers[name].rows(), rows) << name;
    EXPECT_FALSE(papers[name].source().empty()) << name;
  }
  EXPECT_EQ(papers.names().size(), std::size(sizes) + 1) << "and text";
  // Sums and ratios within the tables: a digit that was read wrong would break them.
  const PaperTable& s0 = papers["s0-table-3"];
  for (std::size_t row = 0; row < s0.rows(); ++row)
    EXPECT_NEAR(
        *s0.number(row, "NZ") / *s0.number(row, "M"), *s0.number(row, "AVG NZR"),
        s0.label(row).starts_with("nlpkkt") ? 0.5 : 0.15)  // printed 27.0 and 27.3, NZ / M is 26.5 and 26.9
        << s0.label(row);
  const PaperTable& bytes = papers["s0-table-9"];
  for (std::size_t row = 0; row < bytes.rows(); ++row)  // 12 NZ + 4 (M + 1)
    EXPECT_NEAR(12 + 4 * *s0.number(row, "M") / *s0.number(row, "NZ"), *bytes.number(row, "CSR"), 0.035)
        << bytes.label(row);
  for (std::size_t row = 0; row < bytes.rows(); ++row)
    if (const auto ell = bytes.number(row, "ELL")) {  // (12 MAX + 8) M
      EXPECT_NEAR((12 * *s0.number(row, "MAX NZR") + 8) * *s0.number(row, "M") / *s0.number(row, "NZ"), *ell,
                  0.03 * *ell)
          << bytes.label(row);
    }
  const PaperTable &gains = papers["s2-table-3"], &speeds = papers["s2-table-2"];
  for (std::size_t row = 0; row < speeds.rows(); ++row)
    EXPECT_NEAR(100 * (*speeds.number(row, "clSpMV") / *speeds.number(row, "Best single") - 1),
                *gains.number(row, "Best single"), 0.2)
        << speeds.label(row);
  const PaperTable& radeon = papers["s2-table-4"];
  for (std::size_t row = 0; row < radeon.rows(); ++row)
    EXPECT_NEAR(100 * (*radeon.number(row, "clSpMV") / *radeon.number(row, "Best single") - 1),
                *radeon.number(row, "Improvement"), 0.6)
        << radeon.label(row);
}

// A lab whose matrices are tiny, and whose times nobody reads: one run each.
research::LabOptions tiny() {
  research::LabOptions options;
  options.threads = 2, options.most_entries = 4000, options.most_formula_entries = 4000;
  options.limits = apps::TimingLimits{.fewest = 1, .most = 1, .seconds = 0, .batch = 0};
  return options;
}

void expect_complete(const Exhibit& e) {
  for (const research::ExhibitRow& row : e.rows) {
    EXPECT_EQ(row.cells.size(), e.columns.size()) << e.id << ": " << row.name;
    for (const research::Cell& cell : row.cells) {
      EXPECT_TRUE(!cell.ours || std::isfinite(*cell.ours)) << e.id << ": " << row.name;
      if (!cell.printed.empty() && cell.paper) {
        const double unit = cell.printed.find_first_of("Kk") != std::string::npos ? 1e3
                            : cell.printed.find('M') != std::string::npos         ? 1e6
                                                                                  : 1;
        EXPECT_NEAR(unit * std::stod(cell.printed), *cell.paper, std::fabs(*cell.paper) * 1e-3 + 0.0051)
            << e.id << ": " << row.name;
      }
    }
  }
  EXPECT_FALSE(e.rows.empty() && e.limits.empty()) << e.id << " shows nothing and does not say why";
}

// What is written, read and written again is the same, to the byte.
void expect_same_again(const Exhibit& e) {
  const std::string json = research::exhibit_json(e);
  const Exhibit again = research::parse_exhibit(json, e.id + ".json");
  EXPECT_EQ(research::exhibit_json(again), json) << e.id;
  EXPECT_EQ(research::exhibits_html({&again, 1}), research::exhibits_html({&e, 1})) << e.id;
  EXPECT_EQ(research::exhibit_csv(again), research::exhibit_csv(e)) << e.id;
  EXPECT_EQ(research::exhibit_text(again), research::exhibit_text(e)) << e.id;
  const std::string page = research::exhibits_html({&e, 1});
  for (const char* outside : {"http://", "https://", "src=", "<script"})
    EXPECT_EQ(page.find(outside), std::string::npos)
        << e.id << ": the page is not self-contained: " << outside;
  EXPECT_EQ(page.find("nan"), std::string::npos) << e.id;
}

// Every number of the papers that is not the feature of a matrix or of a data set is another one here. So the papers'
// numbers must show up next to ours, and none of them as ours.
TEST(Reproduce, NoNumberOfAPaperIsOurs) {
  const std::set<std::string> features = {"s0-table-3", "s1-table-1", "s2-table-1",
                                          "s3-table-1", "s3-table-3", "s4-table-2"};
  PaperTables papers;
  constexpr double least_planted = 7'000'000'000'003;  // no time of a busy machine is as many nanoseconds
  std::set<double> planted;
  for (const std::string& name : papers.names()) {
    if (features.count(name)) continue;
    const PaperTable& table = papers[name];
    std::string text = "# s\n# a\n";
    for (std::size_t k = 0; k < table.columns().size(); ++k) text += (k ? "\t" : "") + table.columns()[k];
    text += "\n";
    for (std::size_t row = 0; row < table.rows(); ++row) {
      for (std::size_t k = 0; k < table.columns().size(); ++k) {
        const std::string& column = table.columns()[k];
        std::string field = table.text(row, column);
        const bool section = column == "section";
        if (k > 0 && !section && table.number(row, column)) {
          const double value = least_planted + 17 * static_cast<double>(planted.size());
          planted.insert(value);
          field = std::to_string(static_cast<long>(value));
        }
        text += (k ? "\t" : "") + field;
      }
      text += "\n";
    }
    papers.replace(name, text);
  }
  ASSERT_GT(planted.size(), 1200u);
  research::Lab lab(tiny(), papers);
  std::set<double> shown;
  for (const research::Entry& entry : research::entries()) {
    SCOPED_TRACE(entry.id);
    const Exhibit e = research::run_entry(entry, lab);
    expect_same_again(e);
    for (const research::ExhibitRow& row : e.rows)
      for (const research::Cell& cell : row.cells) {
        if (cell.paper && planted.count(*cell.paper)) shown.insert(*cell.paper);
        if (!cell.ours) continue;
        EXPECT_EQ(planted.count(*cell.ours), 0u) << row.name << ": a number of the paper stands as ours";
        EXPECT_LT(std::fabs(*cell.ours), least_planted)
            << row.name << ": ours is made of a number of the paper";
      }
    for (const apps::Chart& chart : e.charts)
      for (const apps::Series& series : chart.series)
        if (!series.paper) {
          for (const auto& point : series.points)
            EXPECT_EQ(planted.count(point.at(1)), 0u) << chart.title << ", " << series.name;
        }
  }
  // All except the numbers of figures that need a GPU, and of text that is for the other space.
  EXPECT_GT(shown.size(), planted.size() - 25) << "of " << planted.size();
}

// The exhibits with findings that are counted, not timed.
constexpr const char* deterministic[] = {"s0-table-3", "s0-table-9",   "s0-figure-9", "s0-figure-11",
                                         "s1-table-1", "s1-figure-11", "s2-table-1",  "s3-table-1",
                                         "s3-table-3", "s4-figure-7",  "s4-figure-10"};

// With the real data: complete rows, and each rule that the printed numbers can decide holds for them. A number
// that was read wrong, or a rule that says something else than the paper, would show.
TEST(Reproduce, FindingsHoldForThePrintedNumbers) {
  research::Lab lab(tiny(), apps::built_in_papers());
  int judged = 0;
  std::set<std::string> with_deterministic;
  for (const research::Entry& entry : research::entries()) {
    const Exhibit e = research::run_entry(entry, lab);
    EXPECT_EQ(e.id, entry.id);
    for (const research::Finding& finding : e.findings)
      if (finding.deterministic) with_deterministic.insert(e.id);
    expect_complete(e);
    for (const research::Finding& finding : e.findings) {
      if (!finding.in_paper) continue;
      ++judged;
      EXPECT_TRUE(*finding.in_paper) << e.id << ": " << finding.statement;
    }
  }
  EXPECT_GT(judged, 35);
  EXPECT_EQ(with_deterministic, std::set<std::string>(std::begin(deterministic), std::end(deterministic)));
}

const Exhibit& made(const char* id, std::int64_t entries) {
  static std::map<std::string, Exhibit> kept;
  if (!kept.count(id)) {
    research::LabOptions options;
    options.threads = 2, options.most_entries = entries, options.limits = tiny().limits;
    research::Lab lab(options, apps::built_in_papers());
    kept[id] = research::run_entry(research::find_entry(id), lab);
  }
  return kept[id];
}

// What is counted, not timed, holds on each machine.
TEST(Reproduce, DeterministicFindingsHold) {
  int judged = 0;
  for (const char* id : deterministic)
    for (const research::Finding& finding : made(id, 200000).findings) {
      if (!finding.deterministic || !finding.holds) continue;
      ++judged;
      EXPECT_TRUE(*finding.holds) << id << ": " << finding.statement << ": " << finding.evidence;
    }
  // Without a folder of matrices, findings that only stand-ins would decide are not judged.
  EXPECT_GE(judged, 7);
}

// Table 9 of the survey: (12 width + 8) bytes a row of ell-psblas, and no more.
TEST(Reproduce, BytesOfTheSurveyComeOut) {
  const Exhibit& e = made("s0-table-9", 200000);
  EXPECT_NEAR(*e.ours("pde060", "ELL"), 13.33, 0.005);
  EXPECT_NEAR(*e.ours("pde080", "ELL"), 13.29, 0.005);
  EXPECT_NEAR(*e.ours("pde100", "ELL"), 13.26, 0.005);
  EXPECT_NEAR(*e.ours("pde060", "CSR"), 12.58, 0.005);
  EXPECT_NEAR(*e.ours("pde060", "HLL"), 13.26, 0.02);
  const double n = 60.0 * 60 * 60, nonzeros = 7 * n - 6 * 60 * 60;
  EXPECT_DOUBLE_EQ(*e.ours("pde060", "ELL"), (12 * 7 * n + 8 * n) / nonzeros);
  EXPECT_TRUE(e.find("pde060", "ELL")->printed == "13.33");
  EXPECT_EQ(e.rows.front().made.substr(0, 9), "like:cant");
}

// Tiles of a dense matrix are all dense; the tiles of the dense rows and columns of TSOPF hold all entries.
TEST(Reproduce, TilesByFormatAddUp) {
  const Exhibit& e = made("s4-figure-7", 200000);
  for (const research::ExhibitRow& row : e.rows) {
    double tiles = 0, entries = 0;
    for (std::size_t k = 0; k < 7; ++k) tiles += *row.cells[k].ours, entries += *row.cells[7 + k].ours;
    EXPECT_NEAR(tiles, 100, 1e-9) << row.name;
    EXPECT_NEAR(entries, 100, 1e-9) << row.name;
  }
}

TEST(Reproduce, StandInsHaveThePrintedFeatures) {
  const Exhibit& e = made("s0-table-3", 200000);
  for (const research::ExhibitRow& row : e.rows) {
    const double mean = *row.cells[1].paper / *row.cells[0].paper;
    EXPECT_NEAR(*row.cells[2].ours, mean, 0.02 * mean + 0.01) << row.name;
    EXPECT_LE(*row.cells[1].ours, std::max(7e6, 1.02 * 200000)) << row.name;
  }
}

// Ranges in which steps of the axis would not change a number, or would not end.
TEST(Reproduce, AxesOfAnyRangeEnd) {
  constexpr double most = std::numeric_limits<double>::max(),
                   least = std::numeric_limits<double>::denorm_min();
  for (const bool log : {false, true})
    for (const auto& [from, to] : {std::pair{1e17, 1e17 + 32},
                                   {-most, most},
                                   {least, most},
                                   {least, least},
                                   {most, most},
                                   {0.0, least},
                                   {-1e-300, 1e300},
                                   {1.0, std::nextafter(1.0, 2.0)}}) {
      const apps::Chart chart{"lines",           "t", {"x", log, false},
                              {"y", log, false}, {},  {{"s", false, {{from, from}, {to, to}}}}};
      const std::string svg = apps::svg_of(chart);
      EXPECT_LT(svg.size(), 20000u) << from << " to " << to;
      EXPECT_NE(svg.find("</svg>"), std::string::npos);
    }
}

// The bound is looked at before anything of the file is.
TEST(Reproduce, FilesAreBounded) {
  const test::Folder folder;
  const std::string path = folder / "long.json";
  std::ofstream(path) << std::string((std::size_t{16} << 20) + 1, '#');
  research::ReproduceArguments again;
  again.from = path, again.output = folder / "out";
  try {
    (void)research::reproduce(again);
    FAIL() << "it was read";
  } catch (const BadFile& error) {
    EXPECT_NE(std::string(error.what()).find("more than 16"), std::string::npos) << error.what();
  }
}

TEST(Reproduce, ABrokenFileIsNamed) {
  const std::string good = research::exhibit_json(made("s0-figure-11", 200000));
  const auto message = [](const std::string& text) {
    return message_of<BadFile>([&] { (void)research::parse_exhibit(text, "r.json"); });
  };
  EXPECT_NE(message("{").find("r.json"), std::string::npos);
  EXPECT_NE(message("{}").find("protean_reproduce"), std::string::npos);
  EXPECT_NE(message("[1]").find("protean_reproduce"), std::string::npos);
  std::string other = good;
  other.replace(other.find("\"protean_reproduce\": 1"), 22, "\"protean_reproduce\": 9");
  EXPECT_NE(message(other).find("its version is 9"), std::string::npos) << message(other);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  // Its id becomes the name of files.
  for (const char* id : {"../../up", "/etc/passwd", "", "a b", "A"})
    EXPECT_NE(message(with("\"s0-figure-11\"", "\"" + std::string(id) + "\"")).find("the id is"),
              std::string::npos)
        << id;
  for (const char* digits : {"2000000000", "18", "-2", "1e300", "0.5"})
    EXPECT_NE(message(with("\"digits\":1}", "\"digits\":" + std::string(digits) + "}"))
                  .find("a whole number from -1 to 17"),
              std::string::npos)
        << digits << ": " << message(with("\"digits\":1}", "\"digits\":" + std::string(digits) + "}"));
  EXPECT_NE(message(with("\"points\":[[", "\"points\":[[1],[")).find("needs two numbers"), std::string::npos);
  constexpr std::size_t deep = 1000000;
  EXPECT_NE(message("{\"protean_reproduce\": " + std::string(deep, '[') + std::string(deep, ']') + "}")
                .find("deeper than 16"),
            std::string::npos);
  std::string word = good;
  word.replace(word.find("\"limits\""), 8, "\"limit_\"");
  EXPECT_NE(message(word).find("limits"), std::string::npos);
  EXPECT_EQ(message(good), "");
}

TEST(Chart, LeavesOutWhatHasNoPlace) {
  apps::Chart chart{"lines",
                    "a < b",
                    {"x", true, false},
                    {"y", true, false},
                    {},
                    {{"s", false, {{1, 1}, {2, 0}, {3, NAN}, {4, 8}}}}};
  const std::string svg = apps::svg_of(chart);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_EQ(svg.find("nothing was measured"), std::string::npos);
  const auto count = [](const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count(svg, "<circle"), 2u) << "0 and NaN have no place on a logarithmic axis";
  chart.series[0].points.clear();
  EXPECT_NE(apps::svg_of(chart).find("nothing was measured"), std::string::npos);
  chart.kind = "boxes", chart.categories = {"one"}, chart.series[0].points = {{0, 1, 2, 3, 4, 5}};
  EXPECT_GE(count(apps::svg_of(chart), "<rect"), 2u);
  chart.series[0].points = {{0}};
  EXPECT_THROW((void)apps::svg_of(chart), BadArgument);
}

// By the command `protean`, which becomes protean-research.
class ReproduceCommand : public CommandTest {};

// Without the program next to it the command says how to get it.
TEST_F(ReproduceCommand, SaysWhatIsMissing) {
  std::filesystem::copy_file(PROTEAN_COMMAND, work_ / "alone");
  const std::string line = "./alone reproduce --list 2> err; test $? = 3 && grep -q 'make research' err";
  EXPECT_EQ(std::system(("cd '" + work_.string() + "' && " + line).c_str()), 0) << slurp(work_ / "err");
}

TEST_F(ReproduceCommand, ListsAllIds) {
  const Outcome outcome = run({"reproduce", "--list"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const research::Entry& entry : research::entries())
    EXPECT_NE(outcome.out.find(std::string(entry.id)), std::string::npos) << entry.id;
  for (const char* id : {"s0-table-9", "s1-figure-18", "s2-figure-11", "s3-table-4", "s4-figure-11"})
    EXPECT_NE(outcome.out.find(id), std::string::npos) << id;
  EXPECT_NE(outcome.out.find("58 tables and figures, 47 of them results"), std::string::npos) << outcome.out;
  // What each size changes.
  for (const char* line : {"quick ", "1.5, 3", "20, 60", "the paper's, the paper's", "3 to 9", "5 to 21"})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line;
}

// The tables and figures of the papers that have results: numbers or pictures of what was measured or counted. The
// others of the papers draw formats, kernels and flow charts.
TEST(Reproduce, EveryResultOfThePapersHasAnEntry) {
  const std::pair<const char*, std::vector<int>> results[] = {
      {"s0-table", {5, 6, 7, 8, 9, 10}},
      {"s0-figure", {13, 14, 15}},
      {"s1-table", {2, 3}},
      {"s1-figure", {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}},
      {"s2-table", {2, 3, 4}},
      {"s2-figure", {10, 11}},
      {"s3-table", {4}},
      {"s3-figure", {1, 2, 3, 4, 5, 6, 7, 8, 9}},
      {"s4-figure", {6, 7, 8, 9, 10, 11}}};
  std::set<std::string> expected, there;
  for (const auto& [kind, numbers] : results)
    for (const int number : numbers) expected.insert(kind + ("-" + std::to_string(number)));
  for (const research::Entry& entry : research::entries())
    if (entry.result) there.insert(std::string(entry.id));
  EXPECT_EQ(there, expected);
  EXPECT_EQ(there.size(), 47u);
}

TEST_F(ReproduceCommand, DrawsAgainWithoutMeasuring) {
  const Outcome first = run({"reproduce", "s0-figure-11", "-o", "one", "--threads", "2"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("webbase-1M"), std::string::npos);
  EXPECT_NE(first.out.find("4700"), std::string::npos) << "the printed longest row";
  const Outcome again = run({"reproduce", "--from", "one/s0-figure-11.json", "-o", "two"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  const auto all = files();
  for (const char* name : {"s0-figure-11.json", "s0-figure-11.csv", "s0-figure-11.html"}) {
    ASSERT_TRUE(all.count(std::string("one/") + name)) << name;
    EXPECT_EQ(all.at(std::string("two/") + name), all.at(std::string("one/") + name)) << name;
  }
  EXPECT_NE(all.at("one/s0-figure-11.html").find("<svg"), std::string::npos);
}

// Cells belong together by their names, whatever their places are.
TEST(Reproduce, TwoRunsStandBesideEachOther) {
  Exhibit host, device;
  host.id = device.id = "s4-figure-9", host.paper = device.paper = "S4", host.title = device.title = "T";
  host.space = "host", device.space = "device";
  host.columns = {{"A", "GFLOPS", {}, 2}, {"B", "", {}, 2}},
  device.columns = {{"B", "", {}, 2}, {"A", "GFLOPS", {}, 2}};
  host.rows = {{"one", {}, {{"7", 7.0, 2.0, {}}, {{}, {}, 5.0, {}}}}, {"host alone", {}, {{}, {}}}};
  device.rows = {{"device alone", {}, {{}, {}}},
                 {"one", {}, {{{}, {}, {}, "refused: why"}, {{}, {}, 3.0, {}}}}};
  host.findings = {{"S holds", "I", true, {}, "2 of 3", false}};
  device.findings = {{"S holds", "I", false, {}, "1 of 3", false}, {"D", "I", {}, {}, "", false}};
  const research::TwoRuns runs{{&host, 1}, {&device, 1}};
  const std::string page = research::beside_html(runs);
  EXPECT_NE(
      page.find(
          "<tr><td>one</td><td class=\"soft\">7</td><td>2.00</td><td>3.00</td><td class=\"soft\">1.5</td>"
          "<td class=\"soft\"></td><td>5.00</td><td>refused: why</td>"),
      std::string::npos)
      << page;
  EXPECT_LT(page.find("host alone"), page.find("device alone"));
  for (const char* outside : {"http://", "https://", "src=", "<script"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  const std::string summary = research::beside_summary(runs);
  EXPECT_NE(summary.find("Of 2 distinct findings 0 hold in both runs, 0 in neither, 1 only in host, 0 only "
                         "in device; 1 cannot"),
            std::string::npos)
      << summary;
  EXPECT_NE(summary.find("| S holds | holds: 2 of 3 | does not hold on this machine: 1 of 3 |"),
            std::string::npos);
}

TEST_F(ReproduceCommand, PutsTwoRunsOnOnePage) {
  ASSERT_EQ(run({"reproduce", "s0-figure-11", "-o", "one", "--threads", "2"}).code, 0);
  const Outcome both = run({"reproduce", "--from", "one", "--beside", "one/s0-figure-11.json", "-o", "both"});
  ASSERT_EQ(both.code, 0) << both.err;
  const auto all = files();
  ASSERT_TRUE(all.count("both/index.html") && all.count("both/README.md"));
  EXPECT_NE(all.at("both/index.html").find("host, second run"), std::string::npos);
  EXPECT_NE(all.at("both/index.html").find("4700"), std::string::npos) << "the printed longest row";
}

TEST_F(ReproduceCommand, BadInputSaysWhatIsAllowed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"reproduce"}, "--list"},
      {{"reproduce", "s0-tabel-9"}, "Did you mean 's0-table-9'?"},
      {{"reproduce", "s9"}, "--list"},
      {{"reproduce", "s0-table-9", "--size", "huge"}, "quick, day and full"},
      {{"reproduce", "s0-table-9", "--space", "moon"}, "host"},
      {{"reproduce", "s0-table-9", "--matrices", "nowhere"}, "there is no such folder"},
      {{"reproduce", "--from", "nothing.json"}, "nothing.json"},
      {{"reproduce", "--from", "."}, "has no .json file"},
      {{"reproduce", "--beside", "."}, "give --from"}};
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
    EXPECT_TRUE(files().empty()) << message << ": nothing may be left behind";
  }
}

}  // namespace
}  // namespace protean::test

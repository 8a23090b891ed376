// What `protean compare` makes of measured times: break-even, verdict, tables.
#include <nlohmann/json.hpp>

#include "apps/command/lists.hpp"
#include "apps/compare/compare.hpp"
#include "apps/compare/compare_report.hpp"
#include "apps/compare/verdict.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;
using apps::Variant;

apps::Timing timed(double median, double spread = 0, int runs = 3) {
  return {median, median * (1 - spread), median * (1 + spread), runs};
}

Variant variant(double convert, double per_product, double setup = 0) {
  Variant v;
  v.convert = timed(convert), v.setup = timed(setup), v.product = timed(per_product);
  v.iterations = 100;
  v.solve = timed(100 * per_product);
  v.status = "converged";
  return v;
}

TEST(BreakEven, IsWhereTheLinesOfConversionAndProductsCross) {
  const Variant csr = variant(1, 0.5);
  EXPECT_DOUBLE_EQ(apps::break_even(variant(11, 0.25), csr, 1).value(), 40);
  EXPECT_DOUBLE_EQ(apps::break_even(variant(11, 0.25), csr, 2).value(), 20) << "two products an iteration";
  EXPECT_DOUBLE_EQ(apps::break_even(variant(0.5, 0.25), csr, 1).value(), 0);
  EXPECT_FALSE(apps::break_even(variant(11, 0.5), csr, 1).has_value());
  EXPECT_FALSE(apps::break_even(variant(11, 0.6), csr, 1).has_value());
  EXPECT_FALSE(apps::break_even(variant(0.5, 0.6), csr, 1).has_value()) << "cheaper at first only";
  EXPECT_DOUBLE_EQ(apps::break_even(csr, csr, 1).value(), 0);
}

// The setup of the preconditioner and the solve have more noise than a format changes of them.
TEST(BreakEven, HasNoNoiseOfSetupAndSolve) {
  const Variant csr = variant(0, 1e-3, 20e-3);
  Variant other = variant(14e-3, 0.5e-3, 1e-3);  // its setup seemed 19 ms faster
  EXPECT_DOUBLE_EQ(apps::break_even(other, csr, 1).value(), 28);
  other.solve = timed(1);
  EXPECT_DOUBLE_EQ(apps::break_even(other, csr, 1).value(), 28);
}

TEST(Verdict, IsClearBeyondTheSpreadOfRepeatedMeasurementsOnly) {
  // 131 and 81 ms; one of the three solves in csr took as little as 78.
  Variant csr = variant(0, 0.1e-3), other = variant(1e-3, 0.06e-3);
  csr.solve = {131e-3, 104.5e-3, 133e-3, 3}, other.solve = {81e-3, 80e-3, 82e-3, 3};
  const apps::Difference noise = apps::difference(other, csr, 1);
  EXPECT_FALSE(noise.clear);
  EXPECT_NEAR(noise.seconds, 49e-3, 1e-12);
  EXPECT_NEAR(noise.explained, 3e-3, 1e-12) << "100 products of 0.04 ms less, and the conversion";
  csr.solve = {131e-3, 130e-3, 133e-3, 3};
  EXPECT_TRUE(apps::difference(other, csr, 1).clear);
  EXPECT_TRUE(apps::difference(csr, other, 1).clear) << "the other way round";
  EXPECT_NEAR(apps::difference(csr, other, 1).seconds, -49e-3, 1e-12);
  EXPECT_FALSE(apps::difference(csr, csr, 1).clear);
  // Solves that were measured once: conversion and products say it.
  csr.solve = timed(131e-3, 0, 1), other.solve = timed(81e-3, 0, 1);
  EXPECT_TRUE(apps::difference(other, csr, 1).clear);
  csr.product = timed(0.1e-3, 0.3);
  EXPECT_FALSE(apps::difference(other, csr, 1).clear) << "a product in csr took between 0.04 and 0.16 ms";
  csr.product = timed(0.05e-3);
  EXPECT_FALSE(apps::difference(other, csr, 1).clear) << "products in csr are faster";
}

apps::Comparison comparison(std::vector<Variant> variants) {
  apps::Comparison c;
  c.rows = 1000, c.nonzeros = 5000, c.threads = 2;
  c.problem.title = "a problem", c.problem.matrix.file.path = c.problem.matrix.file.given = "a.mtx";
  c.variants = std::move(variants);
  return c;
}

// In text, report and page.
TEST(Verdict, IsTheSameInTextReportAndPage) {
  Variant csr = variant(0, 0.1e-3), ell = variant(1e-3, 0.06e-3), dia = variant(1e-3, 0.3e-3);
  csr.format = "csr", ell.format = "ell", dia.format = "dia";
  for (Variant* v : {&csr, &ell, &dia}) v->kernel = "native", v->matrix_bytes = 60'000;
  csr.solve = {131e-3, 104.5e-3, 133e-3, 3}, ell.solve = {81e-3, 80e-3, 82e-3, 3};
  dia.solve = timed(300e-3), ell.product = timed(0.06e-3, 0.5);
  for (const bool noisy : {true, false}) {
    if (!noisy) csr.solve = {131e-3, 130e-3, 133e-3, 3}, ell.product = timed(0.06e-3);
    apps::Comparison c = comparison({csr, ell, dia});
    apps::judge(c, "csr");
    EXPECT_EQ(c.best, 1);
    EXPECT_EQ(c.ties, noisy ? std::vector<int>{0} : std::vector<int>{});
    EXPECT_EQ(c.ranking, (std::vector<int>{1, 0, 2}));
    const std::string table = apps::compare_table(c), page = apps::compare_html({c});
    const Json report = Json::parse(apps::compare_json({c}, {}, false));
    EXPECT_EQ(table.find("no clear difference between ell and csr") != std::string::npos, noisy) << table;
    EXPECT_EQ(table.find("; no clear difference from csr") != std::string::npos, noisy) << table;
    EXPECT_EQ(table.find("csr takes 1.60 times as long (49 ms longer, of which conversion and "
                         "products explain 3 ms)") != std::string::npos,
              !noisy)
        << table;
    EXPECT_EQ(table.find("unclear") != std::string::npos, noisy) << table;
    EXPECT_EQ(report["best"]["format"], "ell");
    EXPECT_EQ(report["best"]["no_clear_difference"].size(), noisy ? 1u : 0u);
    EXPECT_EQ(report["results"][1]["against_csr"]["clear"], !noisy);
    EXPECT_EQ(report["results"][1]["break_even_clear"], !noisy);
    EXPECT_EQ(report["results"][2]["against_csr"]["clear"], true);
    EXPECT_EQ(report["ranking"][0]["format"], "ell");
    EXPECT_EQ(report["ranking"][2]["format"], "dia");
    EXPECT_EQ(page.find("\"ties\":[0]") != std::string::npos, noisy);
    EXPECT_EQ(page.find("\"clear\":false") != std::string::npos, noisy);
  }
}

// A solve that the budget left out does not hide what was measured of the format.
TEST(Verdict, RanksWhatWasMeasuredWhereTheBudgetEndedSolves) {
  std::vector<Variant> all;
  for (const char* format : {"csr", "ell", "dia", "coo"}) {
    all.push_back(variant(1e-3, all.size() == 1 ? 0.05e-3 : 0.1e-3 * static_cast<double>(all.size() + 1)));
    Variant& v = all.back();
    v.format = format, v.kernel = "native", v.status = "failed", v.not_run = "budget", v.why = "left out";
  }
  all[3].product = {}, all[3].convert = {};
  for (const bool solved : {false, true}) {
    if (solved) all[0].status = "converged", all[0].not_run.clear(), all[0].why.clear();
    apps::Comparison c = comparison(all);
    apps::judge(c, "csr");
    EXPECT_EQ(c.best, solved ? 0 : -1);
    EXPECT_EQ(c.ranking, solved ? (std::vector<int>{0, 1, 2}) : (std::vector<int>{1, 0, 2}));
    const std::string table = apps::compare_table(c), page = apps::compare_html({c});
    EXPECT_NE(table.find("not solved to the end, the fastest product first"), std::string::npos) << table;
    EXPECT_EQ(table.find("no solve was finished; the fastest product has ell") != std::string::npos, !solved)
        << table;
    EXPECT_NE(table.find("coo                    not run: left out"), std::string::npos) << table;
    const Json report = Json::parse(apps::compare_json({c}, {}, false));
    EXPECT_DOUBLE_EQ(report["results"][1]["measured"]["per_product"], 0.05e-3);
    EXPECT_FALSE(report["results"][1].contains("seconds")) << "times of a part of a solve";
    EXPECT_FALSE(report["results"][3].contains("measured"));
    EXPECT_EQ(report["ranking"][solved ? 1 : 0]["by"], "product");
    EXPECT_NE(page.find("\"cut\":[["), std::string::npos);
  }
}

TEST(Bandwidth, IsThatOfRegulyAndGiles) {
  // 5 rows, 9 entries of 8 bytes, indices of 4: formulas (2), (3) and (4). (3) is 32 times the value for floats: a line
  // of 128 bytes for each of value, index and entry of x, and for each of row pointer and y.
  EXPECT_DOUBLE_EQ(apps::worst_bytes(5, 9), 32 * (9 * (2 * 4 + 4) + 5 * (4 + 4)));
  EXPECT_DOUBLE_EQ(apps::effective_bytes(5, 9), 9 * (2 * 8 + 4) + 5 * (8 + 4));
  EXPECT_DOUBLE_EQ(apps::minimum_bytes(5, 9), 9 * (8 + 4) + 5 * (2 * 8 + 4));
  EXPECT_DOUBLE_EQ(apps::caching_bytes(5, 9, 3), 9 * (8 + 4) + 5 * (8 + 4) + 3 * 128);
}

TEST(ComparePage, StaysSmallForALargeSuite) {
  apps::Comparison one;
  one.rows = 1000, one.nonzeros = 5000, one.threads = 2;
  one.problem.title = "a problem </script> of the suite";
  for (int i = 0; i < 30; ++i) {
    Variant v = variant(1e-3 * (i + 1), 1.2345678e-5 * (i + 1));
    v.format = "format-" + std::to_string(i), v.kernel = "native";
    v.product = {1.2345e-5, 1e-5, 2e-5, 9};
    v.matrix_bytes = 60'000;
    for (int k = 0; k < 400; ++k) v.history.push_back({1.23456789e-4 * k, std::exp(-0.0345678 * k)});
    one.variants.push_back(v);
  }
  one.best = 0, one.automatic = 1;
  const std::vector<apps::Comparison> suite(100, one);
  const std::string page = apps::compare_html(suite);
  EXPECT_LT(page.size(), 2'000'000u);
  EXPECT_EQ(page.find("</script> of the suite"), std::string::npos) << "a title cannot end the script";
}

// Worked by hand: regrets 1, 2, 4 have the geometric mean 2; one of the three systems is slower than csr.
TEST(Selectors, AreSummarisedOverSystems) {
  const auto verdict = [](double to_best, double to_csr, double look) {
    apps::SelectorVerdict v;
    v.selector = "a", v.format = "csr", v.to_best = to_best, v.to_csr = to_csr, v.look_products = look;
    return v;
  };
  const std::vector<apps::SelectorVerdict> one{verdict(2, 1, 7)}, two{verdict(4, 1.5, 1)},
      three{verdict(1, 0.5, 9)};
  std::vector<apps::SelectorVerdict> unknown{verdict(1, 1, 1)};
  unknown[0].to_best = {}, unknown[0].to_csr = {}, unknown[0].look_products = {};
  const auto summaries = apps::summarise({one, two, three, unknown});
  ASSERT_EQ(summaries.size(), 1u);
  const apps::SelectorSummary& s = summaries[0];
  EXPECT_NEAR(s.mean, 2, 1e-12);
  EXPECT_EQ(s.worst, 4);
  EXPECT_EQ(s.at_95, 4);
  EXPECT_NEAR(s.slower, 1.0 / 3, 1e-12);
  EXPECT_EQ(s.look, 7);
  EXPECT_EQ(s.systems, 3);
  EXPECT_EQ(s.missing, 1);
  EXPECT_EQ(s.regrets, (std::vector<double>{1, 2, 4}));
  // The profile rises at regrets 1, 2 and 4, a third each time; 10 is the right end.
  const std::string page = apps::selectors_html(summaries);
  EXPECT_NE(page.find("<path d=\"M40.0 284.0 H40.0 V192.7 H217.6 V101.3 H395.2 V10.0 H630.0\""),
            std::string::npos)
      << page;
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

}  // namespace
}  // namespace protean::test

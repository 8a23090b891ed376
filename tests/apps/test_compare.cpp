// `protean compare` as a program, and its formulas.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "apps/command/lists.hpp"
#include "apps/compare/compare.hpp"
#include "apps/compare/compare_report.hpp"
#include "apps/compare/verdict.hpp"
#include "apps/small_rules.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;
using apps::Variant;

class Compare : public CommandTest {
 protected:
  static Json parse(const Outcome& outcome, const std::map<std::string, std::string>& files) {
    EXPECT_TRUE(files.count("r.json")) << outcome.err;
    return files.count("r.json") ? Json::parse(files.at("r.json")) : Json();
  }
};

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
  // 5 rows, 9 entries of 8 bytes, indices of 4: formulas (2), (3) and (4). (3) is 32 times that of floats: a
  // line of 128 bytes for each of value, index and entry of x, and for each of row pointer and y.
  EXPECT_DOUBLE_EQ(apps::worst_bytes(5, 9), 32 * (9 * (2 * 4 + 4) + 5 * (4 + 4)));
  EXPECT_DOUBLE_EQ(apps::effective_bytes(5, 9), 9 * (2 * 8 + 4) + 5 * (8 + 4));
  EXPECT_DOUBLE_EQ(apps::minimum_bytes(5, 9), 9 * (8 + 4) + 5 * (2 * 8 + 4));
  EXPECT_DOUBLE_EQ(apps::caching_bytes(5, 9, 3), 9 * (8 + 4) + 5 * (8 + 4) + 3 * 128);
}

// Compares each field of the CSV with that of the report.
void expect_same_numbers(const std::string& csv, const Json& report) {
  std::istringstream lines(csv);
  const auto fields = [](const std::string& line) {
    std::vector<std::string> result(1);
    bool quoted = false;
    for (const char c : line)
      if (c == '"')
        quoted = !quoted;
      else if (c == ',' && !quoted)
        result.emplace_back();
      else
        result.back() += c;
    return result;
  };
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> names = fields(line);
  const std::map<std::string, const char*> places = {{"predicted_bytes", "/predicted_bytes"},
                                                     {"matrix_bytes", "/matrix_bytes"},
                                                     {"stored_values", "/stored_values"},
                                                     {"padding", "/padding"},
                                                     {"convert_seconds", "/seconds/convert"},
                                                     {"convert_products", "/convert_products"},
                                                     {"setup_seconds", "/seconds/setup"},
                                                     {"product_seconds", "/seconds/per_product"},
                                                     {"gflops", "/gflops"},
                                                     {"effective_bandwidth", "/bandwidth/effective"},
                                                     {"minimum_bandwidth", "/bandwidth/minimum"},
                                                     {"copy_fraction", "/copy_fraction"},
                                                     {"iterations", "/iterations"},
                                                     {"true_relative_residual", "/residual/true_relative"},
                                                     {"iteration_seconds", "/seconds/per_iteration"},
                                                     {"solve_seconds", "/seconds/solve"},
                                                     {"total_seconds", "/seconds/total"}};
  for (const Json& v : report["results"]) {
    ASSERT_TRUE(std::getline(lines, line));
    const std::vector<std::string> row = fields(line);
    ASSERT_EQ(row.size(), names.size()) << line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (names[i] == "format") { EXPECT_EQ(row[i], v["format"].get<std::string>()); }
      if (names[i] == "deterministic") { EXPECT_EQ(row[i] == "yes", v["deterministic"].get<bool>()); }
      const auto place = places.find(names[i]);
      if (place == places.end() || v["status"] == "refused") continue;
      const double number = v.at(Json::json_pointer(place->second)).get<double>();
      EXPECT_NEAR(std::stod(row[i]), number, 1e-5 * std::fabs(number)) << names[i] << " of " << line;
    }
  }
}

TEST_F(Compare, CountsEverything) {
  write("p.yaml",
        "matrix: {generate: {kind: poisson-2d, n: 40}}\nsolver: {method: cg, relative_tolerance: 1.0e-8}\n"
        "preconditioner: {type: jacobi}\nrhs: {solution: ones}\n");
  const Outcome o = run({"compare", "p.yaml", "--report", "r.json", "--csv", "r.csv", "--html", "r.html",
                         "--threads", "1", "--kernels", "native", "--formats", "all"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "") << "no progress when piped";
  const auto left = files();
  EXPECT_EQ(left.size(), 4u) << "no temporary file stays";
  const Json r = parse(o, left);
  EXPECT_GT(r["copy_bandwidth"]["host"].get<double>(), 1e6);

  std::set<std::string> formats;
  double best = 1e300;
  const Json* csr = nullptr;
  for (const Json& v : r["results"])
    if (v["format"] == "csr") csr = &v;
  ASSERT_NE(csr, nullptr);
  for (const Json& v : r["results"]) {
    const std::string name = v["format"];
    formats.insert(name);
    for (const Json& same : v.value("stands_for", Json::array())) formats.insert(same);
    EXPECT_EQ(v["kernel"], "native");
    if (v["status"] == "refused") {
      EXPECT_FALSE(v["why"].get<std::string>().empty()) << name;
      continue;
    }
    EXPECT_EQ(v["status"], "converged") << name;
    EXPECT_EQ(v["predicted_bytes"], v["matrix_bytes"]) << name;
    EXPECT_GE(v["stored_values"].get<double>(), (name == "sss" ? 0.5 : 1) * (40 * 40 * 5 - 4 * 40)) << name;
    EXPECT_LE(v["residual"]["true_relative"].get<double>(), 1e-8) << name;
    EXPECT_GT(v["residual"]["true_relative"].get<double>(), 0) << name;
    const Json& s = v["seconds"];
    const double total = s["convert"].get<double>() + s["setup"].get<double>() + s["solve"].get<double>();
    EXPECT_NEAR(s["total"].get<double>(), total, 1e-12 + 1e-9 * total) << name;
    EXPECT_NEAR(s["per_iteration"].get<double>() * v["iterations"].get<double>(), s["solve"].get<double>(),
                1e-9 * total)
        << name;
    EXPECT_NEAR(v["gflops"].get<double>(),
                2e-9 * r["matrix"]["nonzeros"].get<double>() / s["per_product"].get<double>(),
                1e-6 * v["gflops"].get<double>())
        << name;
    const double nonzeros = r["matrix"]["nonzeros"], rows = r["matrix"]["rows"], t = s["per_product"];
    EXPECT_NEAR(v["bandwidth"]["effective"].get<double>(), (20 * nonzeros + 12 * rows) / t, 1e-6 / t) << name;
    EXPECT_NEAR(v["bandwidth"]["minimum"].get<double>(), (12 * nonzeros + 20 * rows) / t, 1e-6 / t) << name;
    EXPECT_NEAR(v["copy_fraction"].get<double>() * r["copy_bandwidth"]["host"].get<double>(),
                (v["matrix_bytes"].get<double>() + 16 * rows) / t, 1e-6 * nonzeros / t)
        << name;
    EXPECT_NEAR(v["convert_products"].get<double>() * t, s["convert"].get<double>(), 1e-9 * total) << name;
    EXPECT_TRUE(v["deterministic"].is_boolean()) << name;
    // The break-even point, computed from the other numbers of the report.
    const Json& c = (*csr)["seconds"];
    const double more = s["convert"].get<double>() - c["convert"].get<double>();
    const double gain = c["per_product"].get<double>() - s["per_product"].get<double>();
    if (name == "csr" || (more <= 0 && gain >= 0))
      EXPECT_EQ(v["break_even_iterations"], 0) << name;
    else if (gain <= 0)
      EXPECT_TRUE(v["break_even_iterations"].is_null()) << name;
    else
      EXPECT_NEAR(v["break_even_iterations"].get<double>(), more / gain, 1e-6 * std::fabs(more / gain))
          << name;
    EXPECT_TRUE(v["break_even_clear"].is_boolean()) << name;
    EXPECT_NEAR(v["against_csr"]["seconds_saved"].get<double>(), c["total"].get<double>() - total,
                1e-9 * total)
        << name;
    best = std::min(best, total);
    EXPECT_NE(o.out.find("  " + name + " "), std::string::npos) << o.out;
  }
  for (const FormatEntry* entry : catalogue())
    EXPECT_TRUE(formats.count(std::string(entry->id))) << entry->id;
  EXPECT_NEAR(r["best"]["seconds"].get<double>(), best, 1e-12 + 1e-9 * best);
  EXPECT_TRUE(r["auto"].contains("reason"));

  const std::string& csv = left.at("r.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<int>(r["results"].size()) + 1);
  expect_same_numbers(csv, r);
  const std::string& page = left.at("r.html");
  EXPECT_EQ(page.find("/*data*/null"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos) << "works without a network";
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_LT(page.size(), 200'000u);
}

// The roofs that `protean tune` has measured are drawn beside the copy bandwidth of the run.
TEST_F(Compare, DrawsTheRoofsOfTheMachineTable) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  write("m.yaml",
        "roofs: [{space: host, memory: 1.25e10, cache: 4.5e10, cache_bytes: 1000}]\nmatrices: []\n");
  const std::vector<std::string> command = {"compare", "p.yaml",    "--report", "r.json",    "--html",
                                            "r.html",  "--threads", "1",        "--formats", "csr,ell"};
  const Outcome without = run(command);
  ASSERT_EQ(without.code, 0) << without.err;
  EXPECT_FALSE(Json::parse(files().at("r.json")).contains("roofs"));
  EXPECT_EQ(files().at("r.html").find("last-level cache\""), std::string::npos);
  setenv("PROTEAN_MACHINE", "m.yaml", 1);
  const Outcome with = run(command);
  unsetenv("PROTEAN_MACHINE");
  ASSERT_EQ(with.code, 0) << with.err;
  EXPECT_NE(with.out.find("machine table: memory 12.5 GB/s, last-level cache 45 GB/s"), std::string::npos)
      << with.out;
  const Json roofs = Json::parse(files().at("r.json"))["roofs"]["host"];
  EXPECT_EQ(roofs["memory"], 1.25e10);
  EXPECT_EQ(roofs["cache"], 4.5e10);
  EXPECT_EQ(roofs["cache_bytes"], 1000);
  EXPECT_NE(files().at("r.html").find("[45000000000.0,\"last-level cache\"]"), std::string::npos);
}

TEST_F(Compare, TakesWhatIsNamed) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  const Outcome o = run(
      {"compare", "p.yaml", "--formats", "ell,csr", "--kernels", "native", "--report", "r.json", "--quiet"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "");
  const Json r = parse(o, files());
  ASSERT_EQ(r["results"].size(), 2u);
  EXPECT_EQ(r["results"][0]["format"], "csr");
  EXPECT_EQ(r["results"][1]["format"], "ell");
}

// One long row: only formats that share a row between threads are considered, and the format of the problem.
TEST_F(Compare, TakesTheFormatsThatAutoConsidersAndThatOfTheProblem) {
  write("a.mtx", matrix_with_a_long_row(3000));
  write("p.yaml",
        "matrix: {file: a.mtx}\nsolver: {method: bicgstab, max_iterations: 2}\noperator: {format: jad}\n");
  const auto compared = [&](std::vector<std::string> options) {
    std::vector<std::string> arguments{"compare", "p.yaml", "--kernels", "native", "--report", "r.json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 0) << o.err;
    const Json report = Json::parse(slurp(work_ / "r.json"));
    std::vector<std::string> ids;
    for (const Json& v : report["results"]) {
      ids.push_back(v["format"]);
      for (const Json& same : v.value("stands_for", Json::array())) ids.push_back(same);
    }
    EXPECT_EQ(o.out.find("--formats all compares all") != std::string::npos,
              options.empty() || options[0] == "--set")
        << o.out;
    return ids;
  };
  std::set<std::string> sharing;
  for (const FormatEntry* entry : layouts())
    if (!entry->traits.chosen_by_name && entry->traits.shares_rows) sharing.emplace(entry->id);
  ASSERT_GE(sharing.size(), 2u);
  // Which of them are on the shortlist, the machine table says.
  const std::size_t most = std::min<std::size_t>(12, sharing.size());
  const std::vector<std::string> with_jad = compared({}),
                                 of_auto = compared({"--set", "operator.format=auto"});
  EXPECT_EQ(with_jad.size(), most);
  EXPECT_EQ(of_auto.size(), most);
  EXPECT_EQ(std::count(with_jad.begin(), with_jad.end(), "jad"), 1);
  for (const std::string& id : with_jad) EXPECT_TRUE(id == "jad" || sharing.contains(id)) << id;
  for (const std::string& id : of_auto) EXPECT_TRUE(sharing.contains(id)) << id;
  EXPECT_EQ(std::count(of_auto.begin(), of_auto.end(), "csr"), 1);
  EXPECT_EQ(compared({"--formats", "ell"}), std::vector<std::string>{"ell"});
  EXPECT_EQ(compared({"--formats", "all"}).size(), catalogue().size());
}

// A format that needs a GPU is a row among others, and an error where it is alone.
TEST_F(Compare, AFormatWithoutKernelsOnTheHostIsRefusedWithTheReason) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 10}}\n");
  const Outcome both = run({"compare", "p.yaml", "--formats", "split,csr", "--report", "r.json"});
  EXPECT_EQ(both.code, 0) << both.err;
  const Json report = Json::parse(slurp(work_ / "r.json"));
  const auto& results = report["results"];
  const auto row =
      std::find_if(results.begin(), results.end(), [](const Json& v) { return v["format"] == "split"; });
  ASSERT_NE(row, results.end());
  EXPECT_EQ((*row)["status"], "refused");
  EXPECT_NE((*row)["why"].get<std::string>().find("needs a GPU"), std::string::npos) << (*row)["why"];
  const Outcome alone = run({"compare", "p.yaml", "--formats", "split"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("needs a GPU"), std::string::npos) << alone.err;
}

// On the host csr-scalar and csr-vector are the same: mappings of a GPU's threads. sell and ell-warp are not
// sell-c-sigma: their parameters are fixed or chosen.
TEST_F(Compare, WhatIsTheSameComputationRunsOnce) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  const auto results = [&](const std::string& formats) {
    const Outcome o =
        run({"compare", "p.yaml", "--formats", formats, "--kernels", "native", "--report", "r.json"});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(o.out.find("csr-scalar native on the host stands for csr-vector") != std::string::npos,
              formats.starts_with("csr,"))
        << o.out;
    return Json::parse(slurp(work_ / "r.json"))["results"];
  };
  const Json r = results("csr,csr-scalar,csr-vector,sell-c-sigma,sell,ell-warp");
  ASSERT_EQ(r.size(), 5u);
  for (const Json& v : r)
    EXPECT_EQ(v.value("stands_for", Json::array()),
              v["format"] == "csr-scalar" ? Json({"csr-vector"}) : Json::array())
        << v["format"];
  // Named alone a preset runs under its own name.
  const Json alone = results("csr-scalar");
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0]["format"], "csr-scalar");
}

TEST_F(Compare, SaysWhatDidNotConverge) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 30}}\nsolver: {method: cg, max_iterations: 3}\n");
  const Outcome o =
      run({"compare", "p.yaml", "--formats", "csr", "--kernels", "native", "--report", "r.json"});
  EXPECT_EQ(o.code, 0) << o.err;
  const Json r = parse(o, files());
  EXPECT_EQ(r["results"][0]["status"], "not-converged");
  EXPECT_NE(r["results"][0]["why"].get<std::string>().find("max-iterations"), std::string::npos);
  EXPECT_TRUE(r["best"].is_null());
}

TEST_F(Compare, ASuiteGoesOnPastABrokenProblem) {
  write("a.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  write("b.yaml", "matrix: {file: not-there.mtx}\n");
  write("suite.yaml",
        "suite:\n  - a.yaml\n  - b.yaml\n  - {problem: a.yaml, set: {solver.relative_tolerance: 1.0e-4}}\n");
  const Outcome o =
      run({"compare", "suite.yaml", "--formats", "csr", "--kernels", "native", "--report", "r.json"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("b.yaml"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("1 of 3 problems"), std::string::npos) << o.err;
  const Json r = parse(o, files());
  ASSERT_EQ(r["suite"].size(), 2u);
  EXPECT_EQ(r["broken"].size(), 1u);
  EXPECT_EQ(r["suite"][1]["problem"]["solver"]["relative_tolerance"], 1e-4);
  // The list of broken problems comes last.
  const std::size_t list = o.err.find("1 of 3 problems");
  EXPECT_NE(o.err.find("b.yaml", list), std::string::npos) << o.err;
  write("c.yaml", "matrix: [\n");
  write("all.yaml", "suite: [c.yaml, b.yaml]\n");
  const Outcome none = run({"compare", "all.yaml"});
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("2 of 2 problems"), std::string::npos) << none.err;
}

TEST_F(Compare, TheBudgetIsKept) {
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 300, epsilon_y: 1.0e-6}}\n"
        "solver: {method: cg, relative_tolerance: 1.0e-300, max_iterations: 1e9}\n");
  const Outcome o = run({"compare", "p.yaml", "--budget", "2", "--report", "r.json", "--kernels", "native"});
  EXPECT_EQ(o.code, 0) << o.err;
  const Json r = parse(o, files());
  // On a busy machine the budget may be spent before the first solve.
  for (const Json& v : r["results"]) {
    const std::string why = v["why"];
    if (v["status"] == "not-converged") { EXPECT_NE(why.find("time-limit"), std::string::npos) << why; }
    if (v["status"] == "failed") {
      EXPECT_NE(why.find("budget"), std::string::npos) << why;
      EXPECT_EQ(v["not_run"], "budget");
    } else {
      EXPECT_FALSE(v.contains("not_run"));
    }
    EXPECT_NE(v["status"], "converged");
  }
}

TEST_F(Compare, TimeThatIsLeftGoesToASolveThatWasCut) {
  // The share of csr, a quarter of the budget, is too short for its solve. The others are refused and leave theirs. The
  // system is large: of a small one GMRES(2) finds a solution without any residual in about 3 s.
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 500, epsilon_y: 1.0e-6}}\n"
        "solver: {method: gmres, restart: 2, relative_tolerance: 1.0e-300, max_iterations: 1e9, max_seconds: "
        "3}\n");
  const Outcome o = run({"compare", "p.yaml", "--budget", "10", "--formats", "csr,bsr4,bcsr-choi,bin-bcsr",
                         "--kernels", "native", "--report", "r.json"});
  EXPECT_EQ(o.code, 0) << o.err;
  const Json r = parse(o, files());
  ASSERT_EQ(r["results"].size(), 4u);
  for (const Json& v : r["results"]) {
    if (v["format"] != "csr") {
      EXPECT_EQ(v["status"], "refused") << v["format"];
      continue;
    }
    EXPECT_EQ(v["status"], "not-converged") << v["why"];
    EXPECT_FALSE(v.contains("not_run"));
    EXPECT_GE(v["seconds"]["solve"].get<double>(), 2.9) << "the limit of the problem, not the budget";
  }
}

TEST_F(Compare, WhatTheBudgetCutsIsNotRanked) {
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 500, epsilon_y: 1.0e-6}}\n"
        "solver: {method: gmres, restart: 2, relative_tolerance: 1.0e-300, max_iterations: 1e9}\n");
  const Outcome o = run({"compare", "p.yaml", "--budget", "3", "--formats", "csr", "--kernels", "native",
                         "--report", "r.json", "--html", "r.html"});
  EXPECT_EQ(o.code, 0) << o.err;
  const Json r = parse(o, files());
  ASSERT_EQ(r["results"].size(), 1u);
  EXPECT_EQ(r["results"][0]["not_run"], "budget") << r["results"][0];
  EXPECT_FALSE(r["results"][0].contains("seconds")) << "times of a part of a solve";
  EXPECT_EQ(r["out_of_time"], true);
  EXPECT_NE(files().at("r.html").find("\"runs\":[]"), std::string::npos);
  EXPECT_NE(o.out.find("best: no solve was finished; the fastest product has csr"), std::string::npos)
      << o.out;
  EXPECT_TRUE(r["best"].is_null());
  EXPECT_NE(o.out.find("has left out the solves of 1 of 1 formats"), std::string::npos) << o.out;
}

TEST_F(Compare, KernelsThatAreNotInTheBuildAreOneNote) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  std::string unavailable;
  for (const FormatEntry* entry : catalogue())
    for (const Kernel& kernel : kernels_in(*entry, Space::host))
      if (!kernel.unavailable.empty() && entry->id == "csr") unavailable = kernel.name;
  if (unavailable.empty()) {  // a build with all libraries
    const Outcome all = run({"compare", "p.yaml", "--formats", "csr"});
    EXPECT_EQ(all.out.find("note: kernel "), std::string::npos) << all.out;
    return;
  }
  const auto lines_with = [&](const std::string& text) {
    std::istringstream lines(text);
    int count = 0;
    for (std::string line; std::getline(lines, line);)
      count += line.find("csr " + unavailable) != std::string::npos;
    return count;
  };
  const Outcome o =
      run({"compare", "p.yaml", "--formats", "csr,coo", "--html", "p.html", "--report", "r.json"});
  EXPECT_EQ(lines_with(o.out), 0) << o.out;
  EXPECT_NE(o.out.find("note: kernel " + unavailable + " of "), std::string::npos) << o.out;
  EXPECT_EQ(files().at("p.html").find("\"csr " + unavailable + "\""), std::string::npos);
  EXPECT_NE(files().at("r.json").find("\"" + unavailable + "\""), std::string::npos) << "the report has it";
  const Outcome named =
      run({"compare", "p.yaml", "--formats", "csr,coo", "--kernels", "native," + unavailable});
  EXPECT_GE(lines_with(named.out), 1) << "what was asked for is answered";
}

TEST_F(Compare, WhatWasNotRunIsNotCalledAFailure) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  const Outcome o = run({"compare", "p.yaml", "--budget", "1e-9", "--formats", "csr,ell", "--kernels",
                         "native", "--report", "r.json", "--csv", "r.csv", "--html", "r.html"});
  EXPECT_EQ(o.code, 0) << o.err;
  const auto written = files();
  for (const Json& v : parse(o, written)["results"]) {
    EXPECT_EQ(v["status"], "failed");
    EXPECT_EQ(v["not_run"], "budget");
  }
  EXPECT_NE(o.out.find("not run: the budget of"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("failed"), std::string::npos) << o.out;
  EXPECT_NE(written.at("r.csv").find(",failed,"), std::string::npos);
  EXPECT_NE(written.at("r.csv").find("\"not run: the budget of"), std::string::npos) << written.at("r.csv");
  EXPECT_NE(written.at("r.html").find("\"not run\""), std::string::npos);
}

TEST_F(Compare, SaysWhatOfTheProblemItLeavesOut) {
  write("p.yaml",
        "matrix: {generate: {kind: poisson-2d, n: 20}}\n"
        "schedule:\n  - {at_iteration: 3, format: ell}\noutput: {solution: x.mtx, report: solve.json}\n");
  const Outcome o =
      run({"compare", "p.yaml", "--formats", "csr", "--kernels", "native", "--report", "r.json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("`schedule` is not followed"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("`output` is not written"), std::string::npos) << o.out;
  EXPECT_EQ(files().size(), 2u);
  EXPECT_EQ(parse(o, files())["notes"].size(), 2u);
}

TEST_F(Compare, ElementMatricesAreRefusedWithAWayOut) {
  write("p.yaml",
        "matrix: {generate: {kind: fem-hex, n: 4, storage: element}}\noperator: {variant: automatic}\n");
  for (const char* command : {"compare", "inspect"}) {
    const Outcome o = run({command, "p.yaml"});
    EXPECT_EQ(o.code, 2);
    EXPECT_NE(o.err.find("p.yaml:1:9"), std::string::npos) << o.err;
    EXPECT_NE(o.err.find("--set matrix.generate.storage=assembled"), std::string::npos) << o.err;
    const Outcome assembled =
        run({command, "p.yaml", "--set", "matrix.generate.storage=assembled", "--set", "operator={}"});
    EXPECT_EQ(assembled.code, 0) << assembled.err;
  }
}

TEST_F(Compare, AMatrixWithoutEntriesHasNoFiguresThatAreNotNumbers) {
  write("m.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 0\n");
  write("p.yaml", "matrix: {file: m.mtx}\nrhs: {value: 1}\n");
  const Outcome o = run({"compare", "p.yaml", "--report", "r.json", "--csv", "c.csv", "--html", "p.html"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json report = Json::parse(slurp(work_ / "r.json"));
  for (const Json& result : report["results"])
    if (result["status"] != "refused") {
      EXPECT_EQ(result["padding"], 0) << result;
      EXPECT_EQ(result["bytes_per_nonzero"], result["matrix_bytes"].get<double>()) << result;
    }
  for (const std::string& text : {o.out, slurp(work_ / "c.csv")})
    for (const char* word : {"nan", " inf", ",inf"}) EXPECT_EQ(text.find(word), std::string::npos) << text;
}

TEST_F(Compare, NothingThatIsReadIsOverwritten) {
  write("m.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2\n2 2 4\n");
  write("b.mtx", "%%MatrixMarket matrix array real general\n2 1\n1\n1\n");
  write("p.yaml", "matrix: {file: m.mtx}\nrhs: {file: b.mtx}\ninitial_guess: {file: b.mtx}\n");
  write("broken.yaml", "matrix: [\n");
  write("s.yaml", "suite: [broken.yaml, p.yaml]\n");
  std::filesystem::create_symlink("m.mtx", work_ / "link.html");
  const auto before = files();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"compare", "p.yaml", "--report", "p.yaml"}, "the problem file"},
      {{"compare", "p.yaml", "--csv", "./x/../m.mtx"}, "matrix.file"},
      {{"compare", "p.yaml", "--html", "link.html"}, "matrix.file"},
      {{"compare", "p.yaml", "--html", "b.mtx"}, "rhs.file"},
      {{"compare", "s.yaml", "--report", "s.yaml"}, "the suite"},
      {{"compare", "s.yaml", "--html", "m.mtx"}, "matrix.file"},
      {{"compare", "s.yaml", "--html", "broken.yaml"}, "the problem file"},
      {{"compare", "p.yaml", "--html", "o", "--csv", "./o"}, "--csv and --html are the same file"}};
  for (const auto& [arguments, text] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
    EXPECT_EQ(files(), before) << o.err;
  }
}

TEST_F(Compare, BadInputWritesNothing) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"compare", "p.yaml", "--formats", "cssr"}, "there is no format 'cssr'. Did you mean 'csr'?"},
      {{"compare", "p.yaml", "--formats", "jad", "--kernels", "kokkos"}, "no format of --formats jad"},
      {{"compare", "p.yaml", "--kernels", ","}, "--kernels names no kernel"},
      {{"compare", "p.yaml", "--kernels", "natve"}, "native"},
      {{"compare", "p.yaml", "--spaces", "moon"}, "the spaces are host and device"},
      {{"compare", "p.yaml", "--report", "no/such/folder.json"}, "--report"},
      {{"compare", "p.yaml", "--report", "r", "--html", "./r"}, "--report and --html are the same file"},
      {{"compare", "none.yaml", "--report", "r.json"}, "none.yaml"},
      {{"compare", "p.yaml", "--budget", "-1"}, "budget"}};
  for (const auto& [arguments, text] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
    EXPECT_EQ(files().size(), 1u) << o.err;
  }
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

// Each selector is asked, what it takes is compared, and its regret is that of the times in the same report.
TEST_F(Compare, JudgesSelectorsByTheMeasuredTimes) {
  write("a.yaml",
        "matrix: {generate: {kind: poisson-2d, n: 40}}\noperator: {expected_iterations: 100000}\n"
        "solver: {method: cg}\n");
  write("suite.yaml", "suite:\n  - a.yaml\n  - {problem: a.yaml, set: {matrix.generate.n: 45}}\n");
  const Outcome o =
      run({"compare", "suite.yaml", "--formats", "csr,ell,dia,coo,hyb,bcsr,jad,hdc,bdia,sell-c-sigma,hdi",
           "--kernels", "native", "--selectors", "all", "--report", "r.json", "--html", "p.html"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("kubota-takahashi"), std::string::npos) << o.out;
  const Json r = parse(o, files());
  ASSERT_EQ(r["selectors"].size(), selector_words().size());
  int judged = 0, not_csr = 0;
  for (const Json& system : r["suite"]) {
    ASSERT_EQ(system["selectors"].size(), selector_words().size());
    double best = 1e300, csr = 0;
    std::map<std::string, double> totals;
    for (const Json& result : system["results"])
      if (result["status"] == "converged") {
        const double total = result["seconds"]["total"];
        totals[result["format"]] = total, best = std::min(best, total);
        if (result["format"] == "csr") csr = total;
      }
    for (std::size_t i = 0; i < selector_words().size(); ++i) {
      const Json& verdict = system["selectors"][i];
      EXPECT_EQ(verdict["selector"], selector_words()[i]);
      EXPECT_GT(verdict["look_products"].get<double>(), 0);
      const auto found = totals.find(verdict["format"].get<std::string>());
      if (found == totals.end()) {
        EXPECT_TRUE(verdict["to_best"].is_null() && verdict.contains("why"));
        continue;
      }
      ++judged, not_csr += found->first != "csr";
      EXPECT_NEAR(verdict["to_best"].get<double>(), found->second / best, 1e-9);
      EXPECT_NEAR(verdict["to_csr"].get<double>(), found->second / csr, 1e-9);
      EXPECT_GE(verdict["to_best"].get<double>(), 1);
    }
  }
  EXPECT_GE(judged, 20);
  EXPECT_GE(not_csr, 1);
  const std::string page = files().at("p.html");
  EXPECT_NE(page.find("performance profile of selectors"), std::string::npos);
  for (const std::string_view name : selector_words())
    EXPECT_NE(page.find("<td>" + std::string(name) + "</td>"), std::string::npos) << name;

  const Outcome wrong = run({"compare", "a.yaml", "--selectors", "model,zaho", "--report", "none.json"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("there is no selector 'zaho'; the selectors are model, "), std::string::npos)
      << wrong.err;
  EXPECT_FALSE(files().count("none.json"));
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

TEST_F(SmallRules, ASuiteNamesItsProblemsFromItsOwnFolder) {
  std::filesystem::create_directory(work_ / "sub");
  write("sub/a.yaml", "matrix: {generate: {kind: poisson-2d, n: 10}}\n");
  write("sub/suite.yaml", "suite: [a.yaml]\n");
  const Outcome o = run({"compare", "sub/suite.yaml", "--formats", "csr", "--kernels", "native", "--quiet"});
  EXPECT_EQ(o.code, 0) << o.err;
}

}  // namespace
}  // namespace protean::test

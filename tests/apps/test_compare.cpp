// `protean compare` as a program, and its formulas.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "apps/small_rules.hpp"
#include "compare_command.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

// Compares each field of the CSV with the field of the report.
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

// The roofs that `protean tune` has measured are drawn next to the copy bandwidth of the run.
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

// A format that needs a GPU is a row among others, and an error if it is the only format.
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

// Each selector is asked, its choice is compared, and its regret follows from the times in the same report.
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

TEST_F(SmallRules, ASuiteNamesItsProblemsFromItsOwnFolder) {
  std::filesystem::create_directory(work_ / "sub");
  write("sub/a.yaml", "matrix: {generate: {kind: poisson-2d, n: 10}}\n");
  write("sub/suite.yaml", "suite: [a.yaml]\n");
  const Outcome o = run({"compare", "sub/suite.yaml", "--formats", "csr", "--kernels", "native", "--quiet"});
  EXPECT_EQ(o.code, 0) << o.err;
}

}  // namespace
}  // namespace protean::test

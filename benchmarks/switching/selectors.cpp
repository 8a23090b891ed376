// How good each selector of formats is, by stored times: nothing except the look of a selector is measured. The machine
// table and the trained models that a matrix is judged by do not have it: the matrices lie in folds, and the matrices
// of a fold are judged by the table without them and by models that tools/train_selectors.py has trained without them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "apps/machine/machine_file.hpp"
#include "apps/machine/tune.hpp"
#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "core/blas1.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"
#include "formats/selectors/selector.hpp"
#include "formats/selectors/trained.hpp"

namespace protean::bench {
namespace {

constexpr std::int64_t iterations[] = {30, 300, 1000000};

std::map<std::string, std::string> read_pairs(const std::string& path) {
  std::map<std::string, std::string> pairs;
  std::ifstream file(path);
  if (!file) throw BadFile(path, 0, 0, "cannot be read");
  for (std::string line; std::getline(file, line);)
    if (const std::size_t tab = line.find('\t'); !line.starts_with('#') && tab != line.npos)
      pairs[line.substr(0, tab)] = line.substr(tab + 1);
  return pairs;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw BadFile(path, 0, 0, "cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

CsrMatrix<double> matrix_named(const ContextPtr& context, const std::string& name,
                               const std::string& folder) {
  for (const apps::TuneCase& one : apps::tune_cases())
    if (one.name == name) return generate(context, one.kind, one.params);
  return read_matrix(context, folder + "/" + name + ".mtx.xz");
}

double seconds_of(const auto& work) {
  const auto begin = Clock::now();
  work();
  return seconds_since(begin);
}

double total(const MeasuredFormat& format, double products) {
  return (format.format == "csr" ? 0 : format.convert_seconds) + products * format.product_seconds;
}

}  // namespace

int run_selectors(Arguments& arguments) {
  std::string truth_file, folder, features_file, folds_file, trained_prefix, names, set = "held-out",
                                                                                    json_file;
  arguments.read(
      {{"--truth TABLE.yaml", &truth_file,
        "a table of protean tune with the matrices, some of them its generated ones", required()},
       {"--folder FOLDER", &folder, "with the other matrices, NAME.mtx.xz"},
       {"--features FILE", &features_file, "writes the features of the matrices and ends"},
       {"--folds FILE", &folds_file,
        "lines NAME<tab>FOLD; a matrix is judged by PREFIX.FOLD.json and the table without its fold, without this "
        "option by the models and the table of the build"},
       {"--trained PREFIX", &trained_prefix, "of the files of --folds"},
       {"--names FILE", &names, "lines NAME<tab>SET; without it all matrices of the table count"},
       {"--set", &set, "of --names"},
       shared::json(json_file)});
  if (folds_file.empty() != trained_prefix.empty()) arguments.refuse("--folds and --trained need each other");
  const MachineTable truth = apps::read_machine(truth_file);
  const ContextPtr context = Context::host(2);

  if (!features_file.empty()) {
    std::string text = "matrix";
    for (const std::string_view name : feature_names) text += fmt::format("\t{}", name);
    text += '\n';
    for (const MeasuredMatrix& measured : truth.matrices) {
      if (measured.space != Space::host) continue;
      text += measured.matrix;
      const PatternFeatures features = features_of(matrix_named(context, measured.matrix, folder).pattern);
      for (const double value : features.values) text += fmt::format("\t{}", value);  // shortest exact text
      text += '\n';
    }
    std::ofstream(features_file) << text;
    return 0;
  }

  std::map<std::string, std::string> folds, sets;
  if (!folds_file.empty()) folds = read_pairs(folds_file);
  if (!names.empty()) sets = read_pairs(names);
  struct Fold {
    MachineTable table;
    TrainedModels trained;
    std::optional<CostModel> model;
  };
  std::map<std::string, Fold> judges;
  const auto judge_of = [&](const std::string& matrix) -> const Fold& {
    const std::string fold = folds_file.empty() ? "" : folds.at(matrix);
    const auto [found, added] = judges.try_emplace(fold);
    Fold& judge = found->second;
    if (!added) return judge;
    if (folds_file.empty()) {
      judge.table = builtin_machine(), judge.trained = builtin_trained();
    } else {
      judge.table = truth;
      std::erase_if(judge.table.matrices,
                    [&](const MeasuredMatrix& one) { return folds.at(one.matrix) == fold; });
      const std::string file = fmt::format("{}.{}.json", trained_prefix, fold);
      judge.trained = parse_trained(text_of(file), file);
    }
    judge.model.emplace(judge.table, Space::host);
    return judge;
  };

  nlohmann::json rows = nlohmann::json::array();
  for (const MeasuredMatrix& measured : truth.matrices) {
    if (measured.space != Space::host) continue;
    if (!names.empty()) {
      const auto found = sets.find(measured.matrix);
      if (found == sets.end() || found->second != set) continue;
    }
    const CsrMatrix<double> csr = matrix_named(context, measured.matrix, folder);
    std::map<std::string, MeasuredFormat> formats;
    for (const MeasuredFormat& format : measured.formats)
      if (format.format.find('/') == std::string::npos && !format.format.starts_with("order-"))
        formats[format.format] = format;
    const MeasuredFormat& plain = formats.at("csr");
    const bool symmetric = csr.rows() == csr.cols() && !first_asymmetry(*context, csr.pattern, csr.values);
    const Fold& judge = judge_of(measured.matrix);
    // A selector that measures gets the times of the table, and what it would have measured (a conversion, three
    // products) belongs to its look.
    double measured_seconds = 0;
    const FormatTimer timer = [&](const FormatEntry& entry) -> std::optional<FormatTimes> {
      const auto found = formats.find(std::string(entry.id));
      if (found == formats.end()) return {};
      const FormatTimes times{found->second.product_seconds, found->second.convert_seconds};
      measured_seconds += times.convert_seconds + 3 * times.product_seconds;
      return times;
    };
    // The product that the look is compared with, in this run: the machine may have other work.
    const auto in_csr = make_matrix(find_format("csr"), csr, context);
    Vector<double> x(context, csr.cols()), y(context, csr.rows());
    fill<double>(*context, 1, x);
    double product = std::numeric_limits<double>::infinity();
    for (int k = 0; k < 20; ++k) product = std::min(product, seconds_of([&] { in_csr->apply(x, y); }));
    nlohmann::json row = {{"matrix", measured.matrix}};
    const std::vector<apps::TuneCase> cases = apps::tune_cases();
    row["generated"] = std::any_of(cases.begin(), cases.end(),
                                   [&](const apps::TuneCase& one) { return one.name == measured.matrix; });
    const auto label = [&](std::int64_t count) {
      return std::min_element(formats.begin(), formats.end(), [&](const auto& a, const auto& b) {
        return total(a.second, static_cast<double>(count)) < total(b.second, static_cast<double>(count));
      });
    };
    // How near the second best product is.
    std::vector<double> products;
    for (const auto& [id, format] : formats) products.push_back(format.product_seconds);
    std::sort(products.begin(), products.end());
    row["second_to_best"] = products.size() > 1 ? products[1] / products[0] : 1;
    for (const FormatSelector* selector : selectors()) {
      nlohmann::json choices = nlohmann::json::array();
      double look = std::numeric_limits<double>::infinity();
      for (const std::int64_t count : iterations) {
        ChoiceOptions options{.expected_iterations = count};
        options.symmetric = symmetric, options.machine = &judge.table;
        std::string chosen = "csr";
        // Several times, since other programs may disturb it.
        for (int ask = 0; ask < 5 && csr.nonzeros() >= least_entries_to_convert; ++ask) {
          measured_seconds = 0;
          const double taken = seconds_of([&] {
            const SelectorQuestion question(csr.pattern, *judge.model, options, timer, &judge.trained);
            chosen = selector->rank(question).front().entry->id;
          });
          look = std::min(look, taken / product + measured_seconds / plain.product_seconds);
        }
        const auto found = formats.find(chosen);
        // A format that the whole matrix refuses: csr is taken then.
        const MeasuredFormat& taken = found == formats.end() ? plain : found->second;
        const auto n = static_cast<double>(count);
        const auto best = label(count);
        choices.push_back({{"iterations", count},
                           {"chosen", chosen},
                           {"best", best->first},
                           {"to_best", total(taken, n) / total(best->second, n)},
                           {"to_csr", total(taken, n) / total(plain, n)}});
      }
      row["selectors"].push_back({{"selector", selector->name()},
                                  {"choices", choices},
                                  {"look_products", std::isfinite(look) ? look : 0}});
    }
    fmt::print("{}\n", measured.matrix);
    rows.push_back(std::move(row));
  }
  Report report("selectors", 2, json_file);
  report["truth"] = truth.machine, report["folds"] = !folds_file.empty(), report["matrices"] = rows;
  report.write();
  if (json_file.empty()) fmt::print("{}\n", report.all().dump());
  return 0;
}

}  // namespace protean::bench

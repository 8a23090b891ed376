// How good the choice of format is on measured matrices: the format that is taken by one machine table, and what it
// costs by another one, of the same machine, in which these matrices were measured (`protean tune --matrices`). If
// formats are tried before a long solve, the times of that table count, too, and all conversions and products of the
// tries count. Nothing is measured here, so that the result does not depend on the load of the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "apps/machine/machine_file.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "core/io/matrix_market.hpp"
#include "formats/choose.hpp"
#include "formats/selectors/selector.hpp"
#include "formats/survey.hpp"
#include "formats/trials.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean::bench {
namespace {

// For how many products a format is chosen, and how. A million stands for the product alone.
struct Question {
  std::int64_t products;
  bool tries;  // or the first of the ranking, for any number
};
constexpr Question questions[] = {{30, true}, {300, true}, {30000, true}, {1000000, false}, {1000000, true}};

struct Regret {
  std::vector<double> to_best, to_csr;
};

std::map<std::string, std::string> read_sets(const std::string& path) {
  std::map<std::string, std::string> sets;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const std::size_t tab = line.find('\t'); !line.starts_with('#') && tab != line.npos)
      sets[line.substr(0, tab)] = line.substr(tab + 1);
  return sets;
}

std::optional<std::string> file_of(const std::string& folder, const std::string& matrix) {
  for (const char* ending : {".mtx.xz", ".pbin"})
    if (const std::string file = folder + "/" + matrix + ending; std::filesystem::exists(file)) return file;
  return {};
}

double total(const MeasuredFormat& format, double products) {
  return (format.format == "csr" ? 0 : format.convert_seconds) + products * format.product_seconds;
}

// The format that is taken, and the seconds of the solve with all that was tried before it.
struct Taken {
  std::string format;
  double seconds = 0;
  int tries = 0;
};

Taken take(const CsrMatrix<double>& csr, const CostModel& model, const ChoiceOptions& options, bool tries,
           const std::map<std::string, MeasuredFormat>& truth) {
  const MeasuredFormat& plain = truth.at("csr");
  const auto products = static_cast<double>(options.expected_iterations);
  const bool long_solve = tries && products >= products_worth_trials;
  const CostModel asked_of = long_solve ? model.with_rare_formats() : model;
  const auto ranked = find_selector(default_selector).rank(SelectorQuestion(csr.pattern, asked_of, options));
  const auto in_csr = std::find_if(ranked.begin(), ranked.end(),
                                   [](const SelectedFormat& format) { return format.entry->id == "csr"; });
  std::vector<Trials::Prospect> prospects;
  for (const SelectedFormat& one : ranked)
    prospects.push_back(one.entry->id == "csr" || !(in_csr->product_seconds > 0)
                            ? Trials::Prospect()
                            : Trials::Prospect{one.product_seconds / in_csr->product_seconds,
                                               one.convert_seconds / in_csr->product_seconds,
                                               one.uncertainty});
  Trials trials(std::move(prospects), tries ? products : 0);
  double spent = trials.next() ? Trials::products_of_a_try * plain.product_seconds : 0;
  bool asked = false;
  while (const auto which = trials.next()) {
    asked = true;
    const auto found = truth.find(std::string(ranked[*which].entry->id));
    if (found == truth.end()) {
      trials.refused(*which);
      continue;
    }
    const MeasuredFormat& format = found->second;
    spent += format.convert_seconds + Trials::products_of_a_try * format.product_seconds;
    trials.tried(*which, format.product_seconds / plain.product_seconds,
                 format.convert_seconds / plain.product_seconds);
  }
  if (asked) {
    const std::string best = trials.best() ? std::string(ranked[*trials.best()].entry->id) : "csr";
    return {best, spent + products * truth.at(best).product_seconds, trials.count()};
  }
  // A format that the whole matrix refuses: csr is taken then.
  const std::string first(ranked.front().entry->id);
  const auto found = truth.find(first);
  return {first, total(found == truth.end() ? plain : found->second, products), 0};
}

}  // namespace

int run_selection(Arguments& arguments) {
  std::string truth_file, folder, names, set = "held-out", machine_file, json, where = "host";
  arguments.read(
      {{"--truth TABLE.yaml", &truth_file, "a table of protean tune that has the matrices", required()},
       {"--folder FOLDER", &folder, "with the matrices, NAME.mtx.xz or NAME.pbin"},
       {"--space", &where, "whose times of the tables count; the matrices are looked at on the host",
        one_of({"host", "device"})},
       {"--names FILE", &names, "lines NAME<tab>SET; without it all matrices of the table count"},
       {"--set", &set, "of --names"},
       {"--machine FILE", &machine_file, "the table that is chosen by instead of the built-in one"},
       shared::json(json)});
  const MachineTable truth = apps::read_machine(truth_file);
  const MachineTable chosen_by = machine_file.empty() ? MachineTable() : apps::read_machine(machine_file);
  const Space space = where == "host" ? Space::host : Space::device;
  const CostModel model(machine_file.empty() ? builtin_machine() : chosen_by, space);
  const std::map<std::string, std::string> sets = read_sets(names);
  const ContextPtr context = Context::host(2);
  std::vector<Regret> regrets(std::size(questions));
  std::vector<double> conversion_errors, product_errors;
  nlohmann::json rows = nlohmann::json::array();
  for (const MeasuredMatrix& measured : truth.matrices) {
    if (measured.space != space) continue;
    if (!names.empty()) {
      const auto found = sets.find(measured.matrix);
      if (found == sets.end() || found->second != set) continue;
    }
    const auto file = file_of(folder, measured.matrix);
    if (!file) continue;  // a matrix that protean tune has generated
    const CsrMatrix<double> csr = read_matrix(context, *file);
    std::map<std::string, MeasuredFormat> formats;
    for (const MeasuredFormat& format : measured.formats)
      if (format.format.find('/') == std::string::npos && !format.format.starts_with("order-"))
        formats[format.format] = format;
    const MeasuredFormat& plain = formats.at("csr");
    CostQuery query{csr.rows(), csr.nonzeros(), csr.bytes()};
    query.row_changes = row_changes(csr.pattern);
    if (const auto packed = formats.find("sell-packed"); packed != formats.end())
      query.packed_bytes = packed->second.bytes;
    for (const auto& [id, format] : formats) {
      if (id == "csr") continue;
      const CostPrediction p =
          model.relative(query, id, format.bytes, "csr", plain.bytes, plain.product_seconds);
      if (!p.known) continue;
      product_errors.push_back(std::abs(p.product_seconds / format.product_seconds - 1));
      if (format.convert_seconds > 0)
        conversion_errors.push_back(std::abs(p.convert_seconds / format.convert_seconds - 1));
    }
    const bool symmetric = is_symmetric(context, csr);
    nlohmann::json row = {{"matrix", measured.matrix}, {"choices", nlohmann::json::array()}};
    std::string line = fmt::format("{:18}", measured.matrix);
    for (std::size_t q = 0; q < std::size(questions); ++q) {
      const Question& question = questions[q];
      ChoiceOptions options{.space = space, .expected_iterations = question.products};
      options.symmetric = symmetric;
      const auto products = static_cast<double>(question.products);
      const Taken taken = take(csr, model, options, question.tries, formats);
      const auto best = std::min_element(formats.begin(), formats.end(), [&](const auto& a, const auto& b) {
        return total(a.second, products) < total(b.second, products);
      });
      Regret& regret = regrets[q];
      regret.to_best.push_back(taken.seconds / total(best->second, products));
      regret.to_csr.push_back(taken.seconds / total(plain, products));
      line += fmt::format(" | {:13} {:13} {:5.2f} {:5.2f}", taken.format, best->first, regret.to_best.back(),
                          regret.to_csr.back());
      row["choices"].push_back({{"iterations", question.products},
                                {"with_tries", question.tries},
                                {"tries", taken.tries},
                                {"chosen", taken.format},
                                {"best", best->first},
                                {"to_best", regret.to_best.back()},
                                {"to_csr", regret.to_csr.back()}});
    }
    fmt::print("{}\n", line);
    rows.push_back(std::move(row));
  }
  nlohmann::json summary = nlohmann::json::array();
  for (std::size_t q = 0; q < std::size(questions); ++q) {
    const Regret& regret = regrets[q];
    const auto slower = static_cast<double>(
        std::count_if(regret.to_csr.begin(), regret.to_csr.end(), [](double ratio) { return ratio > 1.02; }));
    fmt::print(
        "{:8} iterations, {}: {} matrices, to the best {:.3f} in the mean, {:.2f} at 95 %, {:.2f} at worst; "
        "to "
        "csr "
        "{:.3f} in the mean, {:.2f} at worst, {} slower than 1.02\n",
        questions[q].products, questions[q].tries ? "tries where they pay" : "by prediction",
        regret.to_best.size(), geometric_mean(regret.to_best), quantile(regret.to_best, 0.95),
        quantile(regret.to_best, 1), geometric_mean(regret.to_csr), quantile(regret.to_csr, 1), slower);
    summary.push_back({{"iterations", questions[q].products},
                       {"with_tries", questions[q].tries},
                       {"matrices", regret.to_best.size()},
                       {"to_best_mean", geometric_mean(regret.to_best)},
                       {"to_best_95", quantile(regret.to_best, 0.95)},
                       {"to_best_worst", quantile(regret.to_best, 1)},
                       {"to_csr_mean", geometric_mean(regret.to_csr)},
                       {"to_csr_worst", quantile(regret.to_csr, 1)},
                       {"slower_than_csr", slower}});
  }
  const auto mean_error = [](const std::vector<double>& errors) {
    return std::accumulate(errors.begin(), errors.end(), 0.0) /
           static_cast<double>(std::max<std::size_t>(errors.size(), 1));
  };
  fmt::print(
      "predicted from the measured product of csr, all formats: product {:.0f} % off at the median and "
      "{:.0f} % in the "
      "mean, conversion {:.0f} % and {:.0f} %\n",
      100 * quantile(product_errors, 0.5), 100 * mean_error(product_errors),
      100 * quantile(conversion_errors, 0.5), 100 * mean_error(conversion_errors));
  Report report("selection", 2, json);
  report["matrices"] = rows, report["summary"] = summary;
  report["median_product_error"] = quantile(product_errors, 0.5);
  report["mean_product_error"] = mean_error(product_errors);
  report["median_conversion_error"] = quantile(conversion_errors, 0.5);
  report["mean_conversion_error"] = mean_error(conversion_errors);
  report.write();
  return 0;
}

}  // namespace protean::bench

// The format that is taken before a long solve, measured next to the others: make_chosen_matrix() for a million
// iterations builds and measures formats, and then csr and all formats that it may look at are measured here, in turns.
// So it shows what the measurement before the solve is worth on a machine with its noise.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/io/matrix_market.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"

namespace protean::bench {
namespace {

struct Candidate {
  std::string format;
  std::unique_ptr<AssembledMatrix<double>> matrix;
  std::vector<double> seconds;
};

nlohmann::json judge(const std::string& file, const ContextPtr& context, int turns) {
  const ContextPtr host = Context::host();
  const CsrMatrix<double> read = read_matrix(host, file);
  const CsrMatrix<double> csr = context->space() == Space::host ? read : upload(context, read);
  const auto begin = Clock::now();
  const ChosenMatrix<double> chosen =
      make_chosen_matrix(csr, context, {.expected_iterations = 1000000}, &read);
  context->synchronize();
  const double spent = seconds_since(begin);

  std::vector<Candidate> candidates;
  const CostModel model = CostModel(context->space()).with_rare_formats();
  for (const FormatEntry* entry : catalogue())
    if (entry->id == "csr" || entry->id == chosen.matrix->name() || model.may_be_fastest(entry->id)) try {
        candidates.push_back({std::string(entry->id), make_matrix(*entry, csr, context), {}});
      } catch (const FormatRefused&) {}
  Vector<double> x(context, csr.cols()), y(context, csr.rows());
  fill<double>(*context, 1.0, x.view());
  for (int turn = 0; turn < turns; ++turn)
    for (Candidate& one : candidates) {
      constexpr int products = 5;
      one.matrix->apply(x, y);
      context->synchronize();
      const auto start = Clock::now();
      for (int k = 0; k < products; ++k) one.matrix->apply(x, y);
      context->synchronize();
      one.seconds.push_back(seconds_since(start) / products);
    }
  double best = INFINITY, in_csr = 0, taken = 0;
  std::string fastest;
  for (const Candidate& one : candidates) {
    const double seconds = median(one.seconds);
    if (seconds < best) best = seconds, fastest = one.format;
    if (one.format == "csr") in_csr = seconds;
    if (one.format == chosen.matrix->name()) taken = seconds;
  }
  const std::string name = file.substr(file.rfind('/') + 1);
  fmt::print("{:40} {:14} to the best ({:14}) {:.2f}, to csr {:.2f}, choice {:7.0f} products; {}\n", name,
             chosen.matrix->name(), fastest, taken / best, taken / in_csr, spent / in_csr, chosen.reason);
  std::fflush(stdout);
  return {{"matrix", name},
          {"rows", csr.rows()},
          {"nonzeros", csr.nonzeros()},
          {"taken", chosen.matrix->name()},
          {"fastest", fastest},
          {"reason", chosen.reason},
          {"taken_seconds", taken},
          {"fastest_seconds", best},
          {"csr_seconds", in_csr},
          {"choice_seconds", spent},
          {"looked_at", candidates.size()}};
}

}  // namespace

int run_trials(Arguments& arguments) {
  std::vector<std::string> files;
  std::string space = "host", json;
  int threads = 2, turns = 15;
  arguments.read({{"--matrices FILE,...", &files, "as they are", required()},
                  shared::space(space),
                  shared::threads(threads),
                  shared::repeat(turns, "turns of all formats"),
                  shared::json(json)});
  const ContextPtr context = context_of(space, Context::host(threads));
  nlohmann::json rows = nlohmann::json::array();
  double to_best = 0, to_csr = 0, worst = 0;
  int slower = 0;
  for (const std::string& file : files) {
    rows.push_back(judge(file, context, turns));
    const nlohmann::json& row = rows.back();
    const double best = row["taken_seconds"].get<double>() / row["fastest_seconds"].get<double>(),
                 csr = row["taken_seconds"].get<double>() / row["csr_seconds"].get<double>();
    to_best += std::log(best), to_csr += std::log(csr), worst = std::max(worst, best), slower += csr > 1.02;
  }
  const auto count = static_cast<double>(files.size());
  fmt::print(
      "{} matrices: to the best of those looked at {:.3f} in the mean, {:.2f} at worst; to csr {:.3f}, {} "
      "slower "
      "than 1.02\n",
      files.size(), std::exp(to_best / count), worst, std::exp(to_csr / count), slower);
  Report report("trials", threads, json);
  report["space"] = space, report["matrices"] = rows;
  report.write();
  return 0;
}

}  // namespace protean::bench

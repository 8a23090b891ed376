// What `format: auto` costs and saves in one whole solve: solve() from CSR arrays to x, with check, choice, conversion.
//
// Ways: csr; auto (the default); auto with the number of iterations that the solve needs; auto with 300 iterations,
// a number that is wrong for most of them; the policy from csr. Runs of the ways take turns. cg for symmetric matrices,
// else bicgstab. On a device the arrays of the matrix, b and x lie there. Matrices are the ones of sources.hpp, of a
// folder, and on a device also the ones from formulas.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/common/matrices.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/csr.hpp"
#include "core/error.hpp"
#include "core/transfer.hpp"
#include "formats/choose.hpp"
#include "formats/survey.hpp"
#include "operators/policy/builtin_machine.hpp"
#include "protean.hpp"
#include "systems/seconds.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::vector<std::string> only;
  std::string folder, json, preconditioner = "jacobi", space = "host";
  int threads = 2, repeat = 9;
};

struct Way {
  std::string name, format = {}, reason = {};
  std::int64_t iterations = 0;
  std::vector<double> seconds = {};
  int changes = 0;
  nlohmann::json account = {};  // of the policy, in the last run
};

// When the policy decided what, and what its changes took.
nlohmann::json account_of(const SolveResult& result) {
  nlohmann::json all = nlohmann::json::array();
  for (const DecisionRecord& one : result.decisions)
    all.push_back({{"iteration", one.iteration},
                   {"seconds", one.seconds},
                   {"action", to_string(one.action)},
                   {"format", one.format},
                   {"excess", one.excess_seconds},
                   {"allowed", one.allowed_seconds},
                   {"worst", one.worst_seconds}});
  for (const SwitchRecord& one : result.switches)
    all.push_back({{"iteration", one.iteration},
                   {"action", "changed"},
                   {"format", one.to},
                   {"convert_seconds", one.convert_seconds},
                   {"wait_seconds", one.wait_seconds}});
  return all;
}

void run(Way& way, const CsrMatrix<double>& csr, const Vector<double>& b, const SolveSettings& settings) {
  Vector<double> x(settings.context, b.size());
  fill<double>(*settings.context, 0.0, x.view());
  settings.context->synchronize();
  Stopwatch clock;
  const SolveResult result = solve<double>(csr, b.view(), x.view(), settings);
  settings.context->synchronize();
  way.seconds.push_back(clock.lap());
  way.iterations = result.report.iterations, way.format = result.format, way.reason = result.format_reason;
  way.changes = static_cast<int>(result.switches.size());
  way.account = account_of(result);
}

nlohmann::json measure(const ContextPtr& host, const ContextPtr& context, const Options& options,
                       const std::string& name, const CsrMatrix<double>& given) {
  const bool device = context->space() == Space::device;
  const CsrMatrix<double> there = device ? upload(context, given) : CsrMatrix<double>{};
  const CsrMatrix<double>& csr = device ? there : given;
  const std::vector<double> values = random_numbers(csr.rows());
  Vector<double> b(context, csr.rows());
  copy<double>(*context, VectorView<const double>{values.data(), csr.rows()}, b.view());
  SolveSettings plain{.method = is_symmetric(host, given) ? "cg" : "bicgstab",
                      .preconditioner = options.preconditioner,
                      .format = "csr",
                      .context = context};
  plain.solver.stopping.max_iterations = 2000;
  SolveSettings automatic = plain;
  automatic.format = "auto";
  SolveSettings known = automatic, assumed = automatic, policy = automatic;
  policy.format = "csr", policy.policy = "auto";
  assumed.expected_iterations = 300;
  Way ways[] = {{"csr"}, {"auto"}, {"auto, iterations known"}, {"auto, 300 iterations"}, {"policy from csr"}};
  run(ways[0], csr, b, plain);
  known.expected_iterations = std::max<std::int64_t>(1, ways[0].iterations);
  ways[0].seconds.clear();
  const SolveSettings* const settings[] = {&plain, &automatic, &known, &assumed, &policy};
  for (int turn = 0; turn < options.repeat; ++turn)
    for (std::size_t way = 0; way < std::size(ways); ++way) run(ways[way], csr, b, *settings[way]);

  // The look, in products of csr.
  const auto A = make_matrix(find_format("csr"), csr, context);
  Vector<double> x(context, csr.cols()), y(context, csr.rows());
  fill<double>(*context, 1.0, x.view());
  const CostModel model(context->space());
  // One iteration: the look alone, since nothing is converted.
  const ChoiceOptions choosing{.space = context->space(), .expected_iterations = 1};
  std::vector<double> product, survey, choice;
  for (int i = 0; i < 21; ++i) {
    Stopwatch clock;
    A->apply(x, y);
    context->synchronize();
    product.push_back(clock.lap());
  }
  for (int i = 0; i < 7; ++i) {
    Stopwatch clock;
    (void)survey_formats(*context, csr.pattern, false, sizeof(double), false, &model);
    survey.push_back(clock.lap());
    (void)is_sorted(*context, csr.pattern);
    (void)choose_format(context, csr.pattern, model, choosing);
    choice.push_back(clock.lap());
  }
  const double one = median(product), base = median(ways[0].seconds);
  fmt::print(
      "{:24} {:8} {:9} rows {:9} entries, product {:8.1f} us; survey {:7.1f}, choice {:7.1f} products\n",
      name, plain.method, csr.rows(), csr.nonzeros(), 1e6 * one, median(survey) / one, median(choice) / one);
  nlohmann::json all = nlohmann::json::array();
  for (const Way& way : ways) {
    const double seconds = median(way.seconds);
    fmt::print("    {:24} {:9.3f} ms  {:5.2f} of csr  {:5} iterations, {} changes, {} \n", way.name,
               1e3 * seconds, seconds / base, way.iterations, way.changes, way.format);
    all.push_back({{"way", way.name},
                   {"seconds", way.seconds},
                   {"iterations", way.iterations},
                   {"format", way.format},
                   {"reason", way.reason},
                   {"changes", way.changes},
                   {"account", way.account}});
  }
  return {{"matrix", name},           {"method", plain.method},
          {"rows", csr.rows()},       {"nonzeros", csr.nonzeros()},
          {"product_seconds", one},   {"survey_seconds", survey},
          {"choice_seconds", choice}, {"ways", all}};
}

}  // namespace

int run_default(Arguments& arguments) {
  Options options;
  arguments.read({shared::space(options.space),
                  shared::threads(options.threads),
                  shared::only(options.only),
                  shared::folder(options.folder),
                  shared::repeat(options.repeat, "runs of each way"),
                  {"--preconditioner", &options.preconditioner, "of all solves"},
                  shared::json(options.json)});
  const ContextPtr host = Context::host(options.threads);
  const ContextPtr context = context_of(options.space, host);
  nlohmann::json results = nlohmann::json::array();
  const auto add = [&](const std::string& name, const CsrMatrix<double>& csr) {
    if (csr.rows() != csr.cols()) return;
    try {
      results.push_back(measure(host, context, options, name, csr));
    } catch (const Error& error) { fmt::print("{}: skipped: {}\n", name, error.what()); }
    std::fflush(stdout);
  };
  for (const Source& source : sources_named(options.only)) {
    const auto csr = load(host, source, options.folder);
    if (csr)
      add(source.name, *csr);
    else
      fmt::print("{}: skipped, it is not in the folder\n", source.name);
  }
  if (context != host)
    for (const NamedMatrix& matrix : formula_matrices(0.2))
      if (wanted(options.only, matrix.name)) add(matrix.name, matrix.make(host));
  Report report("default", options.threads, options.json);
  report["space"] = options.space, report["preconditioner"] = options.preconditioner;
  report["repeat"] = options.repeat, report["matrices"] = results;
  report.write();
  return 0;
}

}  // namespace protean::bench

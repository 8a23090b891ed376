// What `format: auto` costs and saves in one whole solve: solve() from CSR arrays to x, with check, choice, conversion.
//
//   default_benchmark [--matrices a,b] [--folder DIR] [--threads N] [--repeat N] [--preconditioner NAME]
//                     [--space host|device] [--json FILE]
//
// Ways: csr; auto (the default); auto with the number of iterations that the solve needs; auto with 300 iterations,
// a number that is wrong for most of them; the policy from csr. Runs of the ways take turns. cg for symmetric matrices,
// else bicgstab. On a device the arrays of the matrix, b and x lie there. Matrices are those of sources(), of a folder,
// and on a device also those of gpu_matrices().
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "core/csr.hpp"
#include "core/error.hpp"
#include "core/transfer.hpp"
#include "formats/choose.hpp"
#include "formats/survey.hpp"
#include "gpu_matrices.hpp"
#include "operators/policy/builtin_machine.hpp"
#include "options.hpp"
#include "protean.hpp"
#include "report.hpp"
#include "sources.hpp"
#include "systems/seconds.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::vector<std::string> matrices;
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

std::vector<double> right_side(std::int64_t rows) {
  std::vector<double> b(static_cast<std::size_t>(rows));
  std::uint64_t state = 12345;
  for (double& value : b) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<double>(state >> 11) * 0x1p-52 - 1;
  }
  return b;
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
  const std::vector<double> values = right_side(csr.rows());
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
  policy.format = "csr", policy.policy = true;
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
}  // namespace protean::bench

int main(int argc, char** argv) {
  using namespace protean;
  using namespace protean::bench;
  Options options;
  if (!read_options(argc, argv,
                    {{"--matrices", &options.matrices},
                     {"--folder", &options.folder},
                     {"--threads", &options.threads},
                     {"--repeat", &options.repeat},
                     {"--preconditioner", &options.preconditioner},
                     {"--space", &options.space},
                     {"--json", &options.json}}) ||
      (options.space != "host" && options.space != "device")) {
    fmt::print(stderr,
               "usage: default_benchmark [--matrices a,b] [--folder DIR] [--threads N] [--repeat N] "
               "[--preconditioner NAME] [--space host|device] [--json FILE]\n");
    return 2;
  }
  const ContextPtr host = Context::host(options.threads);
  const bool device = options.space == "device";
  const ContextPtr context = device ? Context::device() : host;
  nlohmann::json results = nlohmann::json::array();
  const auto add = [&](const std::string& name, const CsrMatrix<double>& csr) {
    if (csr.rows() != csr.cols()) return;
    try {
      results.push_back(measure(host, context, options, name, csr));
    } catch (const Error& error) { fmt::print("{}: skipped: {}\n", name, error.what()); }
    std::fflush(stdout);
  };
  for (const Source& source : sources_named(options.matrices)) {
    const auto csr = load(host, source, options.folder);
    if (csr)
      add(source.name, *csr);
    else
      fmt::print("{}: skipped, it is not in the folder\n", source.name);
  }
  const auto asked = [&](const std::string& name) {
    return options.matrices.empty() || std::ranges::find(options.matrices, name) != options.matrices.end();
  };
  if (device)
    for (const GpuMatrix& matrix : gpu_matrices(0.2))
      if (asked(matrix.name)) add(matrix.name, matrix.make(host));
  if (!options.json.empty())
    write_json(options.json, {{"machine", machine(options.threads)},
                              {"space", options.space},
                              {"preconditioner", options.preconditioner},
                              {"repeat", options.repeat},
                              {"matrices", results}});
}

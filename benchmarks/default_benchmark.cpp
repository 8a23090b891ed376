// What `format: auto` costs and saves in one whole solve: solve() from CSR arrays to x, with check, choice, conversion.
//
//   default_benchmark [--matrices a,b] [--folder DIR] [--threads N] [--repeat N] [--preconditioner NAME] [--json FILE]
//
// Ways: csr; auto (the default); auto with the number of iterations that the solve needs; auto with 300 iterations,
// a number that is wrong for most of them. Runs of the ways take turns. cg for symmetric matrices, else bicgstab.
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
  std::string folder, json, preconditioner = "jacobi";
  int threads = 2, repeat = 9;
};

struct Way {
  std::string name, format = {}, reason = {};
  std::int64_t iterations = 0;
  std::vector<double> seconds = {};
  int changes = 0;
};

std::vector<double> right_side(std::int64_t rows) {
  std::vector<double> b(static_cast<std::size_t>(rows));
  std::uint64_t state = 12345;
  for (double& value : b) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<double>(state >> 11) * 0x1p-52 - 1;
  }
  return b;
}

void run(Way& way, const CsrMatrix<double>& csr, const std::vector<double>& b,
         const SolveSettings& settings) {
  std::vector<double> x(b.size());
  Stopwatch clock;
  const SolveResult result = solve<double>(csr, VectorView<const double>{b.data(), csr.rows()},
                                           VectorView<double>{x.data(), csr.rows()}, settings);
  way.seconds.push_back(clock.lap());
  way.iterations = result.report.iterations, way.format = result.format, way.reason = result.format_reason;
  way.changes = static_cast<int>(result.switches.size());
}

nlohmann::json measure(const ContextPtr& context, const Options& options, const std::string& name,
                       const CsrMatrix<double>& csr) {
  const std::vector<double> b = right_side(csr.rows());
  SolveSettings plain{.method = is_symmetric(context, csr) ? "cg" : "bicgstab",
                      .preconditioner = options.preconditioner,
                      .format = "csr",
                      .context = context};
  plain.solver.stopping.max_iterations = 2000;
  SolveSettings automatic = plain;
  automatic.format = "auto";
  SolveSettings known = automatic, assumed = automatic;
  assumed.expected_iterations = 300;
  Way ways[] = {{"csr"}, {"auto"}, {"auto, iterations known"}, {"auto, 300 iterations"}};
  run(ways[0], csr, b, plain);
  known.expected_iterations = std::max<std::int64_t>(1, ways[0].iterations);
  ways[0].seconds.clear();
  const SolveSettings* const settings[] = {&plain, &automatic, &known, &assumed};
  for (int turn = 0; turn < options.repeat; ++turn)
    for (std::size_t way = 0; way < std::size(ways); ++way) run(ways[way], csr, b, *settings[way]);

  // The look, in products of csr.
  const auto A = make_matrix(find_format("csr"), csr, context);
  Vector<double> x(context, csr.cols()), y(context, csr.rows());
  fill<double>(*context, 1.0, x.view());
  const CostModel model(builtin_machine(), Space::host);
  std::vector<double> product, survey, choice;
  for (int i = 0; i < 21; ++i) {
    Stopwatch clock;
    A->apply(x, y);
    product.push_back(clock.lap());
  }
  for (int i = 0; i < 7; ++i) {
    Stopwatch clock;
    (void)survey_formats(csr.pattern, Space::host, false, sizeof(double), false, &model);
    survey.push_back(clock.lap());
    (void)choose_format(csr.pattern, model);
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
                   {"changes", way.changes}});
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
                     {"--json", &options.json}})) {
    fmt::print(stderr,
               "usage: default_benchmark [--matrices a,b] [--folder DIR] [--threads N] [--repeat N] "
               "[--preconditioner NAME] [--json FILE]\n");
    return 2;
  }
  const ContextPtr context = Context::host(options.threads);
  nlohmann::json results = nlohmann::json::array();
  for (const Source& source : sources_named(options.matrices)) {
    const auto csr = load(context, source, options.folder);
    if (!csr) {
      fmt::print("{}: skipped, it is not in the folder\n", source.name);
      continue;
    }
    if (csr->rows() != csr->cols()) continue;
    try {
      results.push_back(measure(context, options, source.name, *csr));
    } catch (const Error& error) { fmt::print("{}: skipped: {}\n", source.name, error.what()); }
    std::fflush(stdout);
  }
  if (!options.json.empty())
    write_json(options.json, {{"machine", machine(options.threads)},
                              {"preconditioner", options.preconditioner},
                              {"repeat", options.repeat},
                              {"matrices", results}});
}

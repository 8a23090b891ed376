// What values in float, and in a dictionary, gain next to vectors in double (parameter `values` of formats): the bytes
// of the matrix, the time of a product, and the time and iterations of a whole solve by Jacobi-CG, which ends by the
// values that were given. All run in one process, after a warm-up, in alternation. A matrix that float holds exactly
// has the same products; another one is rounded, and its solve corrects its residual on the way. A dictionary is there
// for matrices and formats that have it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/solve/contestants.hpp"
#include "core/blas1.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "operators/narrow_values.hpp"
#include "systems/linear_system.hpp"
#include "systems/system_matrix.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string folder, json, space = "host";
  std::vector<std::string> only, formats = {"csr", "sell-packed", "dia"};
  int threads = 2;
  double seconds = 2, tolerance = 1e-8;
};

// One matrix with values in one precision.
struct Way {
  explicit Way(const CsrMatrix<double>& csr, const SolveSettings& settings)
      : system(csr, settings), x(settings.context, csr.rows()), y(settings.context, csr.rows()) {
    const std::vector<double> first = waves(csr.rows(), 0.5);
    copy<double>(*settings.context, {first.data(), x.size()}, x);
    system.set_up();
  }
  // On a GPU the mean of several, which run one after another.
  double product() {
    const Context& context = *x.context();
    const int count = context.space() == Space::device ? 50 : 1;
    const auto begin = Clock::now();
    for (int i = 0; i < count; ++i) system.matrix().assembled()->apply(x, y);
    context.synchronize();
    return seconds_since(begin) / count;
  }
  void solve(const Vector<double>& b) {
    fill<double>(*y.context(), 0.0, y);
    y.context()->synchronize();
    const auto begin = Clock::now();
    result = system.solve(b.view(), y.view());
    solves.push_back(seconds_since(begin));
  }
  LinearSystem<double> system;
  Vector<double> x, y;
  SolveResult result;
  std::vector<double> products, solves;

  std::vector<double> solution() const {
    std::vector<double> host(static_cast<std::size_t>(y.size()));
    copy<double>(*y.context(), y, {host.data(), y.size()});
    return host;
  }
};

}  // namespace

int run_values(Arguments& arguments) {
  Options options;
  arguments.read({shared::space(options.space),
                  shared::folder(options.folder),
                  shared::only(options.only),
                  shared::formats(options.formats, "formats with values in float"),
                  shared::threads(options.threads),
                  {"--tolerance", &options.tolerance, "relative, of the solves", above(0)},
                  shared::seconds(options.seconds, "time for the products, and for the solves, of a matrix"),
                  shared::json(options.json)});
  const ContextPtr context = Context::host(options.threads), place = context_of(options.space, context);
  Report report("values", options.threads, options.json);
  report["tolerance"] = options.tolerance, report["space"] = options.space;
  std::map<std::string, std::vector<double>> product_ratios, solve_ratios;
  bool all_right = true;
  fmt::print("{:24} {:12} {:16} {:>13} {:>19} {:>15} {:>19}\n", "matrix", "format", "values", "MB",
             "product, us", "iterations", "solve, ms");
  for (const Source& source : sources_named(options.only)) {
    const auto csr = load(context, source, options.folder);
    if (!csr || !is_symmetric(context, *csr)) continue;
    Vector<double> b(context, csr->rows()), d(context, csr->rows());
    extract_diagonal(*context, *csr, d.data());
    if (std::any_of(d.data(), d.data() + d.size(), [](double entry) { return !(entry > 0); })) continue;
    std::ranges::copy(waves(b.size(), 0.5), b.data());
    Vector<double> its_b(place, b.size());
    copy<double>(*place, {b.data(), b.size()}, its_b);
    for (const std::string& format : options.formats) {
      SolveSettings settings{.method = "cg", .preconditioner = "jacobi", .format = format, .context = place};
      settings.solver.stopping.relative_tolerance = options.tolerance;
      std::vector<std::unique_ptr<Way>> ways;
      try {
        for (const char* const word : {"double", "float"}) {
          settings.parameters = {{"values", word}};
          ways.push_back(std::make_unique<Way>(*csr, settings));
        }
      } catch (const FormatRefused&) { continue; } catch (const BadArgument&) {
        if (options.space == "host") throw;
        continue;  // csr, whose values have one precision on a GPU
      }
      try {
        settings.parameters = {{"values", "dictionary"}};
        ways.push_back(std::make_unique<Way>(*csr, settings));
      } catch (const FormatRefused&) { /* too many values */
      } catch (const BadArgument&) {   /* the format has none */
      }
      for (auto& way : ways) (void)way->product(), way->solve(its_b), way->solves.clear();
      let_threads_park();
      for (const auto begin = Clock::now();
           seconds_since(begin) < options.seconds || ways[0]->products.size() < 9;)
        for (auto& way : ways) way->products.push_back(way->product());
      for (const auto begin = Clock::now();
           seconds_since(begin) < options.seconds || ways[0]->solves.size() < 3;)
        for (auto& way : ways) way->solve(its_b);
      nlohmann::json entry{{"matrix", source.name},
                           {"format", format},
                           {"rows", csr->rows()},
                           {"nonzeros", csr->nonzeros()},
                           {"ways", nlohmann::json::array()}};
      for (auto& way : ways) {
        const SolveReport& done = way->result.report;
        if (done.converged() &&
            !(relative_residual(*csr, b.data(), way->solution().data()) <= 1.01 * options.tolerance))
          all_right = false;
        entry["ways"].push_back({{"values", way->result.values},
                                 {"bytes", way->system.matrix().bytes()},
                                 {"product_seconds", median(way->products)},
                                 {"solve_seconds", median(way->solves)},
                                 {"iterations", done.iterations},
                                 {"corrections", done.corrections},
                                 {"left_rounding", done.left_rounding},
                                 {"reason", to_string(done.reason)}});
      }
      Way& full = *ways[0];
      for (std::size_t i = 1; i < ways.size(); ++i) {
        Way& other = *ways[i];
        fmt::print(
            "{:24} {:12} {:16} {:5.1f} -> {:5.1f} {:8.1f} -> {:7.1f} {:6} -> {:5} {:8.2f} -> {:7.2f}\n",
            source.name, format, other.result.values,
            1e-6 * static_cast<double>(full.system.matrix().bytes()),
            1e-6 * static_cast<double>(other.system.matrix().bytes()), 1e6 * median(full.products),
            1e6 * median(other.products), full.result.report.iterations, other.result.report.iterations,
            1e3 * median(full.solves), 1e3 * median(other.solves));
        const std::string name = format + (i == 1 ? ", float" : ", dictionary");
        product_ratios[name].push_back(median(full.products) / median(other.products));
        solve_ratios[name].push_back(median(full.solves) / median(other.solves));
      }
      std::fflush(stdout);
      report["matrices"].push_back(entry);
      report.write();
    }
  }
  for (const auto& [name, ratios] : product_ratios) {
    report["geometric_mean"][name] = {{"product", geometric_mean(ratios)},
                                      {"solve", geometric_mean(solve_ratios[name])}};
    fmt::print("{}: products of {} matrices {:.2f} times as fast as in double, solves {:.2f}\n", name,
               ratios.size(), geometric_mean(ratios), geometric_mean(solve_ratios[name]));
  }
  report.write();
  if (!all_right) fmt::print("a solve that is called converged has a larger residual\n");
  return all_right ? 0 : 1;
}

}  // namespace protean::bench

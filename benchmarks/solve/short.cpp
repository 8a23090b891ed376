// What a short solve takes beside its iterations, for each method. Each system is solved to the residual that the
// method reaches after a few iterations: by solve() each time (one), and by a system that is kept (kept). Also by a
// kept system that must end before convergence, which then looks for the cause (unsolved). All were solved some times
// before. The three take turns; the figures are medians. b is random, x begins at 0.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "core/generate/generate.hpp"
#include "core/transfer.hpp"
#include "protean.hpp"
#include "systems/seconds.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::vector<std::string> methods, sizes = {"12", "20", "31"};
  std::string space = "host", preconditioner = "jacobi", format = "csr", steps = "auto", json;
  int threads = 2, repeat = 51, iterations = 8;
};

struct Figures {
  std::vector<double> one, kept, unsolved;
  SolveResult last_one, last_kept;
};

class Short {
 public:
  Short(const Options& options, const ContextPtr& context, const CsrMatrix<double>& csr)
      : options_(options),
        context_(context),
        csr_(context->space() == Space::device ? upload(context, csr) : csr),
        b_(context, csr.rows()),
        x_(context, csr.rows()) {
    const std::vector<double> b = random_numbers(csr.rows());
    copy<double>(*context_, VectorView<const double>{b.data(), csr.rows()}, b_.view());
  }

  Figures operator()(const std::string& method) {
    SolveSettings settings{.method = method,
                           .preconditioner = options_.preconditioner,
                           .format = options_.format,
                           .context = context_};
    if (context_->space() == Space::device) settings.solver.device_steps = options_.steps;
    settings.solver.stopping.max_iterations = options_.iterations;
    settings.solver.stopping.relative_tolerance = 0;
    LinearSystem<double> unsolved(csr_, settings);
    const SolveReport limited = solved(unsolved).report;
    settings.solver.stopping.max_iterations = 10 * options_.iterations;
    // A residual may have grown by then.
    settings.solver.stopping.relative_tolerance = std::min(1.0001 * limited.recurrence_relative, 0.99);
    LinearSystem<double> kept(csr_, settings);
    Figures figures;
    constexpr int before = 5;
    for (int k = 0; k < before + options_.repeat; ++k) {
      const auto time = [&](std::vector<double>& to, auto&& work) {
        fill<double>(*context_, 0.0, x_.view());
        context_->synchronize();
        Stopwatch clock;
        work();
        context_->synchronize();
        const double seconds = clock.lap();
        if (k >= before) to.push_back(1e6 * seconds);
      };
      time(figures.one,
           [&] { figures.last_one = protean::solve<double>(csr_, b_.view(), x_.view(), settings); });
      time(figures.kept, [&] { figures.last_kept = kept.solve(b_.view(), x_.view()); });
      time(figures.unsolved, [&] { (void)unsolved.solve(b_.view(), x_.view()); });
    }
    return figures;
  }

 private:
  SolveResult solved(LinearSystem<double>& system) {
    fill<double>(*context_, 0.0, x_.view());
    return system.solve(b_.view(), x_.view());
  }

  const Options& options_;
  const ContextPtr context_;
  const CsrMatrix<double> csr_;
  Vector<double> b_, x_;
};

}  // namespace

int run_short(Arguments& arguments) {
  Options options;
  arguments.read({{"--methods NAME,...", &options.methods, "all by default"},
                  {"--sizes N,...", &options.sizes, "unknowns along a side of the cube"},
                  {"--iterations N", &options.iterations, "of each solve", at_least(1)},
                  {"--preconditioner NAME", &options.preconditioner, "of all methods"},
                  {"--format NAME", &options.format, "of the matrix"},
                  {"--steps WAY", &options.steps, "how the steps run on a device",
                   one_of({"auto", "graph", "resident"})},
                  shared::space(options.space),
                  shared::threads(options.threads),
                  shared::repeat(options.repeat, "solves of each kind"),
                  shared::json(options.json)});
  const ContextPtr host = Context::host(options.threads), context = context_of(options.space, host);
  Report report("short_solves", options.threads, options.json);
  nlohmann::json& results = report["results"] = nlohmann::json::array();
  fmt::print("microseconds of a solve, median of {}\n", options.repeat);
  fmt::print("{:>8} {:10} {:>10} {:>9} {:>9} {:>9} {:>8} {:9} {:>9}\n", "rows", "method", "iterations", "one",
             "kept", "unsolved", "per it.", "steps", "recorded");
  for (const std::string& size : options.sizes)
    for (const SolverEntry& method : solvers()) {
      if (!wanted(options.methods, method.id)) continue;
      const CsrMatrix<double> csr = generate(
          host, method.symmetric ? "poisson-3d" : "convection-diffusion-3d", {{"n", std::stod(size)}});
      Figures figures = Short(options, context, csr)(std::string(method.id));
      const SolveReport &one = figures.last_one.report, &kept = figures.last_kept.report;
      const double per_iteration = median(figures.kept) / static_cast<double>(kept.iterations);
      fmt::print("{:8} {:10} {:10} {:9.1f} {:9.1f} {:9.1f} {:8.1f} {:9} {:>4} {:>4}\n", csr.rows(), method.id,
                 kept.iterations, median(figures.one), median(figures.kept), median(figures.unsolved),
                 per_iteration, kept.steps, one.graphs_recorded, kept.graphs_recorded);
      results.push_back({{"rows", csr.rows()},
                         {"method", method.id},
                         {"iterations", kept.iterations},
                         {"one_us", median(figures.one)},
                         {"kept_us", median(figures.kept)},
                         {"unsolved_us", median(figures.unsolved)},
                         {"converged", one.converged() && kept.converged()},
                         {"steps", kept.steps},
                         {"graphs_recorded", {one.graphs_recorded, kept.graphs_recorded}}});
    }
  report.write();
  return 0;
}

}  // namespace protean::bench

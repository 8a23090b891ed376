// What a kept preconditioner saves over the systems of a nonlinear problem, and what type auto makes of it.
//
// The problems of nonlinear.hpp are solved: diffusion with n = 40 and 50 systems, of shape hex or tet, or a beam with
// n = 20 and 15 systems. All systems of one problem have one pattern, and values that change slowly. The matrices are
// assembled before anything is timed, on a device their arrays lie there. Each way solves the same systems from x = 0
// to 1e-8, in csr unless its name says otherwise, so that the preconditioner alone makes the difference. On a
// host PETSc and Eigen solve the systems of the beam, too, once, with one thread. clock cpu: the time of the process
// on processors, for one thread on a machine that is not alone.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/preconditioned.hpp"
#include "benchmarks/preconditioners/nonlinear.hpp"
#include "core/transfer.hpp"
#include "preconditioners/options.hpp"
#include "protean.hpp"
#include "systems/seconds.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string problem = "diffusion", space = "host", clock = "wall", shape = "hex", only, json;
  int threads = 2, n = 0, steps = 0, repeat = 3;  // n, steps 0: as the problem has them
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// How the systems are solved.
struct Way {
  std::string name, id;  // id: of the preconditioner, or of a library
  PreconditionerOptions options = {};
  std::string format = "csr";
};

struct Run {
  double total = 0, setup = 0, worst = 0;  // seconds; worst: ||b - A x|| / ||b||
  std::vector<std::int64_t> iterations;
  std::vector<double> seconds;  // of each step, setup included
  std::vector<std::string> used;
};

class Bench {
 public:
  Bench(const Options& options, const NonlinearSequence& sequence)
      : options_(options),
        sequence_(sequence),
        context_(sequence.context),
        n_(sequence.first.rows()),
        x_(context_, n_) {
    if (sequence.coordinates.rows() == 0) return;
    modes_ = rigid_body_modes(Context::host(1), sequence.coordinates.view());
    elastic_.near_null_space = &modes_, elastic_.unknowns = sequence.coordinates.columns();
  }

  nlohmann::json operator()() {
    std::vector<Way> ways;
    const auto add = [&](std::string name, std::string id, Refresh refresh, bool formats = false) -> Way& {
      Way way;
      way.name = std::move(name), way.id = std::move(id);
      if (reads_near_null_space(way.id)) way.options = elastic_;
      way.options.refresh = refresh;
      if (formats) way.format = "auto", way.name += ", format auto";
      ways.push_back(std::move(way));
      return ways.back();
    };
    const bool beam = modes_.columns() > 0;
    for (const bool formats : {false, true}) {
      if (formats && !beam) continue;
      add("jacobi", "jacobi", Refresh::every, formats);
      add("ic0, every", "ic0", Refresh::every, formats);
      add("ic0, when-slower", "ic0", Refresh::when_slower, formats);
      for (const Refresh refresh : {Refresh::every, Refresh::when_slower, Refresh::never})
        add("amg, " + std::string(to_string(refresh)), "amg", refresh, formats);
      add("auto", "auto", Refresh::automatic, formats);
      Way& informed =
          add("auto, solves " + std::to_string(options_.steps), "auto", Refresh::automatic, formats);
      informed.options.solves = options_.steps;
    }
    if (beam && context_->space() == Space::host)
      for (const std::string library : {"petsc", "eigen"})
        for (const std::string kind : {"jacobi", "ic0"}) add(library + " " + kind, library, Refresh::every);
    std::erase_if(ways, [&](const Way& way) { return way.name.find(options_.only) == std::string::npos; });
    std::map<std::string, std::vector<Run>> runs;
    for (int turn = 0; turn < options_.repeat; ++turn)
      for (const Way& way : ways)
        if (turn == 0 || !is_library(way)) runs[way.name].push_back(run(way));
    nlohmann::json all = nlohmann::json::array();
    double jacobi = 0;
    for (const auto& [name, id, way, format] : ways) {
      std::vector<Run>& turns = runs[name];
      std::sort(turns.begin(), turns.end(), [](const Run& a, const Run& b) { return a.total < b.total; });
      const Run& middle = turns[turns.size() / 2];
      if (middle.iterations.empty()) {
        fmt::print("  {:30} skipped: this build does not have it\n", name);
        continue;
      }
      if (name == "jacobi") jacobi = middle.total;
      std::int64_t sum = 0;
      for (const std::int64_t one : middle.iterations) sum += one;
      fmt::print(
          "  {:30} {:8.3f} s, of it setups {:7.3f}, {:5} iterations, {:.2f} times as fast, ends with {}\n",
          name, middle.total, middle.setup, sum, jacobi / middle.total, middle.used.back());
      std::vector<double> totals;
      for (const Run& one : turns) totals.push_back(one.total);
      all.push_back({{"way", name},
                     {"totals", totals},
                     {"setup", middle.setup},
                     {"iterations", middle.iterations},
                     {"seconds", middle.seconds},
                     {"used", middle.used},
                     {"worst_residual", middle.worst}});
    }
    return all;
  }

 private:
  // These take long, and run once.
  static bool is_library(const Way& way) { return way.id == "petsc" || way.id == "eigen"; }

  Run run(const Way& way) {
    if (is_library(way)) return run_library(way);
    Run made;
    std::optional<LinearSystem<double>> system;
    for (std::size_t step = 0; step < sequence_.values.size(); ++step) {
      fill<double>(*context_, 0.0, x_.view());
      context_->synchronize();
      Stopwatch clock;
      const CsrMatrix<double> csr = with_values(sequence_.first, sequence_.values[step].data());
      if (step == 0) {
        SolveSettings settings;
        settings.method = "cg", settings.preconditioner = way.id, settings.preconditioning = way.options;
        settings.format = way.format, settings.context = context_, settings.check_arrays = false;
        system.emplace(csr, settings);
      } else {
        system->update_values(csr);
      }
      const SolveResult result = system->solve(sequence_.right[step], x_.view());
      context_->synchronize();
      made.seconds.push_back(clock.lap());
      made.total += made.seconds.back(), made.setup += result.setup_seconds;
      made.iterations.push_back(result.report.iterations), made.used.push_back(result.preconditioner);
      made.worst = std::max(made.worst, result.report.true_relative);
      if (!result.converged()) fmt::print(stderr, "{}: step {}: {}\n", way.name, step, result.report.advice);
    }
    return made;
  }

  Run run_library(const Way& way) {
    Run made;
    const auto n = static_cast<std::size_t>(n_);
    for (std::size_t step = 0; step < sequence_.values.size(); ++step) {
      const CsrMatrix<double> csr = with_values(sequence_.first, sequence_.values[step].data());
      const double* right = sequence_.right[step].data();
      const std::vector<double> b(right, right + n);
      std::vector<double> x(n, 0.0);
      const PreconditionedSolve wanted{"cg", way.name.substr(way.id.size() + 1)};
      const auto result = way.id == "petsc" ? petsc_preconditioned(csr, b, wanted, x)
                                            : eigen_preconditioned(csr, b, wanted, x);
      if (!result) return {};
      made.seconds.push_back(result->setup_seconds + result->solve_seconds);
      made.total += made.seconds.back(), made.setup += result->setup_seconds;
      made.iterations.push_back(result->iterations);
      made.used.push_back(result->what.empty() ? wanted.preconditioner : result->what);
    }
    return made;
  }

  const Options& options_;
  const NonlinearSequence& sequence_;
  ContextPtr context_;
  std::int64_t n_;
  // For amg and auto if the system is an elastic body; otherwise nothing, which gives the default vectors.
  MultiVector<double> modes_;
  PreconditionerOptions elastic_;
  Vector<double> x_;
};

}  // namespace

int run_refresh(Arguments& arguments) {
  Options options;
  arguments.read({{"--problem", &options.problem, "whose systems are solved", one_of({"diffusion", "beam"})},
                  shared::space(options.space),
                  shared::threads(options.threads),
                  {"--n", &options.n, "its size; 0: 40 of diffusion, 20 of the beam", at_least(0)},
                  {"--steps", &options.steps, "systems; 0: 50 of diffusion, 15 of the beam", at_least(0)},
                  shared::repeat(options.repeat, "runs of each way"),
                  {"--clock", &options.clock, "whose time counts", one_of({"wall", "cpu"})},
                  {"--shape", &options.shape, "of the elements of diffusion", one_of({"hex", "tet"})},
                  {"--only TEXT", &options.only, "the ways whose names contain this"},
                  shared::json(options.json)});
  const bool beam = options.problem == "beam";
  if (options.n == 0) options.n = beam ? 20 : 40;
  if (options.steps == 0) options.steps = beam ? 15 : 50;
  const ContextPtr host = Context::host(options.threads), context = context_of(options.space, host);
  const NonlinearSequence sequence =
      beam ? beam_sequence(host, context, options.n, options.steps)
           : diffusion_sequence(host, context, options.shape, options.n, options.steps);
  fmt::print("{} rows, {} entries, {} steps, {}\n", sequence.first.rows(), sequence.first.nonzeros(),
             options.steps, sequence.about);
  if (options.clock == "cpu") Stopwatch::other_clock = processor_seconds;
  const nlohmann::json ways = Bench(options, sequence)();
  Report report("refresh", options.threads, options.json);
  report["problem"] = options.problem, report["space"] = options.space, report["clock"] = options.clock;
  report["shape"] = beam ? "hex" : options.shape, report["about"] = sequence.about;
  report["rows"] = sequence.first.rows(), report["nonzeros"] = sequence.first.nonzeros();
  report["steps"] = options.steps, report["ways"] = ways;
  report.write();
  return 0;
}

}  // namespace protean::bench

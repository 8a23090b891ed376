// One GPU and several of the machine: an iteration of cg, the difference of two lengths of a solve, and a whole solve
// from host arrays to x with partition, conversion and setup, to a relative residual of 1e-8.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "core/transfer.hpp"
#include "protean.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string json, format = "sell-packed", preconditioner = "jacobi";
  std::vector<std::string> systems = {"poisson-3d:n=200"};
  int shorter = 200, longer = 1000, repeat = 5;
  bool whole = true;
};

SolveSettings settings_of(const Options& options, int devices) {
  SolveSettings settings;
  settings.method = "cg", settings.preconditioner = options.preconditioner, settings.format = options.format;
  settings.policy = "none";
  if (devices == 1) settings.context = Context::device();
  for (int d = 0; devices > 1 && d < devices; ++d)
    settings.distribution.contexts.push_back(Context::device(d));
  return settings;
}

struct Times {
  double iteration = 0, whole = 0;
  std::int64_t iterations = 0;
};

// The system on one GPU or on several, with its vectors.
class System {
 public:
  System(const CsrMatrix<double>& csr, const std::vector<double>& b, const SolveSettings& settings)
      : context_(settings.context),
        b_(b),
        x_(b.size()),
        system_(context_ ? upload(context_, csr) : csr, settings) {
    if (!context_) return;
    its_b_ = Vector<double>(context_, csr.rows()), its_x_ = Vector<double>(context_, csr.rows());
    copy<double>(*context_, VectorView<const double>{b_.data(), csr.rows()}, its_b_.view());
  }
  void set(const SolveSettings& settings) { system_.set(settings); }
  // From x = 0, and with x in host memory at the end.
  SolveResult solve() {
    std::fill(x_.begin(), x_.end(), 0.0);
    if (!context_) return system_.solve(b_, x_);
    fill<double>(*context_, 0.0, its_x_.view());
    SolveResult result = system_.solve(its_b_.view(), its_x_.view());
    copy<double>(*context_, its_x_.view(), VectorView<double>{x_.data(), its_x_.size()});
    context_->synchronize();
    return result;
  }

 private:
  const ContextPtr context_;
  const std::vector<double>& b_;
  std::vector<double> x_;
  Vector<double> its_b_, its_x_;
  LinearSystem<double> system_;
};

Times measure(const Options& options, const CsrMatrix<double>& csr, const std::vector<double>& b,
              int devices) {
  Times times;
  SolveSettings settings = settings_of(options, devices);
  const auto seconds = [&](System& system, int iterations) {
    settings.solver.stopping.relative_tolerance = 0, settings.solver.stopping.max_iterations = iterations;
    system.set(settings);
    const SolveResult result = system.solve();
    if (result.report.iterations != iterations)
      throw std::runtime_error(
          fmt::format("{} iterations instead of {}", result.report.iterations, iterations));
    return result.report.seconds;
  };
  if (options.longer > options.shorter) {
    System system(csr, b, settings);
    std::vector<double> samples;
    for (int i = -1; i < options.repeat; ++i) {
      const double first = seconds(system, options.shorter);
      const double sample = (seconds(system, options.longer) - first) / (options.longer - options.shorter);
      if (i >= 0) samples.push_back(sample);
    }
    times.iteration = median(samples);
  }
  if (options.whole) {
    std::vector<double> samples;
    for (int i = -1; i < 3; ++i) {
      const auto start = Clock::now();
      const SolveResult result = System(csr, b, settings_of(options, devices)).solve();
      if (i >= 0) samples.push_back(seconds_since(start));
      if (!result.converged()) throw std::runtime_error("a solve did not converge: " + result.report.detail);
      times.iterations = result.report.iterations;
    }
    times.whole = median(samples);
  }
  return times;
}

}  // namespace

int run_devices(Arguments& arguments) {
  Options options;
  arguments.read({{"--systems NAME,...", &options.systems, "generators with their parameters"},
                  {"--format ID", &options.format, "of the matrix"},
                  {"--preconditioner NAME", &options.preconditioner, "of cg"},
                  {"--shorter N", &options.shorter, "iterations of the shorter solve", at_least(1)},
                  {"--longer N", &options.longer, "of the longer one; no more than that: whole solves only"},
                  {"--whole", &options.whole, "whole solves, too"},
                  shared::repeat(options.repeat, "pairs of solves"),
                  shared::json(options.json)});
  const ContextPtr host = Context::host();
  Report report("devices", host->threads(), options.json);
  report["preconditioner"] = options.preconditioner, report["format"] = options.format;
  nlohmann::json& results = report["results"] = nlohmann::json::array();
  const int most = Context::device_count();
  fmt::print("{:28} {:>10} {:>5} {:>13} {:>7} {:>11} {:>7} {:>11}\n", "system", "rows", "GPUs",
             "iteration, us", "times", "whole, ms", "times", "iterations");
  for (const Source& source : sources_named(options.systems)) {
    const auto csr = load(host, source, "");
    if (!csr) throw std::runtime_error("there is no system " + source.name);
    const std::vector<double> b = random_numbers(csr->rows());
    Times alone;
    for (int devices = 1; devices <= most; devices *= 2) {
      const Times one = measure(options, *csr, b, devices);
      if (devices == 1) alone = one;
      fmt::print("{:28} {:10} {:5} {:13.2f} {:7.3f} {:11.1f} {:7.3f} {:11}\n", source.name, csr->rows(),
                 devices, 1e6 * one.iteration, one.iteration > 0 ? alone.iteration / one.iteration : 0,
                 1e3 * one.whole, one.whole > 0 ? alone.whole / one.whole : 0, one.iterations);
      std::fflush(stdout);
      results.push_back({{"system", source.name},
                         {"rows", csr->rows()},
                         {"nonzeros", csr->nonzeros()},
                         {"devices", devices},
                         {"iteration_seconds", one.iteration},
                         {"whole_seconds", one.whole},
                         {"iterations", one.iterations}});
      report.write();
    }
  }
  return 0;
}

}  // namespace protean::bench

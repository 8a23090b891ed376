// What a kept preconditioner saves over the steps of a nonlinear problem, and what type auto makes of it.
//
//   refresh_benchmark [--threads N] [--n N] [--steps N] [--repeat N] [--space host|device] [--clock wall|cpu]
//                     [--shape hex|tet] [--json FILE]
//
// -div((1 + u^2) grad u) = s in a cube with n elements along a side, trilinear hexahedra or six linear tetrahedra in
// the place of each, u = 0 on its boundary. The source s grows from step to step; each step is one of Picard's
// iteration: the conductivity of an element is that of the last u at its centre. So all systems have one pattern, and
// values that change slowly. The matrices are assembled before anything is timed, on a device their arrays lie there.
// Each way solves the same systems from x = 0, in csr, so that the preconditioner alone makes the difference. clock
// cpu: the time of the process on processors, for one thread on a machine that is not alone.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/fem/problem.hpp"
#include "core/parallel.hpp"
#include "core/transfer.hpp"
#include "protean.hpp"
#include "report.hpp"
#include "systems/seconds.hpp"

namespace protean::bench {
namespace {

struct Options {
  int threads = 2, n = 40, steps = 50, repeat = 3;
  std::string space = "host", clock = "wall", shape = "hex", json;
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The systems of all steps, in the memory of `context`.
class Sequence {
 public:
  Sequence(const ContextPtr& host, const ContextPtr& context, const std::string& shape, int n, int steps)
      : host_(host), fem_(apps::fem::make_system(*host, spec(shape, n))) {
    const bool on_device = context->space() == Space::device;
    const std::int64_t nodes = static_cast<std::int64_t>(fem_.mesh.nodes.size());
    row_of_.assign(static_cast<std::size_t>(nodes), 0);
    for (const std::int64_t node : fem_.constrained) row_of_[static_cast<std::size_t>(node)] = -1;
    std::int64_t rows = 0;
    for (std::int64_t& row : row_of_) row = row < 0 ? -1 : rows++;
    std::vector<double> u(static_cast<std::size_t>(rows), 0.0);
    b.assign(u.size(), 1.0 / (static_cast<double>(n) * n * n));  // a source of 1, lumped
    Vector<double> right(context, rows), solution(context, rows);
    for (int step = 0; step < steps; ++step) {
      const CsrMatrix<double> csr = assembled(u);
      if (step == 0) first = on_device ? upload(context, csr) : csr;
      values.emplace_back(context, csr.nonzeros());
      copy<double>(*context, VectorView<const double>{csr.values, csr.nonzeros()}, values.back());
      std::vector<double> source = b;
      for (double& one : source) one *= largest_source * (1 + step) / steps;
      SolveSettings settings{.preconditioner = "amg", .format = "csr", .context = context};
      settings.solver.stopping.relative_tolerance = 1e-6;
      copy<double>(*context, VectorView<const double>{source.data(), rows}, right);
      copy<double>(*context, VectorView<const double>{u.data(), rows}, solution);
      (void)solve<double>(with_values(first, values.back().data()), right, solution.view(), settings);
      copy<double>(*context, solution, VectorView<double>{u.data(), rows});
    }
    largest_u = *std::max_element(u.begin(), u.end());
  }

  CsrMatrix<double> first;
  std::vector<Vector<double>> values;
  std::vector<double> b;
  double largest_u = 0;

 private:
  static constexpr double largest_source = 100;
  static apps::fem::Spec spec(const std::string& shape, int n) {
    apps::fem::Spec spec;
    if (shape == "tet") spec.shape = apps::fem::Shape::tetrahedron;
    spec.n = n;
    return spec;
  }
  CsrMatrix<double> assembled(const std::vector<double>& u) const {
    std::vector<double> matrices = fem_.matrices;
    const auto per = static_cast<std::size_t>(fem_.mesh.nodes_of_element());
    const auto elements = static_cast<std::size_t>(fem_.mesh.elements());
    const std::size_t entries = matrices.size() / elements;
    protean::parallel(host_->threads(), [&](int part, int parts) {
      const Range mine = even_range(static_cast<std::int64_t>(elements), part, parts);
      for (auto e = static_cast<std::size_t>(mine.begin); e < static_cast<std::size_t>(mine.end); ++e) {
        double middle = 0;
        for (std::size_t k = 0; k < per; ++k)
          if (const std::int64_t row = row_of_[static_cast<std::size_t>(fem_.mesh.connectivity[e * per + k])];
              row >= 0)
            middle += u[static_cast<std::size_t>(row)] / static_cast<double>(per);
        for (std::size_t k = 0; k < entries; ++k) matrices[e * entries + k] *= 1 + middle * middle;
      }
    });
    ElementOptions options;
    options.symmetric = true, options.constrained = fem_.constrained;
    options.constrained_rows = ConstrainedRows::eliminate;
    const ElementGroup<double> groups[] = {
        {fem_.mesh.elements(), fem_.mesh.nodes_of_element(), fem_.mesh.connectivity, matrices}};
    return make_element_operator<double>(host_, static_cast<std::int64_t>(fem_.mesh.nodes.size()), groups,
                                         options)
        ->assemble();
  }

  ContextPtr host_;
  apps::fem::System fem_;
  std::vector<std::int64_t> row_of_;  // of each node; -1: on the boundary
};

struct Run {
  double total = 0, setup = 0, worst = 0;  // seconds; worst: ||b - A x|| / ||b||
  std::vector<std::int64_t> iterations;
  std::vector<double> seconds;  // of each step, setup included
  std::vector<std::string> used;
};

class Bench {
 public:
  Bench(const Options& options, const Sequence& sequence, const ContextPtr& context)
      : options_(options),
        sequence_(sequence),
        context_(context),
        n_(sequence.first.rows()),
        b_(context, n_),
        x_(context, n_) {
    copy<double>(*context, VectorView<const double>{sequence.b.data(), n_}, b_.view());
  }

  nlohmann::json operator()() {
    const auto with = [](std::string id, Refresh refresh, std::int64_t solves = 0) {
      PreconditionerOptions options;
      options.refresh = refresh, options.solves = solves;
      return std::pair(std::move(id), options);
    };
    const std::vector<std::pair<std::string, std::pair<std::string, PreconditionerOptions>>> ways = {
        {"jacobi", with("jacobi", Refresh::every)},
        {"ic0, every", with("ic0", Refresh::every)},
        {"ic0, when-slower", with("ic0", Refresh::when_slower)},
        {"amg, every", with("amg", Refresh::every)},
        {"amg, when-slower", with("amg", Refresh::when_slower)},
        {"amg, never", with("amg", Refresh::never)},
        {"auto", with("auto", Refresh::automatic)},
        {"auto, solves 50", with("auto", Refresh::automatic, options_.steps)}};
    std::map<std::string, std::vector<Run>> runs;
    for (int turn = 0; turn < options_.repeat; ++turn)
      for (const auto& [name, way] : ways) runs[name].push_back(run(way.first, way.second));
    nlohmann::json all = nlohmann::json::array();
    double jacobi = 0;
    for (const auto& [name, way] : ways) {
      std::vector<Run>& turns = runs[name];
      std::sort(turns.begin(), turns.end(), [](const Run& a, const Run& b) { return a.total < b.total; });
      const Run& middle = turns[turns.size() / 2];
      if (name == "jacobi") jacobi = middle.total;
      std::int64_t sum = 0;
      for (const std::int64_t one : middle.iterations) sum += one;
      fmt::print(
          "  {:18} {:8.3f} s, of it setups {:7.3f}, {:5} iterations, {:.2f} times as fast, ends with {}\n",
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
  Run run(const std::string& id, const PreconditionerOptions& options) {
    Run made;
    std::optional<LinearSystem<double>> system;
    for (std::size_t step = 0; step < sequence_.values.size(); ++step) {
      fill<double>(*context_, 0.0, x_.view());
      context_->synchronize();
      Stopwatch clock;
      const CsrMatrix<double> csr = with_values(sequence_.first, sequence_.values[step].data());
      if (step == 0)
        system.emplace(csr, SolveSettings{.preconditioner = id,
                                          .preconditioning = options,
                                          .format = "csr",
                                          .context = context_,
                                          .check_arrays = false});
      else
        system->update_values(csr);
      const SolveResult result = system->solve(b_, x_.view());
      context_->synchronize();
      made.seconds.push_back(clock.lap());
      made.total += made.seconds.back(), made.setup += result.setup_seconds;
      made.iterations.push_back(result.report.iterations), made.used.push_back(result.preconditioner);
      made.worst = std::max(made.worst, result.report.true_relative);
      if (!result.converged()) fmt::print(stderr, "{}: step {}: {}\n", id, step, result.report.advice);
    }
    return made;
  }

  const Options& options_;
  const Sequence& sequence_;
  ContextPtr context_;
  std::int64_t n_;
  Vector<double> b_, x_;
};

}  // namespace
}  // namespace protean::bench

int main(int argc, char** argv) {
  using namespace protean;
  bench::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i], value = argv[i + 1];
    if (name == "--threads") options.threads = std::atoi(argv[i + 1]);
    if (name == "--n") options.n = std::atoi(argv[i + 1]);
    if (name == "--steps") options.steps = std::atoi(argv[i + 1]);
    if (name == "--repeat") options.repeat = std::atoi(argv[i + 1]);
    if (name == "--space") options.space = value;
    if (name == "--clock") options.clock = value;
    if (name == "--shape") options.shape = value;
    if (name == "--json") options.json = value;
  }
  const ContextPtr host = Context::host(options.threads);
  const ContextPtr context = options.space == "device" ? Context::device() : host;
  const bench::Sequence sequence(host, context, options.shape, options.n, options.steps);
  fmt::print("{} rows, {} entries, {} steps, largest u {:.3g}\n", sequence.first.rows(),
             sequence.first.nonzeros(), options.steps, sequence.largest_u);
  if (options.clock == "cpu") Stopwatch::other_clock = bench::processor_seconds;
  const nlohmann::json ways = bench::Bench(options, sequence, context)();
  if (!options.json.empty())
    bench::write_json(options.json, {{"machine", bench::machine(options.threads)},
                                     {"space", options.space},
                                     {"clock", options.clock},
                                     {"shape", options.shape},
                                     {"rows", sequence.first.rows()},
                                     {"nonzeros", sequence.first.nonzeros()},
                                     {"steps", options.steps},
                                     {"largest_u", sequence.largest_u},
                                     {"ways", ways}});
}

// What a kept system saves over a sequence of solves with new values, as Newton's method and time steps have it.
//
// Each way solves the same systems: one pattern, new values before each solve. Assembly by the program is not counted.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "apps/fem/problem.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/transfer.hpp"
#include "protean.hpp"
#include "systems/seconds.hpp"

namespace protean::bench {
namespace {

struct Options {
  int threads = 2, steps = 15, repeat = 5, n = 40;
  std::string space = "host", json;
};

struct Run {
  double total = 0, worst = 0;  // seconds; worst: ||b - A x|| / ||b||
  std::vector<std::int64_t> iterations, changed_at;
  std::string format, order;
};

class Bench {
 public:
  Bench(const Options& options, std::string name, const apps::fem::Spec& spec)
      : options_(options),
        name_(std::move(name)),
        host_(Context::host(options.threads)),
        context_(context_of(options.space, host_)),
        fem_(apps::fem::make_system(*host_, spec)),
        csr_(fem_.on(host_, ElementScatter::automatic)->assemble()),
        n_(csr_.rows()),
        b_(context_, n_),
        x_(context_, n_) {
    const std::vector<double> b = random_numbers(n_);
    copy<double>(*context_, VectorView<const double>{b.data(), n_}, b_.view());
    for (int step = 0; step < options_.steps; ++step) {
      const double factor = 1 + 0.01 * step;
      values_.emplace_back(csr_.values, csr_.values + csr_.nonzeros());
      for (double& value : values_.back()) value *= factor;
      elements_.push_back(fem_.matrices);
      for (double& value : elements_.back()) value *= factor;
    }
  }

  nlohmann::json operator()() {
    std::map<std::string, std::vector<Run>> runs;
    std::vector<std::string> order;
    const auto add = [&](const std::string& way, const Run& run) {
      if (!runs.contains(way)) order.push_back(way);
      runs[way].push_back(run);
    };
    const SolveSettings plain{
        .method = "cg", .preconditioner = "jacobi", .format = "csr", .context = context_};
    SolveSettings automatic = plain, policy = plain;
    automatic.format = "auto";
    policy.format = "auto", policy.policy = "auto";
    for (int turn = 0; turn < options_.repeat; ++turn) {
      add("csr, kept", kept(plain));
      add("auto, anew in each solve", anew(automatic));
      add("auto, kept", kept(automatic));
      add("policy, anew in each solve", anew(policy));
      add("policy, kept", kept(policy));
      SolveSettings on_elements = plain;
      on_elements.format = "auto";
      add("elements: alone, kept", kept_elements(on_elements));
      add("elements: policy, anew in each solve", anew_elements(policy));
      add("elements: policy, kept", kept_elements(policy));
    }
    fmt::print("{}: {} rows, {} entries, {} elements, {} solves\n", name_, n_, csr_.nonzeros(),
               fem_.mesh.elements(), options_.steps);
    nlohmann::json ways = nlohmann::json::array();
    for (const std::string& way : order) {
      std::vector<Run>& all = runs[way];
      std::sort(all.begin(), all.end(), [](const Run& a, const Run& b) { return a.total < b.total; });
      const Run& run = all[all.size() / 2];
      std::vector<double> totals;
      for (const Run& one : all) totals.push_back(one.total);
      fmt::print(
          "  {:38} {:9.1f} ms, {:4} iterations in the last solve, ended in {} ({}), changes {}, residual "
          "{:.1e}\n",
          way, 1e3 * run.total, run.iterations.back(), run.format, run.order, changes(run), run.worst);
      ways.push_back({{"way", way},
                      {"seconds", totals},
                      {"iterations", run.iterations},
                      {"changed_at", run.changed_at},
                      {"format", run.format},
                      {"order", run.order},
                      {"worst_residual", run.worst}});
    }
    return {{"system", name_},
            {"rows", n_},
            {"nonzeros", csr_.nonzeros()},
            {"elements", fem_.mesh.elements()},
            {"steps", options_.steps},
            {"ways", ways}};
  }

 private:
  // Iteration of the first change of each solve, - for none.
  static std::string changes(const Run& run) {
    std::string text;
    for (const std::int64_t at : run.changed_at)
      text += (text.empty() ? "" : " ") + (at < 0 ? "-" : std::to_string(at));
    return text;
  }
  void note(Run& run, const SolveResult& result) const {
    run.iterations.push_back(result.report.iterations);
    run.changed_at.push_back(result.switches.empty() ? -1 : result.switches.front().iteration);
    run.worst = std::max(run.worst, result.report.true_relative);
    run.format = result.format, run.order = result.order;
    if (!result.converged()) fmt::print(stderr, "{}: {}\n", name_, result.report.advice);
  }
  void guess() { fill<double>(*context_, 0.0, x_.view()); }
  CsrMatrix<double> with(int step) const {
    return with_values(csr_, values_[static_cast<std::size_t>(step)].data());
  }
  ElementGroup<double> group(int step) const {
    return {fem_.mesh.elements(), fem_.mesh.nodes_of_element(), fem_.mesh.connectivity,
            elements_[static_cast<std::size_t>(step)]};
  }
  std::unique_ptr<ElementOperator<double>> operator_of(int step) const {
    ElementOptions options;
    options.components = components(fem_.physics), options.symmetric = true;
    options.constrained = fem_.constrained, options.constrained_rows = ConstrainedRows::eliminate;
    const ElementGroup<double> groups[] = {group(step)};
    return make_element_operator<double>(context_, static_cast<std::int64_t>(fem_.mesh.nodes.size()), groups,
                                         options);
  }

  template <class Step>
  Run timed(Step step) {
    Run run;
    context_->synchronize();
    Stopwatch clock;
    for (int i = 0; i < options_.steps; ++i) guess(), note(run, step(i));
    context_->synchronize();
    run.total = clock.lap();
    return run;
  }
  Run kept(const SolveSettings& settings) {
    std::optional<LinearSystem<double>> system;
    return timed([&](int i) {
      if (i == 0)
        system.emplace(with(0), settings);
      else
        system->update_values(with(i));
      return system->solve(b_, x_.view());
    });
  }
  Run anew(const SolveSettings& settings) {
    return timed([&](int i) { return LinearSystem<double>(with(i), settings).solve(b_, x_.view()); });
  }
  Run kept_elements(const SolveSettings& settings) {
    std::optional<LinearSystem<double>> system;
    return timed([&](int i) {
      const ElementGroup<double> groups[] = {group(i)};
      if (i == 0)
        system.emplace(operator_of(0), settings);
      else
        system->update_values(groups);
      return system->solve(b_, x_.view());
    });
  }
  Run anew_elements(const SolveSettings& settings) {
    return timed([&](int i) { return LinearSystem<double>(operator_of(i), settings).solve(b_, x_.view()); });
  }

  Options options_;
  std::string name_;
  ContextPtr host_, context_;
  apps::fem::System fem_;
  CsrMatrix<double> csr_;
  std::int64_t n_;
  Vector<double> b_, x_;
  std::vector<std::vector<double>> values_, elements_;
};

}  // namespace

int run_kept(Arguments& arguments) {
  Options options;
  arguments.read(
      {shared::space(options.space),
       shared::threads(options.threads),
       {"--n", &options.n, "elements of a side of poisson on hexahedra; the others follow", at_least(4)},
       {"--steps", &options.steps, "systems of each sequence", at_least(1)},
       shared::repeat(options.repeat),
       shared::json(options.json)});
  namespace fem = protean::apps::fem;
  nlohmann::json systems = nlohmann::json::array();
  const int scale = options.space == "device" ? 2 : 1;
  const auto run = [&](const char* name, fem::Shape shape, fem::Physics physics, int size) {
    fem::Spec spec;
    spec.shape = shape, spec.physics = physics, spec.n = size * scale;
    systems.push_back(Bench(options, name, spec)());
  };
  const int n = options.n;
  run("poisson, hexahedra", fem::Shape::hexahedron, fem::Physics::poisson, n);
  run("elasticity, hexahedra", fem::Shape::hexahedron, fem::Physics::elasticity, n * 2 / 5);
  run("poisson, tetrahedra", fem::Shape::tetrahedron, fem::Physics::poisson, n * 3 / 4);
  Report report("kept", options.threads, options.json);
  report["space"] = options.space, report["systems"] = std::move(systems);
  report.write();
  return 0;
}

}  // namespace protean::bench

// Time from element matrices in memory to the solution: assembled first and then solved, solved on the
// element matrices alone, begun on them and assembled during the solve, and left to the policy. Everything is
// counted that a program with element matrices would wait for: making the operator, assembling, converting,
// setting up Jacobi, solving. Repetitions of all ways are interleaved.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "apps/fem/problem.hpp"
#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/cost_model.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::vector<std::string> problems = {"poisson-1-48", "poisson-2-28", "poisson-3-16", "elasticity-1-20",
                                       "elasticity-2-10"},
                           formats = {"csr", "sell-packed"};
  std::string space = "host", scatter = "automatic", json;
  int threads = 2, repeat = 5;
  double tolerance = 1e-8;
};

ElementScatter scatter_of(const std::string& word) {
  for (const auto s : {ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather})
    if (to_string(s) == word) return s;
  return ElementScatter::automatic;
}

apps::fem::Spec spec_of(const std::string& name) {
  const auto words = split(name, '-');
  if (words.size() != 3) throw BadArgument(fmt::format("problem '{}' must be physics-degree-n", name));
  apps::fem::Spec spec;
  spec.physics = words[0] == "elasticity" ? apps::fem::Physics::elasticity : apps::fem::Physics::poisson;
  spec.degree = std::atoi(words[1].c_str()), spec.n = std::atoi(words[2].c_str());
  spec.distortion = 0.05;
  return spec;
}

struct Run {
  double total = 0, make = 0, assemble = 0, convert = 0, solve = 0, residual = 0;
  std::int64_t iterations = 0, adopted = -1;
  std::string format;
};

class Bench {
 public:
  Bench(const Options& options, const std::string& name)
      : options_(options),
        name_(name),
        host_(Context::host(options.threads)),
        context_(context_of(options.space, host_)),
        system_(apps::fem::make_system(*host_, spec_of(name))) {
    const auto A = system_.on(host_, ElementScatter::automatic);
    rows_ = A->rows(), elements_ = A->elements();
    b_.resize(static_cast<std::size_t>(rows_));
    const std::vector<double> x = random_numbers(rows_);
    A->apply(VectorView<const double>{x.data(), rows_}, {b_.data(), rows_});
    nonzeros_ = A->assemble().nonzeros();
  }

  nlohmann::json operator()() {
    std::map<std::string, std::vector<Run>> runs;
    std::vector<std::string> order;
    const auto add = [&](const std::string& way, const Run& run) {
      if (!runs.contains(way)) order.push_back(way);
      runs[way].push_back(run);
    };
    // With one thread, so that another processor is free to assemble during the solve.
    const ContextPtr one = context_ == host_ && options_.threads > 1 ? Context::host(1) : nullptr;
    for (int turn = 0; turn < options_.repeat; ++turn)
      for (const ContextPtr& context : {context_, one}) {
        if (!context) continue;
        const std::string threads = context == one ? ", 1 thread" : "";
        for (const std::string& format : options_.formats)
          add("assembled first, " + format + threads, assembled(context, format));
        add("elements alone" + threads, begun(context, {}, false, false));
        for (const std::string& format : options_.formats)
          add("element start, " + format + threads, begun(context, format, false, true));
        if (context != one) add("policy, waits" + threads, begun(context, {}, true, false));
        add("policy, beside" + threads, begun(context, {}, true, true));
      }
    const auto total = [&](const std::string& way) {
      std::vector<double> all;
      for (const Run& run : runs[way]) all.push_back(run.total);
      return median(all);
    };
    const auto on_one = [](const std::string& way) { return way.ends_with(", 1 thread"); };
    // The better of those assembled first, with as many threads.
    const auto best = [&](bool with_one) {
      double least = INFINITY;
      for (const std::string& way : order)
        if (way.starts_with("assembled first") && on_one(way) == with_one)
          least = std::min(least, total(way));
      return least;
    };
    fmt::print("{}: {} unknowns, {} elements, {} entries assembled\n", name_, rows_, elements_, nonzeros_);
    nlohmann::json ways = nlohmann::json::array();
    for (const std::string& way : order) {
      // The run in the middle.
      std::vector<Run>& all = runs[way];
      std::sort(all.begin(), all.end(), [](const Run& a, const Run& b) { return a.total < b.total; });
      const Run& run = all[all.size() / 2];
      std::vector<double> totals;
      for (const Run& r : all) totals.push_back(r.total);
      fmt::print(
          "  {:32} {:9.2f} ms  {:5.2f} x  make {:8.2f} assemble {:8.2f} convert {:8.2f} solve {:8.2f}  {} "
          "it{}\n",
          way, 1e3 * total(way), total(way) / best(on_one(way)), 1e3 * run.make, 1e3 * run.assemble,
          1e3 * run.convert, 1e3 * run.solve, run.iterations,
          run.adopted >= 0 ? fmt::format(", {} from {}", run.format, run.adopted) : "");
      ways.push_back({{"way", way},
                      {"seconds", total(way)},
                      {"over_assembled_first", total(way) / best(on_one(way))},
                      {"over_two_threads", total(way) / best(false)},
                      {"all_seconds", totals},
                      {"make_seconds", run.make},
                      {"assemble_seconds", run.assemble},
                      {"convert_seconds", run.convert},
                      {"solve_seconds", run.solve},
                      {"iterations", run.iterations},
                      {"adopted_at", run.adopted},
                      {"last_format", run.format},
                      {"true_relative_residual", run.residual}});
    }
    std::fflush(stdout);
    return {{"problem", name_},
            {"rows", rows_},
            {"elements", elements_},
            {"nonzeros", nonzeros_},
            {"ways", ways}};
  }

 private:
  // Jacobi-CG to the tolerance, from 0; adds to run what it took, from `start`.
  void solve(const LinearOperator<double>& A, SolveObserver* observer, Clock::time_point start,
             Run& run) const {
    const ContextPtr& context = A.context();
    Vector<double> b(context, rows_), x(context, rows_);
    copy<double>(*context, {b_.data(), rows_}, b.view());
    fill<double>(*context, 0.0, x);
    const Clock::time_point begin = Clock::now();
    const auto M = make_preconditioner<double>("jacobi", A);
    M->ensure(A);
    SolverOptions options;
    options.stopping.relative_tolerance = options_.tolerance;
    const SolveReport report = make_solver<double>("cg", options)->solve(A, b, x, M.get(), observer);
    context->synchronize();
    run.total = seconds_since(start), run.solve = seconds_since(begin);
    run.iterations = report.iterations, run.residual = report.true_relative;
    if (!report.converged()) throw Error(fmt::format("{} did not converge", name_));
  }

  Run assembled(const ContextPtr& context, const std::string& format) const {
    Run run;
    run.format = format;
    const Clock::time_point start = Clock::now();
    // The variant that is made fastest.
    auto elements = system_.on(context, ElementScatter::atomic);
    context->synchronize();
    run.make = seconds_since(start);
    const Clock::time_point assembling = Clock::now();
    const CsrMatrix<double> csr = elements->assemble();
    elements.reset();
    run.assemble = seconds_since(assembling);
    const Clock::time_point converting = Clock::now();
    const auto A = make_matrix(find_format(format), csr, context);
    context->synchronize();
    run.convert = seconds_since(converting);
    solve(*A, nullptr, start, run);
    return run;
  }

  // On element matrices at once; to `format` from iteration 0 on if one is named, or by the policy.
  Run begun(const ContextPtr& context, const std::string& format, bool policy, bool overlapped) const {
    Run run;
    const Clock::time_point start = Clock::now();
    Matrix<double> A(system_.on(context, scatter_of(options_.scatter)));
    context->synchronize();
    run.make = seconds_since(start);
    run.format = A.name();
    std::optional<FormatSchedule<double>> schedule;
    std::optional<AutoSwitcher<double>> switcher;
    SolveObserver* observer = nullptr;
    if (policy) {
      AutoSwitchOptions how;
      how.goal = options_.tolerance, how.policy.overlapped = overlapped;
      const CostModel model(context->space());
      switcher.emplace(
          A, model, [&A, model] { return survey_formats(*A.elements(), &model); }, how);
      observer = &*switcher;
    } else if (!format.empty()) {
      schedule.emplace(A, std::vector<SchedulePoint>{
                              {ScheduleTrigger::iteration, 0, {.entry = &find_format(format)}, overlapped}});
      observer = &*schedule;
    }
    solve(A, observer, start, run);
    if (switcher) switcher->finish();
    if (schedule) schedule->finish();
    run.total = seconds_since(start);
    if (!A.history().empty()) {
      const SwitchRecord& record = A.history().front();
      run.assemble = record.assemble_seconds, run.convert = record.convert_seconds - record.assemble_seconds;
      run.adopted = record.iteration, run.format = A.history().back().to;
    }
    return run;
  }

  const Options& options_;
  std::string name_;
  ContextPtr host_, context_;
  apps::fem::System system_;
  std::int64_t rows_ = 0, elements_ = 0, nonzeros_ = 0;
  std::vector<double> b_;
};

}  // namespace

int run_element_start(Arguments& arguments) {
  Options options;
  arguments.read({shared::space(options.space),
                  {"--threads", &options.threads,
                   "of a solve; on the host everything is done with one thread, too", at_least(1)},
                  {"--problems", &options.problems, "physics-degree-n, such as poisson-2-24"},
                  shared::formats(options.formats, "to assemble for"),
                  {"--scatter", &options.scatter, "how products on element matrices are added",
                   one_of({"automatic", "atomic", "coloured", "gather"})},
                  shared::repeat(options.repeat),
                  {"--tolerance", &options.tolerance, "of the solves", above(0)},
                  shared::json(options.json)});
  double load[3] = {};
  (void)getloadavg(load, 1);
  nlohmann::json problems = nlohmann::json::array();
  for (const std::string& name : options.problems) problems.push_back(Bench(options, name)());
  Report report("element_start", options.threads, options.json);
  report["space"] = options.space, report["threads"] = options.threads;
  report["tolerance"] = options.tolerance, report["repeat"] = options.repeat;
  report["load_before"] = load[0], report["problems"] = std::move(problems);
  report.write();
  return 0;
}

}  // namespace protean::bench

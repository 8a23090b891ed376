// Time to solution with the format fixed, and changed by the policy during the solve: every problem in csr
// alone, in each format with its conversion counted, with `policy: auto` while the solve waits for
// conversions, and with conversions in another thread. One solve in a fixed format gives the times to all tolerances;
// the policy is run for each, since it decides by the goal. Figures are the shortest of interleaved repetitions, and
// all repetitions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "apps/machine/machine_file.hpp"
#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/cost_model.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

constexpr double tolerances[] = {1e-4, 1e-8, 1e-12};
constexpr std::int64_t most_iterations = 4000;

struct Options {
  std::string folder, json, machine;
  std::vector<std::string> only, formats;
  std::string space = "host";
  int threads = 2, repeat = 3;
  double scale = 1, budget = 600, seconds = 0;
};

struct Problem {
  std::string name, group;
  Source source;
  std::string method = "cg", preconditioner = "jacobi";
};

// n of a generator with `dimensions` sides, scaled so that rows grow by `scale`.
double side(double n, int dimensions, double scale) {
  return std::round(n * std::pow(scale, 1.0 / dimensions));
}

std::vector<Problem> problems(double scale) {
  std::vector<Problem> list;
  const auto generated = [&](const char* group, const char* kind, double n, int dimensions,
                             GeneratorParams more, const char* method, const char* preconditioner,
                             const char* note = "") {
    more["n"] = side(n, dimensions, scale);
    list.push_back({fmt::format("{}{}-{:.0f}{}", kind, note, more["n"],
                                std::string_view(method) == "cg" ? "" : fmt::format("-{}", method)),
                    group,
                    {"", kind, more},
                    method,
                    preconditioner});
  };
  const auto real = [&](const char* name, const char* method) {
    list.push_back({name, "real", {name, "", {}}, method});
  };
  generated("stencil", "poisson-2d", 300, 2, {}, "cg", "none");
  generated("stencil", "poisson-3d", 44, 3, {}, "cg", "none");
  generated("stencil", "poisson-3d", 32, 3, {{"points", 27}}, "cg", "none", "-27");
  generated("stencil", "anisotropic-2d", 250, 2, {{"epsilon_y", 0.01}}, "cg", "jacobi");
  generated("stencil", "anisotropic-3d", 40, 3, {{"epsilon_z", 0.001}}, "cg", "jacobi");
  generated("stencil", "convection-diffusion-3d", 36, 3, {}, "bicgstab", "none");
  generated("stencil", "convection-diffusion-3d", 36, 3, {}, "gmres", "none");
  generated("stencil", "poisson-2d", 150, 2, {}, "gmres", "jacobi");
  generated("block", "elasticity-3d", 10, 3, {}, "cg", "jacobi");
  generated("block", "elasticity-3d", 16, 3, {}, "cg", "jacobi");
  generated("block", "elasticity-3d", 13, 3, {{"poisson", 0.45}}, "cg", "jacobi", "-soft");
  generated("block", "elasticity-3d", 12, 3, {}, "bicgstab", "jacobi");
  generated("power law", "graph-laplacian", 40000, 1, {{"exponent", 2.2}, {"shift", 1e-5}}, "cg", "jacobi",
            "-hubs");
  generated("power law", "graph-laplacian", 40000, 1, {{"exponent", 3}, {"degree", 16}, {"shift", 1e-5}},
            "cg", "jacobi");
  generated("power law", "graph-laplacian", 20000, 1, {{"exponent", 3.5}, {"shift", 1e-6}}, "cg", "none",
            "-plain");
  generated("irregular", "random-spd", 40000, 1, {{"shift", 1e-5}}, "cg", "jacobi");
  generated("irregular", "random-spd", 15000, 1, {{"degree", 40}, {"shift", 1e-6}}, "cg", "jacobi", "-dense");
  generated("irregular", "random-spd", 30000, 1, {{"shift", 1e-4}}, "bicgstab", "none");
  real("bcsstk17", "cg");
  real("G2_circuit", "cg");
  real("bodyy4", "cg");
  real("s1rmt3m1", "cg");
  real("nasa4704", "cg");
  real("gyro_m", "cg");
  real("af23560", "gmres");
  real("Trefethen_20000", "cg");
  return list;
}

// The time at which the observer was called for each iteration.
class Times final : public SolveObserver {
 public:
  bool on_iteration(const IterationInfo& info) override {
    infos_.push_back(info);
    return true;
  }
  // Seconds and iterations until the relative residual was at most this.
  std::optional<std::pair<double, std::int64_t>> reached(double tolerance) const {
    for (const IterationInfo& info : infos_)
      if (info.relative_residual <= tolerance) return std::pair{info.seconds, info.iteration};
    return {};
  }
  // Mean seconds of the iterations from `begin` to `end`.
  double pace(std::int64_t begin, std::int64_t end) const {
    double first = -1, last = -1;
    for (const IterationInfo& info : infos_) {
      if (info.iteration == begin) first = info.seconds;
      if (info.iteration == end) last = info.seconds;
    }
    return first >= 0 && last > first ? (last - first) / static_cast<double>(end - begin) : 0;
  }

 private:
  std::vector<IterationInfo> infos_;
};

// One problem, loaded; everything that is solved with it.
class Bench {
 public:
  Bench(const Problem& problem, const CsrMatrix<double>& csr, const ContextPtr& host,
        const ContextPtr& context, const MachineTable& table, const Options& options)
      : problem_(problem),
        table_(table),
        csr_(csr),
        context_(context),
        options_(options),
        source_(context == host ? csr : upload(context, csr)),
        b_(context, csr.rows()),
        x_(context, csr.rows()) {
    // b = A x for x in [-1, 1).
    Vector<double> x(host, csr.rows()), b(host, csr.rows());
    std::ranges::copy(random_numbers(x.size()), x.data());
    make_matrix(find_format("csr"), csr, host)->apply(x, b);
    copy<double>(*context, {b.data(), b.size()}, b_.view());
    context->synchronize();
  }

  nlohmann::json operator()() {
    std::map<std::string, Fixed> fixed;
    std::map<std::string, std::map<double, Switched>> switched;
    if (context_->space() == Space::device) {
      // What a process needs once (handles of libraries, memory of the pool) is not part of a solve.
      Fixed discarded;
      run_fixed(find_format("csr"), discarded);
    }
    const Clock::time_point begin = Clock::now();
    for (int turn = 0; turn < options_.repeat || (turn < 20 && seconds_since(begin) < options_.seconds);
         ++turn) {
      for (const FormatEntry* entry : catalogue())
        if (wanted(options_.formats, entry->id) || entry->id == "csr")
          run_fixed(*entry, fixed[std::string(entry->id)]);
      for (const double tolerance : tolerances)
        for (const bool overlapped : {false, true})
          if (fixed["csr"].seconds.contains(tolerance))
            run_auto(tolerance, overlapped, switched[overlapped ? "overlapped" : "blocking"][tolerance]);
    }
    return report(fixed, switched);
  }

 private:
  struct Fixed {
    std::string refused;
    std::size_t bytes = 0;
    std::vector<double> convert, product;
    std::map<double, std::vector<double>> seconds;  // to each tolerance, without the conversion
    std::map<double, std::int64_t> iterations;
  };
  struct Switched {
    std::vector<double> seconds, slowdown;
    std::vector<nlohmann::json> runs;  // decisions of each
    std::int64_t iterations = 0;
  };

  SolveReport solve(const LinearOperator<double>& A, SolveObserver& observer, double tolerance) {
    fill<double>(*context_, 0.0, x_);
    SolverOptions options;
    options.stopping.relative_tolerance = tolerance;
    options.stopping.max_iterations = most_iterations;
    const auto M = make_preconditioner<double>(problem_.preconditioner, A, {});
    if (M) M->ensure(A);
    context_->synchronize();
    return make_solver<double>(problem_.method, options)->solve(A, b_, x_, M.get(), &observer);
  }

  void run_fixed(const FormatEntry& entry, Fixed& result) {
    if (!result.refused.empty()) return;
    const Clock::time_point begin = Clock::now();
    std::unique_ptr<AssembledMatrix<double>> A;
    try {
      A = make_matrix(entry, source_, context_);
    } catch (const Error& error) {
      result.refused = error.what();
      return;
    }
    context_->synchronize();
    result.convert.push_back(seconds_since(begin));
    result.bytes = A->bytes();
    Times times;
    (void)solve(*A, times, tolerances[2]);
    for (const double tolerance : tolerances)
      if (const auto reached = times.reached(tolerance))
        result.seconds[tolerance].push_back(reached->first), result.iterations[tolerance] = reached->second;
    Vector<double> y(context_, csr_.rows());
    constexpr int products = 10;
    std::vector<double> taken;
    for (int batch = 0; batch < 5; ++batch) {
      const Clock::time_point start = Clock::now();
      for (int k = 0; k < products; ++k) A->apply(b_, y);
      context_->synchronize();
      taken.push_back(seconds_since(start) / products);
    }
    result.product.push_back(median(taken));
  }

  void run_auto(double tolerance, bool overlapped, Switched& result) {
    Matrix<double> A(source_, make_matrix(find_format("csr"), source_, context_));
    context_->synchronize();
    AutoSwitchOptions options;
    options.goal = tolerance, options.max_iterations = most_iterations,
    options.policy.overlapped = overlapped;
    Times times;
    const CostModel model(table_, context_->space());
    AutoSwitcher<double> switcher(
        A, model, [&] { return survey_formats(A, model, csr_.pattern); }, options, &times);
    const SolveReport solved = solve(A, switcher, tolerance);
    // As for fixed formats: until the residual is reached, without the check at the end.
    const auto reached = times.reached(tolerance);
    const double seconds = reached ? reached->first : solved.seconds;
    switcher.finish();
    result.iterations = solved.iterations;
    result.seconds.push_back(seconds);
    nlohmann::json run = {
        {"seconds", seconds}, {"iterations", solved.iterations}, {"converged", solved.converged()}};
    for (const SwitchRecord& s : A.history()) {
      nlohmann::json change = {{"iteration", s.iteration},
                               {"begun", s.begun_iteration},
                               {"from", s.from},
                               {"to", s.to},
                               {"convert_seconds", s.convert_seconds},
                               {"wait_seconds", s.wait_seconds}};
      const std::int64_t before = std::max<std::int64_t>(1, s.begun_iteration - 32);
      if (overlapped && s.iteration > s.begun_iteration + 1 && s.begun_iteration > before) {
        const double slow =
            times.pace(s.begun_iteration, s.iteration - 1) / times.pace(before, s.begun_iteration) - 1;
        if (std::isfinite(slow)) change["slowdown"] = slow, result.slowdown.push_back(slow);
      }
      run["switches"].push_back(std::move(change));
    }
    for (const FailedSwitch& f : A.failures()) run["failures"].push_back({{"to", f.to}, {"why", f.why}});
    for (const CandidateRecord& c : switcher.candidates())
      if (c.predicted_product > 0 || c.measured_product > 0)
        run["candidates"].push_back({{"format", c.format},
                                     {"predicted_product", c.predicted_product},
                                     {"measured_product", c.measured_product},
                                     {"predicted_convert", c.predicted_convert},
                                     {"measured_convert", c.measured_convert},
                                     {"uncertainty", c.uncertainty},
                                     {"lost", c.lost}});
    for (const DecisionRecord& d : switcher.decisions())
      if (d.action != SwitchAction::stay || &d == &switcher.decisions().back())
        run["decisions"].push_back({{"iteration", d.iteration},
                                    {"action", to_string(d.action)},
                                    {"format", d.format},
                                    {"remaining", {d.remaining.low, d.remaining.likely}},
                                    {"reason", d.reason}});
    result.runs.push_back(std::move(run));
  }

  static double least(const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
  }

  nlohmann::json report(const std::map<std::string, Fixed>& fixed,
                        const std::map<std::string, std::map<double, Switched>>& switched) const {
    nlohmann::json json = {{"problem", problem_.name},
                           {"group", problem_.group},
                           {"method", problem_.method},
                           {"rows", csr_.rows()},
                           {"nonzeros", csr_.nonzeros()}};
    for (const auto& [id, f] : fixed) {
      if (!f.refused.empty()) {
        json["fixed"][id]["refused"] = f.refused;
        continue;
      }
      json["fixed"][id] = {{"bytes", f.bytes}, {"convert", least(f.convert)}, {"product", least(f.product)}};
      for (const auto& [tolerance, seconds] : f.seconds)
        json["fixed"][id]["to"][fmt::format("{:g}", tolerance)] = {
            {"seconds", least(seconds)}, {"all", seconds}, {"iterations", f.iterations.at(tolerance)}};
    }
    for (const auto& [mode, by_tolerance] : switched)
      for (const auto& [tolerance, s] : by_tolerance) {
        const auto best = static_cast<std::size_t>(std::min_element(s.seconds.begin(), s.seconds.end()) -
                                                   s.seconds.begin());
        json["auto"][mode][fmt::format("{:g}", tolerance)] = {{"seconds", s.seconds[best]},
                                                              {"all", s.seconds},
                                                              {"iterations", s.iterations},
                                                              {"slowdown", s.slowdown},
                                                              {"run", s.runs[best]}};
      }
    print(json);
    return json;
  }

  // Whether the solve in a fixed format reached a tolerance.
  static bool reaches(const nlohmann::json& fixed, const std::string& tolerance) {
    return fixed.contains("to") && fixed["to"].contains(tolerance);
  }

  static void print(const nlohmann::json& json) {
    fmt::print("\n{}: {} rows, {} entries, {}\n", json["problem"].get<std::string>(),
               json["rows"].get<std::int64_t>(), json["nonzeros"].get<std::int64_t>(),
               json["method"].get<std::string>());
    for (const double goal : tolerances) {
      const std::string tolerance = fmt::format("{:g}", goal);
      if (!reaches(json["fixed"]["csr"], tolerance)) {
        fmt::print("  {:>6} not reached in csr within {} iterations\n", tolerance, most_iterations);
        continue;
      }
      const auto& csr = json["fixed"]["csr"]["to"][tolerance];
      double best = INFINITY;
      std::string name;
      for (const auto& [id, f] : json["fixed"].items()) {
        if (!reaches(f, tolerance)) continue;
        // The policy begins in csr, so that making it counts for neither.
        const double total =
            f["to"][tolerance]["seconds"].get<double>() + (id == "csr" ? 0 : f["convert"].get<double>());
        if (total < best) best = total, name = id;
      }
      fmt::print("  {:>6} {:5d} its  csr {:9.3f} ms  best {:>12} {:9.3f} ms", tolerance,
                 csr["iterations"].get<std::int64_t>(), csr["seconds"].get<double>() * 1e3, name, best * 1e3);
      for (const char* mode : {"blocking", "overlapped"}) {
        const auto& a = json["auto"][mode][tolerance];
        fmt::print("  {} {:9.3f} ms{}", mode, a["seconds"].get<double>() * 1e3,
                   a["run"].contains("switches")
                       ? fmt::format(" ({} at {})", a["run"]["switches"][0]["to"].get<std::string>(),
                                     a["run"]["switches"][0]["iteration"].get<std::int64_t>())
                       : " (stayed)");
      }
      fmt::print("\n");
    }
    std::fflush(stdout);
  }

  const Problem& problem_;
  const MachineTable& table_;
  const CsrMatrix<double>& csr_;
  ContextPtr context_;
  const Options& options_;
  CsrMatrix<double> source_;
  Vector<double> b_, x_;
};

// The load average of the last minute shows what else ran on the machine.
double load_average() {
  double load[1] = {0};
  return getloadavg(load, 1) == 1 ? load[0] : 0;
}

}  // namespace

int run_policy(Arguments& arguments) {
  Options options;
  arguments.read(
      {shared::space(options.space),
       shared::threads(options.threads),
       shared::folder(options.folder),
       {"--scale", &options.scale, "generated matrices have about this many times as many rows", above(0)},
       shared::repeat(options.repeat),
       {"--seconds", &options.seconds, "repetitions of a problem go on for this long, up to 20", at_least(0)},
       {"--only", &options.only, "problems, by their names in the output"},
       shared::formats(options.formats, "our formats, next to csr"),
       {"--machine FILE", &options.machine, "a table of protean tune instead of the built-in one"},
       {"--budget", &options.budget, "no problem is begun after this many seconds", above(0)},
       shared::json(options.json)});
  // Code of all kernels is brought to a GPU at the start, not with the first solve of each format.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  const ContextPtr host = Context::host(options.threads), context = context_of(options.space, host);
  Report json("switching", options.threads, options.json);
  json["space"] = options.space, json["load_before"] = load_average();
  const MachineTable table =
      options.machine.empty() ? builtin_machine() : apps::read_machine(options.machine);
  json["table"] = table.machine;
  const Clock::time_point begin = Clock::now();
  for (const Problem& problem : problems(options.scale)) {
    if (!wanted(options.only, problem.name)) continue;
    if (seconds_since(begin) > options.budget) {
      fmt::print("{}: not run, the budget is spent\n", problem.name);
      json["not_run"].push_back(problem.name);
      continue;
    }
    const auto csr = load(host, problem.source, options.folder);
    if (!csr) {
      fmt::print("{}: not found in the folder of matrices\n", problem.name);
      json["not_run"].push_back(problem.name);
      continue;
    }
    json["problems"].push_back(Bench(problem, *csr, host, context, table, options)());
    json["load_after"] = load_average();
    json.write();
  }
  return 0;
}

}  // namespace protean::bench

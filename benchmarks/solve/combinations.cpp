// The default solve next to the best combination of method, preconditioner and format, and next to Jacobi-CG in csr
// (jacobi and bicgstab for other matrices): solve() from CSR arrays to x, everything counted.
//
// Each combination runs once, for at most three times as long as the best one so far; with csr first, and the three
// fastest with format auto, too. The default, the two fastest combinations and Jacobi then take turns. Ratios are of
// medians. A system that no combination solves is left out. b is random, the relative residual 1e-8.
//
// --clock processor: time of the process on its processor, by which type auto then decides, too, for one thread on a
// machine that also does other work.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/transfer.hpp"
#include "protean.hpp"
#include "systems/seconds.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::vector<std::string> only;
  std::string folder, json, space = "host", clock = "wall";
  int threads = 2, repeat = 7;
  double seconds = 5;
};

// Systems that no rule and no table was fitted to; the half that has no kind is real.
const std::vector<Source>& systems() {
  static const std::vector<Source> list = [] {
    std::vector<Source> all;
    for (const auto& [kind, sizes] : std::initializer_list<std::pair<const char*, std::vector<double>>>{
             {"poisson-2d", {37, 110, 250}},
             {"poisson-3d", {13, 27, 40}},
             {"anisotropic-2d", {66, 170}},
             {"anisotropic-3d", {17, 34}},
             {"elasticity-3d", {7, 13}},
             {"convection-diffusion-3d", {11, 24, 40}},
             {"graph-laplacian", {3000, 26000}},
             {"random-spd", {2500, 45000}}})
      for (const double n : sizes) all.push_back({fmt::format("{}-{}", kind, n), kind, {{"n", n}}});
    for (const double epsilon : {0.1, 1e-4})
      all.push_back({fmt::format("anisotropic-2d-130-{}", epsilon),
                     "anisotropic-2d",
                     {{"n", 130}, {"epsilon_y", epsilon}}});
    for (const double n : {12, 31})
      all.push_back({fmt::format("poisson-3d-{}-27", n), "poisson-3d", {{"n", n}, {"points", 27}}});
    for (const double degree : {4, 14})
      all.push_back({fmt::format("random-spd-12000-{}", degree),
                     "random-spd",
                     {{"n", 12000}, {"degree", degree}, {"seed", 11}}});
    for (const double exponent : {2.2, 3.0})
      all.push_back({fmt::format("graph-laplacian-9000-{}", exponent),
                     "graph-laplacian",
                     {{"n", 9000}, {"degree", 8}, {"exponent", exponent}, {"seed", 11}}});
    for (const char* real : {"Si2",        "Trefethen_2000", "add20",    "add32",    "bcsstk06", "bcsstk07",
                             "bcsstk10",   "bcsstk14",       "bcsstk19", "bcsstk20", "bcsstk24", "bcsstm07",
                             "bcsstm12",   "bcsstm23",       "bcsstm25", "bloweybq", "cage8",    "ck656",
                             "cryg2500",   "dw4096",         "fs_541_1", "fs_760_3", "gr_30_30", "hor_131",
                             "jpwh_991",   "msc01440",       "nos7",     "orsreg_1", "piston",   "rail_1357",
                             "rail_20209", "rail_5177",      "sherman2", "sherman4", "steam2",   "watt_2"})
      all.push_back({real, "", {}});
    return all;
  }();
  return list;
}

double processor_seconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Way {
  std::string method, preconditioner, format;
  std::string name() const { return fmt::format("{} {} {}", method, preconditioner, format); }
};

struct Run {
  double seconds = 0;
  SolveResult result;
  bool solved = false;
};

class System {
 public:
  System(ContextPtr context, const Options& options, const CsrMatrix<double>& given, bool symmetric)
      : context_(std::move(context)),
        options_(options),
        given_(given),
        symmetric_(symmetric),
        b_(random_numbers(given.rows())) {
    if (context_->space() == Space::device) there_ = upload(context_, given);
    right_ = Vector<double>(context_, given.rows());
    copy<double>(*context_, VectorView<const double>{b_.data(), given.rows()}, right_.view());
  }

  std::vector<Way> ways() const {
    std::vector<Way> all;
    const auto add = [&](const char* method, std::initializer_list<const char*> preconditioners) {
      for (const char* preconditioner : preconditioners) all.push_back({method, preconditioner, "csr"});
    };
    if (symmetric_) {
      add("cg", {"jacobi", "block-jacobi", "ssor", "ic0", "amg"});
      add("minres", {"jacobi", "amg"});
    } else {
      for (const char* method : {"bicgstab", "gmres", "idr"})
        add(method, {"jacobi", "block-jacobi", "ilu0", "amg"});
    }
    return all;
  }
  Way jacobi() const { return {symmetric_ ? "cg" : "bicgstab", "jacobi", "csr"}; }

  Run solve(const std::optional<Way>& way, double most_seconds) const {
    SolveSettings settings{.context = context_};
    if (way)
      settings.method = way->method, settings.preconditioner = way->preconditioner,
      settings.format = way->format;
    settings.solver.stopping.max_seconds = most_seconds;
    Vector<double> x(context_, given_.rows());
    fill<double>(*context_, 0.0, x.view());
    context_->synchronize();
    Run run;
    Stopwatch clock;
    try {
      run.result = protean::solve<double>(there_ ? *there_ : given_, right_.view(), x.view(), settings);
    } catch (const Error&) { return run; }  // refused, or broken in its setup
    context_->synchronize();
    run.seconds = clock.lap();
    const std::vector<double> found = to_host(x);
    run.solved = run.result.converged() && relative_residual(given_, b_.data(), found.data()) <= 1.01e-8;
    return run;
  }

 private:
  std::vector<double> to_host(const Vector<double>& x) const {
    std::vector<double> found(b_.size());
    copy<double>(*context_, x.view(), VectorView<double>{found.data(), given_.rows()});
    context_->synchronize();
    return found;
  }

  ContextPtr context_;
  const Options& options_;
  const CsrMatrix<double>& given_;
  std::optional<CsrMatrix<double>> there_;
  bool symmetric_;
  std::vector<double> b_;
  Vector<double> right_;
};

struct Ratios {
  std::vector<double> to_best, to_jacobi;
  std::vector<std::string> misses;
};

nlohmann::json measure(const System& system, const Options& options, const std::string& name,
                       const CsrMatrix<double>& csr, Ratios& ratios) {
  const Run first = system.solve({}, options.seconds);
  double best = options.seconds / 3;
  std::vector<std::pair<double, Way>> solved;
  bool by_jacobi = false;
  const auto try_out = [&](const Way& way) {
    // The limit is of the time on the wall.
    const double wall = options.clock == "wall" ? 1 : 10;
    const Run run = system.solve(way, wall * std::max(3 * best, 0.02));
    if (!run.solved) return;
    best = std::min(best, run.seconds);
    solved.push_back({run.seconds, way});
    by_jacobi = by_jacobi || way.name() == system.jacobi().name();
  };
  const auto by_time = [](const auto& a, const auto& b) { return a.first < b.first; };
  for (const Way& way : system.ways()) try_out(way);
  std::sort(solved.begin(), solved.end(), by_time);
  const std::size_t count = std::min<std::size_t>(solved.size(), 3);
  for (std::size_t i = 0; i < count; ++i) {
    Way way = solved[i].second;
    way.format = "auto";
    try_out(way);
  }
  std::sort(solved.begin(), solved.end(), by_time);
  if (solved.empty()) {
    fmt::print("{:26} {:8} rows {:9} entries: no combination solves it\n", name, csr.rows(), csr.nonzeros());
    return {};
  }
  if (solved.size() > 2) solved.resize(2);
  std::vector<double> own, jacobi;
  std::vector<std::vector<double>> others(solved.size());
  bool converged = first.solved;
  SolveResult last = first.result;
  for (int turn = 0; turn < options.repeat; ++turn) {
    if (converged) {
      Run run = system.solve({}, options.seconds);
      own.push_back(run.seconds), converged = run.solved, last = std::move(run.result);
    }
    for (std::size_t i = 0; i < solved.size(); ++i)
      others[i].push_back(system.solve(solved[i].second, options.seconds).seconds);
    if (by_jacobi) jacobi.push_back(system.solve(system.jacobi(), options.seconds).seconds);
  }
  std::size_t fastest = 0;
  for (std::size_t i = 1; i < others.size(); ++i)
    if (median(others[i]) < median(others[fastest])) fastest = i;
  const double of_best = median(others[fastest]), of_own = own.empty() ? 0 : median(own);
  const double to_best = converged ? of_own / of_best : INFINITY;
  const double to_jacobi = converged && by_jacobi ? of_own / median(jacobi) : 0;
  const double later = by_jacobi ? 1e6 * (of_own - median(jacobi)) : 0;
  if (converged) ratios.to_best.push_back(to_best);
  if (to_jacobi > 0) ratios.to_jacobi.push_back(to_jacobi);
  const bool miss = !converged || to_best > 1.8, slower = to_jacobi > 1.05 && later > 20;
  if (miss || slower) ratios.misses.push_back(name);
  const std::string taken = fmt::format("{} {} {}", last.method, last.preconditioner, last.format);
  fmt::print("{:26} {:7} rows {:8} entries {:9.3f} ms {:32} best {:9.3f} {:32} {:5.2f} of jacobi {:5.2f}{}\n",
             name, csr.rows(), csr.nonzeros(), 1e3 * of_own, taken, 1e3 * of_best,
             solved[fastest].second.name(), to_best, to_jacobi,
             !converged ? "  NOT CONVERGED: " + std::string(to_string(last.report.reason))
             : miss     ? "  MISS"
             : slower   ? "  slower than jacobi"
                        : "");
  std::fflush(stdout);
  nlohmann::json changes = nlohmann::json::array();
  for (const PreconditionerChange& one : last.preconditioner_changes)
    changes.push_back({{"iteration", one.iteration},
                       {"action", to_string(one.action)},
                       {"to", one.to},
                       {"setup_seconds", one.setup_seconds},
                       {"reason", one.reason}});
  return {{"matrix", name},
          {"rows", csr.rows()},
          {"nonzeros", csr.nonzeros()},
          {"default", {{"taken", taken}, {"seconds", own}, {"iterations", last.report.iterations}}},
          {"converged", converged},
          {"preconditioner_reason", last.preconditioner_reason},
          {"method_reason", last.method_reason},
          {"preconditioner_changes", changes},
          {"best", {{"way", solved[fastest].second.name()}, {"seconds", others[fastest]}}},
          {"jacobi", {{"seconds", jacobi}}},
          {"to_best", converged ? to_best : 0},
          {"to_jacobi", to_jacobi}};
}

}  // namespace

int run_combinations(Arguments& arguments) {
  Options options;
  arguments.read({shared::space(options.space),
                  shared::threads(options.threads),
                  shared::only(options.only),
                  shared::folder(options.folder),
                  shared::repeat(options.repeat, "turns of the fastest"),
                  shared::seconds(options.seconds, "the longest solve"),
                  {"--clock", &options.clock, "what is measured", one_of({"wall", "processor"})},
                  shared::json(options.json)});
  if (options.clock == "processor") {
    if (options.threads != 1 || options.space != "host")
      arguments.refuse("--clock processor is for one thread of the host: --threads 1");
    Stopwatch::other_clock = processor_seconds;
  }
  const ContextPtr host = Context::host(options.threads);
  const ContextPtr context = context_of(options.space, host);
  Report report("combinations", options.threads, options.json);
  report["space"] = options.space, report["clock"] = options.clock, report["repeat"] = options.repeat;
  nlohmann::json& results = report["matrices"] = nlohmann::json::array();
  Ratios ratios;
  const auto add = [&](const Source& source) {
    const auto csr = load(host, source, options.folder);
    if (!csr || csr->rows() != csr->cols()) return;
    const System system(context, options, *csr, is_symmetric(host, *csr));
    if (nlohmann::json one = measure(system, options, source.name, *csr, ratios); !one.is_null())
      results.push_back(std::move(one));
    report.write();
  };
  if (options.only.empty())
    for (const Source& source : systems()) add(source);
  else
    for (const std::string& name : options.only) {
      const auto found = std::find_if(systems().begin(), systems().end(),
                                      [&](const Source& source) { return source.name == name; });
      add(found == systems().end() ? Source{name, "", {}} : *found);
    }
  const auto summary = [](const char* what, const std::vector<double>& all) {
    if (all.empty()) return;
    fmt::print("{} systems, {}: {:.2f} in the mean, {:.2f} at 95 %, {:.2f} at worst\n", all.size(), what,
               geometric_mean(all), quantile(all, 0.95), quantile(all, 1));
  };
  summary("default over the best combination", ratios.to_best);
  summary("default over jacobi in csr", ratios.to_jacobi);
  fmt::print("missed (1.8 times the best, not solved, or slower than jacobi by 5 % and 20 us): {}\n",
             fmt::join(ratios.misses, " "));
  return 0;
}

}  // namespace protean::bench

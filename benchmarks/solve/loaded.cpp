// Jacobi-CG on processors that also do other work, with our solver and with solvers of other libraries. All run in
// one process, in alternation, first on an idle machine, then with some busy loops. A busy loop is a process that
// only counts. A sample is the time of a whole solve of a fixed number of iterations from x = 0: as many as our
// solver needs to reduce the residual by 1e8.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/note.hpp"
#include "benchmarks/solve/contestants.hpp"
#include "core/context.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string folder, json;
  std::vector<std::string> only = {"quadratic-64"}, formats, loops = {"0", "1", "2", "4"};
  int threads = 2, iterations = 0;
  double seconds = 15;
};

// Processes that keep a processor busy each, while this object lives.
class BusyLoops {
 public:
  explicit BusyLoops(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t parent = getpid(), child = fork();
      if (child < 0) throw std::runtime_error("cannot start a busy loop");
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with the benchmark, however that ends
        if (getppid() != parent) _exit(0);
        for (volatile unsigned counter = 0;;) counter = counter + 1;
      }
      children_.push_back(child);
    }
  }
  ~BusyLoops() {
    for (const pid_t child : children_) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  }
  BusyLoops(const BusyLoops&) = delete;
  BusyLoops& operator=(const BusyLoops&) = delete;

 private:
  std::vector<pid_t> children_;
};

int iterations_needed(const ContextPtr& context, const CsrMatrix<double>& csr, const Vector<double>& b) {
  const auto A = make_matrix<double>(find_format("csr"), csr, context);
  const auto M = make_preconditioner<double>("jacobi", *A);
  M->ensure(*A);
  Vector<double> x(context, csr.rows());
  std::fill_n(x.data(), x.size(), 0.0);
  const SolveReport report =
      make_solver<double>("cg", {.stopping = {.relative_tolerance = 1e-8, .max_iterations = 2000}})
          ->solve(*A, b, x, M.get());
  return static_cast<int>(report.iterations);
}

void race(std::vector<Contestant>& contestants, const CsrMatrix<double>& csr, const Vector<double>& b,
          Vector<double>& x, int iterations, double seconds) {
  for (Contestant& c : contestants) {
    c.samples.clear();
    c.cg.solve(b.data(), x.data(), iterations);
    c.residual = relative_residual(csr, b.data(), x.data());
  }
  const auto begin = Clock::now();
  for (int turn = 0; turn < 5 || seconds_since(begin) < seconds; ++turn)
    for (Contestant& c : contestants) {
      let_threads_park();
      const auto start = Clock::now();
      c.cg.solve(b.data(), x.data(), iterations);
      c.samples.push_back(seconds_since(start));
    }
}

CsrMatrix<double> matrix_named(const ContextPtr& context, const Source& source, const std::string& folder) {
  if (source.name == "quadratic-64") return quadratic_elements(context, 64);
  const auto csr = load(context, source, folder);
  if (!csr) throw std::runtime_error(fmt::format("there is no {} in the folder of --folder", source.name));
  return *csr;
}

}  // namespace

int run_loaded(Arguments& arguments) {
  Options options;
  arguments.read(
      {shared::folder(options.folder),
       {"--only", &options.only, "matrices; quadratic-64 is the Laplacian on 64 x 64 quadratic elements"},
       shared::formats(options.formats, "our formats; csr and the two with the fastest product if none"),
       shared::threads(options.threads),
       {"--loops N,...", &options.loops, "numbers of busy loops; 0 is the idle machine"},
       {"--iterations", &options.iterations, "of one solve; 0: as many as reduce the residual by 1e8",
        at_least(0)},
       shared::seconds(options.seconds, "time for each number of loops; every solver has 5 turns at least"),
       shared::json(options.json)});
  const auto context = Context::host(options.threads);
  Report report("loaded", options.threads, options.json);
  note_peers(report);
  for (const Source& source : sources_named(options.only)) {
    const CsrMatrix<double> csr = matrix_named(context, source, options.folder);
    Vector<double> b(context, csr.rows()), x(context, csr.rows());
    std::ranges::copy(waves(b.size(), 0.5), b.data());
    const int iterations = options.iterations > 0 ? options.iterations : iterations_needed(context, csr, b);
    std::vector<Contestant> contestants = cg_contestants(context, csr, options.formats);
    fmt::print("\n{}: {} rows, {} entries, {} iterations\n", source.name, csr.rows(), csr.nonzeros(),
               iterations);
    nlohmann::json entry = {{"matrix", source.name},
                            {"rows", csr.rows()},
                            {"nonzeros", csr.nonzeros()},
                            {"iterations", iterations}};
    std::vector<double> first;  // medians with the first number of loops
    for (const std::string& loops : options.loops) {
      const int count = std::atoi(loops.c_str());
      {
        const BusyLoops busy(count);
        let_threads_park();
        race(contestants, csr, b, x, iterations, options.seconds);
      }
      fmt::print("  {:24} {:>9} {:>9} {:>9} {:>9} {:>6} {:>10}\n",
                 fmt::format("{} busy loops, ms a solve", count), "min", "median", "90 %", "max", "turns",
                 first.empty() ? "" : fmt::format("x {} loops", options.loops[0]));
      nlohmann::json rows = nlohmann::json::array();
      std::vector<double> medians;
      for (const Contestant& c : contestants) {
        medians.push_back(median(c.samples));
        const double ninth = quantile(c.samples, 0.9), most = quantile(c.samples, 1);
        fmt::print("  {:24} {:9.2f} {:9.2f} {:9.2f} {:9.2f} {:6} {:>10}\n", c.cg.name, 1e3 * c.least(),
                   1e3 * medians.back(), 1e3 * ninth, 1e3 * most, c.samples.size(),
                   first.empty() ? "" : fmt::format("{:.2f}", medians.back() / first[medians.size() - 1]));
        rows.push_back({{"name", c.cg.name},
                        {"ours", c.ours},
                        {"seconds_min", c.least()},
                        {"seconds_median", medians.back()},
                        {"seconds_90_percent", ninth},
                        {"seconds_max", most},
                        {"turns", c.samples.size()},
                        {"true_relative_residual", c.residual}});
      }
      if (first.empty()) first = medians;
      entry["loads"].push_back({{"busy_loops", count}, {"solvers", rows}});
      std::fflush(stdout);
    }
    report["matrices"].push_back(entry);
  }
  report.write();
  return 0;
}

}  // namespace protean::bench

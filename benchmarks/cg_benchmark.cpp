// One iteration of Jacobi-CG, ours beside that of other libraries: one process, the same threads, warm, in
// turns. A sample is a whole solve of a fixed number of iterations from x = 0, divided by that number; what a
// solver does before and after its loop is in it (ours: two true residuals). Of our formats the two with the
// fastest product run, and csr. The true residual of every x is computed and compared.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "benchmarks/clock.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/peers/peers.hpp"
#include "benchmarks/report.hpp"
#include "benchmarks/sources.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

constexpr const char* usage =
    R"(usage: cg_benchmark [--matrices FOLDER] [--only NAME,...] [--formats ID,...] [--threads N] [--iterations K]
                    [--seconds S] [--json FILE]
  --matrices    folder with G2_circuit and bcsstk17 as .mtx, .mtx.gz or .mtx.xz
  --only        run these matrices only (names as in the table)
  --formats     run these of our formats, instead of csr and the two fastest
  --threads     2 if not given
  --iterations  of one solve, 100 if not given
  --seconds     time for each solver on each matrix, 3 if not given
  --json        write all figures there
)";

struct Options {
  std::string folder, json;
  std::vector<std::string> only, formats;
  int threads = 2, iterations = 100;
  double seconds = 3;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  const bool read = read_options(argc, argv,
                                 {{"--matrices", &options.folder},
                                  {"--only", &options.only},
                                  {"--formats", &options.formats},
                                  {"--threads", &options.threads},
                                  {"--iterations", &options.iterations},
                                  {"--seconds", &options.seconds},
                                  {"--json", &options.json}});
  if (!read || options.threads < 1 || options.iterations < 1 || !(options.seconds > 0)) return {};
  return options;
}

struct Contestant {
  CgSolve cg;
  bool ours = false;
  std::vector<double> samples = {};
  double residual = 0;
  double least() const { return *std::min_element(samples.begin(), samples.end()); }
};

// ||b - A x|| / ||b|| in long double, row by row.
double relative_residual(const CsrMatrix<double>& A, const Vector<double>& b, const Vector<double>& x) {
  long double rr = 0, bb = 0;
  for (std::int64_t i = 0; i < A.rows(); ++i) {
    long double r = b[i];
    for (std::int64_t k = A.pattern.row_ptr[i]; k < A.pattern.row_ptr[i + 1]; ++k)
      r -= static_cast<long double>(A.values[k]) * x[A.pattern.col[k]];
    rr += r * r, bb += static_cast<long double>(b[i]) * b[i];
  }
  return static_cast<double>(std::sqrt(rr / bb));
}

// Our formats, fastest product first; those refused are left out.
std::vector<std::shared_ptr<AssembledMatrix<double>>> our_matrices(const ContextPtr& context,
                                                                   const CsrMatrix<double>& csr,
                                                                   const Options& options) {
  std::vector<std::pair<double, std::shared_ptr<AssembledMatrix<double>>>> timed;
  Vector<double> x(context, csr.cols()), y(context, csr.rows());
  std::fill_n(x.data(), x.size(), 1.0);
  for (const FormatEntry* format : catalogue()) {
    if (!wanted(options.formats, format->id)) continue;
    try {
      std::shared_ptr<AssembledMatrix<double>> matrix = make_matrix(*format, csr, context);
      double least = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 10; ++i) {
        const auto start = Clock::now();
        matrix->apply(x, y);
        least = std::min(least, seconds_since(start));
      }
      timed.emplace_back(least, std::move(matrix));
    } catch (const FormatRefused&) {}
  }
  std::sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::shared_ptr<AssembledMatrix<double>>> chosen;
  for (std::size_t i = 0; i < timed.size(); ++i)
    if (i < 2 || !options.formats.empty() || timed[i].second->name() == "csr")
      chosen.push_back(timed[i].second);
  return chosen;
}

CgSolve our_cg(std::shared_ptr<AssembledMatrix<double>> matrix) {
  std::shared_ptr<Preconditioner<double>> jacobi = make_preconditioner<double>("jacobi", *matrix);
  jacobi->ensure(*matrix);
  struct Held {
    std::unique_ptr<Solver<double>> solver;
  };
  auto held = std::make_shared<Held>();
  return {std::string(matrix->name()), [=](const double* b, double* x, int iterations) {
            if (!held->solver || held->solver->options().stopping.max_iterations != iterations)
              held->solver = make_solver<double>(
                  "cg", {.stopping = {.relative_tolerance = 0, .max_iterations = iterations}});
            const std::int64_t n = matrix->rows();
            std::fill_n(x, n, 0.0);
            const SolveReport report = held->solver->solve(*matrix, {b, n}, {x, n}, jacobi.get());
            if (report.reason != StopReason::max_iterations || report.iterations != iterations)
              throw std::runtime_error(fmt::format("our cg ended with {} after {} iterations",
                                                   to_string(report.reason), report.iterations));
          }};
}

void race(std::vector<Contestant>& contestants, const CsrMatrix<double>& csr, const Vector<double>& b,
          Vector<double>& x, const Options& options) {
  double longest = 0;
  for (Contestant& c : contestants) {
    const auto start = Clock::now();
    c.cg.solve(b.data(), x.data(), options.iterations);
    longest = std::max(longest, seconds_since(start));
    c.residual = relative_residual(csr, b, x);
  }
  const int turns = std::clamp(static_cast<int>(options.seconds / longest), 7, 1000);
  for (int turn = 0; turn < turns; ++turn)
    for (Contestant& c : contestants) {
      const auto start = Clock::now();
      c.cg.solve(b.data(), x.data(), options.iterations);
      c.samples.push_back(seconds_since(start) / options.iterations);
    }
}

// The ratios to each group of peers, by name prefix.
void compare(const std::vector<Contestant>& contestants, nlohmann::json& entry,
             std::map<std::string, std::vector<double>>& all_ratios) {
  const auto best = [&](auto&& belongs) {
    const Contestant* found = nullptr;
    for (const Contestant& c : contestants)
      if (belongs(c) && (!found || c.least() < found->least())) found = &c;
    return found;
  };
  const Contestant* ours = best([](const Contestant& c) { return c.ours; });
  for (const char* library : {"mkl", "eigen", "petsc"}) {
    const Contestant* peer =
        best([&](const Contestant& c) { return !c.ours && c.cg.name.starts_with(library); });
    if (!ours || !peer) continue;
    const double least = peer->least() / ours->least(),
                 medians = median(peer->samples) / median(ours->samples);
    fmt::print("  {} / {}: {:.2f} times as fast (medians {:.2f})\n", ours->cg.name, peer->cg.name, least,
               medians);
    entry["ratios"][library] = {
        {"ours", ours->cg.name}, {"peer", peer->cg.name}, {"min", least}, {"median", medians}};
    all_ratios[library].push_back(least);
  }
}

int run(const Options& options) {
  const auto context = Context::host(options.threads);
  nlohmann::json report = {
      {"benchmark", "cg"}, {"machine", machine(options.threads)}, {"iterations", options.iterations}};
  for (const Peer& peer : {mkl(), eigen(), petsc()}) {
    report["peers"][peer.library] = peer.version.empty() ? "absent" : peer.version;
    fmt::print("{} {}\n", peer.library, peer.version.empty() ? "is not in this build" : peer.version);
  }
  fmt::print("{}\n", report["machine"].dump());
  std::map<std::string, std::vector<double>> ratios;
  bool all_right = true;
  for (const Source& source : sources()) {
    if (!wanted(options.only, source.name)) continue;
    const auto csr = load(context, source, options.folder);
    if (!csr) {
      fmt::print("\n{}: no such file (--matrices)\n", source.name);
      report["absent"].push_back(source.name);
      continue;
    }
    if (!is_symmetric(context, *csr)) continue;
    Vector<double> b(context, csr->rows()), x(context, csr->rows()), d(context, csr->rows());
    extract_diagonal(*context, *csr, d.data());
    // A cheap sign that a symmetric matrix is not positive definite: a graph without values, for one.
    if (std::any_of(d.data(), d.data() + d.size(), [](double entry) { return !(entry > 0); })) continue;
    for (std::int64_t i = 0; i < b.size(); ++i) b[i] = std::sin(static_cast<double>(i % 1013)) + 0.5;
    fmt::print("\n{}: {} rows, {} entries\n", source.name, csr->rows(), csr->nonzeros());

    std::vector<Contestant> contestants;
    for (auto& matrix : our_matrices(context, *csr, options))
      contestants.push_back({our_cg(std::move(matrix)), true});
    for (auto& list : {mkl_cg(*csr, options.threads), eigen_cg(*csr, options.threads), petsc_cg(*csr)})
      for (const CgSolve& cg : list) contestants.push_back({cg, false});
    race(contestants, *csr, b, x, options);

    nlohmann::json rows = nlohmann::json::array();
    fmt::print("  {:24} {:>9} {:>9} {:>6} {:>12}\n", "ms an iteration", "min", "median", "turns", "residual");
    for (const Contestant& c : contestants) {
      fmt::print("  {:24} {:9.4f} {:9.4f} {:6} {:12.3e}\n", c.cg.name, 1e3 * c.least(),
                 1e3 * median(c.samples), c.samples.size(), c.residual);
      // Rounding alone makes them differ, the more the longer they run.
      if (!(c.residual <= 3 * contestants.back().residual + 1e-12)) {
        fmt::print("  {} DISAGREES\n", c.cg.name);
        all_right = false;
      }
      rows.push_back({{"name", c.cg.name},
                      {"ours", c.ours},
                      {"seconds_min", c.least()},
                      {"seconds_median", median(c.samples)},
                      {"turns", c.samples.size()},
                      {"true_relative_residual", c.residual}});
    }
    nlohmann::json entry = {
        {"matrix", source.name}, {"rows", csr->rows()}, {"nonzeros", csr->nonzeros()}, {"solvers", rows}};
    compare(contestants, entry, ratios);
    report["matrices"].push_back(entry);
    std::fflush(stdout);
  }
  fmt::print("\n");
  for (const auto& [library, values] : ratios) {
    report["geometric_mean"][library] = geometric_mean(values);
    fmt::print("geometric mean of {} matrices: {:.2f} times as fast as {}\n", values.size(),
               geometric_mean(values), library);
  }
  if (!options.json.empty()) write_json(options.json, report);
  return all_right ? 0 : 1;
}

}  // namespace
}  // namespace protean::bench

int main(int argc, char** argv) {
  using namespace protean::bench;
  return run_program(usage, parse(argc, argv), run);
}

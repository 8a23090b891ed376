// The time of one iteration of Jacobi-CG, with our solver and with solvers of other libraries. All run in one
// process, with the same number of threads, after a warm-up, in alternation. A sample is the time of a whole solve
// of a fixed number of iterations from x = 0, divided by that number. So it includes what a solver does before and
// after its loop (ours: two true residuals). Our solver runs with csr and with the two formats that have the
// fastest product. The true residual of every x is computed and compared.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/note.hpp"
#include "benchmarks/solve/contestants.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string folder, json;
  std::vector<std::string> only, formats, peers;
  int threads = 2, iterations = 100;
  double seconds = 3;
};

void race(std::vector<Contestant>& contestants, const CsrMatrix<double>& csr, const Vector<double>& b,
          Vector<double>& x, const Options& options) {
  double longest = 0;
  for (Contestant& c : contestants) {
    const auto start = Clock::now();
    c.cg.solve(b.data(), x.data(), options.iterations);
    longest = std::max(longest, seconds_since(start));
    c.residual = relative_residual(csr, b.data(), x.data());
  }
  const int turns = std::clamp(static_cast<int>(options.seconds / (longest + 0.02)), 7, 1000);
  for (int turn = 0; turn < turns; ++turn)
    for (Contestant& c : contestants) {
      let_threads_park();
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

}  // namespace

int run_host(Arguments& arguments) {
  Options options;
  arguments.read(
      {shared::folder(options.folder),
       shared::only(options.only),
       shared::formats(options.formats, "our formats; csr and the two with the fastest product if none"),
       {"--peers NAME,...", &options.peers, "of mkl, eigen, petsc these only",
        one_of({"mkl", "eigen", "petsc"})},
       shared::threads(options.threads),
       {"--iterations", &options.iterations, "of one solve", at_least(1)},
       shared::seconds(options.seconds, "time for each solver on each matrix"),
       shared::json(options.json)});
  const auto context = Context::host(options.threads);
  Report report("cg", options.threads, options.json);
  report["iterations"] = options.iterations;
  note_peers(report);
  std::map<std::string, std::vector<double>> ratios;
  bool all_right = true;
  for (const Source& source : sources_named(options.only)) {
    const auto csr = load(context, source, options.folder);
    if (!csr) {
      fmt::print("\n{}: no such file (--folder)\n", source.name);
      report["absent"].push_back(source.name);
      continue;
    }
    if (!is_symmetric(context, *csr)) continue;
    Vector<double> b(context, csr->rows()), x(context, csr->rows()), d(context, csr->rows());
    extract_diagonal(*context, *csr, d.data());
    // A diagonal entry that is not positive shows that the matrix is not positive definite.
    if (std::any_of(d.data(), d.data() + d.size(), [](double entry) { return !(entry > 0); })) continue;
    std::ranges::copy(waves(b.size(), 0.5), b.data());
    fmt::print("\n{}: {} rows, {} entries\n", source.name, csr->rows(), csr->nonzeros());

    std::vector<Contestant> contestants = cg_contestants(context, *csr, options.formats, options.peers);
    race(contestants, *csr, b, x, options);

    nlohmann::json rows = nlohmann::json::array();
    fmt::print("  {:24} {:>9} {:>9} {:>6} {:>12}\n", "ms an iteration", "min", "median", "turns", "residual");
    for (const Contestant& c : contestants) {
      fmt::print("  {:24} {:9.4f} {:9.4f} {:6} {:12.3e}\n", c.cg.name, 1e3 * c.least(),
                 1e3 * median(c.samples), c.samples.size(), c.residual);
      // The residuals differ by rounding, which grows with the number of iterations.
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
  report.write();
  return all_right ? 0 : 1;
}

}  // namespace protean::bench

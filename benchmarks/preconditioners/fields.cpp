// Systems of several fields, saddle points and coupled unknowns: each recipe of preconditioner fields, what `auto`
// does, and PETSc's fieldsplit with the same fields, from x = 0 to the same relative tolerance. The right-hand side is
// A times a vector of numbers in [-1, 1). One run each.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/preconditioned.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_input.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/fields/found.hpp"
#include "solve.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string folder, json;
  std::vector<std::string> systems = {"stokes-2d:64",
                                      "stokes-2d:64:contrast=100",
                                      "stokes-2d:128",
                                      "stokes-2d:64:convection=20",
                                      "stokes-2d:64:convection=200",
                                      "darcy-2d:128",
                                      "darcy-2d:128:contrast=1e-4",
                                      "reservoir-2d:128",
                                      "reservoir-2d:128:contrast=1e3",
                                      "lnsp3937"},
                           recipes = {"schur-diagonal", "schur-lower", "schur-upper", "schur-full",
                                      "additive",       "lower",       "upper",       "symmetric"};
  double tolerance = 1e-8;
  int threads = 1, iterations = 2000;
};

CsrMatrix<double> system_of(const Options& options, const ContextPtr& host, const std::string& name) {
  const std::vector<std::string> words = split(name, ':');
  if (words.size() < 2) return read_matrix(host, options.folder + "/" + name + ".mtx.xz");
  GeneratorParams params = {{"n", std::stod(words[1])}};
  for (std::size_t k = 2; k < words.size(); ++k) {
    const std::vector<std::string> pair = split(words[k], '=');
    params[pair.at(0)] = std::stod(pair.at(1));
  }
  return generate(host, words[0], params);
}

double relative_residual(const AssembledMatrix<double>& A, const std::vector<double>& b,
                         const std::vector<double>& x) {
  std::vector<double> r = b;
  const auto n = static_cast<std::int64_t>(b.size());
  A.apply(-1.0, {x.data(), n}, 1.0, {r.data(), n});
  double rr = 0, bb = 0;
  for (std::size_t i = 0; i < b.size(); ++i) rr += r[i] * r[i], bb += b[i] * b[i];
  return std::sqrt(rr / bb);
}

}  // namespace

int run_fields(Arguments& arguments) {
  Options options;
  arguments.read(
      {shared::folder(options.folder),
       {"--systems", &options.systems, "kind:n:key=value of a generated one, or a matrix of the folder"},
       {"--recipes", &options.recipes, "of preconditioner fields"},
       {"--tolerance", &options.tolerance, "relative to the right-hand side", above(0)},
       {"--iterations", &options.iterations, "the most a solve takes", at_least(1)},
       shared::threads(options.threads),
       shared::json(options.json)});
  const ContextPtr host = Context::host(options.threads);
  Report report("fields", host->threads(), options.json);
  nlohmann::json& figures = report["fields"] = nlohmann::json::array();
  for (const std::string& name : options.systems) {
    const CsrMatrix<double> csr = system_of(options, host, name);
    const auto A = make_matrix(find_format("csr"), csr, host);
    const std::int64_t n = csr.rows();
    const std::vector<double> solution = random_numbers(n);
    std::vector<double> b(static_cast<std::size_t>(n)), x(b.size());
    A->apply(VectorView<const double>{solution.data(), n}, VectorView<double>{b.data(), n});
    const bool symmetric = asymmetry<double>(*host, csr) <= symmetry_tolerance<double>;
    detail::FoundFields found = detail::find_fields(csr, symmetric);
    const bool coupled = found.fields.size() == 1;
    if (coupled)
      for (std::int64_t i = 0; i < n; ++i) found.fields.of_row[static_cast<std::size_t>(i)] = i % 2;
    fmt::print("{}: {} rows, {} entries, {}\n", name, n, csr.nonzeros(),
               symmetric ? "symmetric" : "not symmetric");
    const auto add = [&](const std::string& library, const std::string& what, const std::string& method,
                         std::int64_t iterations, double setup, double solve, bool converged) {
      fmt::print("  {:8} {:36} {:8} {:6} iterations, setup {:9.3f} ms, solve {:9.3f} ms{}\n", library, what,
                 method, iterations, 1e3 * setup, 1e3 * solve, converged ? "" : ", not converged");
      std::fflush(stdout);
      figures.push_back({{"system", name},
                         {"rows", n},
                         {"entries", csr.nonzeros()},
                         {"symmetric", symmetric},
                         {"library", library},
                         {"what", what},
                         {"method", method},
                         {"iterations", iterations},
                         {"setup_seconds", setup},
                         {"solve_seconds", solve},
                         {"converged", converged}});
    };
    const auto ours = [&](const std::string& what, SolveSettings settings) {
      settings.context = host, settings.solver.stopping.relative_tolerance = options.tolerance;
      settings.solver.stopping.max_iterations = options.iterations;
      std::fill(x.begin(), x.end(), 0.0);
      try {
        const SolveResult result =
            solve(csr, VectorView<const double>{b.data(), n}, VectorView<double>{x.data(), n}, settings);
        add("protean", what + (what == "auto" ? ": " + result.preconditioner : ""), result.method,
            result.report.iterations, result.setup_seconds, result.report.seconds, result.converged());
      } catch (const Error& error) { fmt::print("  protean  {:36} refused: {}\n", what, error.what()); }
    };
    ours("none", {.preconditioner = "none"});
    ours("auto", {});
    for (const FieldRecipe recipe : field_recipes) {
      const std::string word(to_string(recipe));
      if (!wanted(options.recipes, word) || recipe == FieldRecipe::automatic) continue;
      const bool schur = recipe >= FieldRecipe::schur_diagonal;
      if (schur == coupled)
        continue;  // the sweeps need blocks that can be solved with, and these have none to eliminate
      for (const SchurComplement how : schur_complements) {
        if (!schur && how != SchurComplement::diagonal) continue;
        SolveSettings settings{.preconditioner = "fields"};
        settings.preconditioning.recipe = recipe, settings.preconditioning.schur = how;
        if (coupled) settings.preconditioning.interleaved = 2;
        ours(schur ? fmt::format("{} by {}", word, to_string(how)) : word, settings);
      }
    }
    PreconditionedSolve peer{.method = "fgmres",
                             .preconditioner = coupled ? "lower" : "schur-upper",
                             .tolerance = options.tolerance,
                             .max_iterations = options.iterations};
    std::fill(x.begin(), x.end(), 0.0);
    if (const auto result = petsc_fieldsplit(csr, b, found.fields.of_row, peer, x))
      add("petsc", result->what, "fgmres", result->iterations, result->setup_seconds, result->solve_seconds,
          relative_residual(*A, b, x) <= 1.1 * options.tolerance);
    report.write();
  }
  return 0;
}

}  // namespace protean::bench

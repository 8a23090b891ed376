// Preconditioned solves, ours next to PETSc's and Eigen's in one run: iterations, setup and solve, one thread each.
// Right-hand side A times ones. Each solve is repeated several times from the start; the fastest sum of setup and solve
// counts.
#include <fmt/format.h>

#include <cstdio>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/preconditioned.hpp"
#include "core/blas1.hpp"
#include "core/io/matrix_market.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::vector<std::string> only;
  std::string folder, json;
  int runs = 5;
};

struct System {
  const char *name, *method;
  std::vector<const char*> preconditioners;
};
const std::vector<System>& systems() {
  static const std::vector<System> all = {
      {"s1rmt3m1", "cg", {"jacobi", "ic0"}},        {"orsirr_1", "gmres", {"jacobi", "ilu0"}},
      {"orsirr_1", "bicgstab", {"jacobi", "ilu0"}}, {"sherman3", "gmres", {"jacobi", "ilu0"}},
      {"sherman3", "bicgstab", {"jacobi", "ilu0"}}, {"saylr4", "gmres", {"ilu0"}},
      {"saylr4", "bicgstab", {"jacobi", "ilu0"}},   {"utm300", "bicgstab", {"jacobi", "ilu0"}}};
  return all;
}

std::optional<PreconditionedResult> ours(const CsrMatrix<double>& csr, const std::vector<double>& b,
                                         const PreconditionedSolve& wanted, std::vector<double>& x) {
  const ContextPtr context = Context::host(1);
  PreconditionedResult result;
  SolverOptions options;
  options.stopping.relative_tolerance = wanted.tolerance,
  options.stopping.max_iterations = wanted.max_iterations;
  const auto solver = make_solver<double>(wanted.method, options);
  auto begin = Clock::now();
  const auto A = make_matrix(find_format("csr"), csr, context);
  const auto M = make_preconditioner<double>(wanted.preconditioner, *A);
  M->ensure(*A);
  result.setup_seconds = seconds_since(begin);
  begin = Clock::now();
  const SolveReport report = solver->solve(*A, {b.data(), csr.rows()}, {x.data(), csr.rows()}, M.get());
  result.solve_seconds = seconds_since(begin);
  result.iterations = report.iterations;
  return result;
}

}  // namespace

int run_solves(Arguments& arguments) {
  Options options;
  arguments.read({{"--folder FOLDER", &options.folder,
                   "with NAME.mtx.xz: s1rmt3m1, orsirr_1, sherman3, saylr4, utm300", required()},
                  shared::only(options.only),
                  shared::repeat(options.runs, "runs of each solve"),
                  shared::json(options.json)});
  using Library = std::optional<PreconditionedResult> (*)(
      const CsrMatrix<double>&, const std::vector<double>&, const PreconditionedSolve&, std::vector<double>&);
  const std::pair<const char*, Library> libraries[] = {
      {"protean", ours}, {"petsc", petsc_preconditioned}, {"eigen", eigen_preconditioned}};
  Report report("preconditioners", 1, options.json);
  nlohmann::json& solves = report["solves"] = nlohmann::json::array();
  for (const System& system : systems()) {
    if (!wanted(options.only, system.name)) continue;
    const CsrMatrix<double> csr =
        read_matrix(Context::host(1), options.folder + "/" + system.name + ".mtx.xz");
    const std::vector<double> ones(static_cast<std::size_t>(csr.rows()), 1.0);
    std::vector<double> b(ones.size());
    make_matrix(find_format("csr"), csr, Context::host(1))
        ->apply({ones.data(), csr.rows()}, VectorView<double>{b.data(), csr.rows()});
    for (const char* preconditioner : system.preconditioners)
      for (const auto& [library, solve] : libraries) {
        const PreconditionedSolve task{system.method, preconditioner};
        std::optional<PreconditionedResult> best;
        double residual = 0;
        for (int run = 0; run < options.runs; ++run) {
          std::vector<double> x(b.size(), 0.0);
          const auto one = solve(csr, b, task, x);
          if (!one) break;
          if (!best || one->setup_seconds + one->solve_seconds < best->setup_seconds + best->solve_seconds)
            best = one, residual = relative_residual(csr, b.data(), x.data());
        }
        if (!best) continue;
        fmt::print(
            "{:10} {:9} {:7} {:8} {:6} iterations, setup {:8.3f} ms, solve {:9.3f} ms, residual {:.1e} {}\n",
            system.name, system.method, preconditioner, library, best->iterations, 1e3 * best->setup_seconds,
            1e3 * best->solve_seconds, residual, best->what);
        std::fflush(stdout);
        solves.push_back({{"matrix", system.name},
                          {"rows", csr.rows()},
                          {"method", system.method},
                          {"preconditioner", preconditioner},
                          {"library", library},
                          {"what", best->what},
                          {"iterations", best->iterations},
                          {"setup_seconds", best->setup_seconds},
                          {"solve_seconds", best->solve_seconds},
                          {"residual", residual}});
      }
  }
  report.write();
  return 0;
}

}  // namespace protean::bench

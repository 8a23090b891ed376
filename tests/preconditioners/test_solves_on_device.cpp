// Solves with preconditioners on a device: as many iterations as on the host, and recorded steps see new values.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct System {
  const char *method, *id, *kind;
  double n;
};
const System systems[] = {{"cg", "ic0", "poisson-3d", 14},
                          {"cg", "ic", "elasticity-3d", 5},
                          {"cg", "ssor", "poisson-2d", 40},
                          {"fcg", "ic0", "anisotropic-2d", 30},
                          {"minres", "ssor", "poisson-3d", 10},
                          {"cg", "amg", "poisson-3d", 14},
                          {"bicgstab", "amg", "convection-diffusion-3d", 12},
                          {"bicgstab", "ilu0", "convection-diffusion-3d", 12},
                          {"gmres", "ilu", "convection-diffusion-3d", 12},
                          {"gmres", "gauss-seidel", "convection-diffusion-3d", 10},
                          {"idr", "ilu0", "poisson-3d", 10}};

struct Solved {
  SolveReport report, again;
  std::vector<double> x;
};

class Solves : public InSpace {
 protected:
  Solved solve(const System& one, const ContextPtr& context, const AssembledMatrix<double>& A,
               Preconditioner<double>& M) const {
    const std::vector<double> b = right_hand_side<double>(A.rows());
    const Placed<double> b_here(context, b);
    Placed<double> x(context, std::vector<double>(b.size(), 0.0));
    SolverOptions options;
    options.stopping.relative_tolerance = 1e-9;
    if (context->space() == Space::device && !context->simulated()) options.device_steps = "graph";
    const auto solver = make_solver<double>(one.method, options);
    Solved solved;
    solved.report = solver->solve(A, b_here.read(), x.view(), &M);
    fill<double>(*context, 0.0, x.view());
    solved.again = solver->solve(A, b_here.read(), x.view(), &M);
    solved.x = x.fetch();
    return solved;
  }
};
INSTANTIATE_TEST_SUITE_P(Spaces, Solves, testing::Values(Where::simulated, Where::gpu), name_of_space);

// Exact solves take as many iterations as on the host, up to rounding. On a GPU the steps with M are recorded once.
TEST_P(Solves, AsManyIterationsAsOnTheHost) {
  for (const System& one : systems)
    for (const TriangularSolve how : exact()) {
      const CsrMatrix<double> csr = generate(test_context(), one.kind, {{"n", one.n}});
      const auto on_host = assembled(csr);
      const auto M_host = ready<double>(one.id, *on_host);
      const Solved host = solve(one, test_context(), *on_host, *M_host);
      const auto here = matrix(csr);
      const auto M =
          ready_with_read<double>(one.id, *here, {.ordering = FactorOrdering::natural, .solve = how});
      const std::vector<double> r = right_hand_side<double>(csr.rows()), z = apply(*M, r);
      const Solved device = solve(one, context_, *here, *M);
      const std::string label = std::string(one.method) + " " + one.id + " " + std::string(to_string(how));
      ASSERT_TRUE(host.report.converged()) << label << host.report.detail;
      ASSERT_TRUE(device.report.converged()) << label << device.report.detail;
      EXPECT_LE(std::abs(device.report.iterations - host.report.iterations),
                2 + static_cast<double>(host.report.iterations) / 100)
          << label;
      EXPECT_EQ(device.again.iterations, device.report.iterations) << label;
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < host.x.size(); ++i)
        difference = std::max(difference, std::abs(host.x[i] - device.x[i])),
        size = std::max(size, std::abs(host.x[i]));
      EXPECT_LE(difference, 1e-5 * size) << label;
      // Steps behind the end of a solve leave M as it was.
      EXPECT_EQ(apply(*M, r), z) << label;
      if (gpu() && M->recording().allowed) {
        EXPECT_EQ(device.report.steps, "graph") << label;
        EXPECT_GE(device.report.graphs_recorded, 1) << label;
        EXPECT_EQ(device.again.graphs_recorded, 0) << label << ": the second solve recorded again";
      }
    }
}

// A graph that was recorded before the values changed computes with the new ones.
TEST_P(Solves, RecordedStepsUseNewValues) {
  for (const char* id : {"ssor", "ic0"})
    for (const TriangularSolve how : {TriangularSolve::levels, TriangularSolve::sweeps}) {
      const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 12}});
      const auto A = matrix(csr);
      const auto M = ready_with_read<double>(id, *A, {.solve = how});
      const auto solver = make_solver<double>(
          "cg", {.stopping = {.relative_tolerance = 1e-9}, .device_steps = gpu() ? "graph" : "auto"});
      const Placed<double> b(context_, right_hand_side<double>(csr.rows()));
      Placed<double> x(context_, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
      const SolveReport first = solver->solve(*A, b.read(), x.view(), M.get());
      // D A D, a badly scaled matrix, for which the old M is of no use.
      std::vector<double> values(csr.values, csr.values + csr.nonzeros());
      const auto scale = [](std::int64_t i) { return i % 3 == 0 ? 100.0 : 1.0; };
      for (std::int64_t i = 0; i < csr.rows(); ++i)
        for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
          values[p] *= scale(i) * scale(csr.pattern.col[p]);
      CsrMatrix<double> next = csr;
      next.values = values.data(), next.values_owner = nullptr;
      A->update_values(placed(context_, next)), M->ensure(*A);
      fill<double>(*context_, 0.0, x.view());
      const SolveReport second = solver->solve(*A, b.read(), x.view(), M.get());
      EXPECT_TRUE(first.converged() && second.converged());
      EXPECT_LE(second.iterations, 3 * first.iterations) << id << ' ' << to_string(how);
      if (gpu()) { EXPECT_EQ(second.steps, "graph"); }
    }
}

}  // namespace
}  // namespace protean::test

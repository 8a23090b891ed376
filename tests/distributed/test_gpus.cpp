// Systems over the GPUs of this machine: as on simulated devices, and with graphs, formats and failures of GPUs. CUDA
// builds only.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "solvers/solver.hpp"
#include "support/battery.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/text.hpp"
#include "systems/linear_system.hpp"

namespace protean::test {
namespace {

std::vector<ContextPtr> gpus() {
  std::vector<ContextPtr> made;
  for (int d = 0; d < std::min(Context::device_count(), 16); ++d) made.push_back(Context::device(d));
  return made;
}

class SystemsOverGpus : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (Context::device_count() < 2) GTEST_SKIP() << "no device: two GPUs are needed";
  }
  static SolveSettings settings(const std::string& method, const std::string& preconditioner,
                                const std::string& format) {
    SolveSettings made;
    made.method = method, made.preconditioner = preconditioner, made.format = format;
    made.solver.stopping.relative_tolerance = 1e-9;
    made.distribution.contexts = gpus();
    return made;
  }
};

TEST_P(SystemsOverGpus, SolveWithTheSameBitsEachTime) {
  const bool symmetric = find_solver(GetParam()).symmetric;
  const auto csr = symmetric ? generate(test_context(), "poisson-3d", {{"n", 24}})
                             : generate(test_context(), "convection-diffusion-3d", {{"n", 20}});
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  for (const char* format : {"csr", "ell", "sell-c-sigma"})
    for (const std::string preconditioner : {"none", "jacobi", "chebyshev", symmetric ? "ic0" : "ilu0"}) {
      if (preconditioner == "chebyshev" && !symmetric) continue;
      SCOPED_TRACE(std::string(format) + ", " + preconditioner);
      std::vector<double> first;
      for (int run = 0; run < 3; ++run) {
        std::vector<double> x(b.size(), 0.0);
        SolveSettings asked = settings(GetParam(), preconditioner, format);
        // Steps that are queued one by one give the same bits.
        if (run == 0) asked.solver.device_steps = "graph";
        LinearSystem<double> system(csr, asked);
        const SolveResult result = system.solve(b, x);
        ASSERT_TRUE(result.converged()) << to_string(result.report.reason) << " " << result.report.detail;
        if (run == 0) { EXPECT_EQ(result.report.steps, "graph"); }
        EXPECT_LE(relative_residual_of(csr, b, x), 1.01e-9);
        if (run == 0) first = x;
        EXPECT_EQ(x, first);
        // The same system again.
        std::fill(x.begin(), x.end(), 0.0);
        EXPECT_TRUE(system.solve(b, x).converged());
        EXPECT_EQ(x, first);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, SystemsOverGpus, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const SolverEntry& entry : solvers()) names.emplace_back(entry.id);
                           return names;
                         }()),
                         [](const auto& of) { return of.param; });

class OverGpus : public SystemsOverGpus {};
TEST_P(OverGpus, CanBeUsedAfterAFailure) {
  const auto csr = generate(test_context(), "poisson-3d", {{"n", 24}});
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  std::vector<double> x(b.size(), 0.0), values(csr.values, csr.values + csr.nonzeros());
  struct Throws final : SolveObserver {
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 3) throw std::runtime_error("the observer's own");
      return true;
    }
  } throws;
  struct Stops final : SolveObserver {
    bool on_iteration(const IterationInfo& info) override { return info.iteration < 7; }
    std::int64_t next_stop() const noexcept override { return 7; }
  } stops;
  LinearSystem<double> system(csr, settings("cg", "jacobi", "csr"));
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW((void)system.solve(b, x, &throws), std::runtime_error);
    EXPECT_EQ(system.solve(b, x, &stops).report.iterations, 7);
    EXPECT_TRUE(system.solve(b, x).converged());
    EXPECT_LE(relative_residual_of(csr, b, x), 1.01e-9);
    std::fill(x.begin(), x.end(), 0.0);
  }
  for (double& value : values) value *= 2;
  system.update_values(values);
  EXPECT_TRUE(system.solve(b, x).converged());
  for (double& value : x) value *= 2;
  EXPECT_LE(relative_residual_of(csr, b, x), 1e-8);
  SolveSettings twice = settings("cg", "jacobi", "csr");
  twice.distribution.contexts = {Context::device(0), Context::device(0)};
  EXPECT_TRUE(
      has(message_of<BadArgument>([&] { LinearSystem<double>(csr, twice); }), "GPU 0 is given twice"));
}
INSTANTIATE_TEST_SUITE_P(Two, OverGpus, testing::Values("cg"), [](const auto& of) { return of.param; });

}  // namespace
}  // namespace protean::test

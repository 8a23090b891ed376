// The solvers on a device: the same results and stop reasons as on the host, and the same bits in two runs.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct Case {
  const char* label;
  const char* method;
  const char* kind;
  double n;
  bool jacobi;
  // Along each axis; 0: the generator's default. BiCGStab amplifies rounding if convection is strong. With 0.1 its
  // iterations are the same for all formats.
  double velocity = 0;
};

struct Outcome {
  SolveReport report;
  std::vector<double> x;
  std::vector<double> history;
};

class History final : public SolveObserver {
 public:
  explicit History(std::int64_t last = std::numeric_limits<std::int64_t>::max()) : last_(last) {}
  bool on_iteration(const IterationInfo& info) override {
    residuals.push_back(info.residual);
    EXPECT_EQ(info.iteration, static_cast<std::int64_t>(residuals.size()) - 1);
    return info.iteration < last_;
  }
  std::vector<double> residuals;

 private:
  std::int64_t last_;
};

class Device : public testing::Test {
 protected:
  void SetUp() override {
    if (!test_context(Space::device)) GTEST_SKIP() << no_device;
  }

  static Outcome solve(Space space, const CsrMatrix<double>& csr, const char* method, bool jacobi,
                       const SolverOptions& options = {}, const std::vector<double>* rhs = nullptr,
                       std::int64_t interrupt_after = std::numeric_limits<std::int64_t>::max()) {
    const ContextPtr context = test_context(space);
    const auto A = make_matrix(find_format("csr"), placed(context, csr), context);
    const auto M = make_preconditioner<double>(jacobi ? "jacobi" : "none", *A);
    if (M) M->ensure(*A);
    const Placed<double> b(context, rhs ? *rhs : std::vector<double>(csr.rows(), 1.0));
    Placed<double> x(context, std::vector<double>(csr.rows(), 0.0));
    History history(interrupt_after);
    const auto solver = make_solver<double>(method, options);
    Outcome outcome;
    outcome.report = solver->solve(*A, b.read(), x.view(), M.get(), &history);
    outcome.x = x.fetch(), outcome.history = history.residuals;
    return outcome;
  }
};

class DeviceCases : public Device, public testing::WithParamInterface<Case> {};

TEST_P(DeviceCases, AsOnTheHost) {
  const Case& one = GetParam();
  GeneratorParams params{{"n", one.n}};
  if (one.velocity != 0)
    for (const char* along : {"b1", "b2", "b3"}) params[along] = one.velocity;
  const auto csr = generate(test_context(), one.kind, params);
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-9;
  const Outcome host = solve(Space::host, csr, one.method, one.jacobi, options);
  const Outcome device = solve(Space::device, csr, one.method, one.jacobi, options);
  const Outcome again = solve(Space::device, csr, one.method, one.jacobi, options);
  EXPECT_EQ(host.report.reason, StopReason::relative_tolerance) << host.report.detail;
  EXPECT_EQ(device.report.reason, StopReason::relative_tolerance) << device.report.detail;
  EXPECT_LE(device.report.true_relative, 1e-9);
  EXPECT_LE(std::abs(device.report.iterations - host.report.iterations), 2 + host.report.iterations / 100);
  EXPECT_EQ(device.history.size(), static_cast<std::size_t>(device.report.iterations) + 1);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < host.x.size(); ++i)
    difference = std::max(difference, std::abs(host.x[i] - device.x[i])),
    size = std::max(size, std::abs(host.x[i]));
  EXPECT_LE(difference, 1e-5 * size);
  EXPECT_EQ(device.x, again.x);
  EXPECT_EQ(device.history, again.history);
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceCases,
    testing::Values(Case{"cg_poisson", "cg", "poisson-3d", 24, true},
                    Case{"cg_plain", "cg", "poisson-2d", 60, false},
                    Case{"cg_elasticity", "cg", "elasticity-3d", 6, true},
                    Case{"bicgstab", "bicgstab", "convection-diffusion-3d", 20, true, 0.1},
                    Case{"bicgstab_plain", "bicgstab", "convection-diffusion-3d", 20, false, 0.1},
                    Case{"gmres", "gmres", "convection-diffusion-3d", 20, true},
                    Case{"gmres_spd", "gmres", "poisson-2d", 20, false}),
    [](const auto& instance) { return instance.param.label; });

TEST_F(Device, StopsAtTheIterationLimitWithThatIterate) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 50}});
  for (const char* method : {"cg", "bicgstab", "gmres"})
    for (std::int64_t limit : {1, 2, 15, 16, 17, 33}) {
      SolverOptions options;
      options.stopping.max_iterations = limit;
      const Outcome host = solve(Space::host, csr, method, true, options);
      const Outcome device = solve(Space::device, csr, method, true, options);
      EXPECT_EQ(device.report.reason, StopReason::max_iterations) << method << limit;
      EXPECT_EQ(device.report.iterations, limit) << method;
      // BiCGStab amplifies rounding: after thirty steps only five digits agree.
      EXPECT_NEAR(device.report.true_residual, host.report.true_residual, 1e-5 * host.report.true_residual)
          << method << limit;
    }
}

TEST_F(Device, InterruptedReportsTheIterateItHas) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 100}});
  for (const char* method : {"cg", "gmres"}) {
    const Outcome outcome = solve(Space::device, csr, method, true, {}, nullptr, 5);
    EXPECT_EQ(outcome.report.reason, StopReason::interrupted);
    EXPECT_GE(outcome.report.iterations, 5);
    EXPECT_NEAR(outcome.report.true_residual, outcome.report.recurrence_residual,
                1e-8 * outcome.report.rhs_norm)
        << method;
  }
}

TEST_F(Device, NamesNumericalTrouble) {
  const auto indefinite = csr_from_triplets<double>(
      test_context(), 3, 3, std::vector<Triplet<double>>{{0, 0, 1.0}, {1, 1, -2.0}, {2, 2, 3.0}});
  EXPECT_EQ(solve(Space::device, indefinite, "cg", false).report.reason, StopReason::indefinite_operator);
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 10}});
  std::vector<double> b(100, 1.0);
  b[7] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(solve(Space::device, csr, "cg", true, {}, &b).report.reason, StopReason::not_finite);
  b.assign(100, 0.0);
  EXPECT_EQ(solve(Space::device, csr, "gmres", true, {}, &b).report.reason, StopReason::zero_right_hand_side);
  const auto zero =
      csr_from_triplets<double>(test_context(), 2, 2, std::vector<Triplet<double>>{{0, 0, 1.0}});
  EXPECT_THROW(solve(Space::device, zero, "cg", true), BadMatrix);
}

TEST_F(Device, ToleranceBeyondRoundingIsNotCalledConverged) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 30}});
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-18;
  for (const char* method : {"cg", "bicgstab", "gmres"}) {
    const Outcome outcome = solve(Space::device, csr, method, true, options);
    EXPECT_FALSE(outcome.report.converged()) << method;
    EXPECT_GT(outcome.report.true_relative, 1e-18);
  }
}

TEST(DeviceContext, WithoutADeviceSaysWhatToDo) {
  if (Context::device_count() > 0) GTEST_SKIP() << "this machine has a GPU";
  try {
    Context::device();
    FAIL() << "Context::device() returned a context without a device";
  } catch (const NotAvailable& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find("PROTEAN_CUDA") != std::string::npos ||
                text.find("nvidia-smi") != std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace protean::test

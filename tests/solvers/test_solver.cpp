// What every solver does around its iterations: contexts, refusals, observers and restarts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "solvers/contract.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

TEST(Solver, ServesOneContextAfterTheOther) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 12}});
  for (const char* method : all_methods()) {
    const auto solver = make_solver<double>(method);
    std::int64_t iterations = 0;
    for (int round = 0; round < 2; ++round)
      for (const bool on_device : {false, true}) {
        const ContextPtr context = on_device ? fake_device_context() : test_context();
        const auto A =
            make_matrix(on_device ? fake_format("csr") : find_format("csr"), placed(context, csr), context);
        const Placed<double> b(context, std::vector<double>(144, 1.0));
        Placed<double> x(context, std::vector<double>(144, 0.0));
        const auto report = solver->solve(*A, b.read(), x.view());
        EXPECT_TRUE(report.converged()) << method;
        if (iterations == 0) iterations = report.iterations;
        EXPECT_EQ(report.iterations, iterations) << method;
      }
  }
}

TEST(Solver, RefusesAPreconditionerOfAnotherSizeBeforeAnyProduct) {
  const DenseOperator<double> A(poisson_1d(4));
  const auto b = right_hand_side<double>(4);
  std::vector<double> x(4, 0.0);
  for (const std::int64_t n : {3, 5}) {
    // It has no diagonal whose size could be looked at instead.
    const CallbackPreconditioner<double> M(
        A.context(), {n, n}, [](const double*, double*, CUstream_st*) { FAIL() << "it is used"; });
    try {
      (void)make_solver<double>("cg")->solve(A, view(b), view(x), &M);
      ADD_FAILURE() << n;
    } catch (const ShapeMismatch& error) {
      EXPECT_EQ(error.what(), fmt::format("the preconditioner is {} x {}; the operator is 4 x 4", n, n));
    }
    EXPECT_EQ(A.products(), 0);
  }
}

TEST(Observer, IsToldTheSecondsSinceTheSolveBegan) {
  const DenseOperator<double> A(poisson_1d(6));
  const auto b = right_hand_side<double>(6);
  std::vector<double> x(6, 0.0);
  History history;
  history.then = [](const IterationInfo&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  };
  const auto report = make_solver<double>("cg")->solve(A, view(b), view(x), nullptr, &history);
  ASSERT_GE(history.seen.size(), 4u);
  for (std::size_t i = 0; i < history.seen.size(); ++i)
    EXPECT_GE(history.seen[i].seconds, 1e-3 * static_cast<double>(i)) << i;
  EXPECT_LE(history.seen.back().seconds, report.seconds);
}

TEST(Observer, OfAZeroRightHandSideIsToldNoResidual) {
  const DenseOperator<double> A(poisson_1d(3));
  const std::vector<double> b(3, 0.0);
  std::vector<double> x(3, 1.0);
  History history;
  const auto report = make_solver<double>("cg")->solve(A, view(b), view(x), nullptr, &history);
  EXPECT_EQ(report.reason, StopReason::zero_right_hand_side);
  ASSERT_EQ(history.seen.size(), 1u);
  EXPECT_EQ(history.seen[0].iteration, 0);
  EXPECT_EQ(history.seen[0].residual, 0);
  EXPECT_EQ(history.seen[0].relative_residual, 0);
}

// The recurrence falls to 1e-8 because of one wrong product; the solve then begins again from the true residual. Its
// window of stagnation must begin again with it.
TEST(Solver, AfterARestartFromTheTruthTheWindowOfStagnationBeginsAnew) {
  for (const char* method : {"cg", "bicgstab"}) {
    DenseOperator<double> A(convection_2d(9, 0));
    A.after = [](std::int64_t product, VectorView<double> y) {
      if (product == 8)
        for (std::int64_t i = 0; i < y.size; ++i) y[i] *= 1 + 1e-2 * static_cast<double>(i % 3);
    };
    const auto b = right_hand_side<double>(81);
    std::vector<double> x(81, 0.0);
    const auto report =
        make_solver<double>(method, {.stopping = {.stagnation_window = 14}})->solve(A, view(b), view(x));
    EXPECT_EQ(report.reason, StopReason::relative_tolerance)
        << method << ": " << to_string(report.reason) << " " << report.detail;
    EXPECT_GE(report.restarts, 1) << method;
  }
}

TEST(MakeSolver, StepsOfAGpuAreRefusedOnTheHost) {
  const ContextPtr host = test_context();
  const auto A = make_matrix(find_format("csr"), generate(host, "poisson-2d", {{"n", 5}}), host);
  Vector<double> b(host, A->rows()), x(host, A->rows());
  fill<double>(*host, 1.0, b), fill<double>(*host, 0.0, x);
  for (const char* steps : {"resident", "graph"})
    EXPECT_THROW(make_solver<double>("cg", {.device_steps = steps})->solve(*A, b, x), BadArgument);
  EXPECT_TRUE(make_solver<double>("cg", {.device_steps = "auto"})->solve(*A, b, x).converged());
}

TEST(MakeSolver, NamesAndOptions) {
  const auto complaint = [](std::string_view method, const SolverOptions& options) {
    return message_of<BadArgument>([&] { make_solver<double>(method, options); });
  };
  EXPECT_NE(complaint("gmress", {}).find("Did you mean 'gmres'?"), std::string::npos);
  EXPECT_NE(complaint("gmres", {.orthogonalization = "cgs"}).find("Did you mean 'cgs2'?"), std::string::npos);
  EXPECT_NE(complaint("cg", {.device_steps = "graphs"}).find("Did you mean 'graph'?"), std::string::npos);
  EXPECT_NE(complaint("gmres", {.restart = 0}).find("restart is 0"), std::string::npos);
  EXPECT_NE(complaint("cg", {.stopping = {.relative_tolerance = -1}}).find("relative_tolerance"),
            std::string::npos);
  for (const double tolerance : {1.0, 2.0, nan, infinity})
    EXPECT_NE(complaint("cg", {.stopping = {.relative_tolerance = tolerance}}).find("below 1"),
              std::string::npos);
  for (const double tolerance : {-1.0, nan, infinity})
    EXPECT_NE(complaint("cg", {.stopping = {.absolute_tolerance = tolerance}}).find("absolute_tolerance"),
              std::string::npos);
  for (const double tolerance : {0.0, 0.999})
    EXPECT_EQ(complaint("cg", {.stopping = {.relative_tolerance = tolerance}}), "");
  EXPECT_NE(complaint("cg", {.stopping = {.max_iterations = -1}}).find("max_iterations"), std::string::npos);
  EXPECT_NE(complaint("cg", {.stopping = {.max_seconds = -1}}).find("max_seconds"), std::string::npos);
  EXPECT_NE(complaint("cg", {.stopping = {.divergence = 0}}).find("divergence"), std::string::npos);
  EXPECT_NE(complaint("cg", {.stopping = {.stagnation_window = -1}}).find("stagnation_window"),
            std::string::npos);
  for (const SolverEntry& entry : solvers()) {
    EXPECT_EQ(make_solver<float>(entry.id)->name(), entry.id);
    EXPECT_FALSE(entry.title.empty() || entry.source.empty());
  }
  EXPECT_EQ(solvers().size(), 8u);
}

TEST(StopReasons, NamesAndAdvice) {
  for (int i = -12; i <= 3; ++i) {
    const auto reason = static_cast<StopReason>(i);
    EXPECT_NE(to_string(reason), "unknown");
    EXPECT_EQ(converged(reason), i > 0);
  }
  EXPECT_EQ(to_string(StopReason::max_iterations), "max-iterations");
}

TEST(MakeSolver, RectangularIsRefused) {
  class Wide final : public LinearOperator<double> {
   public:
    Wide() : LinearOperator<double>(test_context(), {2, 3}) {}
    std::string_view name() const noexcept override { return "wide"; }

   protected:
    void do_apply(double, VectorView<const double>, double, VectorView<double>) const override {}
  };
  std::vector<double> b(2, 1.0), x(3, 0.0);
  EXPECT_THROW(make_solver<double>("cg")->solve(Wide(), view(std::as_const(b)), view(x)), ShapeMismatch);
}

}  // namespace
}  // namespace protean::test

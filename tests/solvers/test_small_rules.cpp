// Small rules of solvers and preconditioners, each by a solve that needs it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "solvers/iteration_control.hpp"
#include "solvers/iteration_pace.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// Squares of these numbers are denormal: they have few digits or none.
TEST(Norm, IsExactWhereSquaresUnderflow) {
  const DenseOperator<double> A(poisson_1d(20));
  const std::vector<double> unit = right_hand_side<double>(20);
  long double expected = 0;
  for (const double v : unit) expected += static_cast<long double>(v) * v;
  expected = std::sqrt(expected);
  for (const int exponent : {-530, -520, -515, -510, 515}) {
    std::vector<double> b = unit, x(20, 0.0);
    for (double& v : b) v = std::ldexp(v, exponent);
    const auto report = make_solver<double>("gmres", {.stopping = {.max_iterations = 0}})
                            ->solve(A, view(std::as_const(b)), view(x));
    EXPECT_NEAR(std::ldexp(report.rhs_norm, -exponent), static_cast<double>(expected), 1e-13) << exponent;
  }
}

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

TEST(Preconditioner, IsToldWhetherThePatternIsAnotherOne) {
  DenseOperator<double> A(poisson_1d(4)), other(poisson_1d(4));
  std::vector<bool> changes;
  CallbackPreconditioner<double> M(
      A.context(), A.shape(), [](const double* r, double* z, CUstream_st*) { std::copy(r, r + 4, z); },
      [&](const LinearOperator<double>&, bool pattern_changed) { changes.push_back(pattern_changed); });
  M.ensure(A);
  ++A.revision_.values;
  M.ensure(A);
  ++A.revision_.pattern;
  M.ensure(A), M.ensure(A);
  M.ensure(other);
  EXPECT_EQ(changes, (std::vector<bool>{true, false, true, true}));
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

// The recurrence falls to 1e-8 because of one wrong product; the solve then begins anew from the true residual. Its
// window of stagnation must begin anew with it.
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

// b - A x is 1.5 times the residual of the recurrence, which must fall that much below the tolerance, and a tenth more.
TEST(IterationControl, AimsAsMuchLowerAsTheTruthIsHigher) {
  detail::IterationControl control({.relative_tolerance = 1e-3}, 10, 10);
  EXPECT_DOUBLE_EQ(control.goal(), 1e-2);
  control.aim_lower(8e-3, 12e-3);
  EXPECT_DOUBLE_EQ(control.goal(), 0.9 * 8e-3 * (1e-2 / 12e-3));
  control.restart(5, 3);
  EXPECT_DOUBLE_EQ(control.goal(), 1e-2);
}

TEST(IterationPace, OfALongSolveIsThatOfItsLastIterations) {
  IterationPace pace(false);
  for (int i = 0; i < 1000; ++i) pace.add(0.002);
  for (int i = 0; i < 1000; ++i) pace.add(0.001);
  EXPECT_DOUBLE_EQ(pace.seconds(), 0.001);
}

}  // namespace
}  // namespace protean::test

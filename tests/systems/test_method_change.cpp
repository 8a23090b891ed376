// Method auto changes in the middle of a solve.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "operators/callback_operator.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "protean.hpp"
#include "systems/changing_solves.hpp"

namespace protean::test {
namespace {

class MethodChanges : public ChangingSolves {};

std::vector<ContextPtr> both() { return {test_context(), fake_device_context()}; }

void expect_solved(const ChangingProblem& one, const SolveResult& result) {
  EXPECT_TRUE(result.converged()) << to_string(result.report.reason) << " " << result.report.detail;
  EXPECT_LE(one.residual(), 1.01e-8 * result.report.rhs_norm);
}

TEST_F(MethodChanges, CgGoesOnWithMinresForAnIndefiniteMatrix) {
  // Preconditioner auto stays, whatever the clock says.
  offer_nothing();
  for (const ContextPtr& context : both())
    for (const char* preconditioner : {"auto", "jacobi", "none"}) {
      SCOPED_TRACE(preconditioner);
      ChangingProblem one(context, shifted_grid());
      std::vector<std::string> notes;
      SolveSettings settings = one.settings("auto", preconditioner);
      settings.on_note = [&](const std::string& line) { notes.push_back(line); };
      SeenIterations seen;
      const auto system = one.system(settings);
      const SolveResult result = one.solve(*system, &seen);
      ASSERT_EQ(steps_of(result), Steps{"cg -> minres"}) << result.report.detail;
      expect_solved(one, result);
      expect_one_numbering(seen, result);
      EXPECT_EQ(result.method, "minres");
      EXPECT_EQ(result.preconditioner_reason.starts_with("jacobi"), std::string(preconditioner) == "auto")
          << result.preconditioner_reason;
      const MethodChange& change = result.method_changes[0];
      EXPECT_GT(change.iteration, 0);
      EXPECT_LT(change.iteration, result.report.iterations);
      EXPECT_GE(result.report.restarts, 1);
      EXPECT_TRUE(has(change.reason, "indefinite-operator")) << change.reason;
      EXPECT_EQ(result.method_reason, "minres took the place of cg at iteration " +
                                          std::to_string(change.iteration) + ": " + change.reason);
      ASSERT_EQ(notes.size(), 1u);
      EXPECT_TRUE(has(notes[0], "method auto goes on with minres")) << notes[0];
      // A named method ends as it does.
      const SolveResult named = one.solve(*one.system(one.settings("cg", preconditioner)));
      EXPECT_EQ(named.report.reason, StopReason::indefinite_operator);
      EXPECT_EQ(named.report.iterations, change.iteration);
      EXPECT_TRUE(named.method_changes.empty());
    }
}

// The next solve begins with what has worked. New values are solved as the first ones were.
TEST_F(MethodChanges, AKeptSystemRemembersTheMethod) {
  for (const ContextPtr& context : both()) {
    ChangingProblem one(context, shifted_grid());
    const auto system = one.system(one.settings("auto", "jacobi"));
    ASSERT_EQ(steps_of(one.solve(*system)), Steps{"cg -> minres"});
    const SolveResult fresh = one.solve(*one.system(one.settings("minres", "jacobi")));
    for (int round = 0; round < 2; ++round) {
      const SolveResult again = one.solve(*system);
      EXPECT_EQ(again.method, "minres");
      EXPECT_TRUE(again.method_changes.empty());
      EXPECT_TRUE(has(again.method_reason, "minres: it took the place of cg")) << again.method_reason;
      EXPECT_EQ(again.report.iterations, fresh.report.iterations);
      expect_solved(one, again);
    }
    if (context->space() != Space::host) continue;
    system->update_values(one.csr.values);
    EXPECT_EQ(steps_of(one.solve(*system)), Steps{"cg -> minres"});
    // Settings begin again, too.
    system->set(one.settings("auto", "none"));
    EXPECT_EQ(steps_of(one.solve(*system)), Steps{"cg -> minres"});
    system->set(one.settings("cg", "none"));
    EXPECT_EQ(one.solve(*system).report.reason, StopReason::indefinite_operator);
  }
}

// A solve that does not reach its goal teaches nothing.
TEST_F(MethodChanges, WhatHasNotConvergedIsNotRemembered) {
  ChangingProblem one(test_context(), shifted_grid());
  SolveSettings settings = one.settings("auto", "jacobi");
  const std::int64_t change = one.solve(*one.system(settings)).method_changes.at(0).iteration;
  settings.solver.stopping.max_iterations = change + 2;
  const auto system = one.system(settings);
  for (int round = 0; round < 2; ++round) {
    const SolveResult result = one.solve(*system);
    EXPECT_EQ(result.report.reason, StopReason::max_iterations);
    EXPECT_EQ(steps_of(result), Steps{"cg -> minres"}) << round;
  }
}

TEST_F(MethodChanges, OneLimitOfIterationsForAllParts) {
  ChangingProblem one(test_context(), shifted_grid());
  const SolveResult whole = one.solve(*one.system(one.settings("auto", "jacobi")));
  const std::int64_t change = whole.method_changes.at(0).iteration;
  for (const std::int64_t most : {change - 1, change, change + 1, change + 7, whole.report.iterations - 1}) {
    SCOPED_TRACE("max_iterations " + std::to_string(most));
    SolveSettings settings = one.settings("auto", "jacobi");
    settings.solver.stopping.max_iterations = most;
    SeenIterations seen;
    const SolveResult result = one.solve(*one.system(settings), &seen);
    expect_one_numbering(seen, result);
    EXPECT_FALSE(result.converged());
    EXPECT_EQ(result.report.iterations, most);
    EXPECT_EQ(result.method_changes.size(), most > change ? 1u : 0u);
    EXPECT_EQ(result.report.reason,
              most == change ? StopReason::indefinite_operator : StopReason::max_iterations);
    // The report belongs to x.
    EXPECT_NEAR(one.residual(), result.report.true_residual, 1e-10 * result.report.rhs_norm);
    EXPECT_NEAR(result.report.true_relative * result.report.rhs_norm, result.report.true_residual,
                1e-12 * result.report.rhs_norm);
  }
}

TEST_F(MethodChanges, OneLimitOfTimeForAllParts) {
  ChangingProblem one(test_context(), shifted_grid());
  SolveSettings settings = one.settings("auto", "jacobi");
  settings.solver.stopping.max_seconds = 1000;
  std::int64_t change = -1;
  settings.on_note = [&](const std::string&) { change = 0; };
  SeenIterations seen;
  double limit = 0;
  seen.on_each = [&](const IterationInfo& info) {
    if (change == 0 && limit == 0) limit = info.seconds;
  };
  (void)one.solve(*one.system(settings), &seen);
  ASSERT_EQ(change, 0);
  settings.solver.stopping.max_seconds = 0;
  const SolveResult result = one.solve(*one.system(settings));
  EXPECT_EQ(result.report.reason, StopReason::time_limit);
  EXPECT_TRUE(result.method_changes.empty());
}

TEST_F(MethodChanges, AnObserverEndsEachPart) {
  ChangingProblem one(test_context(), shifted_grid());
  const std::int64_t change =
      one.solve(*one.system(one.settings("auto", "jacobi"))).method_changes.at(0).iteration;
  for (const std::int64_t stop : {change - 1, change, change + 2}) {
    SeenIterations seen;
    seen.stop_at = stop;
    const SolveResult result = one.solve(*one.system(one.settings("auto", "jacobi")), &seen);
    EXPECT_EQ(result.report.reason,
              stop == change ? StopReason::indefinite_operator : StopReason::interrupted)
        << stop;
    EXPECT_EQ(result.report.iterations, stop);
    EXPECT_EQ(result.method_changes.size(), stop > change ? 1u : 0u);
  }
}

// Values that an observer gives in the middle of the solve, and an operator that says nothing of its change.
TEST_F(MethodChanges, AMatrixThatTurnsOutUnsymmetricTakesBicgstab) {
  const CsrMatrix<double> symmetric = uneven_grid(12);
  const CsrMatrix<double> other = changed_entries(symmetric, [](std::int64_t r, std::int32_t c, double a) {
    return r == c ? a : c > r ? 3 * a : -3 * a;
  });
  {
    ChangingProblem one(test_context(), symmetric);
    const auto system = one.system(one.settings("auto", "jacobi"));
    SeenIterations seen;
    seen.on_each = [&](const IterationInfo& info) {
      if (info.iteration == 5) system->matrix().update_values(other);
    };
    const SolveResult result = one.solve(*system, &seen);
    EXPECT_EQ(steps_of(result), Steps{"cg -> bicgstab"}) << result.report.detail;
    EXPECT_TRUE(has(result.method_reason, "the matrix is not symmetric")) << result.method_reason;
    one.csr = other;
    expect_solved(one, result);
    expect_one_numbering(seen, result);
    // The entries, which have been looked at, say it now.
    const SolveResult again = one.solve(*system);
    EXPECT_EQ(again.method, "bicgstab");
    EXPECT_TRUE(again.method_changes.empty());
  }
  for (const bool announced : {false, true}) {
    const CsrMatrix<double>* used = &symmetric;
    const auto A = std::make_shared<CallbackOperator<double>>(
        test_context(), Shape{symmetric.rows(), symmetric.rows()}, [&](const double* x, double* y) {
          for (std::int64_t r = 0; r < used->rows(); ++r) {
            y[r] = 0;
            for (std::int64_t k = used->pattern.row_ptr[r]; k < used->pattern.row_ptr[r + 1]; ++k)
              y[r] += used->values[k] * x[used->pattern.col[k]];
          }
        });
    LinearSystem<double> system(A, {.preconditioner = "none"});
    ChangingProblem one(test_context(), other);
    SeenIterations seen;
    seen.on_each = [&](const IterationInfo& info) {
      if (info.iteration != 5) return;
      used = &other;
      if (announced) A->changed();
    };
    const SolveResult result = one.solve(system, &seen);
    EXPECT_EQ(steps_of(result), Steps{"cg -> bicgstab"}) << result.report.detail;
    expect_solved(one, result);
  }
}

std::unique_ptr<Preconditioner<double>> indefinite(const LinearOperator<double>& A) {
  const std::int64_t n = A.rows();
  return std::make_unique<CallbackPreconditioner<double>>(
      A.context(), A.shape(),
      [n](const double* r, double* z, CUstream_st*) {
        for (std::int64_t i = 0; i < n; ++i) z[i] = i % 3 == 0 ? -r[i] : r[i];
      },
      CallbackPreconditioner<double>::Setup(), CallbackOptions{"of the caller", true});
}

// A preconditioner that is named, or the caller's own, stays: gmres takes one that is not definite.
TEST_F(MethodChanges, AnIndefinitePreconditionerTakesGmres) {
  ChangingProblem one(test_context(), uneven_grid(12));
  const auto system = one.system(one.settings("auto", "jacobi"));
  system->solver().set_preconditioner(indefinite);
  SeenIterations seen;
  const SolveResult result = one.solve(*system, &seen);
  ASSERT_EQ(steps_of(result), Steps{"cg -> gmres"}) << result.report.detail;
  EXPECT_EQ(result.preconditioner, "of the caller");
  expect_solved(one, result);
  expect_one_numbering(seen, result);
}

// Of type auto a candidate that has become indefinite goes, whatever the method is.
TEST_F(MethodChanges, AnIndefinitePreconditionerOfAutoGoes) {
  offer("amg");
  ChangingProblem one(test_context(), uneven_grid(40));
  SolveSettings settings = one.settings("minres");
  settings.preconditioning.refresh = Refresh::every;
  const auto system = one.system(settings);
  // From its trial on it is as fast as can be.
  SeenIterations first;
  first.on_each = [](const IterationInfo& info) { slowness = info.iteration >= 17 ? 0.01 : 1; };
  const SolveResult before = one.solve(*system, &first);
  ASSERT_EQ(before.preconditioner, "amg") << before.preconditioner_reason;
  // Its coarser levels get negative eigenvalues.
  const CsrMatrix<double> other = shifted_grid(40);
  system->update_values(other.values);
  one.csr = other;
  SeenIterations seen;
  const SolveResult result = one.solve(*system, &seen);
  ASSERT_EQ(result.preconditioner_changes.size(), 1u)
      << result.report.detail << result.preconditioner << result.preconditioner_reason;
  EXPECT_EQ(result.preconditioner_changes[0].action, PreconditionerChange::Action::taken_back);
  EXPECT_EQ(result.preconditioner_changes[0].from, "amg");
  EXPECT_TRUE(has(result.preconditioner_changes[0].reason, "indefinite-preconditioner"));
  EXPECT_NE(result.preconditioner, "amg");
  expect_solved(one, result);
  expect_one_numbering(seen, result);
}

// Method and preconditioner change in one solve.
TEST_F(MethodChanges, TogetherWithAChangeOfPreconditioner) {
  for (const ContextPtr& context : both()) {
    offer("ssor");
    slowness = 1, passed = 0, count_products_of(nullptr);
    ChangingProblem one(context, shifted_grid(40, 0.02));
    SeenIterations seen;
    const auto system = one.system(one.settings("auto"));
    const SolveResult result = one.solve(*system, &seen);
    EXPECT_EQ(steps_of(result), Steps{"cg -> minres"}) << result.report.detail;
    EXPECT_FALSE(result.preconditioner_changes.empty()) << result.preconditioner_reason;
    expect_solved(one, result);
    expect_one_numbering(seen, result);
    expect_solved(one, one.solve(*system));
  }
}

// With b = e_1 it breaks down in its first step: A p is orthogonal to b.
TEST_F(MethodChanges, BicgstabGoesOnWithIdrAfterABreakdown) {
  for (const ContextPtr& context : both()) {
    ChangingProblem one(context, circle(60));
    std::fill(one.b.begin(), one.b.end(), 0.0), one.b[0] = 1;
    SolveSettings settings = one.settings("auto", "none");
    std::vector<std::string> notes;
    settings.on_note = [&](const std::string& line) { notes.push_back(line); };
    SeenIterations seen;
    const auto system = one.system(settings);
    const SolveResult result = one.solve(*system, &seen);
    ASSERT_FALSE(result.method_changes.empty()) << result.report.detail;
    EXPECT_EQ(steps_of(result)[0], "bicgstab -> idr");
    EXPECT_TRUE(has(result.method_changes[0].reason, "breakdown: r0 . A M^-1 p = 0"))
        << result.method_changes[0].reason;
    ASSERT_EQ(notes.size(), result.method_changes.size());
    EXPECT_TRUE(has(notes[0], "method auto goes on with idr")) << notes[0];
    expect_solved(one, result);
    expect_one_numbering(seen, result);
    const SolveResult again = one.solve(*system);
    EXPECT_EQ(again.method, result.method);
    EXPECT_TRUE(again.method_changes.empty());
    expect_solved(one, again);
    EXPECT_EQ(one.solve(*one.system(one.settings("bicgstab", "none"))).report.reason, StopReason::breakdown);
  }
}

TEST_F(MethodChanges, BicgstabAndIdrThatLeadNowhereAreGivenUp) {
  for (const ContextPtr& context : both()) {
    ChangingProblem one(context, graded(120));
    SolveSettings settings = one.settings("auto", "none");
    settings.solver.stopping.max_iterations = 1300;
    SeenIterations seen;
    const auto system = one.system(settings);
    const SolveResult result = one.solve(*system, &seen);
    ASSERT_EQ(steps_of(result), (Steps{"bicgstab -> idr", "idr -> gmres"})) << result.report.detail;
    for (const MethodChange& change : result.method_changes) {
      EXPECT_EQ(change.iteration % 100, 0);
      EXPECT_TRUE(has(change.reason, "would likely take") || has(change.reason, "does not fall"))
          << change.reason;
    }
    EXPECT_EQ(result.method_changes[0].iteration, 400);
    EXPECT_EQ(result.method_changes[1].restart, 120);
    EXPECT_TRUE(has(result.method_changes[1].reason, "with cycles of 120 iterations"));
    expect_solved(one, result);
    expect_one_numbering(seen, result);
    const SolveResult again = one.solve(*system);
    EXPECT_EQ(again.method, "gmres");
    EXPECT_LE(again.report.iterations, 120);
    EXPECT_TRUE(again.method_changes.empty());
    expect_solved(one, again);
    const SolveResult named = one.solve(*one.system(one.settings("bicgstab", "none")));
    EXPECT_GT(named.report.iterations, 1300);
  }
}

// Cycles of two iterations with an M that is not definite: cg gives it to gmres.
TEST_F(MethodChanges, CyclesOfGmresThatLeadNowhereAreGivenUp) {
  ChangingProblem one(test_context(), uneven_grid(12));
  SolveSettings settings = one.settings("auto", "jacobi");
  settings.solver.restart = 2, settings.solver.stopping.max_iterations = 1000;
  const auto system = one.system(settings);
  system->solver().set_preconditioner(indefinite);
  SeenIterations seen;
  const SolveResult result = one.solve(*system, &seen);
  ASSERT_GE(result.method_changes.size(), 2u) << result.report.detail;
  EXPECT_EQ(steps_of(result)[0], "cg -> gmres");
  EXPECT_EQ(steps_of(result)[1], "gmres -> idr");
  EXPECT_TRUE(has(result.method_changes[1].reason, "in cycles of 2 iterations"))
      << result.method_changes[1].reason;
  expect_solved(one, result);
  expect_one_numbering(seen, result);
}

// Each allocation after the method has failed may fail: the solve ends as it would without a change, or goes on.
TEST_F(MethodChanges, NoMemoryForTheNextMethodIsSaid) {
  ChangingProblem one(test_context(), shifted_grid());
  const std::int64_t change =
      one.solve(*one.system(one.settings("auto", "none"))).method_changes.at(0).iteration;
  int refused = 0;
  for (std::int64_t number = 1;; ++number) {
    SCOPED_TRACE("allocation " + std::to_string(number));
    refuse_allocation(number);
    const auto system = one.system(one.settings("auto", "none"));
    SeenIterations seen;
    seen.on_each = [&](const IterationInfo& info) { armed = info.iteration >= change; };
    const SolveResult result = one.solve(*system, &seen);
    detail::allocation_hook = nullptr;
    EXPECT_NEAR(one.residual(), result.report.true_residual, 1e-10 * result.report.rhs_norm);
    expect_one_numbering(seen, result);
    if (!failed) break;
    if (steps_of(result) != Steps{"not minres"}) continue;
    ++refused;
    EXPECT_EQ(result.report.reason, StopReason::indefinite_operator);
    EXPECT_EQ(result.method, "cg");
    EXPECT_TRUE(has(result.method_changes[0].reason, "refused by the test"))
        << result.method_changes[0].reason;
    const SolveResult again = one.solve(*system);
    EXPECT_EQ(steps_of(again), Steps{"cg -> minres"});
    expect_solved(one, again);
  }
  EXPECT_GT(refused, 2);
}

TEST_F(MethodChanges, DeterministicModeHasTheSameBitsInEachRun) {
  std::vector<double> expected;
  for (const int threads : {1, 2, 3}) {
    ChangingProblem one(Context::host(threads, {.deterministic = true}), shifted_grid());
    const SolveResult result = one.solve(*one.system(one.settings("auto", "jacobi")));
    EXPECT_EQ(steps_of(result), Steps{"cg -> minres"});
    if (expected.empty()) expected = one.x;
    EXPECT_EQ(one.x, expected);
  }
}

// A policy of formats and a schedule see one numbering.
TEST_F(MethodChanges, NextToChangesOfFormat) {
  ChangingProblem one(test_context(), shifted_grid());
  SolveSettings settings = one.settings("auto", "jacobi");
  settings.schedule = {{.at = 2, .overlapped = false, .format = "ell"},
                       {.at = 60, .overlapped = false, .format = "csr"}};
  const SolveResult result = one.solve(*one.system(settings));
  EXPECT_EQ(steps_of(result), Steps{"cg -> minres"});
  expect_solved(one, result);
  ASSERT_EQ(result.switches.size(), 2u);
  EXPECT_EQ(result.switches[0].iteration, 2);
  EXPECT_EQ(result.switches[1].iteration, 60);
  settings.schedule.clear(), settings.policy = "auto";
  SeenIterations seen;
  const SolveResult decided = one.solve(*one.system(settings), &seen);
  expect_solved(one, decided);
  expect_one_numbering(seen, decided);
}

// If the second method does not get as far as the first one, x is the x of the first.
TEST_F(MethodChanges, TheBetterXStays) {
  ChangingProblem one(test_context(), shifted_grid());
  for (const double guess : {0.0, 1e3}) {
    SolveSettings settings = one.settings("auto", "jacobi");
    const auto system = one.system(settings);
    system->set_up();
    const std::int64_t n = one.csr.rows();
    std::vector<double> x(one.b.size(), guess);
    const SolveResult result = system->solve({one.b.data(), n}, {x.data(), n});
    EXPECT_EQ(steps_of(result), Steps{"cg -> minres"});
    EXPECT_TRUE(result.converged());
    EXPECT_LE(residual_of(one.csr, one.b, x), 1.01e-8 * result.report.rhs_norm);
  }
}

TEST_F(MethodChanges, CSaysItInItsReason) {
  const ChangingProblem one(test_context(), shifted_grid());
  std::vector<double> x(one.b.size(), 0.0);
  expect_said_in_c(one.csr, [&](protean_solver* solver, protean_matrix* matrix) {
    return protean_solve(solver, matrix, one.b.data(), x.data());
  });
}

}  // namespace
}  // namespace protean::test

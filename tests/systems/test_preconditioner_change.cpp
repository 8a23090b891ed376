// Preconditioner auto changes in the middle of a solve. The clock belongs to the test: an iteration takes as long as
// its products, and a setup nothing. The candidates of most tests are so cheap that short solves change.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/background.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "systems/changing_solves.hpp"

namespace protean::test {
namespace {

class PreconditionerChanges : public ChangingSolves {};

// Each method goes on from its x with the candidate, on the host and on a device.
TEST_F(PreconditionerChanges, EveryMethodGoesOnWithTheCandidate) {
  for (const ContextPtr& context : {test_context(), fake_device_context()})
    for (const SolverEntry& entry : solvers()) {
      SCOPED_TRACE(std::string(entry.id) + (context->space() == Space::host ? "" : " on a device"));
      const bool symmetric = make_solver<double>(entry.id)->needs_symmetric_preconditioner();
      const std::string id = context->space() == Space::device ? "amg" : symmetric ? "ic0" : "ilu0";
      // A trial of idr has a whole cycle, others have several applications in an iteration, and all must be paid for.
      offer(id, symmetric, 0.01, entry.id == "idr" || entry.products > 1 ? 2 : 0.01);
      ChangingProblem one(context);
      SeenIterations seen;
      const auto system = one.system(one.settings(entry.id));
      const SolveResult result = one.solve(*system, &seen);
      ASSERT_TRUE(result.converged()) << result.report.detail;
      ASSERT_EQ(actions_of(result), std::vector<Action>{Action::changed}) << result.preconditioner_reason;
      const PreconditionerChange& change = result.preconditioner_changes[0];
      EXPECT_EQ(change.from, "jacobi");
      EXPECT_EQ(change.to, id);
      EXPECT_EQ(result.preconditioner, id);
      EXPECT_TRUE(has(result.preconditioner_reason, id + " took the place of jacobi"))
          << result.preconditioner_reason;
      EXPECT_GE(change.iteration, 16);
      EXPECT_LE(change.iteration, result.report.iterations);  // a trial may have solved it
      EXPECT_LE(one.residual(), 1.01e-8 * result.report.rhs_norm);
      expect_one_numbering(seen, result);
      EXPECT_DOUBLE_EQ(seen.infos[static_cast<std::size_t>(change.iteration)].residual,
                       change.relative_residual * result.report.rhs_norm);
      const std::vector<double> x = one.x;
      const SolveResult fresh = one.solve(*one.system(one.settings(entry.id, id)));
      ASSERT_TRUE(fresh.converged());
      double difference = 0, norm = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        difference += (x[i] - one.x[i]) * (x[i] - one.x[i]), norm += x[i] * x[i];
      EXPECT_LE(std::sqrt(difference / norm), 1e-5);
      // It stays for the next solve.
      const SolveResult again = one.solve(*system);
      EXPECT_EQ(again.preconditioner, id);
      EXPECT_EQ(again.report.iterations, fresh.report.iterations);
      EXPECT_TRUE(again.preconditioner_changes.empty());
    }
}

// Neither a short solve nor another preconditioner than auto changes.
TEST_F(PreconditionerChanges, OthersStayAsTheyAre) {
  offer("ic0");
  ChangingProblem one;
  EXPECT_TRUE(one.solve(*one.system(one.settings("cg", "jacobi"))).preconditioner_changes.empty());
  SolveSettings easy = one.settings();
  easy.solver.stopping.relative_tolerance = 0.5;
  EXPECT_TRUE(one.solve(*one.system(easy)).preconditioner_changes.empty());
}

TEST_F(PreconditionerChanges, WhatIsSlowerIsTakenBack) {
  for (const ContextPtr& context : {test_context(), fake_device_context()})
    for (const char* method : {"cg", "minres", "bicgstab", "gmres"}) {
      SCOPED_TRACE(method);
      slowness = 1;
      offer("ssor");
      ChangingProblem one(context);
      SolveSettings settings = one.settings(method);
      // A long cycle is judged at its end, when the solve may have ended.
      if (method == std::string("gmres")) settings.solver.restart = 5;
      settings.on_note = [](const std::string& line) { slowness = has(line, "goes on with ssor") ? 100 : 1; };
      SeenIterations seen;
      const auto system = one.system(settings);
      const SolveResult result = one.solve(*system, &seen);
      ASSERT_TRUE(result.converged()) << result.report.detail;
      ASSERT_EQ(actions_of(result), (std::vector<Action>{Action::changed, Action::taken_back}))
          << result.preconditioner_reason;
      EXPECT_EQ(result.preconditioner, "jacobi");
      EXPECT_LT(result.preconditioner_changes[1].gained_seconds, 0);
      EXPECT_TRUE(has(result.preconditioner_changes[1].reason, "falls more slowly with ssor"));
      EXPECT_LE(one.residual(), 1.01e-8 * result.report.rhs_norm);
      expect_one_numbering(seen, result);
      EXPECT_LE(result.preconditioner_changes[1].iteration - result.preconditioner_changes[0].iteration, 12);
    }
}

// A candidate that refuses the matrix leaves the iterations as they would be without it, bit for bit.
TEST_F(PreconditionerChanges, ARefusalChangesNoBit) {
  ChangingProblem one(test_context(),
                      changed_entries(uneven_grid(), [](std::int64_t r, std::int32_t c, double a) {
                        return c > r ? 0.99 * a : a;
                      }));
  const SolveResult expected = one.solve(*one.system(one.settings("gmres", "jacobi")));
  const std::vector<double> x = one.x;
  offer("ic0");
  SeenIterations seen;
  const auto system = one.system(one.settings("gmres"));
  const SolveResult result = one.solve(*system, &seen);
  ASSERT_EQ(actions_of(result), std::vector<Action>{Action::refused});
  EXPECT_EQ(result.preconditioner_changes[0].to, "ic0");
  EXPECT_TRUE(has(result.preconditioner_changes[0].reason, "symmetric"))
      << result.preconditioner_changes[0].reason;
  EXPECT_EQ(result.preconditioner, "jacobi");
  EXPECT_EQ(one.x, x);
  EXPECT_EQ(result.report.iterations, expected.report.iterations);
  EXPECT_EQ(result.report.restarts, expected.report.restarts);
  expect_one_numbering(seen, result);
  EXPECT_TRUE(one.solve(*system).preconditioner_changes.empty()) << "it was tried again";
}

// A candidate is tried on a copy of x, so one that does not pass costs its time and no bit. By the clock of products
// chebyshev takes five times as long as an iteration of jacobi.
TEST_F(PreconditionerChanges, WhatDoesNotPassItsTrialChangesNoBit) {
  for (const ContextPtr& context : {test_context(), fake_device_context()})
    for (const char* method : {"cg", "fcg"}) {
      SCOPED_TRACE(method);
      ChangingProblem one(context, uneven_grid(120));
      const SolveResult expected = one.solve(*one.system(one.settings(method, "jacobi")));
      const std::vector<double> x = one.x;
      offer("chebyshev", true, 25);  // the products of its setup
      SeenIterations seen;
      const SolveResult result = one.solve(*one.system(one.settings(method)), &seen);
      ASSERT_EQ(actions_of(result), std::vector<Action>{Action::refused}) << result.preconditioner_reason;
      EXPECT_TRUE(has(result.preconditioner_changes[0].reason, "in a trial of"))
          << result.preconditioner_changes[0].reason;
      EXPECT_EQ(one.x, x);
      EXPECT_EQ(result.report.iterations, expected.report.iterations);
      EXPECT_EQ(result.preconditioner, "jacobi");
      expect_one_numbering(seen, result);
    }
}

// Each allocation of the setup, and of the change, may fail. The solve goes on with jacobi.
TEST_F(PreconditionerChanges, NoMemoryAtAnyPointLeavesTheSolve) {
  ChangingProblem one;
  const SolveResult expected = one.solve(*one.system(one.settings("cg", "jacobi")));
  const std::vector<double> x = one.x;
  offer("ic0");
  int refused = 0, back = 0;
  for (std::int64_t number = 1;; ++number) {
    SCOPED_TRACE("allocation " + std::to_string(number));
    refuse_allocation(number);
    const auto system = one.system(one.settings());
    SeenIterations seen;
    seen.on_each = [](const IterationInfo& info) { armed = info.iteration >= 1; };
    const SolveResult result = one.solve(*system, &seen);
    detail::allocation_hook = nullptr;
    ASSERT_TRUE(result.converged()) << result.report.detail;
    EXPECT_LE(one.residual(), 1.01e-8 * result.report.rhs_norm);
    expect_one_numbering(seen, result);
    if (!failed) break;
    const std::vector<Action> actions = actions_of(result);
    if (actions == std::vector<Action>{Action::refused}) {
      ++refused;
      EXPECT_EQ(one.x, x);
      EXPECT_EQ(result.report.iterations, expected.report.iterations);
    } else if (actions == std::vector<Action>{Action::changed, Action::taken_back}) {
      ++back;
    } else {
      EXPECT_EQ(actions, std::vector<Action>{Action::changed});  // the copy of x, or a look
    }
  }
  EXPECT_GT(refused, 3);
  EXPECT_GT(back, 0);
}

TEST_F(PreconditionerChanges, OneLimitOfIterationsForAllParts) {
  offer("ic0");
  ChangingProblem one;
  const SolveResult whole = one.solve(*one.system(one.settings()));
  int limited = 0;
  for (std::int64_t most = 20; most < whole.report.iterations; most += 7) {
    SCOPED_TRACE("max_iterations " + std::to_string(most));
    SolveSettings settings = one.settings();
    settings.solver.stopping.max_iterations = most;
    SeenIterations seen;
    const SolveResult result = one.solve(*one.system(settings), &seen);
    expect_one_numbering(seen, result);
    if (result.converged()) continue;
    EXPECT_EQ(result.report.reason, StopReason::max_iterations);
    EXPECT_EQ(result.report.iterations, most);
    EXPECT_TRUE(has(result.report.detail, std::to_string(most) + " iterations")) << result.report.detail;
    limited += !result.preconditioner_changes.empty();
  }
  EXPECT_GT(limited, 0) << "in the part with the candidate";
}

TEST_F(PreconditionerChanges, AnObserverEndsEachPart) {
  offer("ic0");
  ChangingProblem one;
  const std::int64_t change = one.solve(*one.system(one.settings())).preconditioner_changes.at(0).iteration;
  for (const std::int64_t stop : {change - 1, change, change + 2}) {
    SeenIterations seen;
    seen.stop_at = stop;
    const SolveResult result = one.solve(*one.system(one.settings()), &seen);
    EXPECT_EQ(result.report.reason, StopReason::interrupted);
    EXPECT_EQ(result.report.iterations, stop);
    EXPECT_EQ(result.preconditioner_changes.size(), stop > change ? 1u : 0u);
  }
}

// Ctrl-C while a candidate is set up ends the solve there.
TEST_F(PreconditionerChanges, AnInterruptedSetupEndsTheSolve) {
  offer("ic0");
  ChangingProblem one;
  const auto system = one.system(one.settings());
  SeenIterations seen;
  bool begun = false;
  seen.on_each = [&](const IterationInfo& info) { begun = info.iteration > 0; };
  const detail::StopQuestion question([&] { return begun; });
  const SolveResult result = one.solve(*system, &seen);
  EXPECT_EQ(result.report.reason, StopReason::interrupted);
  ASSERT_EQ(actions_of(result), std::vector<Action>{Action::refused});
  EXPECT_TRUE(has(result.preconditioner_changes[0].reason, "interrupted"));
  EXPECT_EQ(result.report.iterations, result.preconditioner_changes[0].iteration);
}

TEST_F(PreconditionerChanges, KeepsTheNullSpace) {
  const CsrMatrix<double> singular =
      with_zero_row_sums(generate(test_context(), "poisson-2d", {{"n", 80.0}}));
  offer("amg");
  for (const char* method : {"cg", "fcg", "minres"}) {
    SCOPED_TRACE(method);
    ChangingProblem one(test_context(), singular);
    double mean = 0;
    for (const double v : one.b) mean += v / static_cast<double>(one.b.size());
    for (double& v : one.b) v -= mean;
    SolveSettings settings = one.settings(method);
    settings.solver.null_space = "constant";
    const SolveResult result = one.solve(*one.system(settings));
    ASSERT_TRUE(result.converged()) << result.report.detail;
    EXPECT_EQ(actions_of(result), std::vector<Action>{Action::changed}) << result.preconditioner_reason;
    EXPECT_LE(one.residual(), 1.01e-8 * result.report.rhs_norm);
    double sum = 0;
    for (const double v : one.x) sum += v;
    EXPECT_LT(std::abs(sum), 1e-8);
  }
}

// With the table of the library: a diffusion problem of some thousand iterations ends with amg. Iterations are counted.
TEST_F(PreconditionerChanges, ALongDiffusionProblemEndsWithAmg) {
  std::vector<Triplet<double>> entries;
  constexpr std::int32_t width = 4, length = 2500;
  for (std::int32_t i = 0; i < length; ++i)
    for (std::int32_t j = 0; j < width; ++j) {
      const std::int32_t at = i * width + j;
      const auto couple = [&](bool inside, std::int32_t to) {
        if (inside) entries.push_back({at, to, -1});
      };
      couple(i > 0, at - width), couple(j > 0, at - 1);
      entries.push_back({at, at, 4.0 - (j == 0) - (j + 1 == width)});
      couple(j + 1 < width, at + 1), couple(i + 1 < length, at + width);
    }
  ChangingProblem one(test_context(),
                      csr_from_triplets<double>(test_context(), width * length, width * length, entries));
  std::fill(one.b.begin(), one.b.end(), 1.0);
  const SolveResult jacobi = one.solve(*one.system(one.settings("cg", "jacobi")));
  const auto system = one.system(one.settings());
  const SolveResult result = one.solve(*system);
  ASSERT_TRUE(result.converged());
  ASSERT_EQ(actions_of(result), std::vector<Action>{Action::changed})
      << result.preconditioner_reason << jacobi.report.iterations;
  EXPECT_EQ(result.preconditioner, "amg");
  EXPECT_LT(result.report.iterations, jacobi.report.iterations / 2);
  EXPECT_LE(one.residual(), 1.01e-8 * result.report.rhs_norm);
  const SolveResult again = one.solve(*system);
  EXPECT_EQ(again.preconditioner, "amg");
  EXPECT_LT(again.report.iterations, 100);
}

// Whatever the clock says.
TEST_F(PreconditionerChanges, DeterministicModeHasTheSameBitsInEachRun) {
  offer("ic0");
  ChangingProblem one(Context::host(2, {.deterministic = true}));
  std::vector<double> expected;
  for (const double other : {1.0, 1e-9, 1e9, 0.0}) {
    slowness = other;
    const auto system = one.system(one.settings());
    std::vector<double> all;
    for (int k = 0; k < 3; ++k) {
      const SolveResult result = one.solve(*system);
      EXPECT_TRUE(result.converged());
      EXPECT_EQ(result.preconditioner, "ic0");
      EXPECT_EQ(result.preconditioner_changes.size(), k == 0 ? 1u : 0u);
      all.insert(all.end(), one.x.begin(), one.x.end());
      all.push_back(static_cast<double>(result.report.iterations));
    }
    if (expected.empty()) expected = all;
    EXPECT_EQ(all, expected);
  }
}

// With a constant diagonal jacobi changes no iterate, and the solve does without it.
TEST_F(PreconditionerChanges, AConstantDiagonalNeedsNoVectorOperations) {
  for (const bool constant : {true, false}) {
    ChangingProblem one(test_context(),
                        constant ? generate(test_context(), "poisson-2d", {{"n", 80.0}}) : uneven_grid());
    const SolveResult automatic = one.solve(*one.system(one.settings()));
    const std::vector<double> x = one.x;
    EXPECT_EQ(automatic.preconditioner, "jacobi");
    EXPECT_EQ(one.solve(*one.system(one.settings("cg", "none"))).converged(), true);
    EXPECT_EQ(one.x == x, constant);
    EXPECT_TRUE(one.solve(*one.system(one.settings("cg", "jacobi"))).converged());
    EXPECT_EQ(one.x == x, !constant);
  }
}

// A schedule of formats and the policy see one numbering, too.
TEST_F(PreconditionerChanges, NextToChangesOfFormat) {
  offer("ic0");
  ChangingProblem one;
  SolveSettings settings = one.settings();
  settings.schedule = {{.at = 10, .overlapped = false, .format = "ell"},
                       {.at = 40, .overlapped = false, .format = "csr"}};
  const SolveResult result = one.solve(*one.system(settings));
  ASSERT_TRUE(result.converged());
  EXPECT_EQ(actions_of(result), std::vector<Action>{Action::changed});
  ASSERT_EQ(result.switches.size(), 2u);
  EXPECT_EQ(result.switches[0].iteration, 10);
  EXPECT_EQ(result.switches[1].iteration, 40);
}

}  // namespace
}  // namespace protean::test

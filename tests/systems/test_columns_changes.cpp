// Preconditioner auto changes in the middle of a solve with several right-hand sides.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/background.hpp"
#include "core/error.hpp"
#include "gtest/gtest.h"
#include "preconditioners/choice/change_rule.hpp"
#include "preconditioners/choice/choice.hpp"
#include "protean.hpp"
#include "systems/changing_columns.hpp"

namespace protean::test {
namespace {

using detail::ChangeCandidate;

TEST_F(ColumnsChanges, EveryMethodGoesOnWithTheCandidate) {
  for (const ContextPtr& context : all_spaces())
    for (const SolverEntry& entry : solvers()) {
      SCOPED_TRACE(std::string(entry.id) + (context->space() == Space::host ? "" : " on a device") +
                   (runs_ahead(context) ? " that runs ahead" : ""));
      const bool symmetric = make_solver<double>(entry.id)->needs_symmetric_preconditioner();
      const std::string id = context->space() == Space::device ? "amg" : symmetric ? "ic0" : "ilu0";
      offer(id, symmetric);
      // A cycle of idr says little alone: more iterations are left of a larger grid, which pay for two.
      ChangingColumns one(context, entry.id == "idr" ? uneven_grid(80) : grid_for(context));
      ColumnsSeen seen;
      std::vector<std::string> notes;
      SolveSettings settings = one.settings(entry.id);
      settings.on_note = [&](const std::string& line) { notes.push_back(line); };
      const auto system = one.system(settings);
      const MultiSolveResult result = one.solve_columns(*system, &seen);
      ASSERT_EQ(actions_of(result), std::vector<Action>{Action::changed}) << result.preconditioner_reason;
      one.expect_solved(result);
      expect_one_numbering(seen, result, !runs_ahead(context));
      const PreconditionerChange& change = result.preconditioner_changes[0];
      EXPECT_EQ(change.from, "jacobi");
      EXPECT_EQ(change.to, id);
      EXPECT_EQ(change.columns, 3);
      EXPECT_GE(change.iteration, 16);
      EXPECT_LE(change.iteration, result.report.iterations);
      EXPECT_GT(change.relative_residual, 0);
      EXPECT_LE(change.relative_residual, 10);
      EXPECT_EQ(result.preconditioner, id);
      EXPECT_TRUE(has(result.preconditioner_reason, id + " took the place of jacobi"))
          << result.preconditioner_reason;
      ASSERT_EQ(notes.size(), 1u);
      EXPECT_TRUE(has(notes[0], "preconditioner auto goes on with " + id)) << notes[0];
      for (const SolveReport& column : result.report.columns) EXPECT_GE(column.restarts, 1);
      // It stays for the next solve, also of one right-hand side.
      const MultiSolveResult again = one.solve_columns(*system);
      EXPECT_EQ(again.preconditioner, id);
      EXPECT_TRUE(again.preconditioner_changes.empty());
      one.expect_solved(again);
      EXPECT_EQ(again.report.iterations,
                one.solve_columns(*one.system(one.settings(entry.id, id))).report.iterations);
      EXPECT_EQ(one.solve(*system).preconditioner, id);
    }
}

TEST_F(ColumnsChanges, WhatIsSlowerIsTakenBack) {
  for (const ContextPtr& context : {test_context(), fake_device_context()})
    for (const char* method : {"cg", "minres", "bicgstab", "gmres"}) {
      SCOPED_TRACE(method);
      slowness = 1;
      offer("ssor");
      ChangingColumns one(context, grid_for(context));
      SolveSettings settings = one.settings(method);
      // A long cycle is judged at its end, when the solve may have ended.
      if (method == std::string("gmres")) settings.solver.restart = 5;
      settings.on_note = [](const std::string& line) { slowness = has(line, "goes on with ssor") ? 100 : 1; };
      ColumnsSeen seen;
      const auto system = one.system(settings);
      const MultiSolveResult result = one.solve_columns(*system, &seen);
      ASSERT_EQ(actions_of(result), (std::vector<Action>{Action::changed, Action::taken_back}))
          << result.preconditioner_reason;
      one.expect_solved(result);
      expect_one_numbering(seen, result);
      EXPECT_EQ(result.preconditioner, "jacobi");
      EXPECT_LT(result.preconditioner_changes[1].gained_seconds, 0);
      EXPECT_LE(result.preconditioner_changes[1].iteration - result.preconditioner_changes[0].iteration, 12);
    }
}

// A candidate is tried on copies of the columns that run, so one that does not pass changes no bit.
TEST_F(ColumnsChanges, WhatDoesNotPassItsTrialChangesNoBit) {
  for (const ContextPtr& context : {test_context(), fake_device_context()}) {
    ChangingColumns one(context, uneven_grid(context->space() == Space::host ? 120 : 50));
    const MultiSolveResult expected = one.solve_columns(*one.system(one.settings("cg", "jacobi")));
    const Columns<double> x = one.X;
    offer("ssor");
    ColumnsSeen seen;  // its trial is slow
    seen.on_each = [](const MultiIterationInfo& info) { slowness = info.iteration >= 17 ? 100 : 1; };
    const MultiSolveResult result = one.solve_columns(*one.system(one.settings("cg")), &seen);
    ASSERT_EQ(actions_of(result), std::vector<Action>{Action::refused}) << result.preconditioner_reason;
    EXPECT_TRUE(has(result.preconditioner_changes[0].reason, "in a trial of"))
        << result.preconditioner_changes[0].reason;
    EXPECT_EQ(one.X, x);
    EXPECT_EQ(result.report.iterations, expected.report.iterations);
    EXPECT_EQ(result.report.columns[2].restarts, expected.report.columns[2].restarts);
  }
}

// Columns that have ended before a change keep their x, and columns that go on keep their own rules.
TEST_F(ColumnsChanges, ColumnsThatHaveEndedStayAsTheyAre) {
  for (const ContextPtr& context : all_spaces()) {
    ChangingColumns one(context, grid_for(context), 4);
    std::vector<StoppingRule> rules(4);
    rules[1].relative_tolerance = 0.5, rules[2].relative_tolerance = 1e-5;
    rules[3].max_iterations = 5;
    const MultiSolveResult plain =
        one.solve_columns(*one.system(one.settings("cg", "jacobi")), nullptr, rules);
    const Columns<double> x = one.X;
    offer(context->space() == Space::device ? "amg" : "ic0");
    ColumnsSeen seen;
    const MultiSolveResult result = one.solve_columns(*one.system(one.settings("cg")), &seen, rules);
    ASSERT_EQ(actions_of(result), std::vector<Action>{Action::changed}) << result.preconditioner_reason;
    EXPECT_EQ(result.preconditioner_changes[0].columns, 2);
    for (const std::size_t ended : {1, 3}) {
      EXPECT_EQ(one.X[ended], x[ended]) << ended;
      EXPECT_EQ(result.report.columns[ended].reason, plain.report.columns[ended].reason);
      EXPECT_EQ(result.report.columns[ended].iterations, plain.report.columns[ended].iterations);
      EXPECT_EQ(result.report.columns[ended].restarts, 0);
    }
    EXPECT_EQ(result.report.columns[3].reason, StopReason::max_iterations);
    EXPECT_TRUE(result.report.columns[0].converged());
    EXPECT_TRUE(result.report.columns[2].converged());
    one.expect_true(result);
    expect_one_numbering(seen, result, !runs_ahead(context));
    for (std::size_t i = 40; i < seen.runs.size(); ++i) EXPECT_EQ(seen.runs[i][1], 0);
  }
}

TEST_F(ColumnsChanges, OneLimitOfIterationsForAllParts) {
  offer("ic0");
  ChangingColumns one;
  const MultiSolveResult whole = one.solve_columns(*one.system(one.settings()));
  int limited = 0;
  for (std::int64_t most = 20; most < whole.report.iterations; most += 11) {
    SCOPED_TRACE("max_iterations " + std::to_string(most));
    SolveSettings settings = one.settings();
    settings.solver.stopping.max_iterations = most;
    ColumnsSeen seen;
    const MultiSolveResult result = one.solve_columns(*one.system(settings), &seen);
    expect_one_numbering(seen, result);
    one.expect_true(result);
    for (const SolveReport& column : result.report.columns) {
      if (column.converged()) continue;
      EXPECT_EQ(column.reason, StopReason::max_iterations);
      EXPECT_EQ(column.iterations, most);
      limited += !result.preconditioner_changes.empty();
    }
  }
  EXPECT_GT(limited, 0) << "in the part with the candidate";
}

TEST_F(ColumnsChanges, AnObserverEndsEachPart) {
  offer("ic0");
  ChangingColumns one;
  const std::int64_t change =
      one.solve_columns(*one.system(one.settings())).preconditioner_changes.at(0).iteration;
  for (const std::int64_t stop : {change - 1, change, change + 2}) {
    ColumnsSeen seen;
    seen.stop_at = stop;
    const MultiSolveResult result = one.solve_columns(*one.system(one.settings()), &seen);
    for (const SolveReport& column : result.report.columns) {
      EXPECT_EQ(column.reason, StopReason::interrupted);
      EXPECT_EQ(column.iterations, stop);
    }
    EXPECT_EQ(result.preconditioner_changes.size(), stop > change ? 1u : 0u);
    one.expect_true(result);
  }
}

TEST_F(ColumnsChanges, AnInterruptedSetupEndsTheSolve) {
  offer("ic0");
  ChangingColumns one;
  ColumnsSeen seen;
  bool begun = false;
  seen.on_each = [&](const MultiIterationInfo& info) { begun = info.iteration > 0; };
  const detail::StopQuestion question([&] { return begun; });
  const MultiSolveResult result = one.solve_columns(*one.system(one.settings()), &seen);
  for (const SolveReport& column : result.report.columns) EXPECT_EQ(column.reason, StopReason::interrupted);
  ASSERT_EQ(actions_of(result), std::vector<Action>{Action::refused});
  EXPECT_TRUE(has(result.preconditioner_changes[0].reason, "interrupted"));
}

// An observer that reads X sees the iterates of columns that run, in each part.
TEST_F(ColumnsChanges, AnObserverReadsTheSolutionInEachPart) {
  for (const ContextPtr& context : {test_context(), fake_device_context()}) {
    offer(context->space() == Space::device ? "amg" : "ic0");
    ChangingColumns one(context, grid_for(context), 3);
    std::vector<StoppingRule> rules(3);
    rules[1].relative_tolerance = 0.5;
    ColumnsSeen seen;
    seen.reads = true;
    int compared = 0;
    seen.on_each = [&](const MultiIterationInfo& info) {
      if (info.iteration % 8 != 4) return;
      const Columns<double> x = one.present();
      for (std::size_t j = 0; j < 3; ++j)
        EXPECT_NEAR(residual_of(one.csr, one.B[j], x[j]), info.residuals[j], 1e-6 * info.residuals[j])
            << "column " << j << " at " << info.iteration;
      ++compared;
    };
    const MultiSolveResult result = one.solve_columns(*one.system(one.settings()), &seen, rules);
    EXPECT_EQ(actions_of(result), std::vector<Action>{Action::changed});
    EXPECT_GT(compared, 3);
    EXPECT_GT(result.report.iterations, result.preconditioner_changes[0].iteration + 8);
  }
}

// Each allocation of the setup, the trial and the change may fail. The solve goes on.
TEST_F(ColumnsChanges, NoMemoryAtAnyPointLeavesTheSolve) {
  ChangingColumns one;
  (void)one.solve_columns(*one.system(one.settings("cg", "jacobi")));
  const Columns<double> x = one.X;
  offer("ic0");
  int refused = 0, back = 0,
      thrown = 0;  // thrown: of the solve itself, such as a vector to look at one column
  std::vector<StoppingRule> rules(3);
  rules[1].relative_tolerance = 0.5;  // a later part has fewer columns
  for (std::int64_t number = 1;; ++number) {
    SCOPED_TRACE("allocation " + std::to_string(number));
    refuse_allocation(number);
    const auto system = one.system(one.settings());
    ColumnsSeen seen;
    seen.on_each = [](const MultiIterationInfo& info) { armed = info.iteration >= 1; };
    MultiSolveResult result;
    try {
      result = one.solve_columns(*system, &seen, rules);
    } catch (const OutOfMemory&) { ++thrown; }
    detail::allocation_hook = nullptr;
    if (result.report.columns.empty()) continue;
    for (const SolveReport& column : result.report.columns) EXPECT_TRUE(column.converged()) << column.detail;
    one.expect_true(result);
    expect_one_numbering(seen, result);
    if (!failed) break;
    const std::vector<Action> actions = actions_of(result);
    if (actions == std::vector<Action>{Action::refused}) {
      ++refused;
      EXPECT_EQ(one.X[0], x[0]);
    } else if (actions == std::vector<Action>{Action::changed, Action::taken_back}) {
      ++back;
    } else {
      EXPECT_EQ(actions, std::vector<Action>{Action::changed});
    }
  }
  EXPECT_GT(refused, 3);
  EXPECT_GT(back, 0);
  EXPECT_LE(thrown, 2);
}

// Whatever the clock says.
TEST_F(ColumnsChanges, DeterministicModeHasTheSameBitsInEachRun) {
  offer("ic0");
  Columns<double> expected;
  for (const int threads : {1, 2, 3})
    for (const double other : {1.0, 1e-9, 0.0}) {
      slowness = other;
      ChangingColumns one(Context::host(threads, {.deterministic = true}));
      const MultiSolveResult result = one.solve_columns(*one.system(one.settings()));
      EXPECT_EQ(actions_of(result), std::vector<Action>{Action::changed});
      one.expect_solved(result);
      if (expected.empty()) expected = one.X;
      EXPECT_EQ(one.X, expected);
    }
}

TEST_F(ColumnsChanges, NextToChangesOfFormat) {
  offer("ic0");
  ChangingColumns one;
  SolveSettings settings = one.settings();
  settings.schedule = {{.at = 10, .overlapped = false, .format = "ell"},
                       {.at = 40, .overlapped = false, .format = "csr"}};
  const MultiSolveResult result = one.solve_columns(*one.system(settings));
  one.expect_solved(result);
  EXPECT_EQ(actions_of(result), std::vector<Action>{Action::changed});
  ASSERT_EQ(result.switches.size(), 2u);
  EXPECT_EQ(result.switches[0].iteration, 10);
  EXPECT_EQ(result.switches[1].iteration, 40);
  settings.schedule.clear(), settings.policy = "auto";
  ColumnsSeen seen;
  const MultiSolveResult decided = one.solve_columns(*one.system(settings), &seen);
  one.expect_solved(decided);
  expect_one_numbering(seen, decided);
  EXPECT_EQ(actions_of(decided), std::vector<Action>{Action::changed});
  for (const DecisionRecord& decision : decided.decisions)
    EXPECT_LE(decision.iteration, decided.report.iterations);
}

// What a change teaches is of one column: jacobi comes back if that would have been faster.
TEST(ColumnsChoice, AChangeOfColumnsTeachesTheTimeOfOne) {
  for (const bool slower : {false, true}) {
    detail::PreconditionerChoice choice({.space = Space::host, .needs_symmetric = true});
    (void)choice.decide([] { return detail::ChoiceTraits{.symmetric = true}; });
    // 100 iterations of four columns would have taken 10 s with jacobi.
    choice.note_changed("ic0", 100, 0.1, 6, "ic0 took the place of jacobi", 4);
    EXPECT_EQ(choice.current(), "ic0");
    choice.note_solve(4 * 30, slower ? 11 : 9, true, 4);
    EXPECT_EQ(choice.current(), slower ? "jacobi" : "ic0") << choice.reason();
  }
}

// A setup is paid for once by all columns; an application of one that goes column by column is paid for by each.
TEST(ColumnsRule, SetupsServeAllColumns) {
  const ChangeCandidate one_pass[] = {
      {"ic0", Space::host, false, true, false, 4, 0.2, 1, 50, 2.5, 0, 0, 1.4, true}};
  ChangeCandidate by_column[] = {one_pass[0]};
  by_column[0].one_pass = false;
  const auto taken_at = [](std::span<const ChangeCandidate> candidates, std::int64_t columns, double time) {
    detail::ChangeRule rule({.needs_symmetric = true,
                             .deterministic = false,
                             .max_iterations = 100000,
                             .columns = columns,
                             .iteration_of_columns = time},
                            candidates);
    rule.begin_part(0);
    for (std::int64_t i = 0; i < 3000; ++i) {
      const double seconds = static_cast<double>(i);
      detail::ChangeOrder order = rule.on_iteration(i, std::exp(-1e-3 * seconds), seconds);
      if (order.step == detail::ChangeStep::look)
        rule.note_traits({.symmetric = true}, 0), order = rule.again();
      if (order.step == detail::ChangeStep::set_up) return i;
    }
    return std::int64_t{-1};
  };
  const std::int64_t one = taken_at(one_pass, 1, 1), several = taken_at(one_pass, 8, 2);
  ASSERT_GT(one, 0);
  EXPECT_LT(several, one) << "a setup takes half as many iterations of 8 columns";
  EXPECT_EQ(taken_at(by_column, 1, 1), one);
  EXPECT_EQ(taken_at(by_column, 8, 2), -1) << "an iteration would take 5 times as long";
}

}  // namespace
}  // namespace protean::test

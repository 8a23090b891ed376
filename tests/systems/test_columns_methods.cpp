// Method auto changes in the middle of a solve with several right-hand sides.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "protean.hpp"
#include "systems/changing_columns.hpp"

namespace protean::test {
namespace {

TEST_F(ColumnsChanges, CgGoesOnWithMinresForAnIndefiniteMatrix) {
  offer_nothing();
  for (const ContextPtr& context : all_spaces())
    for (const char* preconditioner : {"auto", "jacobi", "none"}) {
      SCOPED_TRACE(preconditioner);
      ChangingColumns one(context, shifted_grid(context->space() == Space::host ? 24 : 14));
      std::vector<std::string> notes;
      SolveSettings settings = one.settings("auto", preconditioner);
      settings.on_note = [&](const std::string& line) { notes.push_back(line); };
      ColumnsSeen seen;
      const auto system = one.system(settings);
      const MultiSolveResult result = one.solve_columns(*system, &seen);
      ASSERT_EQ(steps_of(result), Steps{"cg -> minres"});
      one.expect_solved(result);
      expect_one_numbering(seen, result, !runs_ahead(context));
      EXPECT_EQ(result.method, "minres");
      const MethodChange& change = result.method_changes[0];
      EXPECT_EQ(change.columns, 3);
      EXPECT_GT(change.iteration, 0);
      EXPECT_LT(change.iteration, result.report.iterations);
      EXPECT_TRUE(has(change.reason, "indefinite-operator")) << change.reason;
      EXPECT_EQ(result.method_reason, "minres took the place of cg at iteration " +
                                          std::to_string(change.iteration) + ": " + change.reason);
      ASSERT_EQ(notes.size(), 1u);
      EXPECT_TRUE(has(notes[0], "method auto goes on with minres")) << notes[0];
      // A named method ends as it does.
      const MultiSolveResult named = one.solve_columns(*one.system(one.settings("cg", preconditioner)));
      EXPECT_FALSE(named.converged());
      EXPECT_TRUE(named.method_changes.empty());
      // The next solve, of columns or of one, begins with what has worked.
      const MultiSolveResult again = one.solve_columns(*system);
      EXPECT_EQ(again.method, "minres");
      EXPECT_TRUE(again.method_changes.empty());
      EXPECT_TRUE(has(again.method_reason, "minres: it took the place of cg")) << again.method_reason;
      one.expect_solved(again);
      EXPECT_EQ(one.solve(*system).method, "minres");
    }
}

// What an earlier solve with one right-hand side has learnt serves columns.
TEST_F(ColumnsChanges, OneRightHandSideTeachesColumns) {
  ChangingColumns one(test_context(), shifted_grid());
  const auto system = one.system(one.settings("auto", "jacobi"));
  EXPECT_EQ(one.solve(*system).method_changes.size(), 1u);
  const MultiSolveResult result = one.solve_columns(*system);
  EXPECT_EQ(result.method, "minres");
  EXPECT_TRUE(result.method_changes.empty());
  one.expect_solved(result);
}

// Columns that cg solves before one of them shows that the matrix is indefinite keep their x.
TEST_F(ColumnsChanges, AColumnThatHasConvergedKeepsItsX) {
  ChangingColumns one(test_context(), shifted_grid(), 3);
  std::vector<StoppingRule> rules(3);
  rules[1].relative_tolerance = 0.9;
  const MultiSolveResult named = one.solve_columns(*one.system(one.settings("cg", "jacobi")), nullptr, rules);
  ASSERT_TRUE(named.report.columns[1].converged());
  const std::vector<double> x = one.X[1];
  const MultiSolveResult result =
      one.solve_columns(*one.system(one.settings("auto", "jacobi")), nullptr, rules);
  ASSERT_EQ(steps_of(result), Steps{"cg -> minres"});
  EXPECT_EQ(result.method_changes[0].columns, 2);
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(one.X[1], x);
  EXPECT_EQ(result.report.columns[1].iterations, named.report.columns[1].iterations);
  one.expect_true(result);
}

// With b = c e_j bicgstab breaks down in its first step.
TEST_F(ColumnsChanges, BicgstabGoesOnWithIdrAfterABreakdown) {
  for (const ContextPtr& context : {test_context(), fake_device_context()}) {
    ChangingColumns one(context, circle(60), 2);
    for (std::size_t j = 0; j < 2; ++j)
      std::fill(one.B[j].begin(), one.B[j].end(), 0.0), one.B[j][7 * j] = 1.0 + static_cast<double>(j);
    ColumnsSeen seen;
    const auto system = one.system(one.settings("auto", "none"));
    const MultiSolveResult result = one.solve_columns(*system, &seen);
    ASSERT_FALSE(result.method_changes.empty());
    EXPECT_EQ(steps_of(result)[0], "bicgstab -> idr");
    EXPECT_EQ(result.method_changes[0].columns, 2);
    EXPECT_TRUE(has(result.method_changes[0].reason, "breakdown")) << result.method_changes[0].reason;
    one.expect_solved(result);
    expect_one_numbering(seen, result);
    one.expect_solved(one.solve_columns(*system));
  }
}

TEST_F(ColumnsChanges, BicgstabAndIdrThatLeadNowhereAreGivenUp) {
  for (const ContextPtr& context : {test_context(), fake_device_context()}) {
    ChangingColumns one(context, graded(120), 2);
    SolveSettings settings = one.settings("auto", "none");
    settings.solver.stopping.max_iterations = 1300;
    ColumnsSeen seen;
    const auto system = one.system(settings);
    const MultiSolveResult result = one.solve_columns(*system, &seen);
    ASSERT_EQ(steps_of(result), (Steps{"bicgstab -> idr", "idr -> gmres"}));
    for (const MethodChange& change : result.method_changes) EXPECT_EQ(change.columns, 2);
    EXPECT_EQ(result.method_changes[1].restart, 120);
    one.expect_solved(result);
    expect_one_numbering(seen, result);
    const MultiSolveResult again = one.solve_columns(*system);
    EXPECT_EQ(again.method, "gmres");
    one.expect_solved(again);
  }
}

// Each allocation after the method has failed may fail: the solve ends as it would without a change, or goes on.
TEST_F(ColumnsChanges, NoMemoryForTheNextMethodIsSaid) {
  ChangingColumns one(test_context(), shifted_grid());
  const std::int64_t change =
      one.solve_columns(*one.system(one.settings("auto", "none"))).method_changes.at(0).iteration;
  int refused = 0;
  for (std::int64_t number = 1;; ++number) {
    SCOPED_TRACE("allocation " + std::to_string(number));
    refuse_allocation(number);
    const auto system = one.system(one.settings("auto", "none"));
    ColumnsSeen seen;
    seen.on_each = [&](const MultiIterationInfo& info) { armed = info.iteration >= change; };
    MultiSolveResult result;
    bool thrown = false;
    try {
      result = one.solve_columns(*system, &seen);
    } catch (const OutOfMemory&) { thrown = true; }
    detail::allocation_hook = nullptr;
    if (!failed) break;
    if (!thrown) {
      one.expect_true(result);
      const Steps steps = steps_of(result);
      refused += steps == Steps{"not minres"};
      if (steps != Steps{"not minres"}) one.expect_solved(result);
    }
    const MultiSolveResult again = one.solve_columns(*system);
    EXPECT_EQ(again.method, "minres");
    one.expect_solved(again);
  }
  EXPECT_GT(refused, 2);
}

TEST_F(ColumnsChanges, MethodAndPreconditionerInOneSolve) {
  for (const ContextPtr& context : {test_context(), fake_device_context()}) {
    offer("ssor");
    slowness = 1, passed = 0, count_products_of(nullptr);
    ChangingColumns one(context, shifted_grid(40, 0.02));
    ColumnsSeen seen;
    const auto system = one.system(one.settings("auto"));
    const MultiSolveResult result = one.solve_columns(*system, &seen);
    EXPECT_EQ(steps_of(result), Steps{"cg -> minres"});
    EXPECT_FALSE(result.preconditioner_changes.empty()) << result.preconditioner_reason;
    one.expect_solved(result);
    expect_one_numbering(seen, result);
    one.expect_solved(one.solve_columns(*system));
  }
}

TEST_F(ColumnsChanges, CSaysItInItsReason) {
  const ChangingColumns one(test_context(), shifted_grid());
  const std::int64_t n = one.csr.rows(), k = 2;
  std::vector<double> B = one.B[0], X(static_cast<std::size_t>(n * k), 0.0);
  B.insert(B.end(), one.B[1].begin(), one.B[1].end());
  expect_said_in_c(one.csr, [&](protean_solver* solver, protean_matrix* matrix) {
    return protean_solve_multi(solver, matrix, k, B.data(), n, X.data(), n);
  });
}

}  // namespace
}  // namespace protean::test

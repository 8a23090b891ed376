// The C interface: what it has in common with C++, by name and by result.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/generate/generate.hpp"
#include "formats/choose.hpp"
#include "interfaces/c/c_api.hpp"

namespace protean::test {
namespace {

// The monitor of the caller.
struct Watched {
  std::vector<std::int64_t> iterations;
  std::vector<std::string> formats;
  double last = 0;
  std::int64_t end_at = -1, change_at = -1;
  protean_matrix* matrix = nullptr;
  std::vector<double>* values = nullptr;
  protean_status format_status = PROTEAN_OK, values_status = PROTEAN_BAD_ARGUMENT;

  static int monitor(void* user, const protean_iteration* now) {
    Watched& me = *static_cast<Watched*>(user);
    me.iterations.push_back(now->iteration), me.formats.emplace_back(now->format);
    me.last = now->relative_residual;
    EXPECT_GE(now->seconds, 0);
    if (now->iteration == me.change_at) {
      for (double& value : *me.values) value *= 2;
      me.values_status = protean_matrix_update_values(me.matrix, me.values->data());
      me.format_status = protean_matrix_set_format(me.matrix, "ell", nullptr, nullptr);
    }
    return now->iteration == me.end_at ? 1 : 0;
  }
};

TEST_F(CApi, AMonitorSeesEachIterationAndMayEndTheSolve) {
  Watched watched;
  ASSERT_EQ(protean_solver_set_monitor(solver, Watched::monitor, &watched), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  ASSERT_EQ(static_cast<std::int64_t>(watched.iterations.size()), protean_solver_iterations(solver) + 1);
  for (std::size_t i = 0; i < watched.iterations.size(); ++i)
    EXPECT_EQ(watched.iterations[i], static_cast<std::int64_t>(i));
  EXPECT_DOUBLE_EQ(watched.last, protean_solver_recurrence_residual(solver));
  EXPECT_EQ(watched.formats.back(), "csr");
  watched.end_at = 4;
  EXPECT_EQ(solve(), PROTEAN_NOT_CONVERGED);
  EXPECT_STREQ(protean_solver_reason(solver), "interrupted");
  EXPECT_EQ(protean_solver_iterations(solver), 4);
  // New values in mid-solve are solved with; a change of format is for the schedule.
  watched.end_at = -1, watched.change_at = 10, watched.matrix = A, watched.values = &values;
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(watched.values_status, PROTEAN_OK);
  EXPECT_EQ(watched.format_status, PROTEAN_BAD_ARGUMENT);
  EXPECT_LE(residual(), 1.01e-8) << "of the new values";
  EXPECT_EQ(protean_solver_restarts(solver), 1);
  ASSERT_EQ(protean_solver_set_monitor(solver, nullptr, nullptr), PROTEAN_OK);
  const std::size_t seen = watched.iterations.size();
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(watched.iterations.size(), seen);
}

TEST_F(CApi, TellsWhetherASolveConverged) {
  EXPECT_EQ(protean_solver_converged(nullptr), 0);
  EXPECT_EQ(protean_solver_converged(solver), 0) << "before a solve";
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(protean_solver_converged(solver), 1);
  ASSERT_EQ(protean_solver_set(solver, "max_iterations", 1), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_NOT_CONVERGED);
  EXPECT_EQ(protean_solver_converged(solver), 0);
}

TEST_F(CApi, WhatIsFreedLeavesNoMemory) {
  const std::size_t before = allocated_bytes();
  protean_matrix* mine = nullptr;
  protean_solver* another = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &mine),
            PROTEAN_OK);
  ASSERT_EQ(protean_matrix_set_format(mine, "ell", nullptr, nullptr), PROTEAN_OK);
  ASSERT_EQ(protean_solver_create("cg", "ic0", &another), PROTEAN_OK);
  x.assign(x.size(), 0.0);
  ASSERT_EQ(protean_solve(another, mine, b.data(), x.data()), PROTEAN_OK);
  const std::size_t both = allocated_bytes();
  protean_solver_free(another);
  const std::size_t matrix_alone = allocated_bytes();
  EXPECT_LT(matrix_alone, both);
  protean_matrix_free(mine);
  EXPECT_LT(allocated_bytes(), matrix_alone);
  EXPECT_EQ(allocated_bytes(), before);
}

TEST_F(CApi, AScheduleChangesTheFormat) {
  Watched watched;
  ASSERT_EQ(protean_solver_set_monitor(solver, Watched::monitor, &watched), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 5, "sell-c-sigma", "C=4,sigma=1", nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_residual", 1e-4, "ell", nullptr, nullptr, 0), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 8, "csr", nullptr, "nobody", 0), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  ASSERT_EQ(protean_solver_switches(solver), 2);
  protean_switch change;
  ASSERT_EQ(protean_solver_switch(solver, 0, &change), PROTEAN_OK);
  EXPECT_EQ(change.iteration, 5);
  EXPECT_STREQ(change.from, "csr");
  EXPECT_STREQ(change.to, "sell-c-sigma");
  EXPECT_GT(change.convert_seconds, 0);
  EXPECT_EQ(change.overlapped, 0);
  ASSERT_EQ(protean_solver_switch(solver, 1, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "ell");
  EXPECT_STREQ(protean_matrix_format(A), "ell");
  EXPECT_EQ(watched.formats.front(), "csr");
  EXPECT_EQ(watched.formats.back(), "ell");
  for (const std::int64_t outside : {2, 3, 1000, -1}) {
    EXPECT_EQ(protean_solver_switch(solver, outside, &change), PROTEAN_BAD_ARGUMENT) << outside;
    EXPECT_TRUE(error_has("there are 2")) << protean_last_error();
  }
  // The kernel that is not there is a change that failed, with the reason.
  ASSERT_EQ(protean_solver_failed_switches(solver), 1);
  protean_failed_switch lost;
  ASSERT_EQ(protean_solver_failed_switch(solver, 0, &lost), PROTEAN_OK);
  EXPECT_EQ(lost.iteration, 8);
  EXPECT_TRUE(has(lost.why, "nobody")) << lost.why;

  // The matrix goes on in its format: values, products, formats, and a solve without a schedule.
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  for (double& value : values) value *= 4;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_EQ(protean_solver_switches(solver), 0);
  EXPECT_STREQ(protean_matrix_format(A), "ell");
  EXPECT_GT(protean_matrix_bytes(A), 0u);
  ASSERT_EQ(protean_matrix_set_format(A, "coo", nullptr, nullptr), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_format(A), "coo");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_format(A), "coo") << "the solve has used it";
  EXPECT_LE(residual(), 1.01e-8);
}

TEST_F(CApi, ThePolicyDecides) {
  ASSERT_EQ(protean_solver_set_text(solver, "policy", "auto"), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 5, "ell", nullptr, nullptr, 0), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("protean_solver_schedule_clear()")) << protean_last_error();
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);

  // A system large enough that the policy looks at it: there are decisions, and each names an iteration.
  const auto large = generate(test_context(), "poisson-2d", {{"n", 250}});
  protean_matrix* matrix = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, large.rows(), large.rows(), large.nonzeros(),
                               large.pattern.row_ptr.p32, large.pattern.col, large.values, 0, &matrix),
            PROTEAN_OK);
  std::vector<double> right(static_cast<std::size_t>(large.rows()), 1.0), left(right.size(), 0.0);
  ASSERT_EQ(protean_solve(solver, matrix, right.data(), left.data()), PROTEAN_OK) << protean_last_error();
  ASSERT_GT(protean_solver_decisions(solver), 0);
  EXPECT_TRUE(has(protean_solver_decision(solver, 0), "iteration ")) << protean_solver_decision(solver, 0);
  EXPECT_STREQ(protean_solver_decision(solver, protean_solver_decisions(solver)), "");
  // A solve without the policy has none, with one right-hand side and with several.
  const std::int64_t rows = large.rows();
  for (const bool several : {false, true}) {
    ASSERT_GT(protean_solver_decisions(solver), 0);
    ASSERT_EQ(protean_solver_set_text(solver, "policy", "none"), PROTEAN_OK);
    ASSERT_EQ(protean_solver_set(solver, "expected_iterations", 300), PROTEAN_OK);
    left.assign(left.size(), 0.0);
    ASSERT_EQ(several ? protean_solve_multi(solver, matrix, 1, right.data(), rows, left.data(), rows)
                      : protean_solve(solver, matrix, right.data(), left.data()),
              PROTEAN_OK)
        << protean_last_error();
    EXPECT_EQ(protean_solver_decisions(solver), 0);
    ASSERT_EQ(protean_solver_set_text(solver, "policy", "auto"), PROTEAN_OK);
    ASSERT_EQ(protean_solver_set(solver, "expected_iterations", 0), PROTEAN_OK);
    left.assign(left.size(), 0.0);
    ASSERT_EQ(protean_solve(solver, matrix, right.data(), left.data()), PROTEAN_OK);
  }
  // No format has ever paid this much for one change: nothing changes.
  ASSERT_EQ(protean_matrix_set_format(matrix, "csr", nullptr, nullptr), PROTEAN_OK);
  ASSERT_EQ(protean_solver_set(solver, "hysteresis", 0.999), PROTEAN_OK);
  left.assign(left.size(), 0.0);
  ASSERT_EQ(protean_solve(solver, matrix, right.data(), left.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solver_switches(solver), 0);
  EXPECT_STREQ(protean_matrix_format(matrix), "csr");
  protean_matrix_free(matrix);
}

TEST_F(CApi, ElementMatricesAreAssembledDuringASolve) {
  // A chain of springs, each point held: tridiag(-1, 2.5, -1) inside.
  const int points = 500;
  std::vector<std::int32_t> connectivity;
  std::vector<double> matrices;
  for (int i = 0; i + 1 < points; ++i) {
    connectivity.insert(connectivity.end(), {i, i + 1});
    matrices.insert(matrices.end(), {1.25, -1, -1, 1.25});
  }
  protean_matrix* springs = nullptr;
  ASSERT_EQ(protean_matrix_elements(context, points, 1, points - 1, 2, connectivity.data(), matrices.data(),
                                    0, nullptr, 0, 1, "gather", &springs),
            PROTEAN_OK);
  const std::string element(protean_matrix_format(springs));
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 3, "csr", nullptr, nullptr, 0), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 6, "element", nullptr, nullptr, 0), PROTEAN_OK);
  std::vector<double> right(points, 1.0), left(points, 0.0);
  ASSERT_EQ(protean_solve(solver, springs, right.data(), left.data()), PROTEAN_OK) << protean_last_error();
  EXPECT_NEAR(left[points / 2], 2, 1e-6);
  ASSERT_EQ(protean_solver_switches(solver), 2);
  protean_switch change;
  ASSERT_EQ(protean_solver_switch(solver, 0, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "csr");
  EXPECT_EQ(protean_matrix_format(springs), element);
  for (double& entry : matrices) entry *= 2;
  ASSERT_EQ(protean_matrix_update_values(springs, matrices.data()), PROTEAN_OK) << protean_last_error();
  left.assign(left.size(), 0.0);
  ASSERT_EQ(protean_solve(solver, springs, right.data(), left.data()), PROTEAN_OK);
  EXPECT_NEAR(left[points / 2], 1, 1e-6);
  protean_matrix_free(springs);
}

// Several right-hand sides: products and solves with leading dimensions, and the result of each column.
TEST_F(CApi, SeveralRightHandSides) {
  constexpr std::int64_t k = 4, gap = 5;
  const std::int64_t ld = n + gap;
  std::vector<double> B(static_cast<std::size_t>(ld * k), 7.0), X(B.size(), 0.0), Y(B.size(), 7.0);
  for (std::int64_t j = 0; j < k; ++j) {
    const auto column = sample_vector<double>(n, 10 + static_cast<unsigned>(j));
    std::copy(column.begin(), column.end(), B.begin() + j * ld);
  }
  std::fill_n(B.begin() + 2 * ld, n, 0.0);
  ASSERT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_OK)
      << protean_last_error();
  EXPECT_STREQ(protean_solver_multi_product(solver), "in one pass");
  ASSERT_EQ(protean_solver_columns(solver), k);
  ASSERT_EQ(protean_matrix_apply_multi(A, k, 1.0, X.data(), ld, 0.0, Y.data(), ld), PROTEAN_OK);
  std::int64_t most = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    SCOPED_TRACE(j);
    protean_column one{};
    ASSERT_EQ(protean_solver_column(solver, j, &one), PROTEAN_OK);
    EXPECT_EQ(one.converged, 1);
    EXPECT_STREQ(one.reason, j == 2 ? "zero-right-hand-side" : "relative-tolerance");
    most = std::max(most, one.iterations);
    // The same column alone.
    std::vector<double> alone(static_cast<std::size_t>(n), 0.0);
    ASSERT_EQ(protean_solve(solver, A, B.data() + j * ld, alone.data()), PROTEAN_OK);
    EXPECT_LE(std::abs(protean_solver_iterations(solver) - one.iterations), 1);
    EXPECT_EQ(protean_solver_columns(solver), 0) << "of one right-hand side";
    double error = 0, size = 0, rest = 0, right = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::size_t at = static_cast<std::size_t>(i + j * ld);
      error = std::max(error, std::abs(X[at] - alone[static_cast<std::size_t>(i)])),
      size = std::max(size, std::abs(X[at]));
      rest += (B[at] - Y[at]) * (B[at] - Y[at]), right += B[at] * B[at];
    }
    EXPECT_LE(error, 1e-6 * size);
    EXPECT_LE(std::sqrt(rest), 1.01e-8 * std::sqrt(right));
    for (std::int64_t i = n; i < ld; ++i)
      EXPECT_EQ(Y[static_cast<std::size_t>(i + j * ld)], 7.0) << "a gap was written";
    // The next column is compared with a solve of all from the same guess.
    std::fill(X.begin(), X.end(), 0.0);
    ASSERT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_OK);
  }
  EXPECT_GT(most, 10);
  // The results for all columns describe the longest one.
  EXPECT_EQ(protean_solver_iterations(solver), most);
  EXPECT_STREQ(protean_solver_reason(solver), "relative-tolerance");

  // A column that ends at once without convergence is described; the seconds cover the whole solve.
  const double kept = B[static_cast<std::size_t>(ld)];
  B[static_cast<std::size_t>(ld)] = std::nan("");
  std::fill(X.begin(), X.end(), 0.0);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_NOT_CONVERGED);
  EXPECT_STREQ(protean_solver_reason(solver), "not-finite");
  protean_column first{}, ended{};
  ASSERT_EQ(protean_solver_column(solver, 0, &first), PROTEAN_OK);
  ASSERT_EQ(protean_solver_column(solver, 1, &ended), PROTEAN_OK);
  EXPECT_EQ(first.converged, 1);
  EXPECT_LT(ended.seconds, first.seconds);
  EXPECT_GE(protean_solver_seconds(solver), first.seconds);
  B[static_cast<std::size_t>(ld)] = kept;

  // The first column that has not converged is described.
  ASSERT_EQ(protean_solver_set(solver, "max_iterations", 3), PROTEAN_OK);
  std::fill(X.begin(), X.end(), 0.0);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_NOT_CONVERGED);
  EXPECT_STREQ(protean_solver_reason(solver), "max-iterations");
  EXPECT_EQ(protean_solver_iterations(solver), 3);
  EXPECT_FALSE(std::string(protean_solver_advice(solver)).empty());

  protean_column one{};
  EXPECT_EQ(protean_solver_column(solver, k, &one), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solve_multi(solver, A, -1, B.data(), ld, X.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solve_multi(solver, A, k, nullptr, ld, X.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), n - 1, X.data(), ld), PROTEAN_SHAPE_MISMATCH);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, B.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_apply_multi(A, k, 1.0, X.data(), ld, 0.0, X.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solve_multi(solver, A, 0, nullptr, n, nullptr, n), PROTEAN_OK);
  create("minres", "none");
  std::fill(X.begin(), X.end(), 0.0);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_OK)
      << protean_last_error();
  // The options of gmres, and new ones, go to solves of several columns.
  create("gmres", "none");
  for (const double restart : {7.0, 11.0}) {
    ASSERT_EQ(protean_solver_set(solver, "restart", restart), PROTEAN_OK);
    std::fill(X.begin(), X.end(), 0.0);
    ASSERT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_OK);
    ASSERT_EQ(protean_solver_column(solver, 1, &one), PROTEAN_OK);
    std::vector<double> alone(static_cast<std::size_t>(n), 0.0);
    ASSERT_EQ(protean_solve(solver, A, B.data() + ld, alone.data()), PROTEAN_OK);
    EXPECT_GT(one.restarts, 1);
    EXPECT_LE(std::abs(protean_solver_iterations(solver) - one.iterations), 1);
  }
}

// A schedule and the policy change the format of a solve with several right-hand sides, too.
TEST_F(CApi, SeveralRightHandSidesChangeTheFormat) {
  constexpr std::int64_t k = 3;
  const auto large = generate(test_context(), "poisson-2d", {{"n", 60}});
  const std::int64_t rows = large.rows();
  protean_matrix* matrix = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, rows, rows, large.nonzeros(), large.pattern.row_ptr.p32,
                               large.pattern.col, large.values, 0, &matrix),
            PROTEAN_OK);
  std::vector<double> B(static_cast<std::size_t>(rows * k)), X(B.size(), 0.0), R(B.size());
  for (std::int64_t j = 0; j < k; ++j) {
    const auto column = sample_vector<double>(rows, 20 + static_cast<unsigned>(j));
    std::copy(column.begin(), column.end(), B.begin() + j * rows);
  }
  const auto solve_all = [&] {
    std::fill(X.begin(), X.end(), 0.0);
    ASSERT_EQ(protean_solve_multi(solver, matrix, k, B.data(), rows, X.data(), rows), PROTEAN_OK)
        << protean_last_error();
    R = B;
    ASSERT_EQ(protean_matrix_apply_multi(matrix, k, -1.0, X.data(), rows, 1.0, R.data(), rows), PROTEAN_OK);
    for (std::int64_t j = 0; j < k; ++j) {
      double rest = 0, right = 0;
      for (std::int64_t i = j * rows; i < (j + 1) * rows; ++i) {
        const auto at = static_cast<std::size_t>(i);
        rest += R[at] * R[at], right += B[at] * B[at];
      }
      EXPECT_LE(std::sqrt(rest), 1.01e-8 * std::sqrt(right));
    }
  };
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 4, "sell-packed", nullptr, nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 9, "rcm", nullptr, nullptr, nullptr, 0),
            PROTEAN_OK);
  solve_all();
  ASSERT_EQ(protean_solver_switches(solver), 2);
  protean_switch change;
  ASSERT_EQ(protean_solver_switch(solver, 0, &change), PROTEAN_OK);
  EXPECT_EQ(change.iteration, 4);
  EXPECT_STREQ(change.to, "sell-packed");
  ASSERT_EQ(protean_solver_switch(solver, 1, &change), PROTEAN_OK);
  EXPECT_EQ(change.iteration, 9);
  EXPECT_STREQ(change.to_order, "rcm");
  EXPECT_STREQ(protean_matrix_format(matrix), "sell-packed");
  EXPECT_STREQ(protean_matrix_order(matrix), "rcm");
  // Not both.
  ASSERT_EQ(protean_solver_set_text(solver, "policy", "auto"), PROTEAN_OK);
  EXPECT_EQ(protean_solve_multi(solver, matrix, k, B.data(), rows, X.data(), rows), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("exclude each other"));
  EXPECT_STREQ(protean_matrix_format(matrix), "sell-packed");
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  for (int solve = 0; solve < 20 && protean_solver_decisions(solver) == 0; ++solve) solve_all();
  ASSERT_GT(protean_solver_decisions(solver), 0);
  EXPECT_TRUE(has(protean_solver_decision(solver, 0), "iteration "));
  // A monitor remains one for one right-hand side.
  ASSERT_EQ(protean_solver_set_monitor(
                solver, [](void*, const protean_iteration*) { return 0; }, nullptr),
            PROTEAN_OK);
  EXPECT_EQ(protean_solve_multi(solver, matrix, k, B.data(), rows, X.data(), rows), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("one right-hand side"));
  protean_matrix_free(matrix);
}

TEST_F(CApi, SinglePrecision) {
  protean_matrix* single = nullptr;
  ASSERT_EQ(protean_matrix_csr_f32(context, n, n, nonzeros, row_ptr.data(), col.data(), values32.data(), 0,
                                   &single),
            PROTEAN_OK);
  EXPECT_EQ(protean_matrix_is_f32(single), 1);
  EXPECT_EQ(protean_matrix_is_f32(A), 0);
  create("cg", "jacobi");
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-5), PROTEAN_OK);
  ASSERT_EQ(protean_solve_f32(solver, single, b32.data(), x32.data()), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(values32, b32, x32), 2e-5);
  // The same solver in the other precision.
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-5);
  // The functions of the other precision are refused, with the name of the right ones.
  EXPECT_EQ(protean_solve(solver, single, b.data(), x.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("with _f32")) << protean_last_error();
  EXPECT_EQ(protean_solve_f32(solver, A, b32.data(), x32.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("without _f32")) << protean_last_error();
  EXPECT_EQ(protean_matrix_update_values(single, values.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_apply(single, 1, x.data(), 0, x.data()), PROTEAN_BAD_ARGUMENT);
  // Format, values, product.
  ASSERT_EQ(protean_matrix_set_format(single, "sell-c-sigma", nullptr, nullptr), PROTEAN_OK);
  for (float& value : values32) value *= 2;
  ASSERT_EQ(protean_matrix_update_values_f32(single, values32.data()), PROTEAN_OK);
  const std::vector<float> ones(static_cast<std::size_t>(n), 1.0f);
  std::vector<float> y(ones.size(), 1.0f);
  ASSERT_EQ(protean_matrix_apply_f32(single, 1, ones.data(), 3, y.data()), PROTEAN_OK);
  EXPECT_EQ(y[0], 2 * (4 - 1 - 1) + 3);
  values32[3] = std::nanf("");
  EXPECT_EQ(protean_matrix_update_values_f32(single, values32.data()), PROTEAN_BAD_MATRIX);
  protean_matrix_free(single);

  const std::vector<std::int64_t> wide(row_ptr.begin(), row_ptr.end());
  values32[3] = 1;
  ASSERT_EQ(
      protean_matrix_csr64_f32(context, n, n, nonzeros, wide.data(), col.data(), values32.data(), 0, &single),
      PROTEAN_OK);
  EXPECT_EQ(protean_matrix_is_f32(single), 1);
  protean_matrix_free(single);

  const std::int32_t connectivity[] = {0, 1, 1, 2};
  const float springs[] = {2, -1, -1, 2, 2, -1, -1, 2}, right[] = {1, 2, 1};
  float left[] = {0, 0, 0};
  ASSERT_EQ(protean_matrix_elements_f32(context, 3, 1, 2, 2, connectivity, springs, 0, nullptr, 0, 1, nullptr,
                                        &single),
            PROTEAN_OK);
  ASSERT_EQ(protean_solve_f32(solver, single, right, left), PROTEAN_OK) << protean_last_error();
  EXPECT_NEAR(left[1], 1, 1e-4) << "2 -1 0 / -1 4 -1 / 0 -1 2 times (1 1 1) is (1 2 1)";
  EXPECT_NEAR(left[0], 1, 1e-4);
  protean_matrix_free(single);
}

TEST_F(CApi, FormatAutoIsThatOfCpp) {
  const auto a = generate(test_context(), "poisson-2d", {{"n", 40}});
  // So many that a look at the formats of a small matrix is worth it, and too few to try any.
  const ChoiceOptions many{.expected_iterations = 5000};
  const auto expected = choose_format(a.pattern, CostModel(Space::host), many);
  ASSERT_NE(expected.id, "csr");
  // The solve chooses, since the method matters. "auto" is the default, too. Without a number of iterations a policy
  // would change the format in the middle of a longer solve.
  for (const double wrong : {-1.0, 0.5, 2e9, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(protean_solver_set(solver, "expected_iterations", wrong), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has("unknown, or a whole number from 1 to 1000000000")) << protean_last_error();
  }
  ASSERT_EQ(protean_solver_set(solver, "expected_iterations", 5000), PROTEAN_OK);
  protean_matrix* fresh = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &fresh),
            PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_format(fresh), "csr");
  ASSERT_EQ(protean_solve(solver, fresh, b.data(), x.data()), PROTEAN_OK);
  EXPECT_EQ(protean_matrix_format(fresh), expected.id);
  protean_matrix_free(fresh);
  ASSERT_EQ(protean_matrix_set_format(A, "auto", nullptr, nullptr), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_format(A), "csr");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_matrix_format(A), expected.id);
  EXPECT_EQ(protean_matrix_set_format(A, "auto", "C=8", nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_format(A), expected.id);
}

}  // namespace
}  // namespace protean::test

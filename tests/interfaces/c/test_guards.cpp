// The C interface against its caller: calls from monitors and other functions of the caller while a solve runs, numbers
// out of range, sizes beyond any memory, and no memory left.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/count_new.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "support/battery.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

bool error_has(std::string_view part) {
  return std::string_view(protean_last_error()).find(part) != std::string_view::npos;
}
constexpr double infinity = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();

class CApiGuards : public testing::Test {
 protected:
  CApiGuards() {
    const auto a = generate(test_context(), "poisson-2d", {{"n", 20}});
    n = a.rows(), nonzeros = a.nonzeros();
    for (std::int64_t r = 0; r <= n; ++r) row_ptr.push_back(static_cast<std::int32_t>(a.pattern.row_ptr[r]));
    col.assign(a.pattern.col, a.pattern.col + nonzeros);
    values.assign(a.values, a.values + nonzeros);
    b = sample_vector<double>(n, 3), x.assign(b.size(), 0.0);
    EXPECT_EQ(protean_context_host(1, &context), PROTEAN_OK);
    A = matrix(), other = matrix();
    solver = create("cg", "jacobi"), second = create("bicgstab", "chebyshev");
  }
  ~CApiGuards() override {
    protean_matrix_free(A), protean_matrix_free(other);
    protean_solver_free(solver), protean_solver_free(second);
    protean_context_free(context);
  }
  protean_matrix* matrix() {
    protean_matrix* made = nullptr;
    EXPECT_EQ(
        protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &made),
        PROTEAN_OK);
    // Format auto may change on a busy machine, and with it the bits of x.
    EXPECT_EQ(protean_matrix_set_format(made, "csr", nullptr, nullptr), PROTEAN_OK);
    return made;
  }
  static protean_solver* create(const char* method, const char* preconditioner) {
    protean_solver* made = nullptr;
    EXPECT_EQ(protean_solver_create(method, preconditioner, &made), PROTEAN_OK) << protean_last_error();
    return made;
  }
  protean_status solve() {
    x.assign(x.size(), 0.0);
    return protean_solve(solver, A, b.data(), x.data());
  }
  double residual() const {
    double squares = 0, norm = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      double r = b[i];
      for (std::int64_t k = row_ptr[i]; k < row_ptr[i + 1]; ++k) r -= values[k] * x[col[k]];
      squares += r * r, norm += b[i] * b[i];
    }
    return std::sqrt(squares / norm);
  }
  // Calls `action` in iteration 3 of the solves of `solver`.
  void in_monitor(std::function<void()> action) {
    action_ = std::move(action), called_ = 0;
    ASSERT_EQ(protean_solver_set_monitor(solver, monitor, this), PROTEAN_OK);
  }
  static int monitor(void* user, const protean_iteration* now) {
    auto& me = *static_cast<CApiGuards*>(user);
    if (now->iteration == 3) me.action_(), ++me.called_;
    return 0;
  }
  static int identity(void* user, const double* from, double* to, void*) {
    auto& me = *static_cast<CApiGuards*>(user);
    std::copy(from, from + me.n, to);
    if (me.in_function_) me.in_function_();
    return 0;
  }
  static int setup(void* user, int) {
    auto& me = *static_cast<CApiGuards*>(user);
    if (me.in_setup_) me.in_setup_();
    return 0;
  }

  std::int64_t n = 0, nonzeros = 0;
  std::vector<std::int32_t> row_ptr, col;
  std::vector<double> values, b, x;
  protean_context* context = nullptr;
  protean_matrix *A = nullptr, *other = nullptr;
  protean_solver *solver = nullptr, *second = nullptr;
  std::function<void()> action_, in_function_, in_setup_;
  int called_ = 0;
};

// Everything that would change or end the running solver, with the same answer as without these calls.
TEST_F(CApiGuards, InAMonitorItsSolverIsNotChanged) {
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::vector<double> expected = x;
  const std::int64_t iterations = protean_solver_iterations(solver);
  std::vector<double> y(x.size(), 0.0);
  const protean_product function = identity;
  const std::pair<const char*, std::function<protean_status()>> calls[] = {
      {"set", [&] { return protean_solver_set(solver, "max_iterations", 5); }},
      {"set_text", [&] { return protean_solver_set_text(solver, "policy", "auto"); }},
      {"preconditioner",
       [&] { return protean_solver_set_preconditioner(solver, function, nullptr, this, 0); }},
      {"single preconditioner",
       [&] { return protean_solver_set_preconditioner_f32(solver, nullptr, nullptr, nullptr, 0); }},
      {"near null space", [&] { return protean_solver_set_near_null_space(solver, n, 0, nullptr); }},
      {"labels", [&] { return protean_solver_set_labels(solver, 0, nullptr); }},
      {"monitor", [&] { return protean_solver_set_monitor(solver, nullptr, nullptr); }},
      {"schedule",
       [&] { return protean_solver_schedule(solver, "at_iteration", 5, "ell", nullptr, nullptr, 0); }},
      {"order",
       [&] {
         return protean_solver_schedule_order(solver, "at_iteration", 5, "rcm", nullptr, nullptr, nullptr, 0);
       }},
      {"clear", [&] { return protean_solver_schedule_clear(solver); }},
      {"solve", [&] { return protean_solve(solver, A, b.data(), y.data()); }},
      {"solve with another matrix", [&] { return protean_solve(solver, other, b.data(), y.data()); }},
      {"solve several", [&] { return protean_solve_multi(solver, other, 1, b.data(), n, y.data(), n); }},
      {"format", [&] { return protean_matrix_set_format(A, "ell", nullptr, nullptr); }},
      {"order of the matrix", [&] { return protean_matrix_set_order(A, "rcm"); }},
      {"watch", [&] { return protean_matrix_watch(A); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    protean_status status = PROTEAN_OK;
    std::string text;
    in_monitor([&] { status = call(), text = protean_last_error(); });
    EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
    EXPECT_EQ(called_, 1);
    EXPECT_EQ(status, PROTEAN_BAD_ARGUMENT);
    EXPECT_NE(text.find("a solve is running with this"), std::string::npos) << text;
    if (text.find("with this solver") != std::string::npos) {
      EXPECT_NE(text.find("after the solve, and take another solver"), std::string::npos) << text;
    }
    EXPECT_EQ(x, expected);
    EXPECT_EQ(protean_solver_iterations(solver), iterations);
    // Afterwards it is allowed.
    ASSERT_EQ(protean_solver_set_monitor(solver, nullptr, nullptr), PROTEAN_OK);
    EXPECT_EQ(solve(), PROTEAN_OK);
    EXPECT_EQ(x, expected);
  }
}

// A handle in use is not freed, and protean_last_error() says so.
TEST_F(CApiGuards, WhatIsInUseIsNotFreed) {
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::vector<double> expected = x;
  std::string about_solver, about_matrix;
  in_monitor([&] {
    protean_solver_free(solver), about_solver = protean_last_error();
    protean_matrix_free(A), about_matrix = protean_last_error();
    protean_context_free(context), context = nullptr;  // matrix and solver keep it alive
  });
  EXPECT_EQ(solve(), PROTEAN_OK);
  EXPECT_NE(about_solver.find("with this solver, which is not freed"), std::string::npos) << about_solver;
  EXPECT_NE(about_matrix.find("with this matrix, which is not freed"), std::string::npos) << about_matrix;
  EXPECT_EQ(x, expected);
  in_monitor([] {});
  EXPECT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(x, expected);
}

TEST_F(CApiGuards, AProductKeepsItsMatrix) {
  protean_matrix* mine = nullptr;
  ASSERT_EQ(protean_matrix_callback(context, n, n, "mine", identity, nullptr, this, 0, &mine), PROTEAN_OK);
  in_function_ = [&] { protean_matrix_free(mine); };
  std::vector<double> y(x.size()), Y(2 * x.size()), X(2 * x.size(), 1.0);
  ASSERT_EQ(protean_matrix_apply(mine, 1, b.data(), 0, y.data()), PROTEAN_OK);
  EXPECT_TRUE(error_has("a product is running with this matrix")) << protean_last_error();
  EXPECT_EQ(y, b);
  ASSERT_EQ(protean_matrix_apply_multi(mine, 2, 1, X.data(), n, 0, Y.data(), n), PROTEAN_OK);
  EXPECT_EQ(Y, X);
  in_function_ = nullptr;
  protean_matrix_free(mine);
}

// What only reads is allowed, as are other handles: the residual of the iterate, and solves with another solver.
TEST_F(CApiGuards, AMonitorMayReadAndSolveWithAnotherSolver) {
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::vector<double> expected = x;
  std::vector<double> y(x.size()), inner(x.size()), several(2 * x.size()), right = b;
  right.insert(right.end(), b.begin(), b.end());
  for (const bool changes : {false, true}) {
    in_monitor([&] {
      EXPECT_EQ(protean_matrix_apply(A, 1, b.data(), 0, y.data()), PROTEAN_OK) << protean_last_error();
      EXPECT_EQ(protean_matrix_rows(A), n);
      EXPECT_EQ(protean_solver_iterations(solver), 0) << "of no solve";
      for (protean_matrix* one : {A, other}) {
        inner.assign(inner.size(), 0.0);
        EXPECT_EQ(protean_solve(second, one, b.data(), inner.data()), PROTEAN_OK) << protean_last_error();
        EXPECT_LE(protean_solver_true_residual(second), 1e-8);
        several.assign(several.size(), 0.0);
        EXPECT_EQ(protean_solve_multi(second, one, 2, right.data(), n, several.data(), n), PROTEAN_OK)
            << protean_last_error();
      }
      // The format of the matrix of the solve stays; the format of another matrix may change.
      EXPECT_EQ(protean_solver_schedule(second, "at_iteration", 2, "ell", nullptr, nullptr, 0), PROTEAN_OK);
      EXPECT_EQ(protean_solve(second, A, b.data(), inner.data()), PROTEAN_BAD_ARGUMENT);
      EXPECT_TRUE(error_has("without schedule and policy")) << protean_last_error();
      inner.assign(inner.size(), 0.0);
      EXPECT_EQ(protean_solve(second, other, b.data(), inner.data()), PROTEAN_OK) << protean_last_error();
      EXPECT_STREQ(protean_matrix_format(other), "ell");
      EXPECT_EQ(protean_matrix_set_format(other, "csr", nullptr, nullptr), PROTEAN_OK);
      EXPECT_EQ(protean_solver_schedule_clear(second), PROTEAN_OK);
    });
    if (changes) {
      // The outer solve changes format and order before and after that.
      ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 1, "rcm", "ell", nullptr, nullptr, 0),
                PROTEAN_OK);
      ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 6, "coo", nullptr, nullptr, 0), PROTEAN_OK);
    }
    EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
    EXPECT_EQ(called_, 1);
    EXPECT_LE(residual(), 1.01e-8);
    if (!changes) { EXPECT_EQ(x, expected); }
    if (changes) { EXPECT_EQ(protean_solver_switches(solver), 2); }
  }
}

// In the middle of a step, in a preconditioner of the caller, neither the values nor the handles change.
TEST_F(CApiGuards, InAStepValuesDoNotChange) {
  std::vector<double> y(x.size());
  const auto try_all = [&] {
    EXPECT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has("in the monitor of the solve")) << protean_last_error();
    EXPECT_EQ(protean_matrix_set_format(A, "ell", nullptr, nullptr), PROTEAN_BAD_ARGUMENT);
    EXPECT_EQ(protean_solver_set_preconditioner(solver, nullptr, nullptr, nullptr, 0), PROTEAN_BAD_ARGUMENT);
    protean_matrix_free(A), protean_solver_free(solver);
    // An inner solve with the same matrix, whose monitor may not change the values either.
    y.assign(y.size(), 0.0);
    EXPECT_EQ(protean_solve(second, A, b.data(), y.data()), PROTEAN_OK) << protean_last_error();
  };
  struct Inner {
    protean_matrix* A;
    const double* values;
    protean_status status;
  } seen{A, values.data(), PROTEAN_OK};
  ASSERT_EQ(protean_solver_set_monitor(
                second,
                [](void* user, const protean_iteration* now) {
                  auto& me = *static_cast<Inner*>(user);
                  if (now->iteration == 1) me.status = protean_matrix_update_values(me.A, me.values);
                  return 0;
                },
                &seen),
            PROTEAN_OK);
  in_function_ = in_setup_ = try_all;
  ASSERT_EQ(protean_solver_set_preconditioner(solver, identity, setup, this, 0), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(seen.status, PROTEAN_BAD_ARGUMENT);
  EXPECT_LE(residual(), 1.01e-8);
  // Several right-hand sides: the same.
  ASSERT_EQ(protean_solver_set_monitor(second, nullptr, nullptr), PROTEAN_OK);
  x.assign(x.size(), 0.0);
  EXPECT_EQ(protean_solve_multi(solver, A, 1, b.data(), n, x.data(), n), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  in_function_ = in_setup_ = nullptr;
}

TEST_F(CApiGuards, NumbersOutOfRangeAreRefused) {
  // The options of the policy and the tolerances, each with the text of its range.
  const std::tuple<const char*, std::vector<double>, std::vector<double>> cases[] = {
      {"worst_factor", {-1, 0, 0.99, nan, infinity}, {1, 2, 1000}},
      {"forecast_factor", {-5, 0.5, nan, infinity}, {1, 3}},
      {"pessimism", {-1, nan, infinity}, {0, 2}},
      {"payback", {-1, nan, infinity}, {0, 2}},
      {"convert_margin", {-3, 0.5, nan, infinity}, {1, 2}},
      {"hysteresis", {-0.1, nan, infinity}, {0, 2}},
      {"most_switches", {-1, nan}, {0, 7}},
      {"trial_products", {0, -1, nan}, {1, 9}},
      {"relative_tolerance", {-1e-8, 1, 2, nan, infinity}, {0, 0.999}},
      {"absolute_tolerance", {-1e-8, nan, infinity}, {0, 1e300}},
  };
  for (const auto& [name, bad, good] : cases) {
    for (const double value : bad) {
      EXPECT_EQ(protean_solver_set(solver, name, value), PROTEAN_BAD_ARGUMENT) << name << ' ' << value;
      EXPECT_TRUE(error_has(name) && error_has("must be")) << protean_last_error();
    }
    for (const double value : good)
      EXPECT_EQ(protean_solver_set(solver, name, value), PROTEAN_OK) << protean_last_error();
  }
  EXPECT_EQ(protean_solver_set(solver, "relative_tolerance", 0), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set(solver, "absolute_tolerance", 1e-4), PROTEAN_OK);
  // Without a policy its options do nothing.
  EXPECT_EQ(solve(), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("worst_factor is for a policy, and the solve has none: leave it at 1.05"))
      << protean_last_error();
  const std::pair<const char*, double> defaults[] = {
      {"worst_factor", 1.05},   {"forecast_factor", 1.5}, {"pessimism", 0.5},   {"payback", 1},
      {"convert_margin", 1.25}, {"hysteresis", 0.03},     {"most_switches", 3}, {"trial_products", 8}};
  for (const auto& [name, value] : defaults) EXPECT_EQ(protean_solver_set(solver, name, value), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << "an absolute tolerance alone";
  EXPECT_STREQ(protean_solver_reason(solver), "absolute-tolerance");
}

// The residuals are relative to b, even if the tolerance is relative to the initial residual.
TEST_F(CApiGuards, ResidualsAreRelativeToTheRightHandSide) {
  ASSERT_EQ(protean_solver_set_text(solver, "baseline", "initial-residual"), PROTEAN_OK);
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-3), PROTEAN_OK);
  x.assign(x.size(), 1e6);
  const double before = residual();
  ASSERT_GT(before, 1e4);
  ASSERT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_GT(residual(), 1);
  EXPECT_LE(residual(), 1.01e-3 * before);
  EXPECT_NEAR(protean_solver_true_residual(solver), residual(), 1e-6 * residual());
  EXPECT_NEAR(protean_solver_recurrence_residual(solver), residual(), 1e-6 * residual());
  EXPECT_NEAR(protean_solver_initial_residual(solver), before, 1e-9 * before);
  // The column of a solve with several says the same.
  x.assign(x.size(), 1e6);
  ASSERT_EQ(protean_solve_multi(solver, A, 1, b.data(), n, x.data(), n), PROTEAN_OK);
  protean_column one{};
  ASSERT_EQ(protean_solver_column(solver, 0, &one), PROTEAN_OK);
  EXPECT_NEAR(one.true_residual, residual(), 1e-6 * residual());
  EXPECT_NEAR(one.recurrence_residual, residual(), 1e-6 * residual());
  EXPECT_EQ(protean_solver_true_residual(solver), one.true_residual);
  // b = 0: x = 0, without a residual.
  b.assign(b.size(), 0.0);
  ASSERT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solver_true_residual(solver), 0);
}

TEST_F(CApiGuards, StridesBeyondTheAddressSpaceAreRefused) {
  std::vector<double> X(4 * x.size(), 1.0), Y(X.size(), 0.0);
  for (const int power : {60, 61, 62}) {
    const std::int64_t stride = std::int64_t{1} << power;
    const std::string number = std::to_string(stride);
    EXPECT_EQ(protean_solve_multi(solver, A, 4, X.data(), stride, Y.data(), n), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has(number)) << protean_last_error();
    EXPECT_EQ(protean_solve_multi(solver, A, 4, X.data(), n, Y.data(), stride), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has(number)) << protean_last_error();
    EXPECT_EQ(protean_matrix_apply_multi(A, 4, 1, X.data(), stride, 0, Y.data(), n), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has(number)) << protean_last_error();
    EXPECT_EQ(protean_matrix_apply_multi(A, 4, 1, X.data(), n, 0, Y.data(), stride), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has(number)) << protean_last_error();
    // The stride of one column means nothing.
    Y.assign(Y.size(), 0.0);
    EXPECT_EQ(protean_matrix_apply_multi(A, 1, 1, X.data(), stride, 0, Y.data(), stride), PROTEAN_OK)
        << protean_last_error();
  }
  EXPECT_EQ(X, std::vector<double>(X.size(), 1.0));
}

TEST_F(CApiGuards, CountsBeyondMemoryAreNamed) {
  const auto refused = [](protean_status status, std::int64_t number) {
    EXPECT_TRUE(status == PROTEAN_BAD_ARGUMENT || status == PROTEAN_OUT_OF_MEMORY)
        << protean_status_name(status);
    EXPECT_TRUE(error_has(std::to_string(number))) << protean_last_error();
  };
  const std::int32_t nodes[] = {0, 1};
  const double matrices[] = {1, -1, -1, 1};
  const std::int64_t held[] = {0};
  for (const int power : {45, 54, 58, 60, 61, 62}) {
    SCOPED_TRACE(power);
    const std::int64_t large = std::int64_t{1} << power;
    protean_matrix* none = nullptr;
    refused(
        protean_matrix_elements(context, 2, 1, large, 2, nodes, matrices, 0, nullptr, 0, 0, nullptr, &none),
        large);
    refused(
        protean_matrix_elements(context, large, 1, 1, 2, nodes, matrices, 0, nullptr, 0, 0, nullptr, &none),
        large);
    refused(protean_matrix_elements(context, 2, 1, 1, 2, nodes, matrices, 0, held, large, 0, nullptr, &none),
            large);
    refused(
        protean_matrix_csr(context, large, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &none),
        large);
    refused(
        protean_matrix_csr(context, n, large, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &none),
        large);
    refused(protean_matrix_csr(context, n, n, large, row_ptr.data(), col.data(), values.data(), 0, &none),
            large);
    EXPECT_EQ(none, nullptr);
    // One row, so that the number of columns alone is large. X begins behind the end of B; neither is read.
    const std::int32_t ends[] = {0, 1}, first[] = {0};
    const double two[] = {2};
    const double right = 1;
    double* const away = reinterpret_cast<double*>(std::uintptr_t{1} << 62);
    ASSERT_EQ(protean_matrix_csr(context, 1, 1, 1, ends, first, two, 0, &none), PROTEAN_OK);
    refused(protean_solve_multi(solver, none, large, &right, 1, away, 1), large);
    protean_matrix_free(none), none = nullptr;
    // Operators of the caller own a vector. Smaller ones are asked of the system.
    if (power < 60) continue;
    refused(protean_matrix_callback(context, large, large, "mine", identity, nullptr, this, 0, &none), large);
    EXPECT_EQ(none, nullptr);
  }
}

// Each call of operator new in a solve that changes the format fails once. The call says so, and all handles go on.
TEST_F(CApiGuards, WithoutMemoryTheHandlesGoOn) {
  std::vector<double> y(x.size());
  int failures = 0;
  for (const char* order : {"none", "rcm", "auto"}) {
    bool done = false;
    // A format that is chosen asks all formats, with many allocations; some of them are refused here.
    const bool chosen = std::string_view(order) == "auto";
    for (std::int64_t nth = 1; nth < 20000 && !done; nth += chosen ? 1 + nth / 16 : 1) {
      protean_matrix* fresh = matrix();
      if (!chosen) { ASSERT_EQ(protean_matrix_set_format(fresh, "csr", nullptr, nullptr), PROTEAN_OK); }
      ASSERT_EQ(protean_matrix_set_order(fresh, order), PROTEAN_OK);
      protean_solver* one = create("cg", "jacobi");
      ASSERT_EQ(protean_solver_schedule(one, "at_iteration", 2, "ell", nullptr, nullptr, 0), PROTEAN_OK);
      x.assign(x.size(), 0.0);
      fail_new(nth);
      const protean_status status = protean_solve(one, fresh, b.data(), x.data());
      done = !new_has_failed();
      fail_new(0);
      if (status != PROTEAN_OK) {
        ++failures;
        ASSERT_EQ(status, PROTEAN_OUT_OF_MEMORY) << nth << ": " << protean_last_error();
      }
      ASSERT_EQ(protean_matrix_apply(fresh, 1, b.data(), 0, y.data()), PROTEAN_OK) << nth;
      x.assign(x.size(), 0.0);
      ASSERT_EQ(protean_solve(one, fresh, b.data(), x.data()), PROTEAN_OK) << nth << protean_last_error();
      ASSERT_LE(residual(), 1.01e-8) << nth;
      protean_solver_free(one), protean_matrix_free(fresh);
    }
    EXPECT_TRUE(done);
  }
  EXPECT_GT(failures, 10);
}

// A vector that has entries needs memory; one without entries has none, and needs none.
TEST_F(CApiGuards, NullVectorsAreNamed) {
  const auto expect = [](protean_status status, const char* name) {
    EXPECT_EQ(status, PROTEAN_BAD_ARGUMENT) << name;
    EXPECT_EQ(std::string(protean_last_error()), std::string(name) + " is a null pointer");
  };
  const double* const nothing = nullptr;
  double* const nowhere = nullptr;
  expect(protean_solve(solver, A, nothing, x.data()), "b");
  expect(protean_solve(solver, A, b.data(), nowhere), "x");
  expect(protean_solve_multi(solver, A, 1, nothing, n, x.data(), n), "B");
  expect(protean_solve_multi(solver, A, 1, b.data(), n, nowhere, n), "X");
  expect(protean_matrix_apply(A, 1, nothing, 0, x.data()), "x");
  expect(protean_matrix_apply(A, 1, b.data(), 0, nowhere), "y");
  expect(protean_matrix_update_values(A, nothing), "values");
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LT(residual(), 1e-7);
  protean_matrix* empty = nullptr;
  const std::int32_t no_rows[] = {0};
  ASSERT_EQ(protean_matrix_csr(context, 0, 0, 0, no_rows, nullptr, nothing, 0, &empty), PROTEAN_OK)
      << protean_last_error();
  EXPECT_EQ(protean_solve(solver, empty, nothing, nowhere), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_matrix_apply(empty, 1, nothing, 0, nowhere), PROTEAN_OK) << protean_last_error();
  protean_matrix* same = nullptr;
  const std::int32_t* const none = nullptr;
  EXPECT_EQ(protean_matrix_csr(context, n, n, nonzeros, none, col.data(), values.data(), 0, &same),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), nullptr, values.data(), 0, &same),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), nothing, 0, &same),
            PROTEAN_BAD_ARGUMENT);
  protean_matrix_free(empty);
}

}  // namespace
}  // namespace protean::test

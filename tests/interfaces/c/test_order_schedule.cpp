// Schedules that change the order of the rows in a solve from C.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "order_in_c.hpp"

namespace protean::test {
namespace {

struct SeenOrder {
  std::vector<std::string> orders, formats;
  std::vector<double> residuals;
  std::int64_t update_at = -1;
  protean_matrix* matrix = nullptr;
  std::vector<double>* values = nullptr;
  protean_status status = PROTEAN_OK, order_status = PROTEAN_OK;
  static int monitor(void* user, const protean_iteration* now) {
    auto& me = *static_cast<SeenOrder*>(user);
    me.orders.emplace_back(now->order), me.formats.emplace_back(now->format);
    me.residuals.push_back(now->residual);
    if (now->iteration == me.update_at) {
      for (double& value : *me.values) value *= 2;
      me.status = protean_matrix_update_values(me.matrix, me.values->data());
      me.order_status = protean_matrix_set_order(me.matrix, "none");
    }
    return 0;
  }
};

TEST_F(CApiOrder, AScheduleChangesIt) {
  create("cg", "jacobi");
  SeenOrder plain, seen;
  ASSERT_EQ(protean_solver_set_monitor(solver, SeenOrder::monitor, &plain), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  ASSERT_EQ(protean_solver_set_monitor(solver, SeenOrder::monitor, &seen), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 4, "rcm", "ell", nullptr, nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 8, "length", nullptr, nullptr, nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 12, "csr", nullptr, nullptr, 0), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_EQ(protean_solver_restarts(solver), 0);
  ASSERT_EQ(protean_solver_switches(solver), 3);
  protean_switch change;
  ASSERT_EQ(protean_solver_switch(solver, 0, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "ell");
  EXPECT_STREQ(change.from_order, "none");
  EXPECT_STREQ(change.to_order, "rcm");
  ASSERT_EQ(protean_solver_switch(solver, 1, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "ell");
  EXPECT_STREQ(change.to_order, "length");
  ASSERT_EQ(protean_solver_switch(solver, 2, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "csr");
  EXPECT_STREQ(change.from_order, "length");
  EXPECT_STREQ(change.to_order, "length");
  EXPECT_STREQ(protean_matrix_order(A), "length");
  EXPECT_EQ(seen.orders[3] + seen.orders[6] + seen.orders[10], "nonercmlength");
  EXPECT_EQ(seen.formats.back(), "csr");
  // The recurrence goes on: the residuals of the caller's order, except for rounding.
  ASSERT_GT(std::min(seen.residuals.size(), plain.residuals.size()), 30u);
  for (std::size_t i = 0; i < 30; ++i)
    EXPECT_NEAR(seen.residuals[i], plain.residuals[i], 1e-9 * plain.residuals[0]) << i;

  // The next solve begins in it; new values and another right-hand side, too.
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  for (double& value : values) value *= 4;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  b.assign(b.size(), 1.0);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_EQ(seen.orders.back(), "length");
  // A format ends the order of the schedule.
  ASSERT_EQ(protean_matrix_set_format(A, "csr", nullptr, nullptr), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(A), "none");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
}

TEST_F(CApiOrder, AScheduleKnowsTheOrderBefore) {
  order("cluster");
  const auto at = [&](double iteration, const char* name) {
    ASSERT_EQ(
        protean_solver_schedule_order(solver, "at_iteration", iteration, name, nullptr, nullptr, nullptr, 0),
        PROTEAN_OK);
  };
  at(2, "cluster"), at(5, "rcm"), at(9, "none"), at(12, "rcm"), at(15, "cluster");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  // The first point asks for what is there; "none" is the order of the caller, whatever the solve began in.
  ASSERT_EQ(protean_solver_switches(solver), 4);
  protean_switch change;
  const char* const expected[] = {"cluster", "rcm", "none", "rcm", "cluster"};
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(protean_solver_switch(solver, i, &change), PROTEAN_OK);
    EXPECT_STREQ(change.from_order, expected[i]);
    EXPECT_STREQ(change.to_order, expected[i + 1]);
  }
  EXPECT_STREQ(protean_matrix_order(A), "cluster");
  // A solve with other values that ends in another order, and the order by name after it.
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  at(3, "length");
  for (double& value : values) value *= 2;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_STREQ(protean_matrix_order(A), "length");
  // A format ends the order of the schedule: the order of protean_matrix_set_order() is there again, with the new
  // values.
  ASSERT_EQ(protean_matrix_set_format(A, "nosuch", nullptr, nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_STREQ(protean_matrix_order(A), "length");
  for (double& value : values) value *= 2;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(protean_matrix_set_format(A, "ell", nullptr, nullptr), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_matrix_order(A), "cluster");
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  // Then a policy, which keeps the names.
  ASSERT_EQ(protean_solver_set_text(solver, "policy", "auto"), PROTEAN_OK) << protean_last_error();
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  ASSERT_EQ(protean_solver_set_text(solver, "policy", "none"), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(A), "cluster");
  at(2, "none");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_STREQ(protean_matrix_order(A), "none");
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  order("rcm");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
}

TEST_F(CApiOrder, InASolveOnlyTheScheduleChangesIt) {
  for (const bool adaptive : {false, true}) {
    order("rcm");
    create("cg", "jacobi");
    if (adaptive) {
      ASSERT_EQ(
          protean_solver_schedule_order(solver, "at_iteration", 5, "length", nullptr, nullptr, nullptr, 0),
          PROTEAN_OK);
    }
    SeenOrder seen;
    seen.update_at = 9, seen.matrix = A, seen.values = &values;
    ASSERT_EQ(protean_solver_set_monitor(solver, SeenOrder::monitor, &seen), PROTEAN_OK);
    ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
    EXPECT_EQ(seen.status, PROTEAN_OK);
    EXPECT_EQ(seen.order_status, PROTEAN_BAD_ARGUMENT);
    EXPECT_EQ(protean_solver_restarts(solver), 1);
    EXPECT_LE(residual(), 1.01e-8) << "of the new values";
    EXPECT_EQ(seen.orders.back(), adaptive ? "length" : "rcm");
  }
}

// A preconditioner of the caller sees vectors in the caller's numbering.
TEST_F(CApiOrder, APreconditionerOfTheCallerKeepsTheNumbering) {
  std::vector<double> inverse;
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t k = row_ptr[r]; k < row_ptr[r + 1]; ++k)
      if (col[k] == r) inverse.push_back(1 / values[k]);
  ASSERT_EQ(inverse.size(), b.size());
  const protean_product jacobi = [](void* user, const double* r, double* z, void*) {
    const auto& d = *static_cast<std::vector<double>*>(user);
    for (std::size_t i = 0; i < d.size(); ++i) z[i] = d[i] * r[i];
    return 0;
  };
  ASSERT_EQ(protean_solver_set_preconditioner(solver, jacobi, nullptr, &inverse, 0), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::int64_t iterations = protean_solver_iterations(solver);
  order("rcm");
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 5, "length", nullptr, nullptr, nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_NEAR(static_cast<double>(protean_solver_iterations(solver)), static_cast<double>(iterations), 3);
}

TEST_F(CApiOrder, WatchedArraysAreReadWhenTheOrderChanges) {
  ASSERT_EQ(protean_matrix_watch(A), PROTEAN_OK);
  order("rcm");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  const double kept = values[3];
  values[3] = 5;
  EXPECT_EQ(solve(), PROTEAN_OK) << "the solve reads a copy";
  EXPECT_EQ(protean_matrix_set_order(A, "length"), PROTEAN_ARRAYS_CHANGED);
  EXPECT_STREQ(protean_matrix_order(A), "rcm");
  values[3] = kept;
  order("length");
  for (double& value : values) value *= 2;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK) << protean_last_error();
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  std::swap(col[0], col[1]);
  EXPECT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_ARRAYS_CHANGED);
  std::swap(col[0], col[1]);
}

}  // namespace
}  // namespace protean::test

// Changes of order: other matrices, null spaces, deterministic mode, schedules.
#include <algorithm>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "operators/matrix/matrix.hpp"
#include "order_change.hpp"
#include "order_changes.hpp"
#include "solvers/format_schedule.hpp"
#include "solving.hpp"
#include "support/elements.hpp"
#include "support/fake_device.hpp"

namespace protean::test {
namespace {

using Action = ScheduleEvent::Action;

// An order has one owner: an operator that has one is not put into another.
TEST(OrderChanges, HaveOneOwner) {
  const CsrMatrix<double> csr = system_matrix(switched_systems[0]);
  const Permutation P = shuffle_of(test_context(), csr.rows(), 5);
  const std::shared_ptr<LinearOperator<double>> changing = adaptive(csr),
                                                fixed = std::make_shared<Matrix<double>>(
                                                    P, std::shared_ptr<LinearOperator<double>>(make_matrix(
                                                           find_format("csr"), csr, test_context())));
  for (const auto& inside : {changing, fixed}) {
    try {
      Matrix<double> twice(P, inside);
      ADD_FAILURE() << inside->name();
    } catch (const BadArgument& refused) {
      EXPECT_NE(std::string(refused.what()).find("Matrix"), std::string::npos) << refused.what();
    }
  }
}

// Whatever does not fit is refused, and the caller keeps matrix and order.
TEST(OrderChanges, ThatCameBeforeMustFit) {
  const CsrMatrix<double> csr = system_matrix(switched_systems[0]);
  const CsrMatrix<double> other = generate(test_context(), "poisson-2d", {{"n", 29}});
  PermutedMatrix<double> permuted(test_context(), csr, shuffle_of(test_context(), csr.rows(), 5));
  PermutedMatrix<double> small(test_context(), other, shuffle_of(test_context(), other.rows(), 5));
  const ContextPtr device = fake_device_context();
  PermutedMatrix<double> there(test_context(), csr, shuffle_of(device, csr.rows(), 5));
  auto start = make_matrix(find_format("csr"), permuted.matrix(), test_context());
  using Adaptive = Matrix<double>;
  for (const char* no_name : {"", "none"}) {
    EXPECT_THROW(Adaptive(csr, no_name, std::move(permuted), std::move(start)), BadArgument);
  }
  EXPECT_THROW(Adaptive(csr, "rcm", std::move(small), std::move(start)), ShapeMismatch);
  EXPECT_THROW(Adaptive(csr, "rcm", std::move(there), std::move(start)), WrongSpace);
  EXPECT_THROW(Adaptive(other, "rcm", std::move(permuted), std::move(start)), ShapeMismatch);
  EXPECT_THROW(Adaptive(csr, "rcm", std::move(permuted), std::move(start), {.memory_fraction = 0}),
               BadArgument);
  ASSERT_TRUE(start);
  ASSERT_EQ(permuted.permutation().size(), csr.rows());
  EXPECT_EQ(permuted.matrix().nonzeros(), csr.nonzeros());
  const Adaptive A(csr, "rcm", std::move(permuted), std::move(start));
  EXPECT_EQ(A.order_id(), "rcm");
  expect_callers_order(A, csr);
}

// x is shown in the caller's order, and the caller's null space is used in the running system.
TEST(OrderChangeInTheMiddle, ShowsXAndTakesTheNullSpaceOfTheCaller) {
  const ContextPtr context = test_context();
  const CsrMatrix<double> grid = system_matrix(switched_systems[0]);
  const std::int64_t n = grid.rows();
  // The diagonal becomes what makes A v = 0, for v of unequal entries.
  const auto v = [](std::int64_t i) { return 1 + 0.2 * static_cast<double>(i % 5); };
  std::vector<double> values(grid.values, grid.values + grid.nonzeros());
  double length = 0, part = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t diagonal = -1;
    double sum = 0;
    for (std::int64_t k = grid.pattern.row_ptr[i]; k < grid.pattern.row_ptr[i + 1]; ++k) {
      const std::int64_t j = grid.pattern.col[k];
      if (i == j)
        diagonal = k;
      else
        sum += values[k] * v(j);
    }
    ASSERT_GE(diagonal, 0);
    values[diagonal] = -sum / v(i);
    length += v(i) * v(i);
  }
  CsrMatrix<double> csr = grid;
  csr.values = values.data();
  std::vector<double> N(static_cast<std::size_t>(n)), b = rhs_of(csr);
  for (std::int64_t i = 0; i < n; ++i) N[i] = v(i) / std::sqrt(length), part += N[i] * b[i];
  for (std::int64_t i = 0; i < n; ++i) b[i] -= part * N[i];

  struct Reader final : SolveObserver {
    Matrix<double>* A;
    const std::vector<double>* x;
    std::vector<double> seen;
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 5 && A) { EXPECT_TRUE(A->switch_to(order_only("rcm"), 5)); }
      if (info.iteration == 12) seen = *x;
      return true;
    }
    bool reads_solution(const IterationInfo& info) const noexcept override { return info.iteration == 12; }
  };
  const auto run = [&](const char* method, bool reorder, std::vector<double>& x) {
    const auto A = adaptive(csr);
    Reader reader;
    reader.A = reorder ? A.get() : nullptr, reader.x = &x;
    const auto solver = make_solver<double>(method, {.stopping = {.relative_tolerance = 1e-10}});
    solver->set_null_space({N.data(), n, n, 1, Space::host});
    EXPECT_TRUE(solver->solve(*A, {b.data(), n, Space::host}, {x.data(), n, Space::host}, nullptr, &reader)
                    .converged());
    return reader.seen;
  };
  for (const char* method : {"cg", "fcg", "minres"}) {
    SCOPED_TRACE(method);
    std::vector<double> x(N.size(), 3.0), y(N.size(), 3.0);
    const std::vector<double> one = run(method, false, x), two = run(method, true, y);
    ASSERT_EQ(one.size(), x.size());
    ASSERT_EQ(two.size(), x.size());
    double change = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(two[i], one[i], 1e-6) << i;
      ASSERT_NEAR(y[i], x[i], 1e-6) << i;
      change = std::max(change, std::abs(x[i] - one[i]));
    }
    EXPECT_GT(change, 1e-3) << "x of iteration 12, not of the end";
  }
}

// A format that rounds, in another order: diagonal and entries belong to the running matrix, in the caller's order.
TEST(OrderChanges, OfARoundedMatrix) {
  const CsrMatrix<double> csr = system_matrix(cg);
  const auto A = adaptive(csr, {.allow_inexact = true});
  FormatSpec to{.entry = &rounded_format()};
  to.order = "rcm";
  ASSERT_TRUE(A->switch_to(to, 0)) << A->failures().back().why;
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  for (double& v : values) v = static_cast<float>(v);
  CsrMatrix<double> rounded = csr;
  rounded.values = values.data();
  expect_callers_order(*A, rounded);
}

TEST(OrderChanges, AreRememberedByTheirNames) {
  const CsrMatrix<double> csr = system_matrix(cg);
  const auto A = adaptive(csr);
  for (const char* id : {"length", "rcm", "cluster", "length", "rcm", "cluster"}) {
    ASSERT_TRUE(A->switch_to(order_only(id), 0)) << A->failures().back().why;
    const std::vector<std::int32_t> expected = make_order(id, *test_context(), csr.pattern);
    const auto found = A->order().order();
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end())) << id;
  }
}

TEST(OrderChanges, OfMatricesOfNoAndOneRow) {
  for (const std::int64_t n : {0, 1}) {
    SCOPED_TRACE(n);
    CsrBuilder<double> builder(test_context(), n, n, n, false);
    if (n == 1) builder.set_row_ptr(1, 1), builder.col()[0] = 0, builder.values()[0] = 4;
    const CsrMatrix<double> csr = builder.freeze();
    const auto A = adaptive(csr);
    const auto M = preconditioner("jacobi", *A);
    Between between([&](const IterationInfo& info) {
      EXPECT_TRUE(A->switch_to(both("coo", info.iteration == 0 ? "rcm" : "length"), info.iteration));
    });
    Vector<double> b(test_context(), n), x(test_context(), n);
    if (n == 1) b[0] = 2, x[0] = 7;
    const auto solve = [&](SolveObserver* observer) {
      M->ensure(*A);
      EXPECT_TRUE(make_solver<double>("cg")->solve(*A, b, x, M.get(), observer).converged());
      EXPECT_NE(A->order_id(), "none");
      expect_callers_order(*A, A->source());
      return n == 1 ? x[0] : 0.5;
    };
    EXPECT_EQ(solve(&between), 0.5);
    EXPECT_EQ(solve(nullptr), 0.5);
    const std::vector<double> twice(static_cast<std::size_t>(n), 8.0);
    A->update_values(with_values(csr, twice.data()));
    EXPECT_EQ(solve(nullptr), n == 1 ? 0.25 : 0.5);
    A->update_values(csr);
    EXPECT_TRUE(A->switch_to(order_only("none"), 9));
    EXPECT_EQ(A->order_id(), "none");
    EXPECT_EQ(A->order().size(), 0);
    expect_callers_order(*A, csr);
  }
}

TEST(OrderChanges, OfARectangularMatrixAreRefused) {
  CsrBuilder<double> builder(test_context(), 2, 3, 2, false);
  builder.set_row_ptr(1, 1), builder.set_row_ptr(2, 2);
  builder.col()[0] = 0, builder.col()[1] = 2, builder.values()[0] = builder.values()[1] = 1;
  const CsrMatrix<double> csr = builder.freeze();
  const auto A = adaptive(csr);
  EXPECT_FALSE(A->switch_to(order_only("rcm"), 0));
  ASSERT_EQ(A->failures().size(), 1u);
  EXPECT_EQ(A->failures()[0].failure, SwitchFailure::refused);
  EXPECT_NE(A->failures()[0].why.find("must be square"), std::string::npos) << A->failures()[0].why;
  EXPECT_TRUE(A->switch_to(both("coo", "none"), 0)) << "the caller's order is no change";
}

TEST(OrderChanges, InDeterministicModeWaitForThem) {
  const ContextPtr context = Context::host(2, {.deterministic = true});
  const CsrMatrix<double> csr = system_matrix(cg);
  Matrix<double> A(csr, make_matrix(find_format("csr"), csr, context));
  A.prepare(order_only("rcm"));
  (void)A.wait_prepared();
  EXPECT_FALSE(A.adopt_prepared(0));
  EXPECT_EQ(A.failures().back().failure, SwitchFailure::refused);
  EXPECT_NE(A.failures().back().why.find("deterministic"), std::string::npos);
  EXPECT_TRUE(A.switch_to(order_only("rcm"), 0)) << A.failures().back().why;
  A.prepare(order_only("none"));
  (void)A.wait_prepared();
  EXPECT_FALSE(A.adopt_prepared(1)) << "nor back";
  A.prepare(both("ell", "rcm"));
  (void)A.wait_prepared();
  EXPECT_TRUE(A.adopt_prepared(1)) << "a format alone may";
}

// From element matrices to an order, and back to them by new values in the middle of a solve.
TEST(OrderChanges, OfElementMatrices) {
  const ElementMesh& mesh = element_mesh("chain");
  const ElementNumbers<double> numbers = element_numbers<double>(mesh, true);
  const ContextPtr context = test_context();
  Matrix<double> A(make_element_operator<double>(context, mesh.nodes, numbers.groups));
  EXPECT_FALSE(A.switch_to(order_only("rcm"), 0));
  EXPECT_NE(A.failures().back().why.find("needs a format"), std::string::npos) << A.failures().back().why;
  FormatSpec bad{.elements = true};
  bad.order = "rcm";
  EXPECT_TRUE(A.runs({.elements = true}));
  ASSERT_TRUE(A.switch_to(both("csr", "rcm"), 0)) << A.failures().back().why;
  EXPECT_GT(A.history().back().assemble_seconds, 0);
  const CsrMatrix<double> csr = A.source();
  expect_callers_order(A, csr);
  EXPECT_FALSE(A.switch_to(bad, 1));
  EXPECT_NE(A.failures().back().why.find("leave out"), std::string::npos) << A.failures().back().why;
  EXPECT_TRUE(A.switch_to({.elements = true}, 1));
  EXPECT_EQ(A.order_id(), "none");
  EXPECT_TRUE(A.switch_to(both("csr", "rcm"), 2));
  A.update_values(numbers.groups);
  EXPECT_TRUE(A.on_elements());
  EXPECT_EQ(A.order_id(), "none");
  EXPECT_EQ(A.order().size(), 0);
}

TEST(OrderSchedule, NamesOrders) {
  const CsrMatrix<double> csr = system_matrix(cg);
  const auto A = adaptive(csr);
  const Solved plain = solve_with(*A, csr, cg, nullptr);
  // Waits in an iteration until the build is ready.
  Between patient([&](const IterationInfo& info) {
    if (info.iteration == 9) (void)A->wait_prepared();
  });
  FormatSchedule<double> schedule(*A,
                                  {{.at = 2, .to = order_only("rcm"), .overlapped = false},
                                   {.at = 3, .to = order_only("rcm"), .overlapped = false},
                                   {.at = 4, .to = both("csr", "rcm"), .overlapped = false},
                                   {.at = 5, .to = order_only("rmc"), .overlapped = false},
                                   {.at = 6, .to = both("sell-c-sigma", "length"), .overlapped = true},
                                   {.at = 10, .to = order_only("none"), .overlapped = false},
                                   {.at = 100000, .to = order_only("rcm")}},
                                  &patient);
  const Solved solved = solve_with(*A, csr, cg, &schedule);
  schedule.finish();
  expect_same_course(solved, plain);
  std::vector<std::pair<Action, std::string>> events;
  for (const ScheduleEvent& event : schedule.events()) events.emplace_back(event.action, event.to);
  const std::vector<std::pair<Action, std::string>> expected = {
      {Action::switched, "order rcm"},
      {Action::stayed, "order rcm"},
      {Action::stayed, "csr in order rcm"},
      {Action::failed, "csr in order rmc"},
      {Action::begun, "sell-c-sigma in order length"},
      {Action::switched, "sell-c-sigma in order length"},
      {Action::switched, "order none"},
      {Action::not_reached, "order rcm"}};
  EXPECT_EQ(events, expected);
  EXPECT_EQ(A->order_id(), "none");
  EXPECT_THROW(FormatSchedule<double>(*A, {SchedulePoint{.at = 2, .to = {}}}), BadArgument);
}

}  // namespace
}  // namespace protean::test

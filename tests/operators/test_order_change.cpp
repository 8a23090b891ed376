// Changes of the order of the rows in the middle of a solve.
#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "core/ordering.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "order_change.hpp"
#include "order_changes.hpp"
#include "solvers/format_schedule.hpp"
#include "solving.hpp"
#include "support/users_preconditioner.hpp"

namespace protean::test {
namespace {

using Action = ScheduleEvent::Action;

INSTANTIATE_TEST_SUITE_P(Methods, OrderChange,
                         testing::Combine(testing::ValuesIn(systems_of_all_methods()),
                                          testing::Values("none", "jacobi", "general")),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param).label) + "_" + std::get<1>(one.param);
                         });

// All products after the change are products of the new matrix alone, without a permutation of vectors.
TEST_P(OrderChange, AtEachIterationContinuesTheRecurrence) {
  for (std::int64_t at = 0; at <= 20; ++at) {
    SCOPED_TRACE(at);
    const auto A = adaptive(csr_);
    std::int64_t before = -1;
    const Solved solved = solve(*A, [&](const IterationInfo& info) {
      if (info.iteration != at) return;
      before = A->products();
      EXPECT_EQ(A->in_order().products(), 0);
      ASSERT_TRUE(A->switch_to(order_only("rcm"), at, "a test")) << A->failures().back().why;
    });
    if (before < 0) {
      EXPECT_GT(at, 5) << "the solve takes too few iterations for this test";
      break;
    }
    expect_course_of_plain(solved);
    EXPECT_EQ(A->order_id(), "rcm");
    expect_reordered(*A, csr_);
    EXPECT_GT(A->products(), before);
    EXPECT_EQ(A->in_order().products(), A->products() - before)
        << "a product after the change took vectors in the caller's order";
    ASSERT_EQ(A->history().size(), 1u);
    EXPECT_EQ(A->history()[0].from_order, "none");
    EXPECT_EQ(A->history()[0].to_order, "rcm");
    EXPECT_EQ(A->history()[0].to, "csr");
    if (at % 7 == 0) expect_callers_order(*A, csr_);
  }
}

// From order to order, with and without another format, built while the solve waits and next to it, and back.
TEST_P(OrderChange, OneAfterTheOther) {
  std::atomic<int> searches{0};
  const auto A = adaptive(
      csr_, {.find_order = [&](std::string_view id, const Context& context, const SparsityPattern& pattern) {
        ++searches;
        return id == "backwards" ? reversed(pattern) : make_order(id, context, pattern);
      }});
  const Solved solved = solve(*A, [&](const IterationInfo& info) {
    switch (info.iteration) {
      case 1:
        return A->prepare(both("sell-c-sigma", "rcm"), "", 1);
      case 2:
        EXPECT_EQ(A->wait_prepared(), Preparation::ready);
        EXPECT_TRUE(A->adopt_prepared(2)) << A->failures().back().why;
        EXPECT_EQ(A->current().entry().id, "sell-c-sigma");
        return;
      case 3:
        EXPECT_TRUE(A->switch_to(order_only("length"), 3));
        EXPECT_EQ(A->current().entry().id, "sell-c-sigma") << "an order alone keeps the format";
        return;
      case 4:
        EXPECT_TRUE(A->switch_to(spec_of(find_format("ell")), 4));
        EXPECT_EQ(A->order_id(), "length") << "a format alone keeps the order";
        return;
      case 5:
        EXPECT_TRUE(A->switch_to(both("csr", "none"), 5));
        EXPECT_EQ(A->order().size(), 0);
        return;
      case 6:
        EXPECT_TRUE(A->switch_to(order_only("backwards"), 6));
        EXPECT_EQ(A->order().order()[0], static_cast<std::int32_t>(csr_.rows() - 1));
        return;
      case 7:
        EXPECT_TRUE(A->switch_to(order_only("rcm"), 7));
        return;
      default:
        return;
    }
  });
  expect_course_of_plain(solved);
  EXPECT_EQ(A->history().size(), 6u);
  EXPECT_TRUE(A->failures().empty());
  EXPECT_EQ(searches, 3) << "rcm was known";
  EXPECT_EQ(A->order_id(), "rcm");
  expect_callers_order(*A, csr_);
}

// The order stays with the operator: later solves begin in it.
TEST_P(OrderChange, IsKeptForOtherSolvesAndNewValues) {
  int searches = 0;
  const auto A = adaptive(
      csr_, {.find_order = [&](std::string_view id, const Context& context, const SparsityPattern& pattern) {
        ++searches;
        return make_order(id, context, pattern);
      }});
  expect_course_of_plain(solve(*A, [&](const IterationInfo& info) {
    if (info.iteration == 4) { EXPECT_TRUE(A->switch_to(order_only("rcm"), 4)); }
  }));
  const std::int64_t before = A->products(), inside = A->in_order().products();
  expect_course_from_another_order(solve(*A, [](const IterationInfo&) {}), plain_);
  if (std::get<1>(GetParam()) != std::string_view("general")) {
    EXPECT_EQ(A->in_order().products() - inside, A->products() - before);
  }
  std::vector<double> twice(csr_.values, csr_.values + csr_.nonzeros());
  for (double& v : twice) v *= 2;
  CsrMatrix<double> doubled = csr_;
  doubled.values = twice.data();
  A->update_values(doubled);
  const auto M = preconditioner(preconditioner_id(), *A);
  const Solved solved = solve_with(*A, doubled, system(), nullptr, 1e-9, M.get());
  EXPECT_TRUE(solved.report.converged());
  EXPECT_LE(std::abs(solved.report.iterations - plain_.report.iterations), is("idr") ? 5 : 1);
  for (std::size_t i = 0; i < plain_.x.size(); ++i) ASSERT_NEAR(2 * solved.x[i], plain_.x[i], 1e-6) << i;
  EXPECT_EQ(A->order_id(), "rcm");
  expect_callers_order(*A, doubled);
  EXPECT_EQ(searches, 1);
}

// An operator that is made in an order is one that has changed to it: no search, the same products, orders by their
// names.
TEST_P(OrderChange, MayHaveComeBeforeTheOperator) {
  int searches = 0;
  PermutedMatrix<double> permuted(test_context(), csr_, shuffle_of(test_context(), csr_.rows(), 5));
  const Permutation P = permuted.permutation();
  auto start = make_matrix(find_format("csr"), permuted.matrix(), test_context());
  Matrix<double> A(
      csr_, "shuffled", std::move(permuted), std::move(start),
      {.find_order = [&](std::string_view id, const Context& context, const SparsityPattern& pattern) {
        ++searches;
        EXPECT_EQ(pattern.col, csr_.pattern.col) << "orders are found for the caller's numbering";
        return make_order(id, context, pattern);
      }});
  EXPECT_EQ(A.order_id(), "shuffled");
  EXPECT_TRUE(A.runs(order_only("shuffled")));
  EXPECT_FALSE(A.runs(order_only("none")));
  EXPECT_TRUE(A.order().is(P));
  expect_callers_order(A, csr_);
  expect_reordered(A, csr_);
  const std::int64_t outside = A.products();
  expect_course_from_another_order(solve(A, [](const IterationInfo&) {}), plain_);
  if (std::get<1>(GetParam()) != std::string_view("general")) {
    EXPECT_EQ(A.in_order().products(), A.products() - outside) << "the solve runs in that order";
  }
  const Solved solved = solve(A, [&](const IterationInfo& info) {
    if (info.iteration == 2) { EXPECT_TRUE(A.switch_to(both("sell-c-sigma", "none"), 2)); }
    if (info.iteration == 4) { EXPECT_TRUE(A.switch_to(order_only("shuffled"), 4)); }
    if (info.iteration == 6) { EXPECT_TRUE(A.switch_to(order_only("rcm"), 6)); }
    if (info.iteration == 8) { EXPECT_TRUE(A.switch_to(order_only("shuffled"), 8)); }
  });
  expect_course_from_another_order(solved, plain_);
  EXPECT_EQ(searches, 1) << "of rcm";
  const std::vector<std::string> expected{"shuffled", "none", "shuffled", "rcm", "shuffled"};
  ASSERT_EQ(A.history().size(), 4u);
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(A.history()[k].from_order, expected[k]);
    EXPECT_EQ(A.history()[k].to_order, expected[k + 1]);
  }
  EXPECT_TRUE(A.order().is(P));
  std::vector<double> twice(csr_.values, csr_.values + csr_.nonzeros());
  for (double& v : twice) v *= 2;
  CsrMatrix<double> doubled = csr_;
  doubled.values = twice.data();
  A.update_values(doubled);
  EXPECT_EQ(A.order_id(), "shuffled");
  expect_callers_order(A, doubled);
  expect_reordered(A, doubled);
}

// Solves one after another with an operator that began in an order: each begins where the one before ended, and each
// name means the same in a schedule and in its events, in the operator's history, and in the numbers.
TEST_P(OrderChange, NamesMeanTheSameFromSolveToSolve) {
  PermutedMatrix<double> permuted(test_context(), csr_, shuffle_of(test_context(), csr_.rows(), 5));
  const Permutation P = permuted.permutation();
  auto start = make_matrix(find_format("csr"), permuted.matrix(), test_context());
  Matrix<double> A(csr_, "shuffled", std::move(permuted), std::move(start));
  const auto M = preconditioner(preconditioner_id(), A);
  const Permutation rcm(test_context(), make_order("rcm", *test_context(), csr_.pattern));
  const auto expect_in = [&](const std::string& name) {
    EXPECT_EQ(A.order_id(), name);
    EXPECT_TRUE(A.runs(order_only(name)));
    if (name == "none") {
      EXPECT_EQ(A.order().size(), 0);
    } else {
      const Permutation& expected = name == "rcm" ? rcm : P;
      EXPECT_TRUE(std::equal(expected.order().begin(), expected.order().end(), A.order().order().begin()));
    }
    expect_callers_order(A, csr_);
  };
  struct Step {
    std::int64_t at;
    const char* order;
    Action action;
  };
  const auto solve_by = [&](const std::vector<Step>& steps) {
    std::vector<SchedulePoint> points;
    for (const Step& step : steps)
      points.push_back(
          {.at = static_cast<double>(step.at), .to = order_only(step.order), .overlapped = false});
    FormatSchedule<double> schedule(A, points);
    expect_course_from_another_order(solve_with(A, csr_, system(), &schedule, 1e-9, M.get()), plain_);
    schedule.finish();
    ASSERT_EQ(schedule.events().size(), steps.size());
    for (std::size_t k = 0; k < steps.size(); ++k) {
      EXPECT_EQ(schedule.events()[k].action, steps[k].action)
          << steps[k].order << schedule.events()[k].reason;
      EXPECT_EQ(schedule.events()[k].to, std::string("order ") + steps[k].order);
    }
  };
  solve_by({{2, "shuffled", Action::stayed}, {3, "rcm", Action::switched}});
  expect_in("rcm");
  solve_by({{1, "rcm", Action::stayed}, {3, "none", Action::switched}, {5, "none", Action::stayed}});
  expect_in("none");
  solve_by({});
  expect_in("none");
  solve_by({{2, "rcm", Action::switched}, {4, "shuffled", Action::switched}});
  expect_in("shuffled");
  std::string course = "shuffled";
  for (const SwitchRecord& one : A.history()) {
    EXPECT_EQ(one.from_order, course.substr(course.rfind(' ') + 1));
    course += " " + one.to_order;
  }
  EXPECT_EQ(course, "shuffled rcm none rcm shuffled");
}

// New values in the middle of a solve in another order: it begins again with them, and with the new diagonal of Jacobi.
TEST_P(OrderChange, NewValuesInTheSolve) {
  std::vector<double> more(csr_.values, csr_.values + csr_.nonzeros());
  for (std::int64_t i = 0; i < csr_.rows(); ++i)
    for (std::int64_t k = csr_.pattern.row_ptr[i]; k < csr_.pattern.row_ptr[i + 1]; ++k)
      if (csr_.pattern.col[k] == i) more[k] *= 1.5 + 0.5 * static_cast<double>(i % 3);
  CsrMatrix<double> other = csr_;
  other.values = more.data();
  const auto run = [&](bool reorder) {
    const auto A = adaptive(csr_);
    const auto M = preconditioner(preconditioner_id(), *A);
    const auto asked = M && !reorder ? std::make_unique<PreconditionerOfAUser>(*M) : nullptr;
    Between between([&](const IterationInfo& info) {
      if (info.iteration == 3 && reorder) { EXPECT_TRUE(A->switch_to(order_only("rcm"), 3)); }
      if (info.iteration != 5) return;
      A->update_values(other);
      if (M) M->ensure(*A);
    });
    return solve_with(*A, other, system(), &between, 1e-9,
                      asked ? static_cast<const Preconditioner<double>*>(asked.get()) : M.get());
  };
  const Solved plain = run(false), solved = run(true);
  EXPECT_GT(plain.report.restarts, 0);
  // gmres and bicgstab2 form x with M^-1 when the cycle ends: with the diagonal that it was made with, not the new one
  // as in `plain`. So they begin again from another x.
  if (preconditioner_id() == "jacobi" && (is("gmres") || is("bicgstab2"))) {
    EXPECT_TRUE(solved.report.converged());
    EXPECT_LE(solved.residual, 1e-9 * 1.001);
  } else {
    expect_course_from_another_order(solved, plain);
  }
}

// The next solve of the same solver equals the solve of a new one.
TEST_P(OrderChange, LeavesNothingInTheSolver) {
  const auto run = [&](Solver<double>& solver, bool reorder) {
    const auto A = adaptive(csr_);
    const auto M = preconditioner(preconditioner_id(), *A);
    const std::vector<double> b = rhs_of(csr_);
    std::vector<double> x(b.size(), 0.0);
    const auto n = static_cast<std::int64_t>(x.size());
    Between observer([&](const IterationInfo& info) {
      if (reorder && info.iteration == 7) { EXPECT_TRUE(A->switch_to(order_only("rcm"), 7)); }
    });
    EXPECT_TRUE(solver.solve(*A, {b.data(), n, Space::host}, {x.data(), n, Space::host}, M.get(), &observer)
                    .converged());
    return x;
  };
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-9;
  options.restart = system().restart;
  const auto used = make_solver<double>(system().method, options),
             fresh = make_solver<double>(system().method, options);
  run(*used, true);
  EXPECT_EQ(run(*used, false), run(*fresh, false));
}

// A solve that is interrupted, or ends by an exception, leaves its iterate in the caller's order.
TEST_P(OrderChange, LeavesAnIterateInTheCallersOrder) {
  struct Enough : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const auto run = [&](bool reorder, bool throws) {
    const auto A = adaptive(csr_);
    const auto M = preconditioner(preconditioner_id(), *A);
    class Observer final : public SolveObserver {
     public:
      std::function<bool(const IterationInfo&)> f;
      bool on_iteration(const IterationInfo& info) override { return f(info); }
    } observer;
    observer.f = [&](const IterationInfo& info) {
      if (info.iteration == 3 && reorder) { EXPECT_TRUE(A->switch_to(order_only("rcm"), 3)); }
      if (info.iteration == 6 && throws) throw Enough("enough");
      return info.iteration < 6;
    };
    const std::vector<double> b = rhs_of(csr_);
    std::vector<double> x(b.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.1 * static_cast<double>(i % 11);
    const auto n = static_cast<std::int64_t>(x.size());
    const auto solver = make_solver<double>(system().method, {.restart = system().restart});
    try {
      EXPECT_EQ(solver->solve(*A, {b.data(), n}, {x.data(), n}, M.get(), &observer).reason,
                StopReason::interrupted);
      EXPECT_FALSE(throws);
    } catch (const Enough&) { EXPECT_TRUE(throws); }
    return x;
  };
  for (const bool throws : {false, true}) {
    const std::vector<double> x = run(true, throws), y = run(false, throws);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-8) << i << throws;
  }
}

}  // namespace
}  // namespace protean::test

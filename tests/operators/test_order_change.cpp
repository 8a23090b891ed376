// Changes of the order of the rows in the middle of a solve.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "core/allocation_hook.hpp"
#include "core/blas1.hpp"
#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"
#include "core/parallel.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/rows.hpp"
#include "order_changes.hpp"
#include "solvers/format_schedule.hpp"
#include "solving.hpp"
#include "support/elements.hpp"
#include "support/fake_device.hpp"

namespace protean::test {
namespace {

using Action = ScheduleEvent::Action;

std::unique_ptr<Matrix<double>> adaptive(const CsrMatrix<double>& csr, MatrixOptions options = {},
                                         std::string_view format = "csr") {
  return std::make_unique<Matrix<double>>(csr, make_matrix(find_format(format), csr, test_context()),
                                          std::move(options));
}

// What any code that does not know of orders sees of the operator.
void expect_callers_order(const Matrix<double>& A, const CsrMatrix<double>& csr) {
  const ContextPtr context = test_context();
  const auto plain = make_matrix(find_format("csr"), csr, context);
  const std::int64_t n = csr.rows();
  Vector<double> x(context, n), y(context, n), z(context, n);
  for (std::int64_t i = 0; i < n; ++i)
    x[i] = std::sin(static_cast<double>(i)), y[i] = z[i] = static_cast<double>(i % 5);
  A.apply(2.0, x, -0.5, y), plain->apply(2.0, x, -0.5, z);
  for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], z[i], 1e-12 * (1 + std::abs(z[i]))) << i;
  double one = 0, two = 0;
  apply_dot<double>(A, x, y, &one), apply_dot<double>(*plain, x, z, &two);
  EXPECT_NEAR(one, two, 1e-10 * std::abs(two));
  for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], z[i], 1e-12 * (1 + std::abs(z[i]))) << i;
  A.diagonal(y), plain->diagonal(z);
  for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], z[i]) << i;
  const std::optional<CsrMatrix<double>> rows = csr_of<double>(A);
  ASSERT_TRUE(rows);
  EXPECT_TRUE(std::equal(rows->values, rows->values + csr.nonzeros(), csr.values));
  EXPECT_TRUE(std::equal(rows->pattern.col, rows->pattern.col + csr.nonzeros(), csr.pattern.col));
}

// The running matrix is P A P^T, entry by entry.
void expect_reordered(const Matrix<double>& A, const CsrMatrix<double>& csr) {
  ASSERT_EQ(A.order().size(), csr.rows());
  const CsrMatrix<double> expected = PermutedMatrix<double>(test_context(), csr, A.order()).matrix(),
                          found = A.current().to_csr();
  ASSERT_EQ(found.nonzeros(), expected.nonzeros());
  EXPECT_TRUE(std::equal(found.values, found.values + found.nonzeros(), expected.values));
  EXPECT_TRUE(std::equal(found.pattern.col, found.pattern.col + found.nonzeros(), expected.pattern.col));
}

// method, preconditioner: "general" is one that is no diagonal.
class OrderChange : public testing::TestWithParam<std::tuple<SwitchedSystem, const char*>> {
 protected:
  void SetUp() override {
    csr_ = system_matrix(system());
    const auto A = adaptive(csr_);
    const auto M = preconditioner(preconditioner_id(), *A);
    plain_ = solve_with(*A, csr_, system(), nullptr, 1e-9, M.get());
    ASSERT_TRUE(plain_.report.converged());
  }
  static const SwitchedSystem& system() {
    static SwitchedSystem present;
    present = std::get<0>(GetParam());
    return present;
  }
  static std::string preconditioner_id() {
    const std::string_view id = std::get<1>(GetParam());
    if (id != "general") return std::string(id);
    return find_solver(system().method).symmetric ? "ic0" : "ilu0";
  }
  // The solve, in which `between` is called between the iterations.
  Solved solve(Matrix<double>& A, std::function<void(const IterationInfo&)> between) const {
    const auto M = preconditioner(preconditioner_id(), A);
    Between observer(std::move(between));
    return solve_with(A, csr_, system(), &observer, 1e-9, M.get());
  }
  static bool is(std::string_view method) { return system().method == method; }
  // A solve that begins in another order than the caller's. The shadow space of idr is chosen in the order in which the
  // run begins, so its course is another one.
  void expect_course_from_another_order(const Solved& solved, const Solved& plain) const {
    if (!is("idr")) return expect_same_course(solved, plain);
    EXPECT_TRUE(solved.report.converged());
    EXPECT_LE(solved.residual, 1e-9 * 1.001);
  }
  void expect_course_of_plain(const Solved& solved) const {
    expect_same_course(solved, plain_);
    EXPECT_EQ(solved.report.restarts, plain_.report.restarts)
        << "the recurrence goes on, it does not begin again";
    double largest = 0;
    for (const double v : plain_.x) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < plain_.x.size(); ++i)
      ASSERT_NEAR(solved.x[i], plain_.x[i], 1e-6 * largest) << i;
  }
  CsrMatrix<double> csr_;
  Solved plain_;
};
INSTANTIATE_TEST_SUITE_P(Methods, OrderChange,
                         testing::Combine(testing::ValuesIn(systems_of_all_methods()),
                                          testing::Values("none", "jacobi", "general")),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param).label) + "_" + std::get<1>(one.param);
                         });

// All products after the change are those of the new matrix alone, without a permutation of vectors.
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

// From order to order, with and without another format, built while the solve waits and beside it, and back.
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

// Applies M without showing that it is a diagonal: a solver asks M each time.
class Asked final : public Preconditioner<double> {
 public:
  explicit Asked(const Preconditioner<double>& M) : Preconditioner<double>(M.context(), M.shape()), M_(M) {}
  std::string_view name() const noexcept override { return "asked"; }

 protected:
  void setup(const LinearOperator<double>&, bool) override {}
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    M_.apply(alpha, x, beta, y);
  }

 private:
  const Preconditioner<double>& M_;
};

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
    const std::unique_ptr<Asked> asked = M && !reorder ? std::make_unique<Asked>(*M) : nullptr;
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

// The next solve of the same solver is that of a new one.
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

// x is shown in the caller's order, and a null space of the caller's is that of the running system.
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

// Everything that can go wrong leaves the solve as it was, to the last bit.
TEST_P(OrderChange, FailuresLeaveTheSolveAsItWas) {
  std::atomic<int> waiting{0};
  const auto faulty = [&](std::string_view id, const Context& context,
                          const SparsityPattern& pattern) -> std::vector<std::int32_t> {
    std::vector<std::int32_t> order = reversed(pattern);
    if (id == "throws") throw std::runtime_error("no luck");
    if (id == "short") order.pop_back();
    if (id == "twice") order[0] = order[1];
    if (id == "endless") {
      ++waiting;
      for (int k = 0; k < 5000; ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        parallel(2, [](int, int) {});
      }
    }
    if (id == "rmc") return make_order(id, context, pattern);
    return order;
  };
  const struct {
    const char* id;
    SwitchFailure failure;
    const char* why;
  } faults[] = {{"throws", SwitchFailure::failed, "no luck"},
                {"short", SwitchFailure::refused, "rows"},
                {"twice", SwitchFailure::refused, "once"},
                {"rmc", SwitchFailure::refused, "rcm"}};
  const std::size_t bytes = allocated_bytes();
  for (const bool overlapped : {false, true}) {
    const auto A = adaptive(csr_, {.find_order = faulty});
    const Solved solved = solve(*A, [&](const IterationInfo& info) {
      if (info.iteration >= 4) return;
      const auto& fault = faults[info.iteration];
      SCOPED_TRACE(fault.id);
      const FormatSpec to = both("sell-c-sigma", fault.id);
      if (overlapped) {
        A->prepare(to, "", info.iteration);
        (void)A->wait_prepared();
        EXPECT_FALSE(A->adopt_prepared(info.iteration));
      } else {
        EXPECT_FALSE(A->switch_to(to, info.iteration));
      }
      ASSERT_EQ(static_cast<std::int64_t>(A->failures().size()), info.iteration + 1);
      EXPECT_EQ(A->failures().back().failure, fault.failure) << A->failures().back().why;
      EXPECT_NE(A->failures().back().why.find(fault.why), std::string::npos) << A->failures().back().why;
      EXPECT_EQ(A->failures().back().order, fault.id);
    });
    expect_same_bits(solved, plain_);
    EXPECT_TRUE(A->history().empty());
    EXPECT_EQ(A->order_id(), "none");
    EXPECT_EQ(A->current().entry().id, "csr");
  }
  {  // cancelled while the order is searched
    const auto A = adaptive(csr_, {.find_order = faulty});
    const Solved solved = solve(*A, [&](const IterationInfo& info) {
      if (info.iteration == 2) {
        A->prepare(order_only("endless"), "", 2);
        while (waiting == 0) std::this_thread::yield();
      }
      if (info.iteration == 4) A->cancel(4, "the weather");
    });
    expect_same_bits(solved, plain_);
    ASSERT_EQ(A->failures().size(), 1u);
    EXPECT_EQ(A->failures()[0].failure, SwitchFailure::cancelled);
    EXPECT_EQ(A->failures()[0].why, "the weather");
  }
  {  // no memory for the matrix in that order
    const auto A = adaptive(csr_, {.memory_limit = csr_.bytes() + csr_.bytes() / 2});
    const Solved solved = solve(*A, [&](const IterationInfo& info) {
      if (info.iteration == 2) { EXPECT_FALSE(A->switch_to(order_only("rcm"), 2)); }
    });
    expect_same_bits(solved, plain_);
    ASSERT_EQ(A->failures().size(), 1u);
    EXPECT_EQ(A->failures()[0].failure, SwitchFailure::out_of_memory);
    EXPECT_NE(A->failures()[0].why.find("rcm"), std::string::npos) << A->failures()[0].why;
  }
  EXPECT_EQ(allocated_bytes(), bytes);
}

// Each allocation of a change fails once, those of the solve's own vectors too.
std::atomic<int> countdown{-1};
void fail_when_due(Space, std::size_t bytes) {
  if (countdown.fetch_sub(1) == 0) throw OutOfMemory("a test let this allocation fail", bytes);
}

TEST_P(OrderChange, FailedAllocationsLeaveTheSolveAsItWas) {
  int failed = 0;
  for (int which = 0; which < 100; ++which) {
    SCOPED_TRACE(which);
    const auto A = adaptive(csr_);
    bool changed = false;
    const Solved solved = solve(*A, [&](const IterationInfo& info) {
      if (info.iteration != 3) return;
      countdown = which;
      detail::allocation_hook = fail_when_due;
      changed = A->switch_to(order_only("rcm"), 3);
      detail::allocation_hook = nullptr;
    });
    if (changed) {
      EXPECT_GT(failed, 5);
      expect_course_of_plain(solved);
      return;
    }
    ++failed;
    expect_same_bits(solved, plain_);
    EXPECT_EQ(A->order_id(), "none");
    ASSERT_EQ(A->failures().size(), 1u);
    EXPECT_EQ(A->failures()[0].failure, SwitchFailure::out_of_memory) << A->failures()[0].why;
  }
  FAIL() << "the change never succeeded";
}

const SwitchedSystem& cg = switched_systems[0];

TEST(OrderChanges, OfTwoSolvesAtOnceAreRefused) {
  const CsrMatrix<double> csr = system_matrix(cg);
  const auto A = adaptive(csr);
  const Solved plain = solve_with(*A, csr, cg, nullptr);
  Solved inner;
  Between outside([&](const IterationInfo& info) {
    if (info.iteration != 4) return;
    Between inside([&](const IterationInfo& i) {
      if (i.iteration == 2) { EXPECT_FALSE(A->switch_to(order_only("rcm"), 2)); }
    });
    inner = solve_with(*A, csr, cg, &inside);
    EXPECT_TRUE(A->switch_to(order_only("rcm"), 4)) << "only one solve runs now";
  });
  const Solved outer = solve_with(*A, csr, cg, &outside);
  expect_same_bits(inner, plain);
  expect_same_course(outer, plain);
  ASSERT_EQ(A->failures().size(), 1u);
  EXPECT_EQ(A->failures()[0].failure, SwitchFailure::refused);
  EXPECT_NE(A->failures()[0].why.find("2 solves"), std::string::npos) << A->failures()[0].why;
}

// A format that rounds, in another order: diagonal and entries are those of the running matrix, in the caller's order.
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

// New values that memory is short for: the operator has the old ones, whatever it does afterwards.
TEST(OrderChanges, NewValuesWithoutMemoryLeaveTheOldOnes) {
  const CsrMatrix<double> csr = system_matrix(cg);
  const auto A = adaptive(csr, {.allow_inexact = true});
  FormatSpec copies{.entry = &rounded_format()};  // it allocates for new values
  copies.order = "rcm";
  ASSERT_TRUE(A->switch_to(copies, 0)) << A->failures().back().why;
  std::vector<double> old(csr.values, csr.values + csr.nonzeros());
  for (double& v : old) v = static_cast<float>(v);
  CsrMatrix<double> rounded = csr, doubled = csr;
  rounded.values = old.data();
  std::vector<double> twice(csr.values, csr.values + csr.nonzeros());
  for (double& v : twice) v *= 2;
  doubled.values = twice.data();
  int failed = 0;
  for (bool done = false; !done && failed < 50;) {
    SCOPED_TRACE(failed);
    const Revision before = A->revision();
    countdown = failed;
    detail::allocation_hook = fail_when_due;
    try {
      A->update_values(doubled);
      done = true;
    } catch (const OutOfMemory&) { ++failed; }
    detail::allocation_hook = nullptr;
    if (done) break;
    EXPECT_EQ(A->revision(), before);
    expect_callers_order(*A, rounded);
    ASSERT_TRUE(A->switch_to(both("csr", "rcm"), 1)) << A->failures().back().why;
    expect_callers_order(*A, csr);
    expect_reordered(*A, csr);
    ASSERT_TRUE(A->switch_to(copies, 2)) << A->failures().back().why;
  }
  EXPECT_GT(failed, 1);
  for (double& v : old) v *= 2;
  expect_callers_order(*A, rounded);
  ASSERT_TRUE(A->switch_to(both("csr", "length"), 3)) << A->failures().back().why;
  expect_callers_order(*A, doubled);
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

// Who follows the order gets a change ready first, and may refuse it.
TEST(OrderChanges, MayBeRefusedByWhoFollows) {
  struct Follower final : OrderFollower {
    int prepared = 0, adopted = 0, refusal = 0;
    std::int64_t rows = -1;
    Permuted permuted() const override { return {}; }
    void prepare_order(const Permutation& next) override {
      if (refusal == 1) throw std::bad_alloc();
      if (refusal == 2) throw NotAvailable("not now");
      if (refusal == 3) throw std::runtime_error("no luck");
      ++prepared, rows = next.size();
    }
    void adopt_order() noexcept override { ++adopted; }
  } follower;
  const CsrMatrix<double> csr = system_matrix(cg);
  const auto A = adaptive(csr);
  A->follow(follower);
  const SwitchFailure failures[] = {SwitchFailure::out_of_memory, SwitchFailure::refused,
                                    SwitchFailure::failed};
  for (follower.refusal = 1; follower.refusal <= 3; ++follower.refusal) {
    EXPECT_FALSE(A->switch_to(both("ell", "rcm"), 0));
    EXPECT_EQ(A->failures().back().failure, failures[follower.refusal - 1]) << A->failures().back().why;
    EXPECT_EQ(A->order_id(), "none");
    EXPECT_EQ(A->current().entry().id, "csr");
  }
  EXPECT_EQ(follower.adopted, 0);
  follower.refusal = 0;
  EXPECT_TRUE(A->switch_to(both("ell", "rcm"), 1));
  EXPECT_TRUE(A->switch_to(both("coo", ""), 2));
  EXPECT_EQ(follower.prepared, 1) << "a format alone is no change of order";
  EXPECT_EQ(follower.rows, csr.rows());
  EXPECT_TRUE(A->switch_to(order_only("none"), 3));
  EXPECT_EQ(follower.rows, 0);
  EXPECT_EQ(follower.adopted, 2);
  A->unfollow(follower);
  EXPECT_TRUE(A->switch_to(order_only("rcm"), 4));
  EXPECT_EQ(follower.prepared, 2);
  EXPECT_EQ(A->history().size(), 4u);
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

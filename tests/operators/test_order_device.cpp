// Changes of the order of the rows in the middle of a solve on a device: a GPU, and simulated ones of which one does
// steps before the host asks for them.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "core/allocation_hook.hpp"
#include "core/blas1.hpp"
#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/identical.hpp"
#include "core/ordering.hpp"
#include "core/parallel.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/rows.hpp"
#include "order_changes.hpp"
#include "solvers/format_schedule.hpp"
#include "support/elements.hpp"
#include "support/fake_device.hpp"

namespace protean::test {
namespace {

constexpr std::int64_t ahead = 5;  // more than a period of every method but gmres and idr

ContextPtr device_of(std::string_view place) {
  if (place == "simulated") return fake_device_context();
  if (place == "ahead") return fake_device_context({.steps_ahead = ahead, .steps_after_end = ahead});
  return test_context(Space::device);
}

const FormatEntry& format_of(const Context& context, std::string_view id) {
  return context.simulated() ? fake_format(id) : find_format(id);
}

class OnADevice {
 protected:
  void use(std::string_view place, const SwitchedSystem& system) {
    context_ = device_of(place);
    if (!context_) return;
    system_ = system, csr_ = system_matrix(system), there_ = upload(context_, csr_);
  }
  std::unique_ptr<Matrix<double>> adaptive(MatrixOptions options = {}) const {
    return std::make_unique<Matrix<double>>(there_, make_matrix(format("csr"), there_, context_),
                                            std::move(options));
  }
  const FormatEntry& format(std::string_view id) const { return format_of(*context_, id); }
  FormatSpec in(std::string_view id, std::string order) const {
    FormatSpec spec{.entry = &format(id)};
    spec.order = std::move(order);
    return spec;
  }
  Solved solve(const LinearOperator<double>& A, SolveObserver* observer) const {
    const auto M = preconditioner(preconditioner_, A);
    return solve_with(A, csr_, system_, observer, 1e-9, M.get());
  }
  std::vector<double> fetched_diagonal(const Matrix<double>& A) const {
    Placed<double> d(context_, std::vector<double>(static_cast<std::size_t>(csr_.rows()), 0.0));
    A.diagonal(d.view());
    return d.fetch();
  }
  // What any code that does not know of orders sees of the operator.
  void expect_callers_order(const Matrix<double>& A, const CsrMatrix<double>& csr) const {
    const auto plain = make_matrix(find_format("csr"), csr, test_context());
    const auto n = static_cast<std::size_t>(csr.rows());
    std::vector<double> v(n), expected(n), diagonal(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = std::sin(static_cast<double>(i));
    plain->apply({v.data(), csr.rows()}, {expected.data(), csr.rows()});
    plain->diagonal({diagonal.data(), csr.rows()});
    const Placed<double> x(context_, v);
    Placed<double> y(context_, v);
    A.apply(x.read(), y.view());
    const std::vector<double> found = y.fetch();
    for (std::size_t i = 0; i < n; ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << i;
    EXPECT_EQ(fetched_diagonal(A), diagonal);
    const std::optional<CsrMatrix<double>> rows = csr_of<double>(A);
    ASSERT_TRUE(rows);
    EXPECT_TRUE(identical(fetched(context_, *rows), csr));
  }
  ContextPtr context_;
  SwitchedSystem system_{};
  CsrMatrix<double> csr_, there_;
  std::string preconditioner_ = "none";
};

class OrderOnADevice : public OnADevice,
                       public testing::TestWithParam<std::tuple<SwitchedSystem, const char*, const char*>> {
 protected:
  void SetUp() override {
    use(std::get<2>(GetParam()), std::get<0>(GetParam()));
    if (!context_) GTEST_SKIP() << no_device;
    preconditioner_ = std::get<1>(GetParam());
    plain_ = solve(*adaptive(), nullptr);
    ASSERT_TRUE(plain_.report.converged());
  }
  void expect_course_of_plain(const Solved& solved) const {
    expect_same_course(solved, plain_);
    EXPECT_EQ(solved.report.restarts, plain_.report.restarts)
        << "the recurrence goes on, it does not begin again";
  }
  Solved plain_;
};
// A preconditioner that is no diagonal runs on one kind of simulated device, since its work there takes long.
std::vector<std::tuple<SwitchedSystem, const char*, const char*>> solves_on_devices() {
  std::vector<std::tuple<SwitchedSystem, const char*, const char*>> all;
  for (const SwitchedSystem& system : systems_of_all_methods())
    for (const char* preconditioner : {"none", "jacobi", "chebyshev"})
      for (const char* device : {"simulated", "ahead", "device"})
        if (std::string_view(preconditioner) != "chebyshev" || std::string_view(device) != "simulated")
          all.emplace_back(system, preconditioner, device);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Methods, OrderOnADevice, testing::ValuesIn(solves_on_devices()),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param).label) + "_" + std::get<1>(one.param) +
                                  "_" + std::get<2>(one.param);
                         });

// At exactly that iteration, or at some later one if the device is ahead of the host.
TEST_P(OrderOnADevice, AtEachIterationContinuesTheRecurrence) {
  // Work on simulated devices takes long.
  const bool gpu = !context_->simulated(), chebyshev = preconditioner_ == "chebyshev";
  for (const bool exact : {true, false})
    for (std::int64_t at = 0; at <= 20; ++at) {
      if (!gpu && (at > 4 || chebyshev) && at % 8 != 5) continue;
      if (!gpu && exact == (context_->simulated()->steps_ahead() > 0)) continue;
      SCOPED_TRACE(testing::Message() << at << (exact ? " exactly" : ""));
      const auto A = adaptive();
      std::int64_t before = -1;
      Between between([&](const IterationInfo& info) {
        if (info.iteration != at) return;
        before = A->products();
        EXPECT_EQ(A->in_order().products(), 0);
        ASSERT_TRUE(A->switch_to(order_only("rcm"), at, "a test")) << A->failures().back().why;
      });
      if (exact) between.stop = at;
      const Solved solved = solve(*A, &between);
      if (before < 0) break;
      expect_course_of_plain(solved);
      EXPECT_EQ(A->order_id(), "rcm");
      ASSERT_EQ(A->order().size(), csr_.rows());
      const CsrMatrix<double> expected =
          PermutedMatrix<double>(
              test_context(), csr_,
              Permutation(test_context(), {A->order().order().begin(), A->order().order().end()}))
              .matrix();
      EXPECT_TRUE(identical(fetched(context_, A->current().to_csr()), expected));
      if (!chebyshev) {
        EXPECT_EQ(A->in_order().products(), A->products() - before)
            << "a product after the change took vectors in the caller's order";
      }
      if (exact && at < 10) { EXPECT_GT(A->in_order().products(), 0); }
      if (at % 8 == 0) expect_callers_order(*A, csr_);
    }
}

// A device that has begun more steps than the observer wants to see drops what they would have changed.
TEST_P(OrderOnADevice, AStopWithoutAChangeChangesNothing) {
  for (std::int64_t at = 0; at <= 20; ++at) {
    if (context_->simulated() && at % 8 != 5) continue;
    SCOPED_TRACE(at);
    Between between([](const IterationInfo&) {});
    between.stop = at;
    expect_course_of_plain(solve(*adaptive(), &between));
  }
}

// From order to order, with and without another format, built while the solve waits and next to it, and back.
TEST_P(OrderOnADevice, OneAfterTheOther) {
  std::atomic<int> searches{0};
  const auto A = adaptive(
      {.find_order = [&](std::string_view id, const Context& context, const SparsityPattern& pattern) {
        ++searches;
        EXPECT_EQ(context.space(), Space::host);
        EXPECT_EQ(pattern.space, Space::host);
        return id == "backwards" ? reversed(pattern) : make_order(id, context, pattern);
      }});
  Between between([&](const IterationInfo& info) {
    const std::int64_t k = info.iteration;
    const auto change = [&](const FormatSpec& to) {
      EXPECT_TRUE(A->switch_to(to, k)) << A->failures().back().why;
    };
    if (k == 1) A->prepare(in("sell-c-sigma", "rcm"), "", 1);
    if (k == 2) {
      EXPECT_EQ(A->wait_prepared(), Preparation::ready);
      EXPECT_TRUE(A->adopt_prepared(2)) << A->failures().back().why;
    }
    if (k == 3) change(order_only("length"));
    if (k == 4) change(in("ell", ""));
    if (k == 5) change(in("csr", "none"));
    if (k == 6) change(order_only("backwards"));
    if (k == 7) change(order_only("rcm"));
  });
  expect_course_of_plain(solve(*A, &between));
  EXPECT_EQ(A->history().size(), 6u);
  EXPECT_TRUE(A->failures().empty());
  EXPECT_EQ(searches, 3) << "rcm was known";
  EXPECT_EQ(A->order_id(), "rcm");
  expect_callers_order(*A, csr_);
}

// The next solves begin in the order, with what the solver keeps: on a GPU also the recorded graph.
TEST_P(OrderOnADevice, IsKeptWithGraphAndVectorsForLaterSolves) {
  const auto A = adaptive();
  const auto M = preconditioner(preconditioner_, *A);
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-9, options.restart = system_.restart,
  options.device_steps = "graph";
  if (context_->simulated()) options.device_steps = "auto";
  const auto solver = make_solver<double>(system_.method, options);
  const std::vector<double> zero(static_cast<std::size_t>(csr_.rows()), 0.0);
  const Placed<double> b(context_, rhs_of(csr_));
  Placed<double> x(context_, zero);
  const auto run = [&](SolveObserver* observer) {
    fill<double>(*context_, 0.0, x.view());
    const SolveReport report = solver->solve(*A, b.read(), x.view(), M.get(), observer);
    EXPECT_TRUE(report.converged());
    return report;
  };
  Between change([&](const IterationInfo& info) {
    if (info.iteration == 5) { EXPECT_TRUE(A->switch_to(order_only("rcm"), 5)); }
  });
  change.stop = 5;
  const SolveReport first = run(&change);
  EXPECT_LE(std::abs(first.iterations - plain_.report.iterations), 1);
  const std::size_t bytes = allocated_bytes(*context_);
  const SolveReport second = run(nullptr), third = run(nullptr);
  EXPECT_EQ(allocated_bytes(*context_), bytes);
  if (system_.method != std::string_view("idr")) {
    EXPECT_LE(std::abs(second.iterations - first.iterations), 1);
  }
  EXPECT_EQ(third.iterations, second.iterations);
  if (!context_->simulated()) {
    EXPECT_EQ(first.steps, "graph");
    EXPECT_GE(first.graphs_recorded, 1);
    EXPECT_LE(second.graphs_recorded, 1) << "a change in the first cycle may not have been recorded";
    EXPECT_EQ(third.graphs_recorded, 0);
  }
  // New values and another format in that order.
  std::vector<double> twice(csr_.values, csr_.values + csr_.nonzeros());
  for (double& v : twice) v *= 2;
  const CsrMatrix<double> doubled = with_values(csr_, twice.data());
  A->update_values(upload(context_, doubled));
  if (M) M->ensure(*A);
  ASSERT_TRUE(A->switch_to(in("sell-c-sigma", ""), 0));
  run(nullptr);
  const std::vector<double> found = x.fetch();
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(2 * found[i], plain_.x[i], 1e-6) << i;
  EXPECT_EQ(A->order_id(), "rcm");
  expect_callers_order(*A, doubled);
  ASSERT_TRUE(A->switch_to(in("csr", "none"), 0));
  run(nullptr);
  const std::vector<double> last = x.fetch();
  for (std::size_t i = 0; i < last.size(); ++i) ASSERT_NEAR(2 * last[i], plain_.x[i], 1e-6) << i;
}

// New values in the middle of a solve in another order: it begins again with them.
TEST_P(OrderOnADevice, NewValuesInTheSolve) {
  std::vector<double> more(csr_.values, csr_.values + csr_.nonzeros());
  for (std::int64_t i = 0; i < csr_.rows(); ++i)
    for (std::int64_t k = csr_.pattern.row_ptr[i]; k < csr_.pattern.row_ptr[i + 1]; ++k)
      if (csr_.pattern.col[k] == i) more[k] *= 1.5 + 0.5 * static_cast<double>(i % 3);
  const CsrMatrix<double> other = with_values(csr_, more.data()), other_there = upload(context_, other);
  const auto A = adaptive();
  const auto M = preconditioner(preconditioner_, *A);
  Between between([&](const IterationInfo& info) {
    if (info.iteration == 3) { EXPECT_TRUE(A->switch_to(order_only("rcm"), 3)); }
    if (info.iteration != 5) return;
    A->update_values(other_there);
    if (M) M->ensure(*A);
  });
  const Solved solved = solve_with(*A, other, system_, &between, 1e-9, M.get());
  EXPECT_TRUE(solved.report.converged());
  EXPECT_GT(solved.report.restarts, 0);
  EXPECT_LE(solved.residual, 1e-9 * 1.001);
  expect_callers_order(*A, other);
}

// Everything that can go wrong leaves the solve as it was.
TEST_P(OrderOnADevice, FailuresLeaveTheSolveAsItWas) {
  const std::size_t bytes = allocated_bytes(*context_);
  std::atomic<int> waiting{0};
  const auto faulty = [&](std::string_view id, const Context&,
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
    return order;
  };
  const char* const faults[] = {"throws", "short", "twice"};
  for (const bool overlapped : {false, true}) {
    const auto A = adaptive({.find_order = faulty});
    Between between([&](const IterationInfo& info) {
      if (info.iteration < 3) {
        const FormatSpec to = in("sell-c-sigma", faults[info.iteration]);
        if (overlapped) {
          A->prepare(to, "", info.iteration);
          (void)A->wait_prepared();
          EXPECT_FALSE(A->adopt_prepared(info.iteration));
        } else {
          EXPECT_FALSE(A->switch_to(to, info.iteration));
        }
      }
      if (info.iteration == 3) {
        A->prepare(order_only("endless"), "", 3);
        while (waiting == (overlapped ? 1 : 0)) std::this_thread::yield();
      }
      if (info.iteration == 4) A->cancel(4, "the weather");
    });
    const Solved solved = solve(*A, &between);
    (void)A->wait_prepared();
    expect_course_of_plain(solved);
    if (context_->simulated()) expect_same_bits(solved, plain_);
    ASSERT_EQ(A->failures().size(), 4u);
    EXPECT_EQ(A->failures()[3].failure, SwitchFailure::cancelled);
    EXPECT_EQ(A->order_id(), "none");
    expect_callers_order(*A, csr_);
  }
  {  // no memory for the matrix in that order
    const auto A = adaptive({.memory_limit = csr_.bytes() + csr_.bytes() / 2});
    EXPECT_FALSE(A->switch_to(order_only("rcm"), 2));
    EXPECT_EQ(A->failures().back().failure, SwitchFailure::out_of_memory) << A->failures().back().why;
  }
  EXPECT_EQ(allocated_bytes(*context_), bytes);
}

class OrderInPlace : public OnADevice, public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    use(GetParam(), switched_systems[0]);
    if (!context_) GTEST_SKIP() << no_device;
  }
};
INSTANTIATE_TEST_SUITE_P(Places, OrderInPlace, testing::Values("simulated", "ahead", "device"),
                         [](const auto& one) { return std::string(one.param); });

std::atomic<int> countdown{-1};
void fail_when_due(Space, std::size_t bytes) {
  if (countdown.fetch_sub(1) == 0) throw OutOfMemory("a test let this allocation fail", bytes);
}

// Each allocation of a change fails once, on the host and on the device.
TEST_P(OrderInPlace, FailedAllocationsLeaveTheSolveAsItWas) {
  preconditioner_ = "jacobi";
  const Solved plain = solve(*adaptive(), nullptr);
  int failed = 0;
  for (int which = 0; which < 200; ++which) {
    SCOPED_TRACE(which);
    const auto A = adaptive();
    bool changed = false;
    Between between([&](const IterationInfo& info) {
      if (info.iteration != 3) return;
      countdown = which;
      detail::allocation_hook = fail_when_due;
      changed = A->switch_to(order_only("rcm"), 3);
      detail::allocation_hook = nullptr;
    });
    const Solved solved = solve(*A, &between);
    expect_same_course(solved, plain);
    EXPECT_EQ(solved.report.restarts, plain.report.restarts);
    if (changed) {
      EXPECT_GT(failed, 5);
      return;
    }
    ++failed;
    EXPECT_EQ(A->order_id(), "none");
    ASSERT_EQ(A->failures().size(), 1u);
    EXPECT_EQ(A->failures()[0].failure, SwitchFailure::out_of_memory) << A->failures()[0].why;
    if (failed > 3) which += 2;
  }
  FAIL() << "the change never succeeded";
}

// An observer that reads x sees it in the caller's order; the caller's null space is used in the running system.
TEST_P(OrderInPlace, ShowsXAndTakesTheNullSpaceOfTheCaller) {
  const std::int64_t n = csr_.rows();
  const auto v = [](std::int64_t i) { return 1 + 0.2 * static_cast<double>(i % 5); };
  std::vector<double> values(csr_.values, csr_.values + csr_.nonzeros());
  double length = 0, part = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t diagonal = -1;
    double sum = 0;
    for (std::int64_t k = csr_.pattern.row_ptr[i]; k < csr_.pattern.row_ptr[i + 1]; ++k) {
      if (const std::int64_t j = csr_.pattern.col[k]; i == j)
        diagonal = k;
      else
        sum += values[k] * v(j);
    }
    values[diagonal] = -sum / v(i);
    length += v(i) * v(i);
  }
  const CsrMatrix<double> csr = with_values(csr_, values.data());
  there_ = upload(context_, csr);
  std::vector<double> basis(static_cast<std::size_t>(n)), rhs = rhs_of(csr);
  for (std::int64_t i = 0; i < n; ++i) basis[i] = v(i) / std::sqrt(length), part += basis[i] * rhs[i];
  for (std::int64_t i = 0; i < n; ++i) rhs[i] -= part * basis[i];
  const Placed<double> N(context_, basis), b(context_, rhs);

  struct Reader final : SolveObserver {
    Matrix<double>* A = nullptr;
    const Placed<double>* x = nullptr;
    std::vector<double> seen;
    std::int64_t stop = 5;
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 5 && A) { EXPECT_TRUE(A->switch_to(order_only("rcm"), 5)); }
      if (info.iteration == 5) stop = 12;
      if (info.iteration == 12) seen = x->fetch();
      return true;
    }
    std::int64_t next_stop() const noexcept override { return stop; }
    bool reads_solution(const IterationInfo& info) const noexcept override { return info.iteration == 12; }
  };
  for (const char* method : {"cg", "fcg", "minres"}) {
    SCOPED_TRACE(method);
    std::vector<double> seen[2], solution[2];
    for (const bool reorder : {false, true}) {
      const auto A = adaptive();
      Placed<double> x(context_, std::vector<double>(static_cast<std::size_t>(n), 3.0));
      Reader reader;
      reader.A = reorder ? A.get() : nullptr, reader.x = &x;
      const auto solver = make_solver<double>(method, {.stopping = {.relative_tolerance = 1e-10}});
      solver->set_null_space({N.read().data, n, n, 1, Space::device});
      EXPECT_TRUE(solver->solve(*A, b.read(), x.view(), nullptr, &reader).converged());
      seen[reorder] = reader.seen, solution[reorder] = x.fetch();
    }
    double change = 0;
    for (std::size_t i = 0; i < basis.size(); ++i) {
      ASSERT_NEAR(seen[1][i], seen[0][i], 1e-6) << i;
      ASSERT_NEAR(solution[1][i], solution[0][i], 1e-6) << i;
      change = std::max(change, std::abs(solution[0][i] - seen[0][i]));
    }
    EXPECT_GT(change, 1e-3) << "x of iteration 12, not of the end";
  }
}

// By a schedule, at exact iterations, in a matrix that was put into an order before the solve.
TEST_P(OrderInPlace, ByAScheduleAfterAnOrderBeforeTheSolve) {
  const Solved plain = solve(*adaptive(), nullptr);
  PermutedMatrix<double> permuted(test_context(), there_, shuffle_of(context_, csr_.rows(), 5));
  auto start = make_matrix(format("csr"), permuted.matrix(), context_);
  Matrix<double> A(there_, "shuffled", std::move(permuted), std::move(start));
  expect_callers_order(A, csr_);
  for (const char* method : {"none", "jacobi"}) {
    preconditioner_ = method;
    if (A.order_id() != "shuffled") { ASSERT_TRUE(A.switch_to(in("csr", "shuffled"), 0)); }
    FormatSchedule<double> schedule(A, {{.at = 4, .to = order_only("rcm"), .overlapped = false},
                                        {.at = 9, .to = in("sell-c-sigma", "length"), .overlapped = false},
                                        {.at = 14, .to = order_only("none"), .overlapped = false},
                                        {.at = 17, .to = order_only("rcm"), .overlapped = false}});
    const Solved solved = solve(A, &schedule);
    schedule.finish();
    EXPECT_TRUE(solved.report.converged());
    EXPECT_LE(solved.residual, 1e-9 * 1.001);
    if (preconditioner_ == "none") expect_same_course(solved, plain);
    ASSERT_EQ(schedule.events().size(), 4u);
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(schedule.events()[k].action, ScheduleEvent::Action::switched) << schedule.events()[k].reason;
      EXPECT_EQ(schedule.events()[k].iteration, (std::vector<std::int64_t>{4, 9, 14, 17})[k]);
    }
  }
}

// A solve that keeps the matrix in shared memory refuses a change, even if it began in another order; its rows are then
// in that order.
TEST_P(OrderInPlace, AResidentSolveStaysAsItIs) {
  const auto A = adaptive();
  A->show_rows(true);
  const auto rows = [](const LinearOperator<double>& shown) {
    return dynamic_cast<const HasRowArrays<double>&>(shown).row_arrays().kind;
  };
  using Kind = RowArrays<double>::Kind;
  const bool gpu = !context_->simulated();
  const Solved plain = solve(*A, nullptr);
  ASSERT_TRUE(A->switch_to(order_only("rcm"), 0)) << A->failures().back().why;
  EXPECT_EQ(rows(*A), Kind::none) << "they are not in the caller's order";
  EXPECT_EQ(rows(A->in_order()), gpu ? Kind::csr : Kind::none);
  Between between([&](const IterationInfo& info) {
    if (info.iteration == 3 && gpu) { EXPECT_FALSE(A->switch_to(order_only("length"), 3)); }
  });
  const Solved solved = solve(*A, &between);
  expect_same_course(solved, plain);
  if (gpu) {
    EXPECT_EQ(solved.report.steps, plain.report.steps);
    if (solved.report.steps == "resident") { EXPECT_EQ(A->order_id(), "rcm"); }
  }
}

}  // namespace
}  // namespace protean::test

// Solves that change in the middle: their matrices, a problem on the host or on a simulated device, an observer that
// keeps what it has seen, a clock in which an iteration takes as long as its products, and allocations that fail.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "preconditioners/choice/change_rule.hpp"
#include "protean.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/grown.hpp"
#include "systems/seconds.hpp"

namespace protean::test {

inline double slowness = 1, passed = 0, seen_products = 0;
inline double clock_of_products() {
  const double now = products();
  passed += slowness * (now - seen_products), seen_products = now;
  return passed;
}
// The clock stands still for null, as it must before a matrix goes whose products are counted.
inline void count_products_of(const LinearOperator<double>* A) {
  counted_matrix = A;
  seen_products = products();
}

struct SeenIterations final : SolveObserver {
  bool on_iteration(const IterationInfo& info) override {
    infos.push_back(info);
    if (on_each) on_each(info);
    return info.iteration != stop_at;
  }
  std::vector<IterationInfo> infos;
  std::function<void(const IterationInfo&)> on_each;
  std::int64_t stop_at = -1;
};

// Entries of `csr` changed by f(row, column, value).
inline CsrMatrix<double> changed_entries(const CsrMatrix<double>& csr,
                                         const std::function<double(std::int64_t, std::int32_t, double)>& f) {
  std::vector<Triplet<double>> entries;
  for (std::int64_t r = 0; r < csr.rows(); ++r)
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
      entries.push_back(
          {static_cast<std::int32_t>(r), csr.pattern.col[k], f(r, csr.pattern.col[k], csr.values[k])});
  return csr_from_triplets<double>(test_context(), csr.rows(), csr.cols(), entries);
}

// A grid whose diagonal is not constant, since jacobi of a constant one is left out.
inline CsrMatrix<double> uneven_grid(double n = 80) {
  return changed_entries(generate(test_context(), "poisson-2d", {{"n", n}}),
                         [](std::int64_t r, std::int32_t c, double a) {
                           return r == c ? a + 1e-3 * static_cast<double>(r % 7) : a;
                         });
}

// Symmetric with a positive diagonal, and eigenvalues of both signs.
inline CsrMatrix<double> shifted_grid(double n = 24, double shift = 0.3) {
  return changed_entries(uneven_grid(n),
                         [&](std::int64_t r, std::int32_t c, double a) { return r == c ? a - shift : a; });
}

// The rows of the unit matrix in a circle: short cycles of gmres find nothing.
inline CsrMatrix<double> circle(std::int32_t n) {
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) entries.push_back({i, (i + 1) % n, 1.0});
  return csr_from_triplets<double>(test_context(), n, n, entries);
}

// Upper bidiagonal with entries over eight digits: gmres without a restart takes at most n iterations, methods with
// short recurrences thousands.
inline CsrMatrix<double> graded(std::int32_t n) {
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) {
    const double a = std::pow(10.0, -8.0 * i / n);
    entries.push_back({i, i, a});
    if (i + 1 < n) entries.push_back({i, i + 1, 0.3 * a});
  }
  return csr_from_triplets<double>(test_context(), n, n, entries);
}

struct ChangingProblem {
  explicit ChangingProblem(ContextPtr where = test_context(), CsrMatrix<double> matrix = uneven_grid())
      : context(std::move(where)), csr(std::move(matrix)) {
    for (std::int64_t i = 0; i < csr.rows(); ++i) b.push_back(std::sin(static_cast<double>(i + 1)));
  }
  SolveSettings settings(std::string_view method = "cg", std::string_view preconditioner = "auto") const {
    return {.method = std::string(method),
            .preconditioner = std::string(preconditioner),
            .format = "csr",
            .context = context};
  }
  std::unique_ptr<LinearSystem<double>> system(SolveSettings made) const {
    count_products_of(nullptr);
    if (context->space() == Space::host) return std::make_unique<LinearSystem<double>>(csr, std::move(made));
    made.format = "auto";
    std::shared_ptr<LinearOperator<double>> A =
        make_matrix(fake_format("csr"), upload(context, csr), context);
    return std::make_unique<LinearSystem<double>>(std::move(A), std::move(made));
  }
  SolveResult solve(LinearSystem<double>& system, SolveObserver* observer = nullptr) {
    count_products_of(nullptr);
    system.set_up();
    count_products_of(&system.A());
    const Placed<double> of(context, b);
    Placed<double> to(context, std::vector<double>(b.size(), 0.0));
    const SolveResult result = system.solve(of.read(), to.view(), observer);
    x = to.fetch();
    return result;
  }
  double residual() const { return residual_of(csr, b, x); }
  ContextPtr context;
  CsrMatrix<double> csr;
  std::vector<double> b, x;
};

inline void expect_one_numbering(const SeenIterations& seen, const SolveResult& result) {
  ASSERT_EQ(std::ssize(seen.infos), result.report.iterations + 1);
  for (std::int64_t i = 0; i <= result.report.iterations; ++i) {
    const IterationInfo& info = seen.infos[static_cast<std::size_t>(i)];
    ASSERT_EQ(info.iteration, i);
    EXPECT_NEAR(info.relative_residual * result.report.rhs_norm, info.residual, 1e-12 * info.residual);
    if (i == 0) continue;
    const IterationInfo& before = seen.infos[static_cast<std::size_t>(i - 1)];
    EXPECT_GE(info.seconds, before.seconds);
    EXPECT_GE(info.restarts, before.restarts);
  }
}

using Action = PreconditionerChange::Action;
using Steps = std::vector<std::string>;

// The clock is that of the test: an iteration takes as long as its products, and a setup nothing.
class ChangingSolves : public testing::Test {
 protected:
  void SetUp() override {
    Stopwatch::other_clock = clock_of_products;
    slowness = 1, passed = 0, count_products_of(nullptr);
  }
  void TearDown() override {
    Stopwatch::other_clock = nullptr, counted_matrix = nullptr;
    detail::other_change_candidates = {};
    detail::allocation_hook = nullptr;
  }
  // The only candidate, which costs next to nothing.
  void offer(std::string_view id, bool symmetric = true, double setup = 0.01, double application = 0.01) {
    candidates_ = {{id, Space::host, false, symmetric, false, 32, 0.01, application, setup, 1},
                   {id, Space::device, false, symmetric, false, 32, 0.01, application, setup, 1}};
    detail::other_change_candidates = candidates_;
  }
  void offer_nothing() { offer("amg", true, 1e9); }

 private:
  std::vector<detail::ChangeCandidate> candidates_;
};

inline std::vector<Action> actions_of(const SolveOutcome& result) {
  std::vector<Action> all;
  for (const PreconditionerChange& one : result.preconditioner_changes) all.push_back(one.action);
  return all;
}

// "cg -> minres", "not idr"
inline Steps steps_of(const SolveOutcome& result) {
  Steps steps;
  for (const MethodChange& one : result.method_changes)
    steps.push_back(one.action == MethodChange::Action::changed ? one.from + " -> " + one.to
                                                                : "not " + one.to);
  return steps;
}

// From here on the allocation with this number is refused, counted while `armed` says so.
inline std::int64_t allocations = 0, fail_at = 0;
inline bool armed = false, failed = false;
inline void refuse_allocation(std::int64_t number) {
  allocations = 0, fail_at = number, armed = failed = false;
  detail::allocation_hook = [](Space, std::size_t bytes) {
    if (!armed || failed || ++allocations != fail_at) return;
    failed = true;
    throw OutOfMemory("refused by the test", bytes);
  };
}

// A default solver of C says in its reason that method auto went from cg to minres. call: a solve.
inline void expect_said_in_c(const CsrMatrix<double>& csr,
                             const std::function<protean_status(protean_solver*, protean_matrix*)>& call) {
  std::vector<std::int32_t> row_ptr;
  for (std::int64_t r = 0; r <= csr.rows(); ++r)
    row_ptr.push_back(static_cast<std::int32_t>(csr.pattern.row_ptr[r]));
  protean_context* context = nullptr;
  protean_matrix* matrix = nullptr;
  protean_solver* solver = nullptr;
  ASSERT_EQ(protean_context_host(1, &context), PROTEAN_OK);
  ASSERT_EQ(protean_matrix_csr(context, csr.rows(), csr.cols(), csr.nonzeros(), row_ptr.data(),
                               csr.pattern.col, csr.values, 0, &matrix),
            PROTEAN_OK)
      << protean_last_error();
  ASSERT_EQ(protean_solver_create(nullptr, nullptr, &solver), PROTEAN_OK);
  EXPECT_EQ(call(solver, matrix), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_solver_method(solver), "minres");
  EXPECT_TRUE(has(protean_solver_method_reason(solver), "minres took the place of cg at iteration"))
      << protean_solver_method_reason(solver);
  protean_solver_free(solver), protean_matrix_free(matrix), protean_context_free(context);
}

}  // namespace protean::test

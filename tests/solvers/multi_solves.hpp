// Solves of several columns, compared with a solve of each.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "support/multi.hpp"

namespace protean::test {

// In host memory, and on a GPU if there is one.
class MultiSolve : public testing::TestWithParam<Space> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam());
    if (!context_) GTEST_SKIP() << no_device;
  }
  ContextPtr context_;
};

inline constexpr MultiShape by_columns{VectorLayout::columns, 0}, interleaved{VectorLayout::interleaved, 0};

template <class T>
CsrMatrix<T> system_of(const std::string& name, std::int64_t n) {
  const CsrMatrix<double> csr = generate(test_context(), name, {{"n", static_cast<double>(n)}});
  if constexpr (sizeof(T) == 8)
    return csr;
  else
    return convert_values<float>(test_context(), csr);
}

template <class T>
Columns<T> zeros(std::int64_t rows, std::int64_t count) {
  return Columns<T>(static_cast<std::size_t>(count), std::vector<T>(static_cast<std::size_t>(rows), T(0)));
}

template <class T>
struct MultiSolved {
  MultiSolveReport report;
  Columns<T> x;
};

template <class T>
MultiSolved<T> solve_all(MultiSolver<T>& solver, const ContextPtr& context, const LinearOperator<T>& A,
                         const Columns<T>& b, const Columns<T>& x0, const MultiShape& shape = by_columns,
                         const Preconditioner<T>* M = nullptr, std::span<const StoppingRule> rules = {},
                         MultiSolveObserver* observer = nullptr) {
  PlacedColumns<T> B(context, b, A.rows(), shape), X(context, x0, A.rows(), shape);
  MultiSolved<T> solved;
  solved.report = solver.solve(A, B.read(), X.view(), M, observer, rules);
  solved.x = X.fetch();
  EXPECT_TRUE(X.gaps_are_untouched());
  EXPECT_EQ(solved.report.columns.size(), b.size());
  return solved;
}

template <class T>
struct OneSolved {
  SolveReport report;
  std::vector<T> x;
};
template <class T>
OneSolved<T> solve_one(const ContextPtr& context, const LinearOperator<T>& A, const std::vector<T>& b,
                       const std::vector<T>& x0, const Preconditioner<T>* M, const SolverOptions& options,
                       std::string_view method = "cg") {
  const Placed<T> pb(context, b);
  Placed<T> px(context, x0);
  OneSolved<T> solved;
  solved.report = make_solver<T>(method, options)->solve(A, pb.read(), px.view(), M);
  solved.x = px.fetch();
  return solved;
}

// BiCGStab and methods like it amplify the rounding of sums in another order, by a factor of 10 to 100 in each step.
inline bool amplifies_rounding(std::string_view method) {
  return method == "bicgstab" || method == "bicgstab2" || method == "idr";
}

// Each column against a separate solve. For methods that amplify rounding the first steps are compared, and for long
// solves the results.
template <class T>
void expect_like_single_solves(const CsrMatrix<T>& csr, const ContextPtr& context, const LinearOperator<T>& A,
                               const MultiSolved<T>& solved, const Columns<T>& b, const Columns<T>& x0,
                               const Preconditioner<T>* M, const SolverOptions& options,
                               std::span<const StoppingRule> rules = {}, std::string_view method = "cg") {
  for (std::size_t j = 0; j < b.size(); ++j) {
    SCOPED_TRACE("column " + std::to_string(j));
    SolverOptions own = options;
    if (!rules.empty()) own.stopping = rules[j];
    const OneSolved<T> one = solve_one<T>(context, A, b[j], x0[j], M, own, method);
    const SolveReport& found = solved.report.columns[j];
    EXPECT_EQ(to_string(found.reason), to_string(one.report.reason)) << found.detail;
    const bool amplified = amplifies_rounding(method);
    const bool exact = !amplified || one.report.iterations * find_solver(method).products <= 10;
    if (exact) {
      EXPECT_LE(std::abs(found.iterations - one.report.iterations), 1);
      EXPECT_EQ(found.restarts, one.report.restarts);
    } else {
      EXPECT_LE(found.iterations, 2 * one.report.iterations + 5);
      EXPECT_GE(found.iterations, one.report.iterations / 2 - 5);
    }
    if (!std::isfinite(one.report.true_residual)) continue;
    EXPECT_NEAR(found.rhs_norm, one.report.rhs_norm, 1e-5 * one.report.rhs_norm);
    // The report describes the x that was returned: a column that changed after its end would not pass.
    const double eps = std::numeric_limits<T>::epsilon();
    EXPECT_NEAR(found.true_residual, residual_of(csr, b[j], solved.x[j]), 200 * eps * found.rhs_norm + 1e-30);
    if (found.iterations != one.report.iterations || !exact) continue;
    // The same number of steps of the same recurrences: the same x within rounding.
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < one.x.size(); ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(solved.x[j][i]) - one.x[i]));
      size = std::max(size, std::abs(static_cast<double>(one.x[i])));
    }
    EXPECT_LE(difference, std::min(amplified ? 1e7 * eps : 1e4 * eps, 1e-3) * size);
  }
}

}  // namespace protean::test

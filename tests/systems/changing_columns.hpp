// Solves with several right-hand sides that change in the middle: their problem, and an observer that keeps what it has
// seen.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/multi.hpp"
#include "systems/changing_solves.hpp"

namespace protean::test {

struct ColumnsSeen final : MultiSolveObserver {
  bool on_iteration(const MultiIterationInfo& info) override {
    iterations.push_back(info.iteration), seconds.push_back(info.seconds);
    residuals.emplace_back(info.residuals.begin(), info.residuals.end());
    relative.emplace_back(info.relative_residuals.begin(), info.relative_residuals.end());
    runs.emplace_back(info.runs.begin(), info.runs.end());
    if (on_each) on_each(info);
    return info.iteration != stop_at;
  }
  bool reads_solution(const MultiIterationInfo&) const noexcept override { return reads; }

  std::vector<std::int64_t> iterations;
  std::vector<double> seconds;
  std::vector<std::vector<double>> residuals, relative;
  std::vector<std::vector<unsigned char>> runs;
  std::function<void(const MultiIterationInfo&)> on_each;
  std::int64_t stop_at = -1;
  bool reads = false;
};

struct ChangingColumns : ChangingProblem {
  explicit ChangingColumns(ContextPtr where = test_context(), CsrMatrix<double> matrix = uneven_grid(),
                           std::int64_t count = 3)
      : ChangingProblem(std::move(where), std::move(matrix)),
        B(sample_columns<double>(csr.rows(), count, 5)) {
    B[0] = b;
  }
  MultiSolveResult solve_columns(LinearSystem<double>& system, MultiSolveObserver* observer = nullptr,
                                 std::span<const StoppingRule> rules = {}) {
    count_products_of(nullptr);
    system.set_up(std::ssize(B));
    count_products_of(&system.A());
    const std::int64_t n = csr.rows();
    PlacedColumns<double> from(context, B, n, columns_shape),
        to(context, Columns<double>(B.size(), std::vector<double>(static_cast<std::size_t>(n), 0.0)), n,
           columns_shape);
    placed = &to;
    MultiSolveResult result = system.multi_solve(from.read(), to.view(), observer, rules);
    X = to.fetch(), placed = nullptr;
    return result;
  }
  // What the caller's X has in the middle of a solve.
  Columns<double> present() const { return placed->fetch(); }

  // Each column has its tolerance, and its report is true.
  void expect_solved(const MultiSolveResult& result, double tolerance = 1e-8) const {
    for (std::size_t j = 0; j < B.size(); ++j) {
      const SolveReport& one = result.report.columns[j];
      EXPECT_TRUE(one.converged()) << "column " << j << ": " << to_string(one.reason) << " " << one.detail;
      EXPECT_LE(residual_of(csr, B[j], X[j]), 1.01 * tolerance * one.rhs_norm) << "column " << j;
    }
    expect_true(result);
  }
  void expect_true(const MultiSolveResult& result) const {
    for (std::size_t j = 0; j < B.size(); ++j)
      EXPECT_NEAR(residual_of(csr, B[j], X[j]), result.report.columns[j].true_residual,
                  1e-10 * result.report.columns[j].rhs_norm)
          << "column " << j;
  }

  Columns<double> B, X;
  PlacedColumns<double>* placed = nullptr;
};

// Outside it is one solve. A device reports several iterations in one call.
inline void expect_one_numbering(const ColumnsSeen& seen, const MultiSolveResult& result, bool each = true) {
  ASSERT_FALSE(seen.iterations.empty());
  EXPECT_EQ(seen.iterations.front(), 0);
  // Different columns may have the most iterations in different parts, so that no column has had all.
  if (each) { EXPECT_GE(seen.iterations.back() + 1, result.report.iterations); }
  for (std::size_t i = 1; i < seen.iterations.size(); ++i) {
    if (each) {
      EXPECT_EQ(seen.iterations[i], seen.iterations[i - 1] + 1);
    } else {
      EXPECT_GT(seen.iterations[i], seen.iterations[i - 1]);
    }
    EXPECT_GE(seen.seconds[i], seen.seconds[i - 1]);
  }
  for (std::size_t j = 0; j < result.report.columns.size(); ++j) {
    EXPECT_NEAR(seen.residuals.front()[j], result.report.columns[j].initial_residual,
                1e-12 * result.report.columns[j].initial_residual);
    for (std::size_t i = 0; i < seen.iterations.size(); ++i)
      EXPECT_NEAR(seen.relative[i][j] * result.report.columns[j].rhs_norm, seen.residuals[i][j],
                  1e-12 * seen.residuals[i][j]);
  }
}

class ColumnsChanges : public ChangingSolves {};

inline std::vector<ContextPtr> all_spaces() {
  return {test_context(), fake_device_context(), fake_device_context({.steps_ahead = 3})};
}
// A simulated device opens its memory for each piece of work.
inline CsrMatrix<double> grid_for(const ContextPtr& context) {
  return uneven_grid(context->space() == Space::host ? 80 : 40);
}
inline bool runs_ahead(const ContextPtr& context) {
  return context->simulated() && context->simulated()->steps_ahead() > 0;
}

}  // namespace protean::test

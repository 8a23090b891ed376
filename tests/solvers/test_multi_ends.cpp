// How each of several right-hand sides ends: in its own way, by its own rule, and without harm to the others.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/multi_product.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/multi_solves.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

// Column 0 breaks down in its first step, since r0 . A r0 = 0 for a skew-symmetric block; others converge, one is not
// finite, one is zero. A column that has ended does no harm to the others.
TEST_P(MultiSolve, ColumnsOfBiCgStabEndInTheirOwnWay) {
  constexpr std::int64_t n = 40;
  std::vector<Triplet<double>> entries = {{0, 1, 1.0}, {1, 0, -1.0}};
  for (std::int32_t i = 2; i < n; ++i) {
    entries.push_back({i, i, 4.0 + i % 3});
    if (i + 1 < n) entries.push_back({i, i + 1, -1.0});
    if (i > 2) entries.push_back({i, i - 1, -2.0});
  }
  const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  auto b = sample_columns<double>(n, 6, 1);
  for (auto& column : b) column[0] = column[1] = 0;
  b[0].assign(n, 0.0), b[0][0] = 1;
  b[3][7] = std::numeric_limits<double>::infinity();
  b[4].assign(n, 0.0);
  MultiSolver<double> solver("bicgstab");
  const auto x0 = zeros<double>(n, 6);
  const auto solved = solve_all<double>(solver, context_, *A, b, x0);
  const auto& columns = solved.report.columns;
  EXPECT_EQ(columns[0].reason, StopReason::breakdown) << columns[0].detail;
  EXPECT_EQ(columns[1].reason, StopReason::relative_tolerance);
  EXPECT_EQ(columns[3].reason, StopReason::not_finite);
  EXPECT_EQ(columns[4].reason, StopReason::zero_right_hand_side);
  EXPECT_EQ(columns[5].reason, StopReason::relative_tolerance);
  expect_like_single_solves<double>(csr, context_, *A, solved, b, x0, nullptr, {}, {}, "bicgstab");
  EXPECT_EQ(solver.name(), "bicgstab");
}

// rho becomes 0 in the middle of a solve: the column begins again from b - A x, as a single solve does.
TEST_P(MultiSolve, BiCgStabRestartsAfterABreakdown) {
  const auto csr = system_of<double>("convection-diffusion-3d", 6);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  // A tolerance out of reach: the solve goes on where the residual has no digits left, until a scalar counts as zero.
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-17, options.stopping.max_iterations = 2000;
  const auto b = sample_columns<double>(csr.rows(), 5, 4);
  MultiSolver<double> solver("bicgstab", options);
  const auto solved = solve_all<double>(solver, context_, *A, b, zeros<double>(csr.rows(), 5));
  for (std::size_t j = 0; j < b.size(); ++j) {
    const SolveReport& column = solved.report.columns[j];
    EXPECT_FALSE(column.converged());
    EXPECT_GE(column.restarts, 1) << to_string(column.reason) << ": " << column.detail;
    EXPECT_LE(column.true_residual, 1e-14 * column.rhs_norm);
    EXPECT_NEAR(column.true_residual, residual_of(csr, b[j], solved.x[j]), 1e-14 * column.rhs_norm);
  }
}

// Blocks on the diagonal: one of 6 rows, where GMRES ends in 6 steps or fewer, a zero row, and a long one with slow
// convergence.
CsrMatrix<double> blocks_of(std::int64_t n, bool singular) {
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) {
    if (singular && i == 6) continue;
    entries.push_back({i, i, i < 6 ? 2.0 + i : 2.1});
    const bool first = i == 0 || i == 6 || i == 7, last = i == 5 || i == 6 || i == n - 1;
    if (!first) entries.push_back({i, i - 1, -1.2});
    if (!last) entries.push_back({i, i + 1, -0.8});
  }
  return csr_from_triplets<double>(test_context(), n, n, entries);
}

// One column is in the span of one step, one in the range of nothing, one is not finite, one zero, one solved; the
// others converge after some cycles. Of those some end in the middle of a cycle.
TEST_P(MultiSolve, ColumnsOfGmresEndInTheirOwnWay) {
  constexpr std::int64_t n = 80;
  const auto csr = blocks_of(n, true);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  auto b = sample_columns<double>(n, 9, 1);
  auto x0 = zeros<double>(n, 9);
  for (auto& column : b) column[6] = 0;
  for (const std::size_t j : {0u, 1u, 2u}) b[j].assign(n, 0.0);
  b[0][2] = 1, b[0][3] = 2;  // 6 steps: a happy breakdown
  b[1][6] = 1;               // A v_0 = 0
  b[4][9] = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i) x0[5][static_cast<std::size_t>(i)] = static_cast<double>(i % 3);
  b[5].assign(n, 0.0);
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
      b[5][static_cast<std::size_t>(r)] +=
          csr.values[k] * x0[5][static_cast<std::size_t>(csr.pattern.col[k])];
  b[8][6] = 0.5;  // the residual cannot fall below 0.5
  SolverOptions options;
  options.restart = 25;
  MultiSolver<double> solver("gmres", options);
  const auto solved = solve_all<double>(solver, context_, *A, b, x0);
  const auto& columns = solved.report.columns;
  EXPECT_EQ(solver.name(), "gmres");
  EXPECT_EQ(columns[0].reason, StopReason::relative_tolerance) << columns[0].detail;
  EXPECT_LE(columns[0].iterations, 6);
  EXPECT_EQ(columns[1].reason, StopReason::breakdown) << columns[1].detail;
  EXPECT_EQ(columns[2].reason, StopReason::zero_right_hand_side);
  EXPECT_EQ(columns[3].reason, StopReason::relative_tolerance);
  EXPECT_GT(columns[3].restarts, 0);
  EXPECT_EQ(columns[4].reason, StopReason::not_finite);
  EXPECT_EQ(columns[5].iterations, 0);
  EXPECT_FALSE(columns[8].converged());
  EXPECT_NEAR(columns[8].true_residual, 0.5, 1e-6);
  b.pop_back();  // entry 6 of its x may be any number
  expect_like_single_solves<double>(csr, context_, *A, solved, b, x0, nullptr, options, {}, "gmres");
}

// Column 0 begins far from its solution: x0 + V y has lost 10 digits when its recurrence ends, after 6 steps of a
// cycle, and it must begin again. The others are in the middle of a cycle then, and neither wait nor count other steps
// for it.
TEST_P(MultiSolve, AColumnOfGmresBeginsAgainWhileOthersAreInTheirCycle) {
  constexpr std::int64_t n = 80, k = 6;
  const auto csr = blocks_of(n, false);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  for (const char* id : {"none", "jacobi", "gauss-seidel"})
    for (const bool alone : {false, true}) {
      SCOPED_TRACE(std::string(id) + (alone ? ", no other column" : ""));
      const auto M = make_preconditioner<double>(id, *A);
      if (M) M->ensure(*A);
      auto b = sample_columns<double>(n, alone ? 2 : k, 1);
      auto x0 = zeros<double>(n, alone ? 2 : k);
      const std::size_t far = alone ? 2 : 1;  // so many columns begin far away
      for (std::size_t j = 0; j < far; ++j)
        for (std::size_t i = 0; i < n; ++i) {
          if (i >= 6) b[j][i] = 0;
          x0[j][i] = i < 6 ? 1e10 * static_cast<double>(1 + (i + j) % 3) : 0.0;
        }
      SolverOptions options;
      options.restart = 20, options.stopping.relative_tolerance = 1e-12;
      options.stopping.divergence = 1e30;
      MultiSolver<double> solver("gmres", options);
      const auto solved = solve_all<double>(solver, context_, *A, b, x0, interleaved, M.get());
      EXPECT_TRUE(solved.report.converged());
      for (std::size_t j = 0; j < far; ++j) {
        EXPECT_EQ(solved.report.columns[j].restarts, 1);
        EXPECT_GT(solved.report.columns[j].iterations, 6);
        EXPECT_LE(solved.report.columns[j].iterations, 12);
      }
      expect_like_single_solves<double>(csr, context_, *A, solved, b, x0, M.get(), options, {}, "gmres");
    }
}

TEST_P(MultiSolve, StagnationOfGmresIsNamed) {
  const auto csr = system_of<float>("convection-diffusion-3d", 8);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  SolverOptions options;
  options.restart = 100, options.stopping.relative_tolerance = 1e-12;
  const auto b = sample_columns<float>(csr.rows(), 5, 1);
  MultiSolver<float> solver("gmres", options);
  const auto solved = solve_all<float>(solver, context_, *A, b, zeros<float>(csr.rows(), 5), interleaved);
  for (std::size_t j = 0; j < b.size(); ++j) {
    const OneSolved<float> one =
        solve_one<float>(context_, *A, b[j], zeros<float>(csr.rows(), 1)[0], nullptr, options, "gmres");
    EXPECT_EQ(to_string(solved.report.columns[j].reason), to_string(one.report.reason));
    EXPECT_FALSE(solved.report.columns[j].converged());
    EXPECT_NEAR(solved.report.columns[j].true_residual, residual_of(csr, b[j], solved.x[j]),
                1e-5 * one.report.rhs_norm);
  }
}

// More memory than there is: refused before any of it is taken, in words that say what to do.
TEST_P(MultiSolve, ABasisThatDoesNotFitIsRefused) {
  if (GetParam() == Space::device) GTEST_SKIP() << "a GPU refuses it when the memory is asked for";
  const auto csr = system_of<double>("poisson-2d", 800);
  const std::int64_t n = csr.rows(), k = 4;
  const auto A = make_matrix(find_format("csr"), csr, context_);
  MultiVector<double> B(context_, n, k), X(context_, n, k);
  SolverOptions options;
  options.restart = 100000;
  MultiSolver<double> solver("gmres", options);
  try {
    (void)solver.solve(*A, B, X);
    FAIL();
  } catch (const OutOfMemory& refused) {
    EXPECT_NE(std::string(refused.what()).find("restart 100000 and 4 right-hand sides"), std::string::npos)
        << refused.what();
  }
}

// Causes that only a second look finds are the same as in single solves.
TEST_P(MultiSolve, CausesAreFound) {
  auto csr = system_of<double>("poisson-2d", 8);
  const auto scaled = [&](double factor) {
    const auto copy = deep_copy(test_context(), csr);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
      const_cast<double*>(copy.values)[k] = csr.values[k] * factor;
    return copy;
  };
  for (const double factor : {-1.0, 1e-170}) {
    const auto matrix = scaled(factor);
    const auto A = make_matrix(find_format("csr"), placed(context_, matrix), context_);
    auto b = sample_columns<double>(csr.rows(), 3, 1);
    for (auto& column : b)
      for (double& entry : column) entry *= std::abs(factor);
    MultiSolver<double> solver;
    const auto solved = solve_all<double>(solver, context_, *A, b, zeros<double>(csr.rows(), 3));
    expect_like_single_solves<double>(matrix, context_, *A, solved, b, zeros<double>(csr.rows(), 3), nullptr,
                                      {});
    EXPECT_EQ(solved.report.columns[0].reason,
              factor < 0 ? StopReason::negative_definite : StopReason::underflow);
  }
}

// The tolerance is out of reach of single precision: restarts, then stagnation.
TEST_P(MultiSolve, StagnationIsNamed) {
  const auto csr = system_of<float>("poisson-2d", 24);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-12;
  const auto b = sample_columns<float>(csr.rows(), 5, 1);
  MultiSolver<float> solver("cg", options);
  const auto solved = solve_all<float>(solver, context_, *A, b, zeros<float>(csr.rows(), 5), interleaved);
  for (std::size_t j = 0; j < b.size(); ++j) {
    const OneSolved<float> one =
        solve_one<float>(context_, *A, b[j], zeros<float>(csr.rows(), 1)[0], nullptr, options);
    EXPECT_EQ(to_string(solved.report.columns[j].reason), to_string(one.report.reason));
    EXPECT_FALSE(solved.report.columns[j].converged());
    EXPECT_NEAR(solved.report.columns[j].true_residual, residual_of(csr, b[j], solved.x[j]),
                1e-5 * one.report.rhs_norm);
  }
}

void limits_are_of_the_column(const ContextPtr& context_, const std::string& method) {
  const auto csr = system_of<double>("poisson-2d", 24);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  const auto b = sample_columns<double>(csr.rows(), 5, 1);
  std::vector<StoppingRule> rules(5);
  rules[0].max_iterations = 0, rules[1].max_iterations = 7, rules[2].relative_tolerance = 0,
  rules[2].absolute_tolerance = 1e-3;
  rules[3].baseline = Baseline::initial_residual, rules[4].max_iterations = 8;
  SolverOptions options;
  options.restart = 8;
  options = options_read_by(method, options);
  MultiSolver<double> solver(method, options);
  const auto solved =
      solve_all<double>(solver, context_, *A, b, zeros<double>(csr.rows(), 5), by_columns, nullptr, rules);
  expect_like_single_solves<double>(csr, context_, *A, solved, b, zeros<double>(csr.rows(), 5), nullptr,
                                    options, rules, method);
  EXPECT_EQ(solved.report.columns[0].iterations, 0);
  EXPECT_EQ(solved.report.columns[1].iterations, 7);
  EXPECT_EQ(solved.report.columns[1].reason, StopReason::max_iterations);
  EXPECT_EQ(solved.report.columns[2].reason, StopReason::absolute_tolerance);
  EXPECT_EQ(solved.report.columns[4].iterations, 8);
}
TEST_P(MultiSolve, LimitsAreThoseOfTheColumn) { limits_are_of_the_column(context_, "cg"); }
TEST_P(MultiSolve, LimitsOfGmresAreThoseOfTheColumn) { limits_are_of_the_column(context_, "gmres"); }

// After new values the residual is far above the smallest one so far. The window of stagnation must begin anew, and so
// must the goal.
TEST(MultiSolvers, WithNewValuesTheWindowOfStagnationBeginsAnew) {
  struct Changer final : MultiSolveObserver {
    bool on_iteration(const MultiIterationInfo& info) override {
      if (info.iteration == 30) A->update_values(*values);
      return true;
    }
    AssembledMatrix<double>* A = nullptr;
    const CsrMatrix<double>* values = nullptr;
  } changer;
  const auto csr = system_of<double>("poisson-2d", 20);
  const auto other = deep_copy(test_context(), csr);
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(other.values)[k] *= 2;
  for (const std::string_view method : multi_methods()) {
    const auto A = make_matrix(find_format("csr"), csr, test_context());
    changer.A = A.get(), changer.values = &other;
    SolverOptions options;
    options.restart = 100, options.stopping.stagnation_window = 14,
    options.stopping.relative_tolerance = 1e-13;
    MultiSolver<double> solver(method, options_read_by(method, options));
    const auto b = sample_columns<double>(csr.rows(), 3, 1);
    const auto solved = solve_all<double>(solver, test_context(), *A, b, zeros<double>(csr.rows(), 3),
                                          by_columns, nullptr, {}, &changer);
    for (const SolveReport& column : solved.report.columns)
      EXPECT_TRUE(column.converged()) << method << " " << to_string(column.reason) << " " << column.detail;
  }
}

// The recurrence falls because of one wrong product; the column then begins anew from b - A x, and its window with it.
TEST(MultiSolvers, AfterARestartFromTheTruthTheWindowOfStagnationBeginsAnew) {
  for (const char* method : {"cg", "bicgstab"}) {
    DenseOperator<double> A(convection_2d(9, 0));
    A.after = [](std::int64_t product, VectorView<double> y) {
      if (product == 8)
        for (std::int64_t i = 0; i < y.size; ++i) y[i] *= 1 + 1e-2 * static_cast<double>(i % 3);
    };
    SolverOptions options;
    options.stopping.stagnation_window = 14;
    MultiSolver<double> solver(method, options_read_by(method, options));
    const Columns<double> b = {right_hand_side<double>(81)};
    const auto solved = solve_all<double>(solver, test_context(), A, b, zeros<double>(81, 1));
    const SolveReport& column = solved.report.columns[0];
    EXPECT_EQ(column.reason, StopReason::relative_tolerance)
        << method << ": " << to_string(column.reason) << " " << column.detail;
    EXPECT_GE(column.restarts, 1) << method;
  }
}

// As Restarts.OneWithoutProgressIsForgottenAfterOneWithProgress, for a column: one unknown, one step, and then b - A x,
// which the test falsifies.
TEST(MultiSolvers, ARestartWithoutProgressIsForgottenAfterOneWithProgress) {
  const auto restart_with = [](const std::vector<double>& residuals) {
    DenseOperator<double> A(diagonal_matrix({1}));
    A.after = [&](std::int64_t product, VectorView<double> y) {
      if (product == 1 || product % 2 == 0) return;
      const auto k = static_cast<std::size_t>(product / 2 - 1);
      y[0] = 1 - (k < residuals.size() ? residuals[k] : 0);
    };
    MultiSolver<double> solver("cg");
    return solve_all<double>(solver, test_context(), A, {{1.0}}, {{0.0}}).report.columns[0];
  };
  SolveReport report = restart_with({0.5, 0.5, 0.1, 0.1, 0.01});
  EXPECT_EQ(report.reason, StopReason::relative_tolerance) << to_string(report.reason) << report.detail;
  EXPECT_EQ(report.restarts, 5);
  report = restart_with({0.5, 0.5, 0.5, 0.1, 0.01});
  EXPECT_EQ(report.reason, StopReason::stagnation);
  EXPECT_EQ(report.restarts, 2);
}

// A symmetric preconditioner that is no diagonal and takes all columns in one pass, wanted or not.
class TridiagonalForColumns final : public Preconditioner<double>, public HasMultiProduct<double> {
 public:
  using Preconditioner<double>::Preconditioner;
  std::string_view name() const noexcept override { return "tridiagonal"; }
  void do_multi_apply(double alpha, MultiVectorView<const double> X, double beta,
                      MultiVectorView<double> Y) const override {
    for (std::int64_t j = 0; j < X.columns; ++j)
      for (std::int64_t i = 0; i < X.rows; ++i) {
        // The first 6 unknowns are not coupled with the others, as in blocks_of().
        const double before = i > 0 && i != 6 ? X(i - 1, j) : 0,
                     after = i != 5 && i + 1 < X.rows ? X(i + 1, j) : 0;
        const double z = 0.5 * X(i, j) + 0.1 * (before + after);
        Y(i, j) = alpha * z + (beta == 0 ? 0 : beta * Y(i, j));
      }
  }

 protected:
  void setup(const LinearOperator<double>&, bool) override {}
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    do_multi_apply(alpha, {x.data, x.size, 1, x.size}, beta, {y.data, y.size, 1, y.size});
  }
};

// Column 0 begins again from b - A x, after few steps, since it came from far away. The others are in the middle of
// their steps, and what they keep from step to step must stay.
TEST(MultiSolvers, AColumnThatBeginsAgainLeavesTheOthersAlone) {
  constexpr std::int64_t n = 80, k = 4;
  const auto csr = blocks_of(n, false);
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  const TridiagonalForColumns M(test_context(), A->shape());
  auto b = sample_columns<double>(n, k, 1);
  auto x0 = zeros<double>(n, k);
  for (std::size_t i = 0; i < n; ++i) {
    if (i >= 6) b[0][i] = 0;
    x0[0][i] = i < 6 ? 1e12 * static_cast<double>(1 + i % 3) : 0.0;
  }
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-10, options.stopping.divergence = 1e30;
  std::vector<StoppingRule> rules(k, options.stopping);
  for (std::size_t j = 1; j < k; ++j) rules[j].max_iterations = 12;
  MultiSolver<double> solver("bicgstab", options);
  const auto solved = solve_all<double>(solver, test_context(), *A, b, x0, interleaved, &M, rules);
  EXPECT_EQ(solved.report.preconditioner, "in one pass");
  EXPECT_GE(solved.report.columns[0].restarts, 1);
  EXPECT_TRUE(solved.report.columns[0].converged());
  EXPECT_LT(solved.report.columns[0].iterations, 18) << "it began again while the others were running";
  for (std::size_t j = 1; j < k; ++j) {
    SolverOptions own = options;
    own.stopping = rules[j];
    const OneSolved<double> one = solve_one<double>(test_context(), *A, b[j], x0[j], &M, own, "bicgstab");
    EXPECT_EQ(solved.report.columns[j].iterations, one.report.iterations);
    EXPECT_NEAR(solved.report.columns[j].true_residual, one.report.true_residual,
                1e-3 * one.report.true_residual);
  }
}

}  // namespace
}  // namespace protean::test

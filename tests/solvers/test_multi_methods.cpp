// Every method with several right-hand sides, on a host, on a simulated device that runs ahead, and on a GPU: each
// column must be what a separate solve gives, whatever happens to the others.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <tuple>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/multi_product.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/multi_solves.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

class MultiMethods : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    const auto& [method, where] = GetParam();
    method_ = method, ahead_ = where != "host";
    context_ = where == "host"    ? test_context()
               : where == "ahead" ? fake_device_context({.steps_ahead = 5})
                                  : test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
  }
  bool symmetric() const { return find_solver(method_).symmetric; }
  const FormatEntry& csr_format() const {
    return context_->simulated() ? fake_format("csr") : find_format("csr");
  }
  template <class T>
  std::unique_ptr<AssembledMatrix<T>> matrix(const CsrMatrix<T>& csr) const {
    return make_matrix(csr_format(), placed(context_, csr), context_);
  }
  CsrMatrix<double> usual(std::int64_t n) const {
    return symmetric() ? system_of<double>("poisson-2d", 3 * n)
                       : system_of<double>("convection-diffusion-3d", n);
  }
  SolverOptions options(double tolerance = 1e-8) const {
    SolverOptions options;
    options.stopping.relative_tolerance = tolerance;
    options.restart = 12, options.directions = 3;
    return options_read_by(method_, options);
  }
  std::string method_;
  ContextPtr context_;
  bool ahead_ = false;  // of the host: a column may be computed some steps beyond the one that ends it
};

// Columns that end one after another, so that lanes of 16 are packed into 8, 4 and 1; with and without preconditioner.
TEST_P(MultiMethods, ColumnsOfManyTolerancesAreThoseOfSingleSolves) {
  const auto csr = usual(8);
  const auto A = matrix(csr);
  // A general M has no kernels on a simulated device.
  for (const char* id : {"none", "jacobi", "ssor"}) {
    if (context_->simulated() && std::string(id) == "ssor") continue;
    SCOPED_TRACE(id);
    const auto M = make_preconditioner<double>(id, *A);
    if (M) M->ensure(*A);
    constexpr std::int64_t k = 13;
    const auto b = sample_columns<double>(csr.rows(), k, 5);
    std::vector<StoppingRule> rules(k);
    for (std::size_t j = 0; j < k; ++j)
      rules[j].relative_tolerance = std::pow(10.0, -1 - 0.75 * static_cast<double>((j * 5) % k));
    const auto x0 = sample_columns<double>(csr.rows(), k, 77);
    MultiSolver<double> solver(method_, options());
    const auto solved = solve_all<double>(solver, context_, *A, b, x0, interleaved, M.get(), rules);
    EXPECT_TRUE(solved.report.converged());
    expect_like_single_solves<double>(csr, context_, *A, solved, b, x0, M.get(), options(), rules, method_);
  }
}

// In single precision, and one column alone, which has the bits of a single solve on a host.
TEST_P(MultiMethods, OneColumnAndSinglePrecision) {
  const auto csr = usual(6);
  const auto A = matrix(csr);
  for (const char* id : {"none", "jacobi"}) {
    const auto M = make_preconditioner<double>(id, *A);
    if (M) M->ensure(*A);
    const auto b = sample_columns<double>(csr.rows(), 1, 5), x0 = zeros<double>(csr.rows(), 1);
    MultiSolver<double> solver(method_, options());
    const auto solved = solve_all<double>(solver, context_, *A, b, x0, by_columns, M.get());
    const auto one = solve_one<double>(context_, *A, b[0], x0[0], M.get(), options(), method_);
    EXPECT_EQ(solved.report.columns[0].restarts, one.report.restarts);
    if (context_->space() == Space::host) {
      EXPECT_EQ(solved.x[0], one.x);
      EXPECT_EQ(solved.report.columns[0].iterations, one.report.iterations);
    } else {
      expect_like_single_solves<double>(csr, context_, *A, solved, b, x0, M.get(), options(), {}, method_);
    }
  }
  const auto single = convert_values<float>(test_context(), csr);
  const auto of_floats = matrix(single);
  const auto b = sample_columns<float>(csr.rows(), 6, 5), x0 = zeros<float>(csr.rows(), 6);
  MultiSolver<float> solver(method_, options(1e-4));
  const auto solved = solve_all<float>(solver, context_, *of_floats, b, x0);
  EXPECT_TRUE(solved.report.converged());
  expect_like_single_solves<float>(single, context_, *of_floats, solved, b, x0, nullptr, options(1e-4), {},
                                   method_);
}

// The first steps equal the steps of single solves even for methods that amplify rounding.
TEST_P(MultiMethods, FirstStepsAreThoseOfSingleSolves) {
  const auto csr = usual(8);
  const auto A = matrix(csr);
  const auto b = sample_columns<double>(csr.rows(), 5, 5), x0 = zeros<double>(csr.rows(), 5);
  std::vector<StoppingRule> rules(5);
  const std::int64_t most = 10 / find_solver(method_).products;
  for (std::size_t j = 0; j < 5; ++j)
    rules[j].max_iterations = std::max<std::int64_t>(1, most - static_cast<std::int64_t>(j)),
    rules[j].relative_tolerance = 1e-14;
  MultiSolver<double> solver(method_, options());
  const auto solved = solve_all<double>(solver, context_, *A, b, x0, by_columns, nullptr, rules);
  expect_like_single_solves<double>(csr, context_, *A, solved, b, x0, nullptr, options(), rules, method_);
  for (std::size_t j = 0; j < 5; ++j) EXPECT_EQ(solved.report.columns[j].iterations, rules[j].max_iterations);
}

// One column is zero, one is solved already, one meets a negative eigenvalue, one is not finite, one is in the span of
// one step, one overflows; the others converge.
TEST_P(MultiMethods, EachColumnEndsInItsOwnWay) {
  constexpr std::int64_t n = 60;
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) entries.push_back({i, i, i == n - 1 ? -2.0 : 1.0 + i % 7});
  const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
  const auto A = matrix(csr);
  for (const bool jacobi : {false, true}) {
    SCOPED_TRACE(jacobi);
    const auto M = make_preconditioner<double>(jacobi ? "jacobi" : "none", *A);
    if (M) M->ensure(*A);
    auto b = sample_columns<double>(n, 8, 1);
    auto x0 = zeros<double>(n, 8);
    for (auto& column : b) column[n - 1] = 0;
    b[1].assign(n, 0.0);
    x0[1].assign(n, 5.0);
    for (std::size_t i = 0; i < n; ++i)
      x0[2][i] = static_cast<double>(i % 5), b[2][i] = x0[2][i] * (1 + static_cast<double>(i % 7));
    x0[2][n - 1] = 0, b[2][n - 1] = 0;
    b[3].assign(n, 0.0), b[3][n - 1] = 1;
    b[4][5] = std::numeric_limits<double>::quiet_NaN();
    b[5].assign(n, 0.0), b[5][7] = 3;
    b[7][7] = 1e200;
    MultiSolver<double> solver(method_, options());
    const auto solved = solve_all<double>(solver, context_, *A, b, x0, by_columns, M.get());
    const auto& columns = solved.report.columns;
    EXPECT_FALSE(solved.report.converged());
    EXPECT_EQ(columns[0].reason, StopReason::relative_tolerance);
    EXPECT_EQ(columns[1].reason, StopReason::zero_right_hand_side);
    EXPECT_EQ(solved.x[1], std::vector<double>(n, 0.0));
    EXPECT_EQ(columns[2].reason, StopReason::relative_tolerance);
    EXPECT_EQ(columns[2].iterations, 0);
    EXPECT_EQ(solved.x[2], x0[2]);
    if (method_ == "cg") {
      EXPECT_EQ(columns[3].reason,
                jacobi ? StopReason::indefinite_preconditioner : StopReason::indefinite_operator);
    }
    EXPECT_EQ(columns[4].reason, StopReason::not_finite);
    EXPECT_EQ(columns[5].reason, StopReason::relative_tolerance);
    EXPECT_LE(columns[5].iterations, 1);
    EXPECT_EQ(columns[6].reason, StopReason::relative_tolerance);
    expect_like_single_solves<double>(csr, context_, *A, solved, b, x0, M.get(), options(), {}, method_);
  }
}

// Column 0 begins again from b - A x, after few steps, since it came from far away. The others are in the middle of
// their steps, and what they keep from step to step must stay.
TEST_P(MultiMethods, AColumnThatBeginsAgainLeavesTheOthersAlone) {
  constexpr std::int64_t n = 80, k = 5;
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) {
    entries.push_back({i, i, i < 6 ? 2.5 + i : 2.1});
    const double lower = symmetric() ? -1.0 : -1.2, upper = symmetric() ? -1.0 : -0.8;
    if (i != 0 && i != 6) entries.push_back({i, i - 1, lower});
    if (i != 5 && i + 1 != n) entries.push_back({i, i + 1, upper});
  }
  const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
  const auto A = matrix(csr);
  const bool on_gpu = context_->space() == Space::device && !context_->simulated();
  for (const char* id : {"none", "jacobi"}) {
    SCOPED_TRACE(id);
    const auto M = make_preconditioner<double>(id, *A);
    if (M) M->ensure(*A);
    auto b = sample_columns<double>(n, k, 1);
    auto x0 = zeros<double>(n, k);
    for (std::size_t i = 0; i < n; ++i) {
      if (i >= 6) b[0][i] = 0;
      x0[0][i] = i < 6 ? 1e10 * static_cast<double>(1 + i % 3) : 0.0;
    }
    SolverOptions options = this->options(1e-9);
    options.stopping.divergence = 1e30;
    std::vector<StoppingRule> rules(k, options.stopping);
    for (std::size_t j = 1; j < k; ++j) rules[j].max_iterations = 24;
    MultiSolver<double> solver(method_, options);
    const auto solved = solve_all<double>(solver, context_, *A, b, x0, interleaved, M.get(), rules);
    EXPECT_GE(solved.report.columns[0].restarts, 1);
    EXPECT_TRUE(solved.report.columns[0].converged()) << solved.report.columns[0].detail;
    // The same without the far column: one that needs no restart.
    x0[0].assign(n, 0.0);
    const auto calm = solve_all<double>(solver, context_, *A, b, x0, interleaved, M.get(), rules);
    EXPECT_EQ(calm.report.columns[0].restarts, 0);
    for (std::size_t j = 1; j < k; ++j) {
      EXPECT_EQ(solved.report.columns[j].iterations, calm.report.columns[j].iterations) << j;
      if (!on_gpu) {
        EXPECT_EQ(solved.x[j], calm.x[j]) << j;
        continue;
      }
      // The order of a sum depends on the number of lanes, which are packed when columns have ended: at other steps in
      // the two solves.
      double largest = 0;
      for (const double entry : calm.x[j]) largest = std::max(largest, std::abs(entry));
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_NEAR(solved.x[j][i], calm.x[j][i], 1e-8 * largest) << j << " row " << i;
    }
  }
}

// If the recurrence has reached the tolerance and b - A x has nearly, a column goes on. On a device the others have
// gone on meanwhile, and what the column keeps may lie in other places.
TEST_P(MultiMethods, ColumnsGoOnBelowTheirTolerance) {
  const auto csr = system_of<double>("poisson-2d", 12);
  const auto A = matrix(csr);
  const auto b = sample_columns<double>(csr.rows(), 5, 1);
  auto far = sample_columns<double>(csr.rows(), 5, 2);
  for (auto& column : far)
    for (double& value : column) value *= 1e6;
  std::int64_t together = 0, alone = 0;
  for (double tolerance = 3e-10; tolerance < 1e-8; tolerance *= 1.3) {
    std::vector<StoppingRule> rules(5);
    for (std::size_t j = 0; j < 5; ++j)
      rules[j].relative_tolerance = tolerance * (1 + 0.05 * static_cast<double>(j));
    MultiSolver<double> solver(method_, options());
    const auto solved = solve_all<double>(solver, context_, *A, b, far, by_columns, nullptr, rules);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const SolveReport& column = solved.report.columns[j];
      EXPECT_TRUE(column.converged()) << to_string(column.reason) << " " << column.detail;
      EXPECT_NEAR(column.true_residual, residual_of(csr, b[j], solved.x[j]), 1e-9 * column.rhs_norm);
      SolverOptions own = options();
      own.stopping = rules[j];
      together += column.iterations;
      alone += solve_one<double>(context_, *A, b[j], far[j], nullptr, own, method_).report.iterations;
    }
  }
  EXPECT_LE(together, 1.15 * static_cast<double>(alone));
}

// New values in the middle of a solve: all columns begin again at once from the residual of the new matrix.
TEST_P(MultiMethods, NewValuesInASolve) {
  struct Changer final : MultiSolveObserver {
    Changer(AssembledMatrix<double>& of, const CsrMatrix<double>& values) : A(of), with(values) {}
    bool on_iteration(const MultiIterationInfo& info) override {
      if (info.iteration >= 2 && !changed) A.update_values(with), changed = true;
      return true;
    }
    AssembledMatrix<double>& A;
    const CsrMatrix<double>& with;
    bool changed = false;
  };
  const auto csr = usual(5);
  const auto doubled = deep_copy(test_context(), csr);
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(doubled.values)[k] *= 2;
  const auto A = matrix(csr);
  const auto there = placed(context_, doubled);
  const auto b = sample_columns<double>(csr.rows(), 3, 1);
  Changer changer(*A, there);
  MultiSolver<double> solver(method_, options());
  const auto solved = solve_all<double>(solver, context_, *A, b, zeros<double>(csr.rows(), 3), by_columns,
                                        nullptr, {}, &changer);
  EXPECT_TRUE(changer.changed);
  EXPECT_TRUE(solved.report.converged());
  for (std::size_t j = 0; j < b.size(); ++j)
    EXPECT_LE(residual_of(doubled, b[j], solved.x[j]), 1.01e-8 * solved.report.columns[j].rhs_norm);
}

INSTANTIATE_TEST_SUITE_P(All, MultiMethods,
                         testing::Combine(testing::Values("cg", "fcg", "minres", "bicgstab", "bicgstab2",
                                                          "idr", "gmres", "fgmres"),
                                          testing::Values("host", "ahead", "device")),
                         [](const auto& one) {
                           return std::get<0>(one.param) + "_" + std::get<1>(one.param);
                         });

// If b has a part in the null space of a singular matrix, minres finds it and a solution of least squares; the other
// columns converge.
TEST(MultiMinRes, ColumnsOfASingularMatrix) {
  constexpr std::int32_t n = 40;
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) {
    entries.push_back({i, i, i == 0 || i + 1 == n ? 1.0 : 2.0});
    if (i > 0) entries.push_back({i, i - 1, -1.0}), entries.push_back({i - 1, i, -1.0});
  }
  const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
  for (const bool ahead : {false, true}) {
    SCOPED_TRACE(ahead);
    const ContextPtr context = ahead ? fake_device_context({.steps_ahead = 5}) : test_context();
    const auto A =
        make_matrix(ahead ? fake_format("csr") : find_format("csr"), placed(context, csr), context);
    for (const char* id : {"none", "jacobi"}) {
      SCOPED_TRACE(id);
      const auto M = make_preconditioner<double>(id, *A);
      if (M) M->ensure(*A);
      auto b = sample_columns<double>(n, 5, 1);
      for (const std::size_t j : {0u, 2u, 4u}) {  // consistent
        double mean = 0;
        for (const double v : b[j]) mean += v / n;
        for (double& v : b[j]) v -= mean;
      }
      const auto x0 = zeros<double>(n, 5);
      MultiSolver<double> solver("minres");
      const auto solved = solve_all<double>(solver, context, *A, b, x0, by_columns, M.get());
      for (std::size_t j = 0; j < b.size(); ++j) {
        SCOPED_TRACE("column " + std::to_string(j));
        const auto one = solve_one<double>(context, *A, b[j], x0[j], M.get(), {}, "minres");
        const SolveReport& column = solved.report.columns[j];
        EXPECT_EQ(column.reason, j % 2 == 0 ? StopReason::relative_tolerance : StopReason::inconsistent)
            << column.detail;
        EXPECT_EQ(to_string(column.reason), to_string(one.report.reason)) << one.report.detail;
        EXPECT_LE(std::abs(column.iterations - one.report.iterations), 1);
        if (j % 2 == 0) continue;
        EXPECT_NE(column.detail.find("x is a solution of least squares"), std::string::npos) << column.detail;
        EXPECT_NEAR(column.true_residual, one.report.true_residual, 1e-8 * column.rhs_norm);
      }
    }
  }
}

// A preconditioner with a negative entry is found in the columns that meet it.
TEST(MultiMinRes, AnIndefinitePreconditionerEndsTheColumnsThatMeetIt) {
  class Diagonal final : public Preconditioner<double> {
   public:
    explicit Diagonal(std::vector<double> d)
        : Preconditioner<double>(test_context(), {std::ssize(d), std::ssize(d)}), d_(std::move(d)) {}
    std::string_view name() const noexcept override { return "diagonal"; }
    VectorView<const double> inverse_diagonal() const noexcept override {
      return {d_.data(), std::ssize(d_), Space::host};
    }

   protected:
    void setup(const LinearOperator<double>&, bool) override {}
    void do_apply(double alpha, VectorView<const double> x, double beta,
                  VectorView<double> y) const override {
      for (std::int64_t i = 0; i < x.size; ++i)
        y[i] = alpha * d_[static_cast<std::size_t>(i)] * x[i] + (beta == 0 ? 0 : beta * y[i]);
    }

   private:
    std::vector<double> d_;
  };
  constexpr std::int64_t n = 30;
  const DenseOperator<double> A([] {
    std::vector<long double> d;
    for (int i = 0; i < n; ++i) d.push_back(i % 2 ? -1.0L - i : 1.0L + i);
    return diagonal_matrix(d);
  }());
  std::vector<double> d(n, 1.0);
  d[n - 1] = -1;
  const Diagonal M(d);
  auto b = sample_columns<double>(n, 4, 3);
  b[0][n - 1] = b[2][n - 1] = 0;
  const auto x0 = zeros<double>(n, 4);
  for (const char* method : {"minres", "fcg"}) {
    SCOPED_TRACE(method);
    MultiSolver<double> solver(method);
    const auto solved = solve_all<double>(solver, test_context(), A, b, x0, by_columns, &M);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const auto one = solve_one<double>(test_context(), A, b[j], x0[j], &M, {}, method);
      EXPECT_EQ(to_string(solved.report.columns[j].reason), to_string(one.report.reason))
          << j << solved.report.columns[j].detail;
    }
    if (std::string(method) == "minres") {
      EXPECT_EQ(solved.report.columns[0].reason, StopReason::relative_tolerance);
      EXPECT_EQ(solved.report.columns[1].reason, StopReason::indefinite_preconditioner);
    }
  }
}

}  // namespace
}  // namespace protean::test

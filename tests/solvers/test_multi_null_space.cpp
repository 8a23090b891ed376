// Several right-hand sides of a singular system: each column is what a separate solve gives.
#include <cmath>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "core/ordering.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

constexpr MultiShape shape{VectorLayout::columns, 2};

// Graph Laplacians of two grids without a coupling: the null space has a constant on each of them.
constexpr std::int32_t side = 9;
CsrMatrix<double> two_grids() {
  std::vector<Triplet<double>> entries;
  for (const std::int32_t first : {0, side * side})
    for (std::int32_t i = 0; i < side; ++i)
      for (std::int32_t j = 0; j < side; ++j) {
        const std::int32_t at = first + i * side + j;
        for (const std::int32_t next : {i + 1 < side ? at + side : -1, j + 1 < side ? at + 1 : -1}) {
          if (next < 0) continue;
          entries.push_back({at, next, -1}), entries.push_back({next, at, -1});
          entries.push_back({at, at, 1}), entries.push_back({next, next, 1});
        }
      }
  return csr_from_triplets<double>(test_context(), 2 * side * side, 2 * side * side, entries);
}
std::vector<double> constants() {
  const std::size_t n = 2 * side * side, half = n / 2;
  std::vector<double> N(2 * n, 0.0);
  for (std::size_t i = 0; i < half; ++i) N[i] = N[n + half + i] = 1 / std::sqrt(static_cast<double>(half));
  return N;
}
double sum_of(const std::vector<double>& x, bool second) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size() / 2; ++i) sum += x[(second ? x.size() / 2 : 0) + i];
  return sum;
}
// Column 1 has a part in the null space, column 2 is zero, the others are consistent.
Columns<double> right_hand_sides(std::int64_t rows) {
  Columns<double> b = sample_columns<double>(rows, 5, 2);
  for (std::size_t j : {0u, 3u, 4u})
    for (const bool second : {false, true}) {
      const double mean = sum_of(b[j], second) / (side * side);
      for (std::size_t i = 0; i < side * side; ++i) b[j][(second ? side * side : 0) + i] -= mean;
    }
  b[2].assign(b[2].size(), 0.0);
  return b;
}

class MultiNullSpace : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string where = GetParam();
    context_ = where == "host"        ? test_context()
               : where == "simulated" ? fake_device_context({.steps_ahead = 5})
                                      : test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
    csr_ = two_grids();
  }
  std::unique_ptr<LinearOperator<double>> in_csr(bool in_order) const {
    const FormatEntry& csr = context_->simulated() ? fake_format("csr") : find_format("csr");
    if (!in_order) return make_matrix(csr, placed(context_, csr_), context_);
    PermutedMatrix<double> permuted(test_context(), csr_,
                                    Permutation(context_, make_order("rcm", *test_context(), csr_.pattern)));
    auto matrix = make_matrix(csr, permuted.matrix(), context_);
    return std::make_unique<Matrix<double>>(placed(context_, csr_), "rcm", std::move(permuted),
                                            std::move(matrix), MatrixOptions{.changes = false});
  }
  ContextPtr context_;
  CsrMatrix<double> csr_;
};

TEST_P(MultiNullSpace, ColumnsAreThoseOfSingleSolves) {
  const std::int64_t n = csr_.rows();
  const Placed<double> N(context_, constants());
  const VectorBlock<const double> vectors{N.read().data, n, n, 2, context_->space()};
  const Columns<double> b = right_hand_sides(n), x0(b.size(), std::vector<double>(b[0].size(), 3.0));
  for (const bool in_order : {false, true})
    for (const bool preconditioned : {false, true}) {
      SCOPED_TRACE(std::string(in_order ? "in order rcm" : "") + (preconditioned ? ", jacobi" : ""));
      // An order is for matrices of the host here; test_ordered.cpp has it for the fake device.
      if (in_order && context_->simulated()) continue;
      const auto A = in_csr(in_order);
      const auto M = preconditioned ? make_preconditioner<double>("jacobi", *A) : nullptr;
      if (M) M->ensure(*A);
      const SolverOptions options{.stopping = {.relative_tolerance = 1e-10}};
      for (const char* method : {"cg", "fcg", "minres"}) {
        SCOPED_TRACE(method);
        MultiSolver<double> solver(method, options);
        const auto alone = make_solver<double>(method, options);
        solver.set_null_space(vectors), alone->set_null_space(vectors);
        // Twice, since vectors are kept.
        for (int round = 0; round < 2; ++round) {
          PlacedColumns<double> B(context_, b, n, shape), X(context_, x0, n, shape);
          const MultiSolveReport report = solver.solve(*A, B.read(), X.view(), M.get());
          const Columns<double> x = X.fetch();
          for (std::size_t j = 0; j < b.size(); ++j) {
            SCOPED_TRACE("column " + std::to_string(j));
            const Placed<double> own_b(context_, b[j]);
            Placed<double> own_x(context_, x0[j]);
            const SolveReport one = alone->solve(*A, own_b.read(), own_x.view(), M.get());
            const SolveReport& column = report.columns[j];
            EXPECT_EQ(to_string(column.reason), to_string(one.reason)) << column.detail;
            EXPECT_LE(std::abs(column.iterations - one.iterations), 1);
            EXPECT_NEAR(column.initial_residual, one.initial_residual, 1e-12 * (1 + one.initial_residual));
            for (const bool second : {false, true}) EXPECT_NEAR(sum_of(x[j], second), 0, 1e-11);
            if (j == 1) {
              EXPECT_NE(column.detail.find("the part of b in the null space has norm"), std::string::npos)
                  << column.detail;
            }
            if (!column.converged()) continue;
            EXPECT_LE(residual_of(csr_, b[j], x[j]), 1.01e-10 * column.rhs_norm + 1e-30);
            const std::vector<double> same = own_x.fetch();
            for (std::size_t i = 0; i < same.size(); ++i) ASSERT_NEAR(x[j][i], same[i], 1e-8);
          }
          EXPECT_EQ(report.columns[1].reason, StopReason::inconsistent);
          EXPECT_TRUE(report.columns[0].converged() && report.columns[3].converged());
        }
      }
    }
}

// If both grids are one, option "constant" says it all.
TEST_P(MultiNullSpace, TheConstantsAreAnOption) {
  std::vector<Triplet<double>> entries;
  for (std::int64_t r = 0; r < csr_.rows(); ++r)
    for (std::int64_t k = csr_.pattern.row_ptr[r]; k < csr_.pattern.row_ptr[r + 1]; ++k)
      entries.push_back({static_cast<std::int32_t>(r), csr_.pattern.col[k], csr_.values[k]});
  for (const auto& [i, j] : {std::pair{0, side * side}, std::pair{side * side, 0}})
    entries.push_back({i, j, -1}), entries.push_back({i, i, 1});
  csr_ = csr_from_triplets<double>(test_context(), csr_.rows(), csr_.rows(), entries);
  const auto A = in_csr(false);
  const Columns<double> b = right_hand_sides(csr_.rows()),
                        x0(b.size(), std::vector<double>(b[0].size(), 3.0));
  MultiSolver<double> solver("cg", {.null_space = "constant"});
  PlacedColumns<double> B(context_, b, csr_.rows(), shape), X(context_, x0, csr_.rows(), shape);
  const MultiSolveReport report = solver.solve(*A, B.read(), X.view());
  const Columns<double> x = X.fetch();
  for (const std::size_t j : {0u, 3u, 4u}) {
    EXPECT_TRUE(report.columns[j].converged()) << report.columns[j].detail;
    EXPECT_NEAR(sum_of(x[j], false) + sum_of(x[j], true), 0, 1e-11);
  }
}

TEST_P(MultiNullSpace, AWrongOneIsRefusedAndTheSolverUsable) {
  const auto A = in_csr(false);
  const std::int64_t n = csr_.rows();
  const Columns<double> b = right_hand_sides(n), x0(b.size(), std::vector<double>(b[0].size(), 0.0));
  PlacedColumns<double> B(context_, b, n, shape), X(context_, x0, n, shape);
  const Placed<double> no_null_vector(context_, b[0]), shorter(context_, std::vector<double>(7, 0.1));
  MultiSolver<double> solver("cg");
  solver.set_null_space({no_null_vector.read().data, n, n, 1, context_->space()});
  EXPECT_THROW((void)solver.solve(*A, B.read(), X.view()), BadArgument);
  solver.set_null_space({shorter.read().data, 7, 7, 1, context_->space()});
  EXPECT_THROW((void)solver.solve(*A, B.read(), X.view()), ShapeMismatch);
  const Placed<double> N(context_, constants());
  solver.set_null_space({N.read().data, n, n, 2, context_->space()});
  EXPECT_TRUE(solver.solve(*A, B.read(), X.view()).columns[0].converged());
  for (const char* method : {"gmres", "bicgstab"}) {
    MultiSolver<double> other(method);
    EXPECT_THROW(other.set_null_space({N.read().data, n, n, 2, context_->space()}), BadArgument) << method;
    EXPECT_NO_THROW(other.set_null_space({}));
    EXPECT_THROW(MultiSolver<double>(method, {.null_space = "constant"}), BadArgument) << method;
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, MultiNullSpace, testing::Values("host", "simulated", "device"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace protean::test

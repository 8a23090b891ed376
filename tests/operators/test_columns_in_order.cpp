// Several columns in an order of the rows.
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "able_operators.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/in_order.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/rows.hpp"
#include "order_changes.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/ordered_solve.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

// An operator with a product with several vectors in any space: it counts the passes.
class Counted final : public LinearOperator<double>,
                      public HasDiagonal<double>,
                      public HasMultiProduct<double>,
                      public HasRows<double> {
 public:
  explicit Counted(std::unique_ptr<AssembledMatrix<double>> A)
      : LinearOperator<double>(A->context(), A->shape()), A_(std::move(A)) {}
  std::string_view name() const noexcept override { return "counted"; }
  CsrMatrix<double> rows_as_csr() const override { return A_->to_csr(); }
  void diagonal(VectorView<double> d) const override { A_->diagonal(d); }
  void do_multi_apply(double alpha, MultiVectorView<const double> X, double beta,
                      MultiVectorView<double> Y) const override {
    ++passes;
    multi_apply<double>(*A_, alpha, X, beta, Y);
  }
  mutable std::int64_t passes = 0;

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    A_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> A_;
};

// host, a simulated device, a GPU.
class ColumnsInAnOrder : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string_view place = GetParam();
    context_ = place == "host"        ? test_context()
               : place == "simulated" ? fake_device_context()
                                      : test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
    csr_ = system();
    there_ = placed(context_, csr_);
  }
  std::unique_ptr<AssembledMatrix<double>> matrix(const CsrMatrix<double>& of) const {
    return make_matrix(context_->simulated() ? fake_format("csr") : find_format("csr"), of, context_);
  }
  // In a random order.
  std::unique_ptr<Matrix<double>> ordered() {
    PermutedMatrix<double> permuted(test_context(), there_, shuffle_of(context_, csr_.rows(), 5));
    auto B = std::make_shared<Counted>(matrix(permuted.matrix()));
    inside_ = B.get();
    return std::make_unique<Matrix<double>>(permuted.permutation(), std::move(B));
  }
  std::unique_ptr<Matrix<double>> adaptive() const {
    PermutedMatrix<double> permuted(test_context(), there_, shuffle_of(context_, csr_.rows(), 5));
    auto start = matrix(permuted.matrix());
    return std::make_unique<Matrix<double>>(there_, "shuffled", std::move(permuted), std::move(start));
  }
  ContextPtr context_;
  CsrMatrix<double> csr_, there_;
  const Counted* inside_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Spaces, ColumnsInAnOrder, testing::Values("host", "simulated", "device"),
                         [](const auto& one) { return std::string(one.param); });

// In any layouts, column by column in long words: P from to(i, j) = from(order[i], j).
TEST_P(ColumnsInAnOrder, ArePermutedBetweenAllLayouts) {
  constexpr std::int64_t n = 203;
  const Permutation P = shuffle_of(context_, n, 3);
  for (const std::int64_t k : {0, 1, 2, 5, 9})
    for (const MultiShape& from : multi_shapes())
      for (const MultiShape& to : multi_shapes()) {
        SCOPED_TRACE(from.name() + " to " + to.name() + ", " + std::to_string(k));
        const auto x = sample_columns<double>(n, k, 1);
        PlacedColumns<double> source(context_, x, n, from),
            target(context_, sample_columns<double>(n, k, 2), n, to);
        P.multi_apply<double>(source.read(), target.view());
        const auto moved = target.fetch();
        for (std::size_t j = 0; j < moved.size(); ++j)
          for (std::int64_t i = 0; i < n; ++i)
            ASSERT_EQ(moved[j][static_cast<std::size_t>(i)], x[j][static_cast<std::size_t>(P.order()[i])]);
        EXPECT_TRUE(target.gaps_are_untouched());
        P.multi_apply_inverse<double>(target.read(), source.view());
        EXPECT_EQ(source.fetch(), x);
        EXPECT_TRUE(source.gaps_are_untouched());
      }
  PlacedColumns<double> wide(context_, sample_columns<double>(n, 3, 1), n, multi_shapes()[2]),
      narrow(context_, sample_columns<double>(n, 2, 1), n, multi_shapes()[2]),
      low(context_, sample_columns<double>(n - 1, 3, 1), n - 1, multi_shapes()[2]);
  EXPECT_THROW(P.multi_apply<double>(wide.read(), narrow.view()), ShapeMismatch);
  EXPECT_THROW(P.multi_apply<double>(low.read(), wide.view()), ShapeMismatch);
  EXPECT_THROW(P.multi_apply<double>(wide.read(), low.view()), ShapeMismatch);
}

// Y := alpha A X + beta Y equals the product of each column with a matrix that is in no order, in one pass over the
// matrix.
TEST_P(ColumnsInAnOrder, AreMultipliedInOnePass) {
  const auto A = ordered();
  const auto changing = adaptive();
  const auto plain = make_matrix(find_format("csr"), csr_, test_context());
  const std::int64_t n = csr_.rows();
  EXPECT_EQ(column_by_column<double>(*A), "");
  EXPECT_EQ(column_by_column<double>(*changing), "");
  for (const std::int64_t k : {1, 3, 8, 2})
    for (const MultiShape& shape : multi_shapes())
      for (const double beta : {0.0, -0.5}) {
        SCOPED_TRACE(shape.name() + ", " + std::to_string(k) + ", beta " + std::to_string(beta));
        const auto x = sample_columns<double>(n, k, 7), y = sample_columns<double>(n, k, 8);
        Columns<double> start = y;
        if (beta == 0) start[0][0] = std::numeric_limits<double>::quiet_NaN();
        for (const auto* op : {static_cast<const LinearOperator<double>*>(A.get()),
                               static_cast<const LinearOperator<double>*>(changing.get())}) {
          PlacedColumns<double> X(context_, x, n, shape), Y(context_, start, n, shape);
          const std::int64_t passes = inside_->passes, products = op->products();
          multi_apply<double>(*op, 2.0, X.read(), beta, Y.view());
          const auto found = Y.fetch();
          EXPECT_EQ(op->products() - products, k);
          if (op == A.get() && k > 1) { EXPECT_EQ(inside_->passes - passes, 1); }
          EXPECT_TRUE(Y.gaps_are_untouched());
          for (std::size_t j = 0; j < x.size(); ++j) {
            std::vector<double> expected = y[j];
            plain->apply(2.0, {x[j].data(), n}, beta, {expected.data(), n});
            for (std::size_t i = 0; i < expected.size(); ++i)
              ASSERT_NEAR(found[j][i], expected[i], 1e-11 * (1 + std::abs(expected[i]))) << i << ", " << j;
          }
        }
      }
}

struct AtIteration final : MultiSolveObserver {
  std::function<void(std::int64_t)> then;
  explicit AtIteration(std::function<void(std::int64_t)> f) : then(std::move(f)) {}
  bool on_iteration(const MultiIterationInfo& info) override {
    then(info.iteration);
    return true;
  }
};

class SolvesOfColumns : public ColumnsInAnOrder {
 protected:
  static constexpr std::int64_t k = 5;
  struct All {
    MultiSolveReport report;
    Columns<double> x;
  };
  static SolverOptions options(double tolerance = 1e-10) {
    SolverOptions options;
    options.stopping.relative_tolerance = tolerance;
    return options;
  }
  Columns<double> b() const { return sample_columns<double>(csr_.rows(), k, 3); }
  Columns<double> guesses() const { return sample_columns<double>(csr_.rows(), k, 4); }
  All solve(std::string_view method, const LinearOperator<double>& A, const Preconditioner<double>* M,
            const MultiShape& shape, MultiSolveObserver* observer = nullptr) const {
    PlacedColumns<double> B(context_, b(), csr_.rows(), shape), X(context_, guesses(), csr_.rows(), shape);
    All all;
    MultiSolver<double> solver(method, options());
    all.report = solver.solve(A, B.read(), X.view(), M, observer);
    all.x = X.fetch();
    EXPECT_TRUE(X.gaps_are_untouched());
    return all;
  }
  // Each column equals a separate solve with a matrix that is in no order.
  void expect_columns_of_single_solves(const All& all, std::string_view method, std::string_view M_id,
                                       const CsrMatrix<double>& csr) const {
    const auto plain = make_matrix(find_format("csr"), csr, test_context());
    std::unique_ptr<Preconditioner<double>> M;
    if (M_id == "tridiagonal")
      M = std::make_unique<Tridiagonal>(*plain);
    else
      M = preconditioner(M_id, *plain);
    for (std::size_t j = 0; j < k; ++j) {
      SCOPED_TRACE(j);
      const std::vector<double> rhs = b()[j];
      std::vector<double> x = guesses()[j];
      const SolveReport one = make_solver<double>(method, options())
                                  ->solve(*plain, {rhs.data(), csr.rows()}, {x.data(), csr.rows()}, M.get());
      ASSERT_TRUE(one.converged());
      const SolveReport& column = all.report.columns[j];
      EXPECT_TRUE(column.converged()) << to_string(column.reason) << " " << column.detail;
      EXPECT_NEAR(static_cast<double>(column.iterations), static_cast<double>(one.iterations),
                  method == "bicgstab" ? 12 : 2);
      double largest = 0;
      for (const double v : x) largest = std::max(largest, std::abs(v));
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(all.x[j][i], x[i], 1e-6 * largest) << i;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Spaces, SolvesOfColumns, testing::Values("host", "simulated", "device"),
                         [](const auto& one) { return std::string(one.param); });

// Products of the solve permute nothing: all are products of the matrix in its order.
TEST_P(SolvesOfColumns, AreThoseOfEachColumn) {
  for (const char* method : {"cg", "bicgstab", "gmres"})
    for (const char* id : {"none", "jacobi", "general"})
      for (const MultiShape& shape : multi_shapes()) {
        SCOPED_TRACE(std::string(method) + ", " + id + ", " + shape.name());
        // Each access of the simulated device takes long.
        if (context_->simulated() && &shape != &multi_shapes()[method == std::string_view("cg") ? 2 : 1])
          continue;
        const std::string_view M_id = id != std::string_view("general")    ? std::string_view(id)
                                      : context_->space() == Space::device ? "chebyshev"
                                      : method == std::string_view("cg")   ? "ic0"
                                                                           : "ilu0";
        const auto A = ordered();
        const auto M = preconditioner(M_id, *A);
        const std::int64_t before = A->products();
        const All all = solve(method, *A, M.get(), shape);
        EXPECT_EQ(all.report.product, "in one pass");
        // A GPU repeats recorded steps without a call.
        EXPECT_GE(inside_->passes, GetParam() == std::string_view("device") ? 1 : all.report.iterations);
        if (id != std::string_view("general")) {
          EXPECT_EQ(A->products(), before) << "in the caller's order";
        }
        if (context_->space() == Space::device && id == std::string_view("general")) continue;
        expect_columns_of_single_solves(all, method, M_id, csr_);
      }
}

TEST_P(SolvesOfColumns, OfAMatrixThatChangesFollowItsOrders) {
  for (const char* method : {"cg", "bicgstab", "gmres"}) {
    SCOPED_TRACE(method);
    const auto A = adaptive();
    const std::int64_t outside = A->products();
    const All all = solve(method, *A, nullptr, multi_shapes()[0]);
    EXPECT_EQ(A->in_order().products(), A->products() - outside) << "the solve runs in that order";
    expect_columns_of_single_solves(all, method, "none", csr_);
    // A change in the middle: the vectors of the solve stay as they are.
    int changes = 0;
    AtIteration change([&](std::int64_t iteration) {
      if (iteration < 4 + 6 * changes || changes > 1) return;
      EXPECT_TRUE(A->switch_to(order_only(changes == 0 ? "rcm" : "none"), iteration));
      ++changes;
    });
    expect_columns_of_single_solves(solve(method, *A, nullptr, multi_shapes()[2], &change), method, "none",
                                    csr_);
    EXPECT_EQ(changes, 2);
    EXPECT_EQ(A->order_id(), "none");
    // From no order into one.
    changes = 0;
    expect_columns_of_single_solves(solve(method, *A, nullptr, multi_shapes()[1], &change), method, "none",
                                    csr_);
  }
}

// With new values in the middle of the solve the columns begin again, with the new diagonal.
TEST_P(SolvesOfColumns, TakeNewValues) {
  std::vector<double> more(csr_.values, csr_.values + csr_.nonzeros());
  for (std::int64_t i = 0; i < csr_.rows(); ++i)
    for (std::int64_t e = csr_.pattern.row_ptr[i]; e < csr_.pattern.row_ptr[i + 1]; ++e)
      if (csr_.pattern.col[e] == i) more[e] *= 1.5 + 0.5 * static_cast<double>(i % 3);
  CsrMatrix<double> other = csr_;
  other.values = more.data();
  const CsrMatrix<double> there = placed(context_, other);
  const auto A = adaptive();
  const auto M = preconditioner("jacobi", *A);
  bool done = false;
  AtIteration change([&](std::int64_t iteration) {
    if (iteration < 5 || done) return;
    done = true;
    A->update_values(there);
    M->ensure(*A);
  });
  const All all = solve("cg", *A, M.get(), multi_shapes()[0], &change);
  EXPECT_TRUE(done);
  const auto plain = make_matrix(find_format("csr"), other, test_context());
  for (std::size_t j = 0; j < k; ++j) {
    EXPECT_TRUE(all.report.columns[j].converged());
    EXPECT_GE(all.report.columns[j].restarts, 1);
    std::vector<double> r = b()[j];
    double norm = 0, residual = 0;
    for (const double v : r) norm += v * v;
    plain->apply(-1.0, {all.x[j].data(), csr_.rows()}, 1.0, {r.data(), csr_.rows()});
    for (const double v : r) residual += v * v;
    EXPECT_LE(std::sqrt(residual), 1.01e-10 * std::sqrt(norm));
  }
}

// X is in the caller's order again when an observer ends the solve by an exception.
TEST_P(SolvesOfColumns, BringXBackAlsoFromAnException) {
  const auto A = ordered();
  const MultiShape shape = multi_shapes()[3];
  PlacedColumns<double> B(context_, b(), csr_.rows(), shape), X(context_, guesses(), csr_.rows(), shape);
  AtIteration end([](std::int64_t) { throw std::runtime_error("enough"); });
  MultiSolver<double> solver("cg", options());
  EXPECT_THROW((void)solver.solve(*A, B.read(), X.view(), nullptr, &end), std::runtime_error);
  EXPECT_EQ(X.fetch(), guesses());
  EXPECT_EQ(B.fetch(), b());
  // And the solver can be used again.
  (void)solver.solve(*A, B.read(), X.view());
  expect_columns_of_single_solves(solve("cg", *A, nullptr, shape), "cg", "none", csr_);
}

// An M^-1 with a product with several vectors keeps it in another order.
TEST(SolvesOfColumnsInAnOrder, ApplyAPreconditionerInOnePass) {
  const CsrMatrix<double> csr = system();
  const Matrix<double> A(
      shuffled(csr.rows()),
      in_format("csr", PermutedMatrix<double>(test_context(), csr, shuffled(csr.rows())).matrix()));
  const Tridiagonal M(A);
  MultiVector<double> B(test_context(), csr.rows(), 4), X(test_context(), csr.rows(), 4);
  for (std::int64_t j = 0; j < 4; ++j)
    for (std::int64_t i = 0; i < csr.rows(); ++i)
      B.view()(i, j) = std::sin(static_cast<double>(i * (j + 1))), X.view()(i, j) = 0;
  const MultiSolveReport report =
      MultiSolver<double>("cg", {.stopping = {.relative_tolerance = 1e-9}}).solve(A, B, X, &M);
  EXPECT_TRUE(report.converged());
  EXPECT_EQ(report.product, "in one pass");
  EXPECT_EQ(report.preconditioner, "in one pass");
  EXPECT_GT(M.passes, 0);
  const auto plain = make_matrix(find_format("csr"), csr, test_context());
  const Tridiagonal of_plain(*plain);
  for (std::int64_t j = 0; j < 4; ++j) {
    Vector<double> x(test_context(), csr.rows());
    for (std::int64_t i = 0; i < csr.rows(); ++i) x[i] = 0;
    const SolveReport one = make_solver<double>("cg", {.stopping = {.relative_tolerance = 1e-9}})
                                ->solve(*plain, B.view().column(j), x, &of_plain);
    EXPECT_NEAR(static_cast<double>(report.columns[j].iterations), static_cast<double>(one.iterations), 2);
    for (std::int64_t i = 0; i < csr.rows(); ++i) ASSERT_NEAR(X.view()(i, j), x[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace protean::test

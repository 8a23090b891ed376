// Solves in another order of the rows: everything that the caller sees is in the caller's order.
#include "operators/matrix/matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <tuple>

#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/ordering.hpp"
#include "formats/catalogue.hpp"
#include "solvers/solver.hpp"
#include "support/battery.hpp"

namespace protean::test {
namespace {

CsrMatrix<double> poisson(int n = 12) { return generate(test_context(), "poisson-3d", {{"n", n}}); }

Permutation random_permutation(std::int64_t n) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(17));
  return {test_context(), std::move(order)};
}

std::unique_ptr<Matrix<double>> ordered(const CsrMatrix<double>& csr, std::string_view format = "csr") {
  PermutedMatrix<double> permuted(test_context(), csr, random_permutation(csr.rows()));
  auto B = make_matrix(find_format(format), permuted.matrix(), test_context());
  return std::make_unique<Matrix<double>>(csr, "shuffled", std::move(permuted), std::move(B),
                                          MatrixOptions{.changes = false});
}

// 1, 1.5, 2 ... no two entries of one stretch are equal, so an order that is not undone is seen.
Vector<double> ramp(std::int64_t n) {
  Vector<double> v(test_context(), n);
  for (std::int64_t i = 0; i < n; ++i) v[i] = 1 + 0.5 * static_cast<double>(i % 101);
  return v;
}

double distance(const Vector<double>& a, const Vector<double>& b) {
  double most = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

class Recorder final : public SolveObserver {
 public:
  bool on_iteration(const IterationInfo& info) override {
    residuals.push_back(info.relative_residual);
    return info.iteration < end;
  }
  std::int64_t end = 1 << 30;
  std::vector<double> residuals;
};

// No diagonal for the solver: it is applied as an operator, in the caller's order.
class HiddenDiagonal final : public Preconditioner<double> {
 public:
  explicit HiddenDiagonal(const LinearOperator<double>& A)
      : Preconditioner<double>(A.context(), A.shape()), M_(make_preconditioner<double>("jacobi", A)) {
    M_->ensure(A);
  }
  std::string_view name() const noexcept override { return "hidden"; }

 protected:
  void setup(const LinearOperator<double>&, bool) override {}
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    M_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<Preconditioner<double>> M_;
};

// Values that differ from row to row: D A D of a diagonal D, so that Jacobi matters.
CsrMatrix<double> scaled_rows(const CsrMatrix<double>& a, std::vector<double>& values) {
  values.resize(static_cast<std::size_t>(a.nonzeros()));
  const auto d = [](std::int64_t i) { return 1 + 0.1 * static_cast<double>(i % 7); };
  for (std::int64_t i = 0; i < a.rows(); ++i)
    for (std::int64_t k = a.pattern.row_ptr[i]; k < a.pattern.row_ptr[i + 1]; ++k)
      values[k] = d(i) * a.values[k] * d(a.pattern.col[k]);
  CsrMatrix<double> result = a;
  result.values = values.data();
  return result;
}

TEST(MatrixInAnOrder, MultipliesInTheCallersOrder) {
  const auto csr = poisson();
  const auto A = ordered(csr, "sell-c-sigma");
  const auto plain = make_matrix(find_format("csr"), csr, test_context());
  const Vector<double> x = ramp(csr.rows());
  Vector<double> y = ramp(csr.rows()), z = ramp(csr.rows()), d(test_context(), csr.rows()),
                 e(test_context(), csr.rows());
  A->apply(2.0, x, 0.5, y), plain->apply(2.0, x, 0.5, z);
  EXPECT_LT(distance(y, z), 1e-10);
  A->apply(x, y), plain->apply(x, z);
  EXPECT_LT(distance(y, z), 1e-10);
  std::vector<double> values;
  const auto other = scaled_rows(csr, values);
  A->update_values(other), plain->update_values(other);
  A->diagonal(d), plain->diagonal(e);
  EXPECT_EQ(distance(d, e), 0);
  A->apply(x, y), plain->apply(x, z);
  EXPECT_LT(distance(y, z), 1e-10);
}

TEST(MatrixInAnOrder, RefusesWhatDoesNotFit) {
  const auto csr = poisson(4);
  auto B = make_matrix(find_format("csr"), csr, test_context());
  EXPECT_THROW(Matrix<double>(random_permutation(5), std::move(B)), ShapeMismatch);
  Matrix<double> A(random_permutation(64), std::unique_ptr<LinearOperator<double>>(
                                               make_matrix(find_format("csr"), csr, test_context())));
  EXPECT_THROW(A.update_values(csr), BadArgument);
}

class OrderedSolve : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

// The same iterations, residuals within rounding, and the same solution as without an order.
TEST_P(OrderedSolve, IsThatOfTheCallersOrder) {
  const auto [method, preconditioner] = GetParam();
  std::vector<double> values;
  const auto csr = scaled_rows(poisson(), values);
  const auto plain = make_matrix(find_format("csr"), csr, test_context());
  const auto A = ordered(csr);
  const Vector<double> b = ramp(csr.rows());
  const auto solve = [&](const LinearOperator<double>& op, Recorder& recorder, Vector<double>& x) {
    std::unique_ptr<Preconditioner<double>> M;
    if (std::string_view(preconditioner) == "hidden")
      M = std::make_unique<HiddenDiagonal>(op);
    else
      M = make_preconditioner<double>(preconditioner, op);
    if (M) M->ensure(op);
    return make_solver<double>(method, {.stopping = {.relative_tolerance = 1e-10}})
        ->solve(op, b, x, M.get(), &recorder);
  };
  Recorder one, two;
  Vector<double> x = ramp(csr.rows()), y = ramp(csr.rows());  // not 0: the guess is permuted too
  const SolveReport expected = solve(*plain, one, x), report = solve(*A, two, y);
  ASSERT_TRUE(report.converged());
  // Methods with two-sided recurrences amplify the last bits of a sum: their counts vary with the number of threads,
  // too.
  const bool amplifies =
      std::string_view(method).starts_with("bicgstab") || std::string_view(method) == "idr";
  EXPECT_NEAR(static_cast<double>(report.iterations), static_cast<double>(expected.iterations),
              amplifies ? 10 : 2);
  EXPECT_NEAR(report.initial_residual, expected.initial_residual, 1e-10 * expected.initial_residual);
  // The shadow vectors of idr are not permuted, so its iterations are others.
  if (std::string_view(method) != "idr") {
    for (std::size_t k = 0; k < std::min<std::size_t>(15, one.residuals.size()); ++k)
      EXPECT_NEAR(two.residuals[k], one.residuals[k], 1e-6 * one.residuals[k]) << k;
  }
  EXPECT_LT(distance(x, y), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Methods, OrderedSolve,
                         testing::Combine(testing::Values("cg", "fcg", "minres", "bicgstab", "bicgstab2",
                                                          "idr", "gmres", "fgmres"),
                                          testing::Values("none", "jacobi", "hidden", "ic0")));

// Preconditioners read the entries of the matrix in the caller's order.
TEST(MatrixInAnOrder, GivesItsEntriesInTheCallersOrder) {
  std::vector<double> values;
  const auto csr = scaled_rows(poisson(5), values);
  for (const char* format : {"csr", "sell-c-sigma"}) {
    const auto A = ordered(csr, format);
    const std::optional<CsrMatrix<double>> rows = csr_of<double>(*A);
    ASSERT_TRUE(rows);
    ASSERT_EQ(rows->nonzeros(), csr.nonzeros());
    EXPECT_TRUE(std::equal(csr.values, csr.values + csr.nonzeros(), rows->values));
    EXPECT_TRUE(std::equal(csr.pattern.col, csr.pattern.col + csr.nonzeros(), rows->pattern.col));
  }
}

// New values and other right-hand sides keep the order that was found, and from the third time on take no memory.
TEST(MatrixInAnOrder, TakesNewValuesWithoutANewOrder) {
  const auto csr = poisson();
  std::vector<double> values;
  const auto other = scaled_rows(csr, values);
  const auto A = ordered(csr);
  const std::int32_t* const order = A->order().order().data();
  A->update_values(other), A->update_values(csr);
  static std::atomic<int> allocations;
  allocations = 0;
  detail::allocation_hook = [](Space, std::size_t) { ++allocations; };
  A->update_values(other);
  detail::allocation_hook = nullptr;
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(A->order().order().data(), order);
}

// The preconditioner in that order is kept from solve to solve: a later solve takes memory as often with one as
// without. A new one would lie elsewhere, and a GPU would record its steps again.
TEST(OrderedSolves, KeepThePreconditionerInTheOrder) {
  const auto csr = poisson();
  const auto A = ordered(csr);
  const auto jacobi = make_preconditioner<double>("jacobi", *A);
  jacobi->ensure(*A);
  static std::atomic<int> allocations;
  const auto taken_by_the_third = [&](const Preconditioner<double>* M) {
    const auto solver = make_solver<double>("cg");
    Vector<double> b = ramp(csr.rows()), x(test_context(), csr.rows());
    for (int solve = 0; solve < 3; ++solve) {
      for (std::int64_t i = 0; i < x.size(); ++i) x[i] = 0;
      allocations = 0;
      detail::allocation_hook = [](Space, std::size_t) { ++allocations; };
      EXPECT_TRUE(solver->solve(*A, b, x, M).converged());
      detail::allocation_hook = nullptr;
    }
    return allocations.load();
  };
  EXPECT_EQ(taken_by_the_third(jacobi.get()), taken_by_the_third(nullptr));
}

// One solver, one order: new values, other right-hand sides, another operator, and back.
TEST(OrderedSolves, FollowEachOther) {
  const auto csr = poisson();
  std::vector<double> values;
  const auto other = scaled_rows(csr, values);
  const auto A = ordered(csr);
  const auto M = make_preconditioner<double>("jacobi", *A);
  const auto solver = make_solver<double>("cg", {.stopping = {.relative_tolerance = 1e-11}});
  const auto check = [&](const LinearOperator<double>& op, const CsrMatrix<double>& matrix, double factor) {
    const auto plain = make_matrix(find_format("csr"), matrix, test_context());
    Vector<double> exact = ramp(csr.rows()), b(test_context(), csr.rows()), x(test_context(), csr.rows());
    for (std::int64_t i = 0; i < x.size(); ++i) exact[i] *= factor, x[i] = 0;
    plain->apply(exact, b);
    M->ensure(op);
    EXPECT_TRUE(solver->solve(op, b, x, M.get()).converged());
    EXPECT_LT(distance(x, exact), 1e-6 * factor);
  };
  check(*A, csr, 1), check(*A, csr, 3);
  A->update_values(other);
  check(*A, other, 1);
  const auto plain = make_matrix(find_format("csr"), csr, test_context());
  check(*plain, csr, 1);
  check(*A, other, 2);
}

// An observer that says that it reads x finds it in the caller's order.
TEST(OrderedSolves, ShowAnObserverTheCallersX) {
  const auto csr = poisson();
  const auto plain = make_matrix(find_format("csr"), csr, test_context());
  const auto A = ordered(csr);
  const Vector<double> b = ramp(csr.rows());
  class Reader final : public SolveObserver {
   public:
    explicit Reader(const Vector<double>& x) : x_(x) {}
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 7) seen.assign(x_.data(), x_.data() + x_.size());
      return true;
    }
    bool reads_solution(const IterationInfo& info) const noexcept override { return info.iteration == 7; }
    std::vector<double> seen;

   private:
    const Vector<double>& x_;
  };
  Vector<double> x = ramp(csr.rows()), y = ramp(csr.rows());
  Reader one(x), two(y);
  const auto solver = make_solver<double>("cg", {.stopping = {.relative_tolerance = 1e-10}});
  EXPECT_TRUE(solver->solve(*plain, b, x, nullptr, &one).converged());
  EXPECT_TRUE(solver->solve(*A, b, y, nullptr, &two).converged());
  ASSERT_EQ(two.seen.size(), one.seen.size());
  for (std::size_t i = 0; i < one.seen.size(); ++i) ASSERT_NEAR(two.seen[i], one.seen[i], 1e-9) << i;
  EXPECT_GT(std::abs(one.seen[100] - x[100]), 1e-9) << "x of iteration 7, not of the end";
}

// A null space of unequal entries is in the caller's order.
TEST(OrderedSolves, TakeTheNullSpaceOfTheCaller) {
  // (D^-1) L (D^-1), L of a Neumann problem: its null space is D 1.
  const std::int64_t n = 60;
  const auto d = [](std::int64_t i) { return 1 + 0.2 * static_cast<double>(i % 5); };
  CsrBuilder<double> builder(test_context(), n, n, 3 * n - 2, true);
  std::int64_t k = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = std::max<std::int64_t>(i - 1, 0); j <= std::min(i + 1, n - 1); ++j, ++k) {
      const double entry = i != j ? -1 : i == 0 || i == n - 1 ? 1 : 2;
      builder.col()[k] = static_cast<std::int32_t>(j), builder.values()[k] = entry / (d(i) * d(j));
    }
    builder.set_row_ptr(i + 1, k);
  }
  const CsrMatrix<double> csr = builder.freeze();
  Vector<double> N(test_context(), n), b = ramp(n);
  double length = 0, part = 0;
  for (std::int64_t i = 0; i < n; ++i) length += d(i) * d(i);
  for (std::int64_t i = 0; i < n; ++i) N[i] = d(i) / std::sqrt(length), part += N[i] * b[i];
  for (std::int64_t i = 0; i < n; ++i) b[i] -= part * N[i];
  const auto plain = make_matrix(find_format("csr"), csr, test_context());
  const auto A = ordered(csr);
  for (const char* method : {"cg", "fcg", "minres"}) {
    SCOPED_TRACE(method);
    const auto solver = make_solver<double>(method, {.stopping = {.relative_tolerance = 1e-11}});
    solver->set_null_space({N.data(), n, n, 1, Space::host});
    Vector<double> x = ramp(n), y = ramp(n), z = ramp(n);
    EXPECT_TRUE(solver->solve(*plain, b, x).converged());
    EXPECT_TRUE(solver->solve(*A, b, y).converged());
    EXPECT_TRUE(solver->solve(*plain, b, z).converged());
    EXPECT_LT(distance(x, y), 1e-6);
    EXPECT_EQ(distance(x, z), 0);
  }
}

// A solve that ends early, or by an exception of the observer, leaves an iterate in the caller's order.
TEST(OrderedSolves, LeaveAnIterateInTheCallersOrder) {
  const auto csr = poisson();
  const auto A = ordered(csr);
  const auto plain = make_matrix(find_format("csr"), csr, test_context());
  const Vector<double> b = ramp(csr.rows());
  class Thrower final : public SolveObserver {
   public:
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 10) throw std::runtime_error("enough");
      return true;
    }
  };
  const auto solver = make_solver<double>("cg");
  Vector<double> x = ramp(csr.rows()), y = ramp(csr.rows());
  Recorder one, two;
  one.end = two.end = 10;
  EXPECT_EQ(solver->solve(*plain, b, x, nullptr, &one).reason, StopReason::interrupted);
  EXPECT_EQ(solver->solve(*A, b, y, nullptr, &two).reason, StopReason::interrupted);
  EXPECT_LT(distance(x, y), 1e-8);
  x = ramp(csr.rows()), y = ramp(csr.rows());
  Thrower thrower;
  EXPECT_THROW(solver->solve(*plain, b, x, nullptr, &thrower), std::runtime_error);
  EXPECT_THROW(solver->solve(*A, b, y, nullptr, &thrower), std::runtime_error);
  EXPECT_LT(distance(x, y), 1e-8);
}

}  // namespace
}  // namespace protean::test

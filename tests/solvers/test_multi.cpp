// Solves with several right-hand sides: each column must be what a solve of its own gives, in as few passes over the
// operator as the longest of these solves needs.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
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
#include "support/fake_device.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

template <class T>
void agrees(const ContextPtr& context, double tolerance, const std::string& method = "cg",
            std::int64_t iterations = 10000, SolverOptions options = {}, bool few = false) {
  options.stopping.relative_tolerance = tolerance, options.stopping.max_iterations = iterations;
  const CsrMatrix<T> csr =
      method == "cg" ? system_of<T>("poisson-2d", 24) : system_of<T>("convection-diffusion-3d", 8);
  for (const char* format : {"csr", "sell-c-sigma", "sell-packed", "bcsr", "csr5"}) {
    if (few && std::string(format) != "csr" && std::string(format) != "csr5") continue;
    FormatParams params;
    if (std::string(format) == "bcsr") params.set("max_fill", "100");
    const auto A = make_matrix(find_format(format), placed(context, csr), context, params);
    for (const char* preconditioner : {"none", "jacobi", "ssor"}) {
      const auto M = make_preconditioner<T>(preconditioner, *A);
      if (M) M->ensure(*A);
      for (const std::int64_t k : {1, 3, 8, 17}) {
        if (few && k > 3) continue;
        SCOPED_TRACE(std::string(format) + ", " + preconditioner + ", " + std::to_string(k) + " columns");
        const auto b = sample_columns<T>(csr.rows(), k, 3);
        MultiSolver<T> solver(method, options);
        const auto solved = solve_all<T>(solver, context, *A, b, zeros<T>(csr.rows(), k),
                                         k % 2 ? by_columns : interleaved, M.get());
        EXPECT_EQ(solved.report.converged(), iterations > 5);
        EXPECT_EQ(solved.report.product.find("in one pass") == 0, std::string(format) != "csr5")
            << solved.report.product;
        expect_like_single_solves<T>(csr, context, *A, solved, b, zeros<T>(csr.rows(), k), M.get(), options,
                                     {}, method);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}
TEST_P(MultiSolve, ColumnsAreThoseOfSingleSolvesInDouble) { agrees<double>(context_, 1e-9); }
TEST_P(MultiSolve, ColumnsAreThoseOfSingleSolvesInFloat) { agrees<float>(context_, 1e-4); }
TEST_P(MultiSolve, ColumnsOfBiCgStabAreThoseOfSingleSolves) { agrees<double>(context_, 1e-9, "bicgstab"); }
TEST_P(MultiSolve, ColumnsOfBiCgStabAreThoseOfSingleSolvesInFloat) {
  agrees<float>(context_, 1e-4, "bicgstab");
}
TEST_P(MultiSolve, StepsOfBiCgStabAreThoseOfSingleSolves) { agrees<double>(context_, 1e-14, "bicgstab", 5); }
TEST_P(MultiSolve, ColumnsOfGmresAreThoseOfSingleSolves) { agrees<double>(context_, 1e-9, "gmres"); }
TEST_P(MultiSolve, ColumnsOfGmresAreThoseOfSingleSolvesInFloat) { agrees<float>(context_, 1e-4, "gmres"); }
// Cycles of several lengths, so that columns end within them, at their end, and after several.
TEST_P(MultiSolve, ColumnsOfRestartedGmresAreThoseOfSingleSolves) {
  for (const std::int64_t restart : {1, 4, 7})
    for (const char* orthogonalization : {"cgs2", "mgs"}) {
      SolverOptions options;
      options.restart = restart, options.orthogonalization = orthogonalization;
      SCOPED_TRACE(std::to_string(restart) + ", " + orthogonalization);
      agrees<double>(context_, 1e-6, "gmres", 10000, options, true);
    }
}

// A matrix that counts the passes over its entries.
class Counted final : public LinearOperator<double>, public HasMultiProduct<double> {
 public:
  explicit Counted(std::unique_ptr<AssembledMatrix<double>> A)
      : LinearOperator<double>(A->context(), A->shape()), A_(std::move(A)) {}
  std::string_view name() const noexcept override { return "counted"; }
  void do_multi_apply(double alpha, MultiVectorView<const double> X, double beta,
                      MultiVectorView<double> Y) const override {
    ++passes, most = std::max(most, X.columns);
    widths.push_back(X.columns);
    multi_apply<double>(*A_, alpha, X, beta, Y);
  }
  mutable std::int64_t passes = 0, most = 0;
  mutable std::vector<std::int64_t> widths;

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    ++passes;
    A_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> A_;
};

void one_pass_serves_all(const ContextPtr& context_, const std::string& method) {
  const auto csr = system_of<double>("poisson-2d", 30);
  Counted A(make_matrix(find_format("csr"), placed(context_, csr), context_));
  constexpr std::int64_t k = 16;
  const auto b = sample_columns<double>(csr.rows(), k, 7);
  std::vector<StoppingRule> rules(k);
  for (std::size_t j = 0; j < k; ++j) rules[j].relative_tolerance = j < 12 ? 1e-2 : j < 15 ? 1e-6 : 1e-12;
  MultiSolver<double> solver(method);
  const auto solved =
      solve_all<double>(solver, context_, A, b, zeros<double>(csr.rows(), k), by_columns, nullptr, rules);
  std::int64_t sum = 0, restarts = 0;
  for (const SolveReport& column : solved.report.columns)
    sum += column.iterations, restarts = std::max(restarts, column.restarts);
  EXPECT_EQ(restarts > 2, method == "gmres");
  EXPECT_GT(sum, 3 * solved.report.iterations)
      << "the columns must need far more steps together than the longest";
  // One pass a step, one for the first residuals, one for each cycle, and one or two for each time that columns ended.
  // A GPU runs a few steps ahead each time.
  const std::int64_t ahead = context_->space() == Space::device ? 16 * 18 : 0;
  EXPECT_LE(A.passes, solved.report.iterations + restarts + 2 * k + 2 + ahead);
  EXPECT_EQ(A.most, 16);
  // 16 columns, then 4 for the three and one that are left, then the last one alone by the product of one vector.
  EXPECT_EQ(A.widths.front(), 16);
  EXPECT_LE(A.widths.back(), 4);
  EXPECT_GT(A.passes - std::ssize(A.widths), 10) << "the last column runs alone";
  expect_like_single_solves<double>(csr, context_, A, solved, b, zeros<double>(csr.rows(), k), nullptr, {},
                                    rules, method);
}
TEST_P(MultiSolve, OnePassServesAllColumnsAndEndedColumnsAreLeftOut) { one_pass_serves_all(context_, "cg"); }
TEST_P(MultiSolve, OnePassOfGmresServesAllColumnsAndEndedColumnsAreLeftOut) {
  one_pass_serves_all(context_, "gmres");
}

// One solver for blocks of changing width, layout, size, preconditioner and matrix: the bits of a new solver.
TEST_P(MultiSolve, ReuseInAnyOrderHasTheBitsOfANewSolver) {
  const auto small = system_of<double>("poisson-2d", 9), large = system_of<double>("poisson-2d", 15);
  std::vector<std::unique_ptr<AssembledMatrix<double>>> matrices;
  matrices.push_back(make_matrix(find_format("csr"), placed(context_, small), context_));
  matrices.push_back(make_matrix(find_format("sell-c-sigma"), placed(context_, large), context_));
  matrices.push_back(make_matrix(find_format("csr5"), placed(context_, large), context_));
  SolverOptions options;
  options.restart = 12, options.directions = 3;
  std::vector<std::unique_ptr<MultiSolver<double>>> solvers;
  for (const std::string_view method : multi_methods())
    solvers.push_back(std::make_unique<MultiSolver<double>>(method, options_read_by(method, options)));
  std::mt19937 random(11);
  for (int round = 0; round < 160; ++round) {
    MultiSolver<double>& solver = *solvers[random() % solvers.size()];
    const auto& A = *matrices[random() % matrices.size()];
    const std::int64_t k = std::array<std::int64_t, 6>{0, 1, 2, 3, 8, 17}[random() % 6];
    const char* id = std::array{"none", "jacobi", "ssor"}[random() % 3];
    const auto M = make_preconditioner<double>(id, A);
    if (M) M->ensure(A);
    const MultiShape shape = multi_shapes()[random() % multi_shapes().size()];
    auto b = sample_columns<double>(A.rows(), k, static_cast<unsigned>(round));
    auto x0 = sample_columns<double>(A.rows(), k, static_cast<unsigned>(round) + 1000);
    if (k > 2) b[1].assign(b[1].size(), 0.0);
    SCOPED_TRACE(std::string(solver.name()) + ", " + std::string(A.name()) + ", " + id + ", " +
                 std::to_string(k) + " columns " + shape.name());
    MultiSolver<double> fresh(solver.name(), solver.options());
    const auto kept = solve_all<double>(solver, context_, A, b, x0, shape, M.get());
    const auto made = solve_all<double>(fresh, context_, A, b, x0, shape, M.get());
    EXPECT_TRUE(kept.report.converged());
    EXPECT_EQ(kept.x, made.x);
    for (std::size_t j = 0; j < b.size(); ++j)
      EXPECT_EQ(kept.report.columns[j].iterations, made.report.columns[j].iterations);
  }
}

TEST_P(MultiSolve, NoColumnsAndNoRows) {
  const auto csr = system_of<double>("poisson-2d", 4);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  MultiSolver<double> solver;
  const auto none = solve_all<double>(solver, context_, *A, {}, {});
  EXPECT_TRUE(none.report.converged());
  EXPECT_EQ(none.report.products, 0);
  const auto empty = csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>());
  const auto E = make_matrix(find_format("csr"), placed(context_, empty), context_);
  const auto nothing = solve_all<double>(solver, context_, *E, Columns<double>(3), Columns<double>(3));
  for (const SolveReport& column : nothing.report.columns)
    EXPECT_EQ(column.reason, StopReason::zero_right_hand_side);
}

TEST_P(MultiSolve, WhatDoesNotFitIsRefused) {
  const auto csr = system_of<double>("poisson-2d", 6);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr), context_);
  MultiVector<double> B(context_, 36, 4), X(context_, 36, 4);
  fill<double>(*context_, 1.0, {B.data(), 144, B.space()});
  fill<double>(*context_, 0.0, {X.data(), 144, X.space()});
  MultiSolver<double> solver;
  EXPECT_THROW((void)solver.solve(*A, B, B.view()), BadArgument);
  EXPECT_THROW((void)solver.solve(*A, B, X.view().part(0, 3)), ShapeMismatch);
  EXPECT_THROW((void)solver.solve(*A, B, X, nullptr, nullptr, std::vector<StoppingRule>(3)), ShapeMismatch);
  std::vector<StoppingRule> wrong(4);
  wrong[2].divergence = 0;
  EXPECT_THROW((void)solver.solve(*A, B, X, nullptr, nullptr, wrong), BadArgument);
  const auto M = make_preconditioner<double>("gauss-seidel", *A);
  M->ensure(*A);
  EXPECT_THROW((void)solver.solve(*A, B, X, M.get()), BadArgument);
  const auto wide = make_matrix(find_format("csr"), placed(context_, battery_matrix("row_1x100")), context_);
  EXPECT_THROW((void)solver.solve(*wide, B, X), ShapeMismatch);
  EXPECT_TRUE(solver.solve(*A, B, X).converged()) << "usable afterwards";
}

INSTANTIATE_TEST_SUITE_P(All, MultiSolve, testing::Values(Space::host, Space::device),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

TEST(MultiSolvers, WhatIsForOneColumnIsRefused) {
  EXPECT_THROW(MultiSolver<double>("cgg"), BadArgument);
  SolverOptions resident;
  resident.device_steps = "resident";
  EXPECT_THROW(MultiSolver<double>("cg", resident), BadArgument);
  const auto csr = system_of<double>("poisson-2d", 4);
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  MultiSolver<double> graph("cg", {.device_steps = "graph"});
  EXPECT_THROW((void)solve_all<double>(graph, test_context(), *A, sample_columns<double>(csr.rows(), 2, 1),
                                       zeros<double>(csr.rows(), 2)),
               BadArgument);
  EXPECT_THROW(MultiSolver<double>("cg", {.residual_norm = "jacobi"}), BadArgument);
}

TEST(MultiSolvers, AllMethodsHaveAFormForColumns) {
  std::vector<std::string_view> all;
  for (const SolverEntry& entry : solvers()) all.push_back(entry.id);
  const auto known = multi_methods();
  EXPECT_EQ(std::vector<std::string_view>(known.begin(), known.end()), all);
  for (const std::string_view method : known) EXPECT_EQ(MultiSolver<double>(method).name(), method);
}

// New values in the middle of a solve: all columns begin again at once from the residual of the new matrix, as single
// solves do.
void new_values_in_a_solve(const std::string& method) {
  struct Changer final : MultiSolveObserver, SolveObserver {
    explicit Changer(AssembledMatrix<double>& of, const CsrMatrix<double>& values) : A(of), with(values) {}
    bool on_iteration(const MultiIterationInfo& info) override { return change(info.iteration); }
    bool on_iteration(const IterationInfo& info) override { return change(info.iteration); }
    bool change(std::int64_t iteration) {
      if (iteration == 5) A.update_values(with);
      return true;
    }
    AssembledMatrix<double>& A;
    const CsrMatrix<double>& with;
  };
  const auto csr = system_of<double>("poisson-2d", 20);
  const auto doubled = deep_copy(test_context(), csr);
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(doubled.values)[k] *= 2;
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  const auto b = sample_columns<double>(csr.rows(), 3, 1);
  Changer changer(*A, doubled);
  SolverOptions options;
  options.restart = 1000;
  MultiSolver<double> solver(method, options_read_by(method, options));
  const auto solved = solve_all<double>(solver, test_context(), *A, b, zeros<double>(csr.rows(), 3),
                                        by_columns, nullptr, {}, &changer);
  for (std::size_t j = 0; j < b.size(); ++j) {
    A->update_values(csr);
    Placed<double> x(test_context(), zeros<double>(csr.rows(), 1)[0]);
    const SolveReport one =
        make_solver<double>(method, options_read_by(method, options))
            ->solve(*A, Placed<double>(test_context(), b[j]).read(), x.view(), nullptr, &changer);
    EXPECT_LE(std::abs(solved.report.columns[j].iterations - one.iterations), 1);
    EXPECT_EQ(solved.report.columns[j].restarts, 1);
    EXPECT_LE(residual_of(doubled, b[j], solved.x[j]), 1.01e-8 * solved.report.columns[j].rhs_norm);
  }
}
TEST(MultiSolvers, NewValuesInASolve) { new_values_in_a_solve("cg"); }
TEST(MultiSolvers, NewValuesInASolveByGmres) { new_values_in_a_solve("gmres"); }

// If the recurrence has reached the tolerance and b - A x has nearly, a column goes on with a lower goal instead of a
// restart, as a single solve does. An initial guess that is far off makes the two residuals differ by rounding; some
// tolerances are as large as that difference.
TEST(MultiSolvers, AimLowerWhereSingleSolvesDo) {
  const auto csr = system_of<double>("poisson-2d", 24);
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  const auto b = sample_columns<double>(csr.rows(), 5, 1);
  auto far = sample_columns<double>(csr.rows(), 5, 2);
  for (auto& column : far)
    for (double& value : column) value *= 1e6;
  std::int64_t together = 0, alone = 0;
  for (double tolerance = 1e-10; tolerance < 1e-7; tolerance *= 1.05) {
    SolverOptions options;
    options.stopping.relative_tolerance = tolerance;
    MultiSolver<double> solver("cg", options);
    const auto solved = solve_all<double>(solver, test_context(), *A, b, far, by_columns);
    for (std::size_t j = 0; j < b.size(); ++j) {
      EXPECT_TRUE(solved.report.columns[j].converged());
      together += solved.report.columns[j].restarts;
      alone += solve_one<double>(test_context(), *A, b[j], far[j], nullptr, options).report.restarts;
    }
  }
  EXPECT_GT(alone, 40);
  EXPECT_LE(std::abs(together - alone), 20)
      << together << " restarts and " << alone;  // rounding decides in some
}

// As Norm.IsExactWhereSquaresUnderflow, for b and for b - A x; the squares of the last column overflow.
TEST(MultiSolvers, NormsAreExactWhereSquaresAreOutOfRange) {
  constexpr std::int64_t n = 20;
  const auto csr = csr_from_triplets<double>(test_context(), n, n, [] {
    std::vector<Triplet<double>> unit;
    for (std::int32_t i = 0; i < n; ++i) unit.push_back({i, i, 1.0});
    return unit;
  }());
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  const std::vector<double> unit = right_hand_side<double>(n);
  long double expected = 0;
  for (const double v : unit) expected += static_cast<long double>(v) * v;
  expected = std::sqrt(expected);
  const std::vector<int> exponents = {-530, -520, -515, -510, 515};
  Columns<double> b(exponents.size(), unit);
  for (std::size_t j = 0; j < b.size(); ++j)
    for (double& v : b[j]) v = std::ldexp(v, exponents[j]);
  for (const std::string_view method : multi_methods()) {
    SolverOptions options;
    options.stopping.max_iterations = 0;
    MultiSolver<double> solver(method, options_read_by(method, options));
    const auto solved = solve_all<double>(solver, test_context(), *A, b, zeros<double>(n, std::ssize(b)));
    for (std::size_t j = 0; j < b.size(); ++j) {
      const SolveReport& column = solved.report.columns[j];
      EXPECT_NEAR(std::ldexp(column.rhs_norm, -exponents[j]), static_cast<double>(expected), 1e-13)
          << exponents[j];
      EXPECT_NEAR(std::ldexp(column.true_residual, -exponents[j]), static_cast<double>(expected), 1e-13);
    }
  }
}

// Vectors and scalars of a device are touched by the device only.
TEST(MultiSolvers, OnAFakeDevice) {
  const ContextPtr device = fake_device_context();
  const auto csr = system_of<double>("poisson-2d", 12);
  const auto A = make_matrix(fake_format("csr"), placed(device, csr), device);
  SolverOptions options;
  options.restart = 10;
  for (const std::string_view method : multi_methods())
    for (const char* id : {"none", "jacobi"}) {
      const auto M = make_preconditioner<double>(id, *A);
      if (M) M->ensure(*A);
      auto b = sample_columns<double>(csr.rows(), 6, 1);
      b[3].assign(b[3].size(), 0.0);
      MultiSolver<double> solver(method, options_read_by(method, options));
      const auto solved =
          solve_all<double>(solver, device, *A, b, zeros<double>(csr.rows(), 6), interleaved, M.get());
      EXPECT_TRUE(solved.report.converged());
      EXPECT_EQ(solved.report.steps, "simulated");
      for (std::size_t j = 0; j < b.size(); ++j)
        EXPECT_NEAR(solved.report.columns[j].true_residual, residual_of(csr, b[j], solved.x[j]),
                    1e-12 * (1 + solved.report.columns[j].rhs_norm));
    }
}

TEST(MultiSolvers, TwoThreadsMustNotShareOne) {
  struct Nested final : MultiSolveObserver {
    bool on_iteration(const MultiIterationInfo&) override {
      EXPECT_THROW((void)solver->solve(*A, B->view(), X->view()), BadArgument);
      return false;
    }
    MultiSolver<double>* solver = nullptr;
    const LinearOperator<double>* A = nullptr;
    MultiVector<double>*B = nullptr, *X = nullptr;
  } nested;
  const auto csr = system_of<double>("poisson-2d", 5);
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  MultiVector<double> B(test_context(), 25, 2), X(test_context(), 25, 2);
  fill<double>(*test_context(), 1.0, {B.data(), 50});
  fill<double>(*test_context(), 0.0, {X.data(), 50});
  MultiSolver<double> solver;
  nested.solver = &solver, nested.A = A.get(), nested.B = &B, nested.X = &X;
  EXPECT_EQ(solver.solve(*A, B, X, nullptr, &nested).columns[0].reason, StopReason::interrupted);
}

}  // namespace
}  // namespace protean::test

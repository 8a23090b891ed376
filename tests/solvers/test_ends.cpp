// How solves end: guesses and solutions that are not finite, breakdowns with progress, systems that no x solves, and
// preconditioners that are useless. On the host, on a simulated device that runs ahead, and on a GPU if there is one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/multi_solves.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

CsrMatrix<double> csr_of(const Dense& dense) {
  std::vector<Triplet<double>> entries;
  for (std::int64_t i = 0; i < dense.n; ++i)
    for (std::int64_t j = 0; j < dense.n; ++j)
      if (dense(i, j) != 0)
        entries.push_back(
            {static_cast<std::int32_t>(i), static_cast<std::int32_t>(j), static_cast<double>(dense(i, j))});
  return csr_from_triplets<double>(test_context(), dense.n, dense.n, entries);
}

// A matrix and vectors in one of the spaces.
struct Place {
  explicit Place(ContextPtr its_context) : context(std::move(its_context)) {}
  std::unique_ptr<AssembledMatrix<double>> matrix(const CsrMatrix<double>& csr) const {
    const FormatEntry& format = context->simulated() ? fake_format("csr") : find_format("csr");
    return make_matrix(format, placed(context, csr), context);
  }
  ContextPtr context;
};
std::vector<Place> places() {
  std::vector<Place> all{Place(test_context()),
                         Place(fake_device_context({.steps_ahead = 3, .steps_after_end = 4}))};
  if (test_context(Space::device)) all.emplace_back(test_context(Space::device));
  return all;
}

struct Ended {
  SolveReport report;
  std::vector<double> x;
};
Ended solve(const Place& place, std::string_view method, const LinearOperator<double>& A,
            const std::vector<double>& b, const std::vector<double>& x0,
            const Preconditioner<double>* M = nullptr, const StoppingRule& rule = {}) {
  const Placed<double> pb(place.context, b);
  Placed<double> px(place.context, x0);
  Ended ended;
  ended.report = make_solver<double>(method, {.stopping = rule})->solve(A, pb.read(), px.view(), M);
  ended.x = px.fetch();
  return ended;
}
// The first of three columns; the others have the same b and x = 0.
Ended solve_columns(const Place& place, std::string_view method, const LinearOperator<double>& A,
                    const std::vector<double>& b, const std::vector<double>& x0,
                    const Preconditioner<double>* M = nullptr, const StoppingRule& rule = {}) {
  const std::int64_t n = A.rows(), k = 3;
  std::vector<double> all_b, all_x(static_cast<std::size_t>(n * k), 0.0);
  for (std::int64_t j = 0; j < k; ++j) all_b.insert(all_b.end(), b.begin(), b.end());
  std::copy(x0.begin(), x0.end(), all_x.begin());
  const Placed<double> pb(place.context, all_b);
  Placed<double> px(place.context, all_x);
  const Space space = place.context->space();
  MultiSolveReport report = MultiSolver<double>(method, {.stopping = rule})
                                .solve(A, {pb.read().data, n, k, n, VectorLayout::columns, space},
                                       {px.data(), n, k, n, VectorLayout::columns, space}, M);
  const std::vector<double> x = px.fetch();
  return {report.columns.front(), {x.begin(), x.begin() + n}};
}
bool has_columns(std::string_view method) {
  const auto known = multi_methods();
  return std::find(known.begin(), known.end(), method) != known.end();
}

bool in_build(std::string_view preconditioner) {
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == preconditioner) return entry.unavailable.empty();
  return false;
}

// One equation has no unknown and one unknown no equation.
Dense with_empty_row_and_column(std::int64_t n, std::int64_t empty) {
  Dense A = poisson_1d(n);
  for (std::int64_t i = 0; i < n; ++i) A(i, i) = 2.1L, A(i, empty) = A(empty, i) = 0;
  return A;
}

// b - A x does not see it if the column of A is empty.
TEST(Guess, ThatIsNotFiniteIsRefusedWithItsRow) {
  const auto csr = csr_of(with_empty_row_and_column(12, 7));
  std::vector<double> b(12, 1.0);
  b[7] = 0;
  for (const Place& place : places()) {
    const auto A = place.matrix(csr);
    for (const char* method : all_methods())
      for (const double bad : {nan, infinity, -infinity}) {
        std::vector<double> x0(12, 0.0);
        x0[7] = bad, x0[9] = nan;
        const std::string word = std::isnan(bad) ? "nan" : bad > 0 ? "inf" : "-inf";
        const auto expect_refused = [&](auto&& call, const std::string& what) {
          try {
            (void)call();
            ADD_FAILURE() << method << " took " << word;
          } catch (const BadArgument& error) {
            EXPECT_EQ(error.what(),
                      what + " is " + word + " in row 7 (from 0); give finite numbers, or zeros");
          }
        };
        expect_refused([&] { return solve(place, method, *A, b, x0); }, "the initial guess");
        if (has_columns(method))
          expect_refused([&] { return solve_columns(place, method, *A, b, x0); },
                         "the initial guess of column 0");
        EXPECT_EQ(A->products(), 0) << "it is refused before any product";
      }
  }
}

TEST(Guess, ThatIsNotFiniteIsFoundInInterleavedColumnsWithGaps) {
  const DenseOperator<double> A(poisson_1d(6));
  constexpr std::int64_t n = 6, k = 3, stride = 5;
  std::vector<double> b(n * k, 1.0), x(n * stride, nan);  // the gaps are NaN
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < k; ++j) x[static_cast<std::size_t>(i * stride + j)] = 0;
  const MultiVectorView<const double> B{b.data(), n, k, k, VectorLayout::interleaved};
  const MultiVectorView<double> X{x.data(), n, k, stride, VectorLayout::interleaved};
  EXPECT_TRUE(MultiSolver<double>("cg").solve(A, B, X).converged());
  x[static_cast<std::size_t>(4 * stride + 2)] = infinity;
  try {
    (void)MultiSolver<double>("cg").solve(A, B, X);
    ADD_FAILURE();
  } catch (const BadArgument& error) {
    EXPECT_EQ(error.what(),
              std::string("the initial guess of column 2 is inf in row 4 (from 0); give finite numbers, "
                          "or zeros"));
  }
}

// The rows are in the caller's numbering.
TEST(Guess, ThatIsNotFiniteIsNamedInTheCallersOrder) {
  const auto csr = csr_of(poisson_1d(8));
  PermutedMatrix<double> permuted(test_context(), csr, Permutation(test_context(), {7, 6, 5, 4, 3, 2, 1, 0}));
  auto inside = make_matrix(find_format("csr"), permuted.matrix(), test_context());
  const Matrix<double> A(csr, "drawn", std::move(permuted), std::move(inside), {.changes = false});
  std::vector<double> b(8, 1.0), x(8, 0.0);
  x[2] = nan;
  try {
    (void)make_solver<double>("cg")->solve(A, view(std::as_const(b)), view(x));
    ADD_FAILURE();
  } catch (const BadArgument& error) { EXPECT_TRUE(has(error.what(), "in row 2 (from 0)")) << error.what(); }
}

// A product that writes an infinity where no equation reads it: the residual stays finite, and x does not.
TEST(Solution, ThatIsNotFiniteIsNeverConverged) {
  constexpr std::int64_t n = 12, empty = 7;
  const Dense dense = with_empty_row_and_column(n, empty);
  const auto csr = csr_of(dense);
  std::vector<double> b = right_hand_side<double>(n);
  b[empty] = 0;
  // M^-1 r is infinite in that row alone, which A does not read: A M^-1 r is finite.
  for (const char* method : {"bicgstab", "bicgstab2", "idr", "gmres", "fgmres"}) {
    const CallbackPreconditioner<double> M(test_context(), {n, n},
                                           [&](const double* r, double* z, CUstream_st*) {
                                             for (std::int64_t i = 0; i < n; ++i) z[i] = r[i] / 2;
                                             z[empty] = infinity;
                                           });
    const Place place(test_context());
    const auto A = place.matrix(csr);
    const auto check = [&](const Ended& ended) {
      EXPECT_EQ(ended.report.reason, StopReason::not_finite) << method << to_string(ended.report.reason);
      EXPECT_FALSE(std::isfinite(ended.x[empty])) << method;
      EXPECT_TRUE(has(ended.report.detail,
                      "in row 7 (from 0), and column 7 of A is zero, so that no equation "
                      "determines it"))
          << method << ": " << ended.report.detail;
      EXPECT_FALSE(ended.report.advice.empty());
      EXPECT_FALSE(has(ended.report.advice, "Check matrix")) << ended.report.advice;
    };
    check(solve(place, method, *A, b, std::vector<double>(n, 0.0), &M));
    if (has_columns(method)) check(solve_columns(place, method, *A, b, std::vector<double>(n, 0.0), &M));
  }
}

// The residual of a zero row stays, and its unknown grows beyond all bounds.
TEST(Solution, ThatIsNotFiniteIsNamedWhereTheIterationsEnd) {
  const auto csr = csr_of(with_empty_row_and_column(40, 1));
  const std::vector<double> b(40, 1.0), x0(40, 0.0);
  for (const Place& place : places()) {
    const auto A = place.matrix(csr);
    int not_finite = 0;
    for (const char* method : all_methods()) {
      const Ended ended = solve(place, method, *A, b, x0);
      EXPECT_FALSE(ended.report.converged()) << method;
      if (std::isfinite(ended.x[1])) continue;
      ++not_finite;
      EXPECT_EQ(ended.report.reason, StopReason::not_finite) << method << to_string(ended.report.reason);
      EXPECT_TRUE(has(ended.report.detail, "column 1 of A is zero")) << method << ended.report.detail;
    }
    EXPECT_GE(not_finite, 1) << "idr does, in 10,000 iterations";
  }
}

// What a failed solve says about A, M and x does not depend on whether it is a solve of a vector or of a column.
TEST(Columns, SayWhatOneVectorSays) {
  constexpr std::int64_t n = 40;
  struct Case {
    const char* name;
    Dense A;
    std::vector<double> b;
    bool useless;  // M^-1 has zero rows
    StoppingRule rule;
  };
  std::vector<double> ones(n, 1.0), with_nan = ones, alone(n, 0.0);
  with_nan[3] = nan, alone[7] = 1;
  const Case cases[] = {
      {"b is not finite, and M is useless", poisson_1d(n), with_nan, true, {}},
      {"M is useless", poisson_1d(n), alone, true, {.max_iterations = 30}},
      {"not symmetric", convection_2d(6, 3), std::vector<double>(36, 1.0), false, {.max_iterations = 3}},
      {"an unknown without an equation",
       with_empty_row_and_column(n, 1),
       ones,
       false,
       {.max_iterations = 5000}},
  };
  for (const Case& one : cases)
    for (const char* method : all_methods()) {
      SCOPED_TRACE(std::string(one.name) + ", " + method);
      const DenseOperator<double> A(one.A);
      const std::int64_t rows = one.A.n;
      const CallbackPreconditioner<double> useless(test_context(), {rows, rows},
                                                   [=](const double* r, double* z, CUstream_st*) {
                                                     for (std::int64_t i = 0; i < rows; ++i)
                                                       z[i] = i == 7 || i == 12 ? 0 : r[i] / 2;
                                                   });
      const Preconditioner<double>* const M = one.useless ? &useless : nullptr;
      const Place place(test_context());
      const std::vector<double> x0(static_cast<std::size_t>(rows), 0.0);
      const SolveReport vector = solve(place, method, A, one.b, x0, M, one.rule).report;
      const SolveReport column = solve_columns(place, method, A, one.b, x0, M, one.rule).report;
      EXPECT_FALSE(vector.converged());
      // These differ by rounding, which some methods amplify, and by the instructions of the processor.
      if (vector.iterations > 100) continue;
      EXPECT_EQ(to_string(column.reason), to_string(vector.reason)) << column.detail << vector.detail;
      EXPECT_EQ(column.advice, vector.advice);
      EXPECT_NEAR(static_cast<double>(column.iterations), static_cast<double>(vector.iterations),
                  amplifies_rounding(method) ? 0.1 * static_cast<double>(vector.iterations) : 1);
      EXPECT_EQ(column.restarts, vector.restarts);
    }
}

// A question about A is asked once, and each column that depends on the answer has it.
TEST(Columns, EachSayThatTheMatrixIsNotSymmetric) {
  const DenseOperator<double> A(convection_2d(6, 3));
  constexpr std::int64_t n = 36, k = 3;
  const std::vector<double> b(n * k, 1.0);
  std::vector<double> x(n * k, 0.0);
  MultiSolver<double> solver("cg", {.stopping = {.max_iterations = 3}});
  const MultiSolveReport report = solver.solve(A, {b.data(), n, k, n, VectorLayout::columns, Space::host},
                                               {x.data(), n, k, n, VectorLayout::columns, Space::host});
  for (const SolveReport& column : report.columns) {
    EXPECT_TRUE(has(column.detail, "the matrix is not symmetric")) << column.detail;
    EXPECT_TRUE(has(column.advice, "take method gmres")) << column.advice;
  }
}

// x0 is so large that the first step solves the system up to the rounding of ||b - A x0||, which is above the
// tolerance.
TEST(HappyBreakdown, InTheFirstStepGoesOnFromTheX) {
  const auto csr = csr_of(poisson_1d(10));
  const std::vector<double> b(10, 1.0);
  std::vector<double> x0(10);
  for (std::size_t i = 0; i < x0.size(); ++i) x0[i] = 1e9 * (1 + 0.3 * static_cast<double>(i));
  for (const Place& place : places()) {
    const auto A = place.matrix(csr);
    for (const char* preconditioner : {"ilu0", "ic0", "amg"})
      for (const char* method : all_methods()) {
        if (!in_build(preconditioner)) continue;
        const auto M = make_preconditioner<double>(preconditioner, *A);
        M->ensure(*A);
        if (make_solver<double>(method)->needs_symmetric_preconditioner() && !M->symmetric()) continue;
        const Ended one = solve(place, method, *A, b, x0, M.get());
        EXPECT_TRUE(one.report.converged())
            << preconditioner << " " << method << ": " << to_string(one.report.reason) << one.report.detail;
        EXPECT_LE(one.report.iterations, 20) << preconditioner << " " << method;
        if (!has_columns(method)) continue;
        const Ended column = solve_columns(place, method, *A, b, x0, M.get());
        EXPECT_TRUE(column.report.converged()) << preconditioner << " " << method << ": "
                                               << to_string(column.report.reason) << column.report.detail;
      }
  }
}

// r = b is in the null space of A: the same step would come again and again.
TEST(HappyBreakdown, WithoutProgressIsFinal) {
  Dense A = diagonal_matrix({1, 2, 0});
  const std::vector<double> b = {0, 0, 1}, x0 = {0, 0, 0};
  for (const char* method : {"gmres", "fgmres", "bicgstab", "bicgstab2", "idr"}) {
    const SolveReport report = solve(Place(test_context()), method, DenseOperator<double>(A), b, x0).report;
    EXPECT_EQ(report.reason, StopReason::breakdown) << method << to_string(report.reason);
    EXPECT_EQ(report.iterations, 1) << method;
    EXPECT_EQ(report.restarts, 0) << method;
  }
}

// The only direction of this space is used up after a step, so that p = 0, which says nothing of A.
TEST(Fcg, WithoutANewDirectionDoesNotCallTheMatrixIndefinite) {
  for (const double a : {10.0, 0.1, 7e7})
    for (const double x0 : {1e9, 3e12, -1e5}) {
      const SolveReport report =
          solve(Place(test_context()), "fcg", DenseOperator<double>(diagonal_matrix({a})), {1}, {x0}).report;
      EXPECT_TRUE(report.converged()) << a << " " << x0 << ": " << to_string(report.reason) << report.detail;
    }
  // An indefinite matrix is still called so.
  const SolveReport report = solve(Place(test_context()), "fcg",
                                   DenseOperator<double>(diagonal_matrix({1, -2, 3})), {1, 1, 1}, {0, 0, 0})
                                 .report;
  EXPECT_EQ(report.reason, StopReason::indefinite_operator) << to_string(report.reason);
}

// A Neumann problem whose sources do not balance: v . b is 2 % of ||v|| ||b|| for v = (1 .. 1).
TEST(Inconsistent, ANeumannProblemIsNamedByEveryMethod) {
  constexpr std::int64_t m = 20, n = m * m;
  Dense neumann = convection_2d(m, 0);
  for (std::int64_t i = 0; i < n; ++i) {
    neumann(i, i) = 0;
    for (std::int64_t j = 0; j < n; ++j)
      if (j != i) neumann(i, i) -= neumann(i, j);
  }
  // Flows along the rows: the columns still add up to zero, the rows do not.
  Dense flow = neumann;
  for (std::int64_t i = 0; i + 1 < n; ++i)
    if ((i + 1) % m != 0) flow(i, i) += 0.5L, flow(i + 1, i) -= 0.5L;
  std::vector<double> b(n), x0(n, 0.0);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = (i % 2 ? 1.0 : -1.0) + 0.02;
  for (const Place& place : places())
    for (const bool symmetric : {true, false}) {
      const auto A = place.matrix(csr_of(symmetric ? neumann : flow));
      for (const char* method : all_methods()) {
        if (!symmetric && find_solver(method).symmetric) continue;
        const auto check = [&](const SolveReport& report, const char* what) {
          EXPECT_EQ(report.reason, StopReason::inconsistent) << what << method << to_string(report.reason);
          EXPECT_TRUE(has(report.detail, "no x has a residual")) << report.detail;
          EXPECT_TRUE(has(report.advice, "no x solves the system")) << report.advice;
          EXPECT_LE(report.iterations, 2000) << what << method;
        };
        check(solve(place, method, *A, b, x0, nullptr, {.max_iterations = 2000}).report, "one ");
        if (has_columns(method))
          check(solve_columns(place, method, *A, b, x0, nullptr, {.max_iterations = 2000}).report,
                "columns ");
      }
    }
}

TEST(Inconsistent, IsNotSaidOfSystemsThatAreSolvable) {
  // Large enough that the boundary contributes little compared with the rounding of a sum in single precision.
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 300}});
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  const auto single =
      make_matrix(find_format("csr"), convert_values<float>(test_context(), csr), test_context());
  for (const char* method : all_methods()) {
    std::vector<double> b(static_cast<std::size_t>(csr.rows()), 1.0), x(b.size(), 0.0);
    std::vector<float> c(b.size(), 1.0f), y(b.size(), 0.0f);
    const SolverOptions few = {.stopping = {.max_iterations = 3}};
    EXPECT_EQ(make_solver<double>(method, few)->solve(*A, view(std::as_const(b)), view(x)).reason,
              StopReason::max_iterations);
    EXPECT_EQ(make_solver<float>(method, few)->solve(*single, view(std::as_const(c)), view(y)).reason,
              StopReason::max_iterations);
  }
  // Nearly singular: a small reaction everywhere.
  Dense almost = poisson_1d(30);
  almost(0, 0) = almost(29, 29) = 1;
  for (std::int64_t i = 0; i < 30; ++i) almost(i, i) += 1e-9L;
  const SolveReport report =
      solve(Place(test_context()), "gmres", DenseOperator<double>(almost), std::vector<double>(30, 1.0),
            std::vector<double>(30, 0.0), nullptr, {.max_iterations = 0})
          .report;
  EXPECT_EQ(report.reason, StopReason::max_iterations);
}

// M^-1 has a zero row, so that no step changes the unknown.
TEST(UselessPreconditioner, WithAZeroRowIsNamed) {
  constexpr std::int64_t n = 20;
  for (const Dense& dense : {poisson_1d(n), diagonal_matrix(std::vector<long double>(n, 3))}) {
    const DenseOperator<double> A(dense);
    for (const char* method : all_methods())
      for (const bool alone : {false, true}) {
        const CallbackPreconditioner<double> M(test_context(), {n, n},
                                               [](const double* r, double* z, CUstream_st*) {
                                                 for (std::int64_t i = 0; i < n; ++i)
                                                   z[i] = i == 7 || i == 12 ? 0 : r[i] / 2;
                                               });
        std::vector<double> b(n, alone ? 0.0 : 1.0);
        b[7] = 1;
        const auto check = [&](const Ended& ended) {
          EXPECT_FALSE(ended.report.converged()) << method;
          EXPECT_TRUE(has(ended.report.advice,
                          "Preconditioner callback is useless for this matrix: 2 rows of M^-1 "
                          "are zero, the first of them row 7 (from 0)"))
              << method << ": " << to_string(ended.report.reason) << " " << ended.report.advice;
          EXPECT_FALSE(has(ended.report.advice, "singular")) << ended.report.advice;
          for (const double x : ended.x) EXPECT_TRUE(std::isfinite(x)) << method;
        };
        check(solve(Place(test_context()), method, A, b, std::vector<double>(n, 0.0), &M,
                    {.max_iterations = 200}));
        if (has_columns(method))
          check(solve_columns(Place(test_context()), method, A, b, std::vector<double>(n, 0.0), &M,
                              {.max_iterations = 200}));
      }
  }
}

// As ilu0 with tiny pivots: M^-1 r is far beyond all that A and b have.
TEST(UselessPreconditioner, ThatOverflowsIsNamed) {
  constexpr std::int64_t n = 20;
  const DenseOperator<double> A(poisson_1d(n));
  for (const char* method : all_methods())
    for (const double factor : {1e200, 1e308, nan}) {
      const CallbackPreconditioner<double> M(test_context(), {n, n},
                                             [&](const double* r, double* z, CUstream_st*) {
                                               for (std::int64_t i = 0; i < n; ++i)
                                                 z[i] = r[i] * (i % 3 == 0 ? factor : 1e100);
                                             });
      const SolveReport report =
          solve(Place(test_context()), method, A, right_hand_side<double>(n), std::vector<double>(n, 0.0), &M)
              .report;
      if (report.converged()) continue;
      EXPECT_TRUE(report.advice.starts_with("Preconditioner callback is useless for this matrix: "))
          << method << " " << factor << ": " << to_string(report.reason) << " " << report.advice;
    }
}

TEST(UselessPreconditioner, IsNotSaidOfOthers) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 12}});
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  for (const PreconditionerEntry& entry : preconditioners()) {
    if (!entry.unavailable.empty() || entry.id == "none") continue;
    const auto M = make_preconditioner<double>(entry.id, *A);
    if (!M) continue;
    M->ensure(*A);
    for (const char* method : all_methods()) {
      if (make_solver<double>(method)->needs_symmetric_preconditioner() && !M->symmetric()) continue;
      const SolveReport report =
          solve(Place(test_context()), method, *A, right_hand_side<double>(144),
                std::vector<double>(144, 0.0), M.get(), {.relative_tolerance = 1e-14, .max_iterations = 1})
              .report;
      EXPECT_FALSE(has(report.advice, "useless")) << entry.id << " " << method << ": " << report.advice;
    }
  }
}

TEST(Advice, NamesIdrWhereOtherMethodsForAnyMatrixHaveFailed) {
  const DenseOperator<double> A(convection_2d(9, 3));
  for (const char* method : {"bicgstab", "bicgstab2", "gmres", "fgmres", "idr"}) {
    const SolverOptions options = options_read_by(method, {.stopping = {.max_iterations = 2}, .restart = 5});
    const std::vector<double> b = right_hand_side<double>(81);
    std::vector<double> x(81, 0.0);
    const std::string advice = make_solver<double>(method, options)->solve(A, view(b), view(x)).advice;
    EXPECT_TRUE(has(advice, std::string_view(method) == "idr" ? "method gmres" : "method idr")) << advice;
  }
}

}  // namespace
}  // namespace protean::test

// Singular systems whose null space is given: the solution of smallest norm, and what is refused.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "solvers/textbook.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// The Laplacian of paths: one for each pair of borders, with no flux through its ends, so that A 1 = 0 on each of them.
Dense neumann(std::int64_t n, const std::vector<std::int64_t>& borders = {}) {
  Dense A(n);
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    if (std::find(borders.begin(), borders.end(), i + 1) != borders.end()) continue;
    const Real c = 1 + i % 3;
    A(i, i) += c, A(i + 1, i + 1) += c, A(i, i + 1) -= c, A(i + 1, i) -= c;
  }
  return A;
}
std::vector<double> without_mean(std::vector<double> b) {
  double sum = 0;
  for (double v : b) sum += v;
  for (double& v : b) v -= sum / static_cast<double>(b.size());
  return b;
}

class NullSpace : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, NullSpace, testing::Values("cg", "fcg", "minres"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(NullSpace, ANeumannProblemHasTheSolutionOfSmallestNorm) {
  const Dense matrix = neumann(40);
  const DenseOperator<double> A(matrix);
  const auto b = without_mean(right_hand_side<double>(40));
  // A + 1 1^T has the same solution there, and no null space.
  Dense regular = matrix;
  for (Real& a : regular.a) a += 1;
  const Column exact = direct_solution(regular, wide(b));
  const auto jacobi = make_preconditioner<double>("jacobi", A);
  jacobi->ensure(A);
  const auto solver =
      make_solver<double>(GetParam(), {.stopping = {.relative_tolerance = 1e-11}, .null_space = "constant"});
  for (const Preconditioner<double>* M : {static_cast<const Preconditioner<double>*>(nullptr),
                                          static_cast<const Preconditioner<double>*>(jacobi.get())})
    for (const double start : {0.0, 1e3}) {
      std::vector<double> x(40, start);
      const auto report = solver->solve(A, view(b), view(x), M);
      EXPECT_TRUE(report.converged()) << to_string(report.reason) << " " << report.detail;
      EXPECT_LE(residual_norm(matrix, b, x), 1.1e-11L * report.rhs_norm);
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], static_cast<double>(exact[i]), 1e-7);
    }
}

TEST_P(NullSpace, AnInconsistentProblemIsNamed) {
  const DenseOperator<double> A(neumann(40));
  auto b = without_mean(right_hand_side<double>(40));
  for (double& v : b) v += 0.01;
  std::vector<double> x(40, 0.0);
  const auto solver = make_solver<double>(GetParam(), {.null_space = "constant"});
  const auto report = solver->solve(A, view(b), view(x));
  EXPECT_EQ(report.reason, StopReason::inconsistent) << to_string(report.reason);
  EXPECT_EQ(report.iterations, 0);
  EXPECT_NE(report.detail.find("norm 0.0632"), std::string::npos) << report.detail;  // 0.01 sqrt(40)
  // If the tolerance allows that part, it is solved.
  const auto loose =
      make_solver<double>(GetParam(), {.stopping = {.relative_tolerance = 0.1}, .null_space = "constant"});
  EXPECT_TRUE(loose->solve(A, view(b), view(x)).converged());
  EXPECT_LE(residual_norm(A.matrix(), b, x), 0.1L * report.rhs_norm);
  // Without a null space it is never called converged.
  x.assign(40, 0.0);
  EXPECT_FALSE(make_solver<double>(GetParam(), {.stopping = {.max_iterations = 300}})
                   ->solve(A, view(b), view(x))
                   .converged());
}

// Two parts that are not connected: a constant on each of them.
TEST_P(NullSpace, GivenByVectors) {
  const DenseOperator<double> A(neumann(30, {10}));
  std::vector<double> N(60, 0.0), x(30, 2.0);
  for (std::size_t i = 0; i < 10; ++i) N[i] = 1 / std::sqrt(10.0);
  for (std::size_t i = 10; i < 30; ++i) N[30 + i] = 1 / std::sqrt(20.0);
  const auto solver = make_solver<double>(GetParam());
  solver->set_null_space({N.data(), 30, 30, 2, Space::host});
  // The sum is zero, but not on each part.
  std::vector<double> b(30, 0.0);
  b[3] = 1, b[20] = -1;
  EXPECT_EQ(solver->solve(A, view(b), view(x)).reason, StopReason::inconsistent);
  b[7] = -1, b[14] = 1;
  EXPECT_TRUE(solver->solve(A, view(b), view(x)).converged());
  for (const std::size_t part : {0, 1}) {
    double sum = 0;
    for (std::size_t i = 0; i < 30; ++i) sum += N[30 * part + i] * x[i];
    EXPECT_NEAR(sum, 0, 1e-12);
  }
}

TEST_P(NullSpace, AWrongOneIsRefused) {
  const Dense regular = convection_2d(8, 0);
  const DenseOperator<double> A(regular);
  const CallbackOperator<double> F(test_context(), {64, 64}, [&](const double* in, double* out) {
    for (std::int64_t i = 0; i < 64; ++i) {
      out[i] = 0;
      for (std::int64_t j = 0; j < 64; ++j) out[i] += static_cast<double>(regular(i, j)) * in[j];
    }
  });
  const auto b = right_hand_side<double>(64);
  std::vector<double> x(64, 0.0), shorter(63, 0.1);
  const auto solver = make_solver<double>(GetParam(), {.null_space = "constant"});
  EXPECT_THROW((void)solver->solve(A, view(b), view(x)), BadArgument);
  EXPECT_THROW((void)solver->solve(F, view(b), view(x)), BadArgument) << "an operator without its diagonal";
  solver->set_null_space({shorter.data(), 63, 63, 1, Space::host});
  EXPECT_THROW((void)solver->solve(A, view(b), view(x)), ShapeMismatch);
}

TEST_P(NullSpace, OnADeviceAndForEverySize) {
  const ContextPtr device = fake_device_context();
  const auto solver = make_solver<double>(GetParam(), {.null_space = "constant"});
  for (const std::int64_t n : {40, 7, 40}) {
    const Dense dense = neumann(n);
    std::vector<Triplet<double>> entries;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = std::max<std::int64_t>(i - 1, 0); j < std::min(n, i + 2); ++j)
        entries.push_back(
            {static_cast<std::int32_t>(i), static_cast<std::int32_t>(j), static_cast<double>(dense(i, j))});
    const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
    const auto b = without_mean(right_hand_side<double>(n));
    std::vector<double> answers[2];
    for (const ContextPtr& context : {test_context(), device}) {
      const auto A = make_matrix(context == device ? fake_format("csr") : find_format("csr"),
                                 placed(context, csr), context);
      const Placed<double> there(context, b);
      Placed<double> x(context, std::vector<double>(b.size(), 0.0));
      EXPECT_TRUE(solver->solve(*A, there.read(), x.view()).converged());
      answers[context == device] = x.fetch();
    }
    EXPECT_EQ(answers[0], answers[1]);
  }
}

// Also of an initial guess that needs no iteration.
TEST_P(NullSpace, IsTakenOutOfAGoodInitialGuess) {
  constexpr std::int64_t n = 10;
  Dense A = poisson_1d(n);
  A(0, 0) = A(n - 1, n - 1) = 1;
  std::vector<double> b(n, 0.0), x(n);
  for (std::int64_t i = 0; i < n; ++i) x[i] = 5 + static_cast<double>((i * i) % 7);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) b[i] += static_cast<double>(A(i, j)) * x[j];
  const SolveReport report = make_solver<double>(GetParam(), {.null_space = "constant"})
                                 ->solve(DenseOperator<double>(A), view(std::as_const(b)), view(x));
  EXPECT_TRUE(report.converged());
  EXPECT_EQ(report.iterations, 0);
  double sum = 0;
  for (const double v : x) sum += v;
  EXPECT_NEAR(sum, 0, 1e-12);
}

// b may have a part in the null space that is within the tolerance. No step can reduce it, and it must not disturb the
// steps.
TEST_P(NullSpace, APartWithinTheToleranceDoesNoHarm) {
  constexpr std::int64_t n = 60;
  Dense A = poisson_1d(n);
  A(0, 0) = A(n - 1, n - 1) = 1;
  std::vector<double> b(n), x(n, 0.0);
  double mean = 0;
  for (std::int64_t i = 0; i < n; ++i) b[i] = std::sin(static_cast<double>(i * i)), mean += b[i] / n;
  double squares = 0;
  for (double& v : b) v -= mean, squares += v * v;
  const auto iterations = [&](double part) {
    std::vector<double> with_part = b;
    for (double& v : with_part) v += part * 1e-4 * std::sqrt(squares / n);
    std::fill(x.begin(), x.end(), 0.0);
    const SolveReport report =
        make_solver<double>(GetParam(), {.stopping = {.relative_tolerance = 1e-4}, .null_space = "constant"})
            ->solve(DenseOperator<double>(A), view(std::as_const(with_part)), view(x));
    EXPECT_TRUE(report.converged()) << to_string(report.reason) << " " << report.detail;
    EXPECT_EQ(report.restarts, 0);
    return report.iterations;
  };
  EXPECT_LE(iterations(0.999), iterations(0) + 2);
}

TEST(NullSpaceOptions, AreForSymmetricMethods) {
  for (const SolverEntry& entry : solvers()) {
    const auto solver = entry.make_f64({});
    const std::vector<double> n(4, 0.5);
    if (entry.symmetric) {
      EXPECT_NO_THROW(solver->set_null_space({n.data(), 4, 4, 1, Space::host}));
      EXPECT_NO_THROW((void)make_solver<double>(entry.id, {.null_space = "constant"}));
    } else {
      EXPECT_THROW(solver->set_null_space({n.data(), 4, 4, 1, Space::host}), BadArgument) << entry.id;
      EXPECT_THROW((void)make_solver<double>(entry.id, {.null_space = "constant"}), BadArgument) << entry.id;
    }
  }
  EXPECT_THROW((void)make_solver<double>("cg", {.null_space = "constants"}), BadArgument);
}

// The address of the second vector would wrap around to the address of the first one.
TEST(NullSpaceOptions, AStrideBeyondTheAddressSpaceIsRefused) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 3}});
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  const std::vector<double> vectors(9, 1.0), b(9, 1.0);
  std::vector<double> x(9, 0.0);
  const auto solver = make_solver<double>("cg");
  solver->set_null_space({vectors.data(), 9, std::int64_t{1} << 61, 2, Space::host});
  EXPECT_THROW((void)solver->solve(*A, {b.data(), 9}, {x.data(), 9}), BadArgument);
}

}  // namespace
}  // namespace protean::test

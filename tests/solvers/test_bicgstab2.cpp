// bicgstab2 against its textbook in long double, on systems on which bicgstab fails, and at its breakdowns.
#include <cmath>

#include "gtest/gtest.h"
#include "solvers/systems.hpp"
#include "solvers/textbook.hpp"

namespace protean::test {
namespace {

// BiCGStab(l) as Sleijpen and Fokkema print it: modified Gram-Schmidt in its second part. Returns ||r|| after each l
// steps.
std::vector<Real> bicgstab_l(const Dense& A, const Column& b, int steps, int l) {
  const Column r0 = b;
  std::vector<Column> r(l + 1, Column(b.size(), 0)), u = r;
  r[0] = b;
  Real rho0 = 1, alpha = 0, omega = 1;
  std::vector<Real> norms{length(b)};
  for (int k = 0; k < steps; ++k) {
    rho0 *= -omega;
    for (int j = 0; j < l; ++j) {
      const Real rho1 = dot_of(r[j], r0), beta = alpha * rho1 / rho0;
      rho0 = rho1;
      for (int i = 0; i <= j; ++i)
        for (std::size_t e = 0; e < b.size(); ++e) u[i][e] = r[i][e] - beta * u[i][e];
      u[j + 1] = product(A, u[j]);
      alpha = rho0 / dot_of(u[j + 1], r0);
      for (int i = 0; i <= j; ++i) add(r[i], -alpha, u[i + 1]);
      r[j + 1] = product(A, r[j]);
    }
    std::vector<Column> tau(l + 1, Column(l + 1, 0));
    Column sigma(l + 1), first(l + 1), gamma(l + 1), second(l + 1);
    for (int j = 1; j <= l; ++j) {
      for (int i = 1; i < j; ++i) {
        tau[i][j] = dot_of(r[j], r[i]) / sigma[i];
        add(r[j], -tau[i][j], r[i]);
      }
      sigma[j] = dot_of(r[j], r[j]), first[j] = dot_of(r[0], r[j]) / sigma[j];
    }
    gamma[l] = omega = first[l];
    for (int j = l - 1; j >= 1; --j) {
      gamma[j] = first[j];
      for (int i = j + 1; i <= l; ++i) gamma[j] -= tau[j][i] * gamma[i];
    }
    for (int j = 1; j < l; ++j) {
      second[j] = gamma[j + 1];
      for (int i = j + 1; i < l; ++i) second[j] += tau[j][i] * gamma[i + 1];
    }
    add(r[0], -first[l], r[l]), add(u[0], -gamma[l], u[l]);
    for (int j = 1; j < l; ++j) add(u[0], -gamma[j], u[j]), add(r[0], -first[j], r[j]);
    norms.push_back(length(r[0]));
  }
  return norms;
}

TEST(BiCgStab2, FollowsTheTextbook) {
  for (const Real c : {0.0L, 1.0L, 4.0L}) {
    const Dense A = convection_2d(8, c);
    const auto b = right_hand_side<double>(A.n);
    const Solved two = solve("bicgstab2", A, b);
    expect_history(two.history, bicgstab_l(A, wide(b), 6, 2), 1e-9);
    EXPECT_TRUE(two.report.converged()) << two.report.detail;
  }
}

// I + c S with S skew-symmetric: the eigenvalues are 1 + i c mu, far from the real axis for large c; the polynomials of
// BiCGStab, with their real roots, hardly reduce the residual.
Dense skew_dominant(std::int64_t n, Real c) {
  Dense A(n);
  for (std::int64_t i = 0; i < n; ++i) {
    A(i, i) = 1;
    if (i > 0) A(i, i - 1) = -c, A(i - 1, i) = c;
  }
  return A;
}

TEST(BiCgStab2, ConvergesWhereBiCgStabDoesNot) {
  const Dense A = skew_dominant(300, 20);
  std::vector<double> b(300);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::sin(1.0 + 7.0 * static_cast<double>(i * i % 31));
  const Solved two = solve("bicgstab2", A, b, {.stopping = {.max_iterations = 400}});
  EXPECT_TRUE(two.report.converged()) << to_string(two.report.reason) << " " << two.report.detail;
  // Twice as many iterations make as many products.
  const Solved one = solve("bicgstab", A, b, {.stopping = {.max_iterations = 4 * two.report.iterations}});
  EXPECT_FALSE(one.report.converged()) << one.report.iterations << " beside " << two.report.iterations;
}

TEST(BiCgStab2, BreakdownsAreNamed) {
  Dense skew(2);
  skew(0, 1) = 1, skew(1, 0) = -1;
  // r0 . A r0 = 0, but the polynomial of degree 2 solves it.
  EXPECT_EQ(solve("bicgstab2", skew, {1, 0}).report.iterations, 1);
  Dense cyclic(4);
  for (std::int64_t i = 0; i < 4; ++i) cyclic((i + 1) % 4, i) = 1;
  const Solved one = solve("bicgstab2", cyclic, {1, 0, 0, 0});
  EXPECT_EQ(one.report.reason, StopReason::breakdown);
  EXPECT_NE(one.report.detail.find("r0 . A M^-1 u = 0"), std::string::npos) << one.report.detail;
  // The system of test BiCgStab.BreakdownsAreNamed, with omega = 0: here it is solved in one iteration.
  Dense turn(2);
  turn(0, 0) = 1, turn(0, 1) = 1, turn(1, 0) = -1;
  const Solved two = solve("bicgstab2", turn, {1, 0});
  EXPECT_TRUE(two.report.converged()) << to_string(two.report.reason) << " " << two.report.detail;
  EXPECT_EQ(two.report.iterations, 1);
}

// K = [B 0; C D] and b = (c, 0): the vectors (K^T)^i r0 stay in the first block. Once that block is solved, each
// residual is orthogonal to them, so rho is 0 up to rounding and no other divisor is.
TEST(BiCgStab2, RhoThatIsZeroByRoundingIsABreakdown) {
  const auto lower = [](std::int64_t closed) {
    const std::int64_t n = closed + 6;
    Dense A(n);
    for (std::int64_t i = 0; i < n; ++i) {
      A(i, i) = 3 + static_cast<Real>(i % 3) / 7;
      if (i > 0 && i != closed) A(i, i - 1) = -1.3L;
      if (i + 1 < n && i + 1 != closed) A(i, i + 1) = -0.7L;
      if (i >= closed) A(i, i % closed) = 300;  // so that r is large compared with the rounding of r0 . r
    }
    return A;
  };
  for (const std::int64_t closed : {2, 4}) {
    const Dense A = lower(closed);
    std::vector<double> b(static_cast<std::size_t>(A.n), 0.0);
    for (std::int64_t i = 0; i < closed; ++i) b[static_cast<std::size_t>(i)] = 1 + static_cast<double>(i);
    const Solved first = solve("bicgstab2", A, b, {.stopping = {.max_iterations = closed / 2}});
    EXPECT_EQ(first.report.reason, closed == 2 ? StopReason::breakdown : StopReason::max_iterations)
        << to_string(first.report.reason) << first.report.detail;
    if (closed == 2) {
      EXPECT_NE(first.report.detail.find("rho = r0 . r"), std::string::npos) << first.report.detail;
    }
    // In a later step it begins again from b - A x, with another r0.
    if (closed == 2) continue;
    const Solved all = solve("bicgstab2", A, b);
    EXPECT_TRUE(all.report.converged()) << to_string(all.report.reason) << all.report.detail;
    EXPECT_GE(all.report.restarts, 1);
    EXPECT_LE(all.report.iterations, 6);
  }
}

}  // namespace
}  // namespace protean::test

// idr against its textbook in long double: products, termination and breakdowns.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "solvers/textbook.hpp"

namespace protean::test {
namespace {

// IDR(s), the first paper's algorithm (without biorthogonal vectors), smallest residual for omega. Returns the products
// until
// ||r|| <= tolerance ||b||.
int idr_products(const Dense& A, const Column& b, int s, Real tolerance) {
  const auto n = b.size();
  std::vector<Column> P(s, Column(n)), dR, dX;
  unsigned state = 5;
  for (Column& p : P)
    for (Real& v : p) state = state * 1664525u + 1013904223u, v = Real(state >> 8) / (1 << 23) - 1;
  Column x(n, 0), r = b;
  int products = 0;
  Real omega = 1;
  const auto minimal = [&](const Column& v, const Column& t) { return dot_of(v, t) / dot_of(t, t); };
  for (int i = 0; i < s; ++i) {
    Column v = product(A, r);
    ++products;
    omega = minimal(r, v);
    Column dx = r;
    for (Real& e : dx) e *= omega;
    for (Real& e : v) e *= -omega;
    add(x, 1, dx), add(r, 1, v);
    dX.push_back(dx), dR.push_back(v);
  }
  std::size_t oldest = 0;
  while (length(r) > tolerance * length(b) && products < 5000) {
    for (int k = 0; k <= s; ++k) {
      Dense small(s);
      Column right(s);
      for (int i = 0; i < s; ++i) {
        right[i] = dot_of(P[i], r);
        for (int j = 0; j < s; ++j) small(i, j) = dot_of(P[i], dR[j]);
      }
      const Column c = direct_solution(small, right);
      Column v = r, dx(n, 0), dr(n, 0);
      for (int j = 0; j < s; ++j) add(v, -c[j], dR[j]);
      const Column t = product(A, v);
      if (k == 0) omega = minimal(v, t), ++products;
      for (int j = 0; j < s; ++j) add(dx, -c[j], dX[j]);
      add(dx, omega, v);
      if (k > 0) ++products;
      const Column a_dx = product(A, dx);
      add(dr, -1, a_dx);
      add(x, 1, dx), add(r, 1, dr);
      dX[oldest] = dx, dR[oldest] = dr;
      oldest = (oldest + 1) % s;
    }
  }
  return products;
}

TEST(Idr, NeedsAsManyProductsAsTheTextbook) {
  const Dense A = convection_2d(14, 2);
  const auto b = right_hand_side<double>(A.n);
  for (const int s : {1, 2, 4, 8}) {
    const Solved idr = solve("idr", A, b, {.s = s});
    EXPECT_TRUE(idr.report.converged()) << s << " " << idr.report.detail;
    const int products = idr_products(A, wide(b), s, 1e-8L);
    EXPECT_NEAR(static_cast<double>(idr.report.iterations), products, 0.25 * products) << "s = " << s;
  }
}

// In the step into the next space omega is t . r / t . t, made larger to 0.7 ||r|| / ||t|| if t and r are nearly
// orthogonal: here A is nearly skew-symmetric.
TEST(Idr, MaintainsTheConvergenceWhereTheSmallestResidualWouldStall) {
  constexpr std::int64_t n = 30;
  for (const Real symmetric_part : {0.01L, 3.0L}) {
    Dense matrix(n);
    for (std::int64_t i = 0; i < n; ++i) {
      matrix(i, i) = symmetric_part * (1 + static_cast<Real>(i % 3) / 4);
      if (i > 0) matrix(i, i - 1) = -1, matrix(i - 1, i) = 1;
    }
    const Recording A(matrix);
    History history;
    const auto b = right_hand_side<double>(n);
    std::vector<double> x(b.size(), 0.0);
    (void)make_solver<double>("idr", {.stopping = {.max_iterations = 9}, .s = 2})
        ->solve(A, view(b), view(x), nullptr, &history);
    int checked = 0;
    for (std::size_t step = 2; step < 9 && step + 1 < history.seen.size(); step += 3) {
      const Column r = wide(A.inputs[step + 1]), t = product(matrix, r);
      const Real cosine = std::abs(dot_of(t, r)) / (length(t) * length(r));
      EXPECT_EQ(cosine < 0.7L, symmetric_part < 1) << static_cast<double>(cosine);
      Column next = r;
      add(next, -dot_of(t, r) / dot_of(t, t) * std::max<Real>(1, 0.7L / cosine), t);
      const auto expected = static_cast<double>(length(next));
      EXPECT_NEAR(history.seen[step + 1].residual, expected, 1e-9 * expected) << "step " << step;
      ++checked;
    }
    EXPECT_EQ(checked, 3);
  }
}

TEST(Idr, ALargerShadowSpaceComesNearerToGmres) {
  const Dense A = convection_2d(16, 0.5);
  const auto b = right_hand_side<double>(A.n);
  const auto steps = [&](const char* method, std::int64_t s) {
    const Solved one = solve(method, A, b, options_read_by(method, {.restart = 300, .s = s}));
    EXPECT_TRUE(one.report.converged()) << method << " " << s;
    return one.report.iterations;
  };
  const std::int64_t full = steps("gmres", 1), one = steps("idr", 1), eight = steps("idr", 8);
  EXPECT_LT(eight, one);
  EXPECT_LE(full, eight);
  EXPECT_LT(eight, 2 * full);
}

// In exact arithmetic n + n / s products are enough, whatever P is.
TEST(Idr, FiniteTermination) {
  const Dense A = convection_2d(3, 2);
  const auto b = right_hand_side<double>(9);
  for (const std::int64_t s : {1, 2, 3, 9, 16}) {
    const Solved idr = solve("idr", A, b, {.stopping = {.relative_tolerance = 1e-9}, .s = s});
    EXPECT_TRUE(idr.report.converged()) << s << " " << to_string(idr.report.reason);
    EXPECT_LE(idr.report.iterations, 9 + 9 / std::min<std::int64_t>(s, 9) + 1) << s;
  }
}

TEST(Idr, BreakdownsAreNamed) {
  // t = A r is orthogonal to r for a skew-symmetric matrix.
  Dense skew(2);
  skew(0, 1) = 3, skew(1, 0) = -3;
  const Solved one = solve("idr", skew, {1, 0.7}, {.s = 1});
  EXPECT_EQ(one.report.reason, StopReason::breakdown) << to_string(one.report.reason);
  EXPECT_NE(one.report.detail.find("omega = 0: t . r"), std::string::npos) << one.report.detail;
  // g = A u = 0.
  const Solved two = solve("idr", diagonal_matrix({1, 2, 0}), {0, 0, 1});
  EXPECT_EQ(two.report.reason, StopReason::breakdown) << to_string(two.report.reason);
  EXPECT_NE(two.report.detail.find("p_k . g_k = 0"), std::string::npos) << two.report.detail;
  EXPECT_EQ(two.report.true_residual, 1);
}

}  // namespace
}  // namespace protean::test

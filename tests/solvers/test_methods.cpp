// Each method against a plain textbook implementation in long double: residual histories, and the properties for which
// a method is chosen, shown by a system on which its plain relative fails.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/policy/adaptive_operator.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using Real = long double;
using Column = std::vector<Real>;

Column product(const Dense& A, const Column& x) {
  Column y(x.size(), 0);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j) y[i] += A(i, j) * x[j];
  return y;
}
Real dot_of(const Column& x, const Column& y) {
  Real sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}
Real length(const Column& x) { return std::sqrt(dot_of(x, x)); }
void add(Column& y, Real a, const Column& x) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += a * x[i];
}
Column residual(const Dense& A, const Column& b, const Column& x) {
  Column r = b;
  add(r, -1, product(A, x));
  return r;
}

// M^-1 r in step k = 0, 1, 2 ... of a method
using Varying = std::function<Column(std::int64_t k, const Column& r)>;
Column same(std::int64_t, const Column& r) { return r; }

// The smallest ||b - A x|| over x in span(Z), by normal equations of an orthonormal basis of A Z.
struct Smallest {
  std::vector<Column> Z, Q;
  std::vector<Column> R;
  void append(const Dense& A, Column z) {
    Column q = product(A, z), r(Q.size() + 1, 0);
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t i = 0; i < Q.size(); ++i) {
        const Real h = dot_of(Q[i], q);
        r[i] += h, add(q, -h, Q[i]);
      }
    r.back() = length(q);
    for (Real& v : q) v /= r.back();
    Z.push_back(std::move(z)), Q.push_back(std::move(q)), R.push_back(std::move(r));
  }
  Column solution(const Column& b) const {
    const std::size_t k = Z.size();
    Column y(k), x(b.size(), 0);
    for (std::size_t i = 0; i < k; ++i) y[i] = dot_of(Q[i], b);
    for (std::size_t i = k; i-- > 0;) {
      for (std::size_t j = i + 1; j < k; ++j) y[i] -= R[j][i] * y[j];
      y[i] /= R[i][i];
    }
    for (std::size_t i = 0; i < k; ++i) add(x, y[i], Z[i]);
    return x;
  }
};

// Flexible GMRES without restart, from x = 0: v_j by Arnoldi, the smallest residual over span(M_j^-1 v_j). Returns x_k.
std::vector<Column> flexible_gmres(const Dense& A, const Column& b, int steps, const Varying& M = same) {
  std::vector<Column> V{b}, result{Column(b.size(), 0)};
  for (Real& v : V[0]) v /= length(b);
  Smallest smallest;
  for (int k = 0; k < steps; ++k) {
    const Column z = M(k, V[k]);
    Column w = product(A, z);
    for (int pass = 0; pass < 2; ++pass)
      for (const Column& v : V) add(w, -dot_of(v, w), v);
    const Real norm = length(w);
    for (Real& v : w) v /= norm;
    V.push_back(w);
    smallest.append(A, z);
    result.push_back(smallest.solution(b));
  }
  return result;
}

// Notay's algorithm with the last m directions. Returns ||r_k||.
std::vector<Real> flexible_cg(const Dense& A, const Column& b, int steps, std::size_t m, const Varying& M) {
  Column r = b, x(b.size(), 0);
  std::vector<Column> P, Q;
  std::vector<Real> norms{length(r)};
  for (int k = 0; k < steps; ++k) {
    const Column z = M(k, r);
    Column p = z;
    for (std::size_t i = P.size() - std::min(P.size(), m); i < P.size(); ++i)
      add(p, -dot_of(z, Q[i]) / dot_of(P[i], Q[i]), P[i]);
    const Column q = product(A, p);
    const Real alpha = dot_of(p, r) / dot_of(p, q);
    add(x, alpha, p), add(r, -alpha, q);
    P.push_back(p), Q.push_back(q);
    norms.push_back(length(r));
  }
  return norms;
}

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

// A preconditioner that is another one in each call of a solve: reset() begins anew.
class VaryingPreconditioner final : public Preconditioner<double> {
 public:
  VaryingPreconditioner(std::int64_t n, Varying apply)
      : Preconditioner<double>(test_context(), {n, n}), apply_(std::move(apply)) {}
  std::string_view name() const noexcept override { return "varying"; }
  void reset() { calls_ = 0; }

 protected:
  void setup(const LinearOperator<double>&, bool) override {}
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    const Column z = apply_(calls_++, Column(x.data, x.data + x.size));
    for (std::int64_t i = 0; i < x.size; ++i)
      y[i] = alpha * static_cast<double>(z[i]) + (beta == 0 ? 0 : beta * y[i]);
  }

 private:
  Varying apply_;
  mutable std::int64_t calls_ = 0;
};

// Positive definite in each step, but the weights of even and odd unknowns change places.
Column alternating(std::int64_t k, const Column& r) {
  Column z = r;
  for (std::size_t i = 0; i < z.size(); ++i) z[i] *= (static_cast<std::int64_t>(i) + k) % 2 ? 1 : 8;
  return z;
}

struct Solved {
  SolveReport report;
  std::vector<double> x;
  History history;
};
Solved solve(const char* method, const Dense& matrix, const std::vector<double>& b,
             const SolverOptions& options = {}, const Preconditioner<double>* M = nullptr) {
  const DenseOperator<double> A(matrix);
  Solved result;
  result.x.assign(b.size(), 0.0);
  result.report = make_solver<double>(method, options)->solve(A, view(b), view(result.x), M, &result.history);
  return result;
}
Column wide(const std::vector<double>& b) { return {b.begin(), b.end()}; }

// Keeps what it is multiplied with: without M these are the vectors of the basis.
class Recording final : public DenseOperator<double> {
 public:
  using DenseOperator<double>::DenseOperator;
  mutable std::vector<std::vector<double>> inputs;

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    inputs.emplace_back(x.data, x.data + x.size);
    DenseOperator<double>::do_apply(alpha, x, beta, y);
  }
};

// The first `steps` residuals agree relative to ||b||.
void expect_history(const History& history, const std::vector<Real>& norms, double tolerance) {
  ASSERT_GE(history.seen.size(), norms.size());
  for (std::size_t k = 0; k < norms.size(); ++k)
    EXPECT_NEAR(history.seen[k].residual, static_cast<double>(norms[k]),
                tolerance * static_cast<double>(norms[0]))
        << "iteration " << k;
}

// Symmetric, with eigenvalues of both signs: a shifted Laplacian.
Dense indefinite(std::int64_t m, Real shift) {
  Dense A = convection_2d(m, 0);
  for (std::int64_t i = 0; i < A.n; ++i) A(i, i) -= shift;
  return A;
}

TEST(MinRes, HasTheSmallestResidualsOnAnIndefiniteMatrix) {
  const Dense A = indefinite(7, 1.3L);
  const auto b = right_hand_side<double>(A.n);
  std::vector<Real> norms;
  for (const Column& x : flexible_gmres(A, wide(b), 18)) norms.push_back(length(residual(A, wide(b), x)));
  const Solved minres = solve("minres", A, b);
  expect_history(minres.history, norms, 1e-9);
  EXPECT_EQ(minres.report.reason, StopReason::relative_tolerance) << minres.report.detail;
  EXPECT_EQ(solve("cg", A, b).report.reason, StopReason::indefinite_operator);
  const Column exact = direct_solution(A, wide(b));
  for (std::size_t i = 0; i < exact.size(); ++i)
    EXPECT_NEAR(minres.x[i], static_cast<double>(exact[i]), 1e-6);
}

// With M = D the iterates are D^-1/2 y_k, where y_k are those of D^-1/2 A D^-1/2 without M.
TEST(MinRes, WithAPreconditionerReportsTheTwoNorm) {
  const Dense A = indefinite(6, 1.1L);
  const auto b = right_hand_side<double>(A.n);
  Dense S = A;
  Column scaled = wide(b), d(b.size());
  for (std::int64_t i = 0; i < A.n; ++i) d[i] = 1 + i % 5;
  for (std::int64_t i = 0; i < A.n; ++i) {
    scaled[i] /= std::sqrt(d[i]);
    for (std::int64_t j = 0; j < A.n; ++j) S(i, j) /= std::sqrt(d[i] * d[j]);
  }
  std::vector<Real> norms;
  for (Column y : flexible_gmres(S, scaled, 15)) {
    for (std::int64_t i = 0; i < A.n; ++i) y[i] /= std::sqrt(d[i]);
    norms.push_back(length(residual(A, wide(b), y)));
  }
  const VaryingPreconditioner general(A.n, [&](std::int64_t, const Column& r) {
    Column z = r;
    for (std::size_t i = 0; i < z.size(); ++i) z[i] /= d[i];
    return z;
  });
  const Solved minres = solve("minres", A, b, {}, &general);
  expect_history(minres.history, norms, 1e-9);
  EXPECT_TRUE(minres.report.converged()) << minres.report.detail;
  EXPECT_EQ(minres.report.restarts, 0) << "the residual that is carried along is the true one";
}

TEST(MinRes, IsGmresForAsManyStepsAsDistinctEigenvalues) {
  for (int distinct : {1, 2, 4, 6}) {
    std::vector<long double> d;
    for (int i = 0; i < 40; ++i) d.push_back((i % 2 ? -1 : 1) * (1 + 2 * (i % distinct)));
    const auto values = static_cast<std::int64_t>([&] {
      auto e = d;
      std::sort(e.begin(), e.end());
      return std::unique(e.begin(), e.end()) - e.begin();
    }());
    const Solved minres = solve("minres", rotated(d), right_hand_side<double>(40));
    EXPECT_TRUE(minres.report.converged()) << minres.report.detail;
    EXPECT_EQ(minres.report.iterations, values);
    EXPECT_EQ(minres.report.restarts, 0);
  }
}

TEST(MinRes, NamesAnIndefinitePreconditioner) {
  const auto b = right_hand_side<double>(9);
  for (std::int64_t bad : {1, 2, 3}) {
    // Positive for the first bad - 1 calls.
    const VaryingPreconditioner M(9, [&](std::int64_t k, const Column& r) {
      Column z = r;
      if (k + 1 >= bad)
        for (Real& v : z) v = -v;
      return z;
    });
    const Solved minres = solve("minres", convection_2d(3, 0), b, {}, &M);
    EXPECT_EQ(minres.report.reason, StopReason::indefinite_preconditioner) << to_string(minres.report.reason);
    EXPECT_EQ(minres.report.iterations, bad - 1);
    EXPECT_NE(minres.report.detail.find("r . M^-1 r"), std::string::npos);
    EXPECT_TRUE(std::isfinite(minres.report.true_residual));
  }
}

TEST(MinRes, SingularMatrices) {
  // Consistent: solved. Inconsistent: what can be solved is, and the reason is named.
  Solved one = solve("minres", diagonal_matrix({1, -2, 0}), {1, 1, 0});
  EXPECT_TRUE(one.report.converged()) << to_string(one.report.reason);
  EXPECT_NEAR(one.x[0], 1, 1e-12);
  EXPECT_NEAR(one.x[1], -0.5, 1e-12);
  one = solve("minres", diagonal_matrix({1, -2, 0}), {0, 0, 1});
  EXPECT_EQ(one.report.reason, StopReason::inconsistent) << to_string(one.report.reason);
  EXPECT_EQ(one.report.true_residual, 1);
}

// A singular symmetric matrix, a null vector of it, and b with a part of it.
struct Inconsistent {
  const char* name;
  Dense A;
  Column null_vector;
};
Column null_vector_of(const Dense& A) {
  // The columns of a rotated matrix without its last eigenvalue, 0: that of the identity with it.
  Column d(static_cast<std::size_t>(A.n), 0);
  d.back() = 1;
  const Dense P = rotated(d);
  Column v(d.size());
  for (std::int64_t i = 0; i < A.n; ++i) v[static_cast<std::size_t>(i)] = P(i, 0);
  return v;
}
std::vector<Inconsistent> inconsistent_systems() {
  std::vector<Inconsistent> all;
  for (const std::int64_t n : {7, 40, 200}) {
    Dense A(n);
    for (std::int64_t i = 0; i + 1 < n; ++i)
      A(i, i) += 1, A(i + 1, i + 1) += 1, A(i, i + 1) -= 1, A(i + 1, i) -= 1;
    all.push_back({"Neumann, 1 dimension", A, Column(static_cast<std::size_t>(n), 1)});
  }
  const std::int64_t m = 12;
  Dense grid(m * m);
  for (std::int64_t i = 0; i < m * m; ++i)
    for (const std::int64_t step : {std::int64_t{1}, m})
      if (const std::int64_t j = i + step; j < m * m && (step == m || j % m != 0))
        grid(i, i) += 1, grid(j, j) += 1, grid(i, j) -= 1, grid(j, i) -= 1;
  all.push_back({"Neumann, 2 dimensions", grid, Column(static_cast<std::size_t>(m * m), 1)});
  for (const bool indefinite : {false, true}) {
    Column d(100);
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = (indefinite && i % 3 == 1 ? -1 : 1) * (0.01L + static_cast<Real>(i * 37 % 100) / 100);
    d.back() = 0;
    const Dense A = rotated(d);
    all.push_back({indefinite ? "indefinite" : "semidefinite", A, null_vector_of(A)});
  }
  return all;
}
// What is left of v without its part along w.
Column without(Column v, const Column& w) {
  Real vw = 0, ww = 0;
  for (std::size_t i = 0; i < v.size(); ++i) vw += v[i] * w[i], ww += w[i] * w[i];
  for (std::size_t i = 0; i < v.size(); ++i) v[i] -= vw / ww * w[i];
  return v;
}

// No x solves the system. The solve says so, and x has the smallest residual that there is: the part of b in the null
// space.
template <class T>
void ends_with_least_squares(const ContextPtr& context, double accuracy, double largest) {
  for (const Inconsistent& one : inconsistent_systems())
    for (const bool diagonal : {false, true}) {
      const std::string what = std::string(one.name) + ", n = " + std::to_string(one.A.n) +
                               (diagonal ? ", jacobi" : "") + ", " + std::to_string(sizeof(T)) + " bytes";
      Dense A = one.A;
      Column null = one.null_vector;
      bool positive = true;
      for (std::int64_t i = 0; i < A.n; ++i) positive = positive && A(i, i) > 0;
      if (diagonal && !positive) continue;
      // D A D, so that the diagonal is no multiple of the identity; its null vector is D^-1 v.
      if (diagonal)
        for (std::int64_t i = 0; i < A.n; ++i) {
          const auto d = [](std::int64_t k) { return 1 + static_cast<Real>(k * 7 % 5) / 5; };
          for (std::int64_t j = 0; j < A.n; ++j) A(i, j) *= d(i) * d(j);
          null[static_cast<std::size_t>(i)] /= d(i);
        }
      const std::vector<T> b = right_hand_side<T>(A.n);
      // M = D: min ||b - A x|| in the norm of M^-1, at a residual r with M^-1 r = t v for the null vector v.
      Column scale(null.size(), 1);
      if (diagonal)
        for (std::int64_t i = 0; i < A.n; ++i) scale[static_cast<std::size_t>(i)] = A(i, i);
      Real vb = 0, vmv = 0;
      for (std::size_t i = 0; i < b.size(); ++i)
        vb += null[i] * static_cast<Real>(b[i]), vmv += null[i] * scale[i] * null[i];
      Column best(null.size());
      for (std::size_t i = 0; i < b.size(); ++i) best[i] = vb / vmv * scale[i] * null[i];

      const CsrMatrix<T> csr = sparse<T>(A);
      const auto matrix = make_matrix(context->simulated() ? fake_format("csr") : find_format("csr"),
                                      placed(context, csr), context);
      std::unique_ptr<Preconditioner<T>> M;
      if (diagonal) {
        M = make_preconditioner<T>("jacobi", *matrix);
        M->ensure(*matrix);
      }
      const Placed<T> rhs(context, b);
      Placed<T> x(context, std::vector<T>(b.size(), T(0)));
      SolverOptions options;
      options.stopping.relative_tolerance = sizeof(T) == 4 ? 1e-4 : 1e-8;
      const auto report = make_solver<T>("minres", options)->solve(*matrix, rhs.read(), x.view(), M.get());
      EXPECT_EQ(report.reason, StopReason::inconsistent)
          << what << ": " << to_string(report.reason) << " " << report.detail;
      EXPECT_NE(report.detail.find("least squares"), std::string::npos) << report.detail;
      EXPECT_NE(report.advice.find("singular"), std::string::npos) << report.advice;
      const std::vector<T> found = x.fetch();
      Column error(b.size()), wide(b.size());
      for (std::int64_t i = 0; i < A.n; ++i) {
        Real r = static_cast<Real>(b[static_cast<std::size_t>(i)]);
        for (std::int64_t j = 0; j < A.n; ++j)
          r -= A(i, j) * static_cast<Real>(found[static_cast<std::size_t>(j)]);
        error[static_cast<std::size_t>(i)] = r - best[static_cast<std::size_t>(i)];
        wide[static_cast<std::size_t>(i)] = static_cast<Real>(found[static_cast<std::size_t>(i)]);
      }
      EXPECT_LE(length(error), accuracy * length(best)) << what;
      EXPECT_LE(length(wide), largest * length(without(Column(b.begin(), b.end()), null)))
          << what << ", x has grown";
      EXPECT_GT(report.iterations, 3) << what;
    }
}
TEST(MinRes, InconsistentSystemsEndWithASolutionOfLeastSquares) {
  ends_with_least_squares<double>(test_context(), 1e-5, 1e6);
  ends_with_least_squares<float>(test_context(), 0.05, 1e5);
  ends_with_least_squares<double>(fake_device_context({.steps_ahead = 2, .steps_after_end = 7}), 1e-5, 1e6);
  if (const ContextPtr gpu = test_context(Space::device)) ends_with_least_squares<double>(gpu, 1e-5, 1e6);
}

// Singular, but b is in the range; and nonsingular with a condition up to 1e10. Nothing is called inconsistent.
TEST(MinRes, SolvableSystemsAreNotCalledInconsistent) {
  for (const Inconsistent& one : inconsistent_systems()) {
    std::vector<double> b(static_cast<std::size_t>(one.A.n));
    for (std::int64_t i = 0; i < one.A.n; ++i) {
      Real sum = 0;
      for (std::int64_t j = 0; j < one.A.n; ++j) sum += one.A(i, j) * (1 + static_cast<Real>(j * 13 % 7));
      b[static_cast<std::size_t>(i)] = static_cast<double>(sum);
    }
    const Solved consistent = solve("minres", one.A, b, {.stopping = {.relative_tolerance = 1e-10}});
    EXPECT_TRUE(consistent.report.converged()) << one.name << ": " << consistent.report.detail;
    EXPECT_EQ(consistent.report.restarts, 0) << one.name;
    // No tolerance can be reached; what is left of b is rounding.
    const Solved exact =
        solve("minres", one.A, b, {.stopping = {.relative_tolerance = 0, .max_iterations = 2000}});
    EXPECT_NE(exact.report.reason, StopReason::inconsistent) << one.name << ": " << exact.report.detail;
  }
  for (const Real smallest : {1e-4L, 1e-6L, 1e-8L, 1e-10L}) {
    std::vector<Real> d(100);
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = (i % 2 == 1 ? -1 : 1) * (0.1L + static_cast<Real>(i * 37 % 100) / 100);
    d[50] = smallest;
    const Solved hard =
        solve("minres", rotated(d), right_hand_side<double>(100), {.stopping = {.relative_tolerance = 1e-5}});
    EXPECT_TRUE(hard.report.converged()) << static_cast<double>(smallest) << ": " << hard.report.detail;
  }
}

// Four distinct eigenvalues: after four steps the space holds the solution, and beta is 0 up to rounding. The method
// then begins again from b - A x instead of dividing by it.
TEST(MinRes, ABetaThatIsZeroByRoundingEndsTheSpace) {
  const Dense A = rotated({1, 1, 2, 2, -3, -3, 5, 5});
  const auto b = right_hand_side<double>(8);
  for (const std::int64_t steps : {4, 6}) {
    const Solved one =
        solve("minres", A, b, {.stopping = {.relative_tolerance = 0, .max_iterations = steps}});
    EXPECT_EQ(one.report.reason, StopReason::max_iterations) << to_string(one.report.reason);
    EXPECT_EQ(one.report.restarts, steps > 4 ? 1 : 0);  // none at the limit
    EXPECT_LT(one.report.true_relative, 1e-13);
  }
}

TEST(Fcg, FollowsTheTextbookWithAVaryingPreconditioner) {
  const Dense A = convection_2d(9, 0);
  const auto b = right_hand_side<double>(A.n);
  for (std::int64_t m : {1, 2, 5, 30}) {
    VaryingPreconditioner M(A.n, alternating);
    const Solved fcg = solve("fcg", A, b, {.directions = m}, &M);
    expect_history(fcg.history, flexible_cg(A, wide(b), 15, static_cast<std::size_t>(m), alternating), 1e-9);
    EXPECT_TRUE(fcg.report.converged()) << m << " " << fcg.report.detail;
    EXPECT_EQ(fcg.report.restarts, 0) << m;
  }
}

TEST(Fcg, ConvergesWhereCgStagnates) {
  const Dense A = convection_2d(12, 0);
  const auto b = right_hand_side<double>(A.n);
  // One, two and three sweeps of Gauss-Seidel in turn.
  VaryingPreconditioner M(A.n, [&](std::int64_t k, const Column& r) {
    Column z(r.size(), 0);
    for (std::int64_t sweep = 0; sweep <= k % 3; ++sweep)
      for (std::int64_t i = 0; i < A.n; ++i) {
        Real sum = r[i];
        for (std::int64_t j = 0; j < A.n; ++j) sum -= j == i ? 0 : A(i, j) * z[j];
        z[i] = sum / A(i, i);
      }
    return z;
  });
  const Solved fcg = solve("fcg", A, b, {}, &M);
  EXPECT_TRUE(fcg.report.converged()) << fcg.report.detail;
  EXPECT_LT(fcg.report.iterations, 40);
  M.reset();
  const Solved cg = solve("cg", A, b, {.stopping = {.max_iterations = 10 * fcg.report.iterations}}, &M);
  EXPECT_FALSE(cg.report.converged()) << cg.report.iterations << " beside " << fcg.report.iterations;
}

TEST(Fcg, IsCgWithAFixedPreconditioner) {
  const Dense matrix = convection_2d(10, 0);
  const DenseOperator<double> A(matrix);
  const auto b = right_hand_side<double>(matrix.n);
  const auto M = make_preconditioner<double>(
      "ssor",
      *make_matrix(find_format("csr"), generate(test_context(), "poisson-2d", {{"n", 10}}), test_context()));
  const auto csr =
      make_matrix(find_format("csr"), generate(test_context(), "poisson-2d", {{"n", 10}}), test_context());
  M->ensure(*csr);
  for (const Preconditioner<double>* one : {static_cast<const Preconditioner<double>*>(nullptr),
                                            static_cast<const Preconditioner<double>*>(M.get())}) {
    const Solved cg = solve("cg", matrix, b, {}, one), fcg = solve("fcg", matrix, b, {}, one);
    EXPECT_EQ(fcg.report.iterations, cg.report.iterations);
    std::vector<Real> norms;
    for (const IterationInfo& info : cg.history.seen) norms.push_back(info.residual);
    expect_history(fcg.history, norms, 1e-10);
  }
}

// Beyond the attainable accuracy r_k is no longer orthogonal to the last directions, so r . z is not r . p. A step of
// length r . z / p . A p then makes the error larger, each time.
TEST(Fcg, StaysAtTheAttainableAccuracy) {
  for (const std::int64_t n : {20, 30})
    for (const double start : {0.0, 1e20})
      for (const char* preconditioner : {"none", "jacobi"})
        for (const double tolerance : {0.0, 1e-8}) {
          const DenseOperator<double> A(poisson_1d(n));
          const auto M = make_preconditioner<double>(preconditioner, A);
          if (M) M->ensure(A);
          const std::vector<double> b(static_cast<std::size_t>(n), 1.0);
          const auto residual = [&](const char* method, std::int64_t directions) {
            std::vector<double> x(b.size(), start);
            constexpr double infinity = std::numeric_limits<double>::infinity();
            const SolverOptions options = options_read_by(
                method,
                {.stopping = {.relative_tolerance = tolerance, .max_iterations = 400, .divergence = infinity},
                 .directions = directions});
            (void)make_solver<double>(method, options)->solve(A, view(b), view(x), M.get());
            return static_cast<double>(residual_norm(A.matrix(), b, x));
          };
          // What rounding leaves of the products with the first x.
          const double attainable = 1e-15 * (start + static_cast<double>(n * n)) * static_cast<double>(n);
          EXPECT_LE(residual("cg", 1), std::max(attainable, tolerance * std::sqrt(static_cast<double>(n))));
          for (const std::int64_t directions : {1, 2, 5, 12})
            EXPECT_LE(residual("fcg", directions),
                      std::max(attainable, tolerance * std::sqrt(static_cast<double>(n))))
                << n << " unknowns, x0 " << start << ", " << preconditioner << ", tolerance " << tolerance
                << ", " << directions << " directions";
        }
}

TEST(Fcg, NamesIndefiniteOperatorsAndPreconditioners) {
  const auto b = right_hand_side<double>(6);
  Solved fcg = solve("fcg", rotated({1, 2, 3, -4, 5, 6}), b);
  EXPECT_EQ(fcg.report.reason, StopReason::indefinite_operator);
  EXPECT_NE(fcg.report.detail.find("p . A p = -"), std::string::npos) << fcg.report.detail;
  for (std::int64_t bad : {1, 2, 3}) {
    const VaryingPreconditioner M(6, [&](std::int64_t k, const Column& r) {
      Column z = r;
      if (k + 1 >= bad)
        for (Real& v : z) v = -v;
      return z;
    });
    fcg = solve("fcg", rotated({1, 2, 3, 4, 5, 6}), b, {}, &M);
    EXPECT_EQ(fcg.report.reason, StopReason::indefinite_preconditioner) << to_string(fcg.report.reason);
    EXPECT_EQ(fcg.report.iterations, bad - 1);
  }
}

TEST(FGmres, FollowsTheTextbookWithAVaryingPreconditioner) {
  const Dense A = convection_2d(8, 3);
  const auto b = right_hand_side<double>(A.n);
  std::vector<Real> norms;
  for (const Column& x : flexible_gmres(A, wide(b), 20, alternating))
    norms.push_back(length(residual(A, wide(b), x)));
  for (const char* how : {"cgs2", "mgs"}) {
    VaryingPreconditioner M(A.n, alternating);
    const Solved fgmres =
        solve("fgmres", A, b,
              {.stopping = {.relative_tolerance = 1e-9}, .restart = 64, .orthogonalization = how}, &M);
    expect_history(fgmres.history, norms, 1e-10);
    EXPECT_TRUE(fgmres.report.converged()) << fgmres.report.detail;
    EXPECT_EQ(fgmres.report.restarts, 0) << "x must be made of the vectors that were preconditioned";
    M.reset();
    const Solved gmres =
        solve("gmres", A, b,
              {.stopping = {.relative_tolerance = 1e-9, .max_iterations = 3 * fgmres.report.iterations},
               .restart = 64,
               .orthogonalization = how},
              &M);
    EXPECT_FALSE(gmres.report.converged())
        << gmres.report.iterations << " beside " << fgmres.report.iterations;
  }
}

// The largest |v_i . v_j| of the first `steps` vectors of the basis.
double lost_orthogonality(const std::string& orthogonalization, const std::string& method,
                          std::int64_t columns) {
  constexpr std::int64_t n = 40, steps = 18;
  std::vector<Real> d(n);
  for (std::int64_t i = 0; i < n; ++i)
    d[static_cast<std::size_t>(i)] = std::pow(10.0L, -static_cast<Real>(i) / 4);
  const Recording A(rotated(d));
  const SolverOptions options{.stopping = {.relative_tolerance = 0, .max_iterations = steps},
                              .restart = 60,
                              .orthogonalization = orthogonalization};
  std::vector<double> b = right_hand_side<double>(n), x;
  for (std::int64_t j = 1; j < columns; ++j) b.insert(b.end(), b.begin(), b.begin() + n);
  x.assign(b.size(), 0.0);
  if (columns == 0)
    (void)make_solver<double>(method, options)->solve(A, view(std::as_const(b)), view(x));
  else
    (void)MultiSolver<double>(method, options)
        .solve(A, MultiVectorView<const double>{b.data(), n, columns, n},
               MultiVectorView<double>{x.data(), n, columns, n});
  // First the products with x0, of each column.
  const std::int64_t together = std::max<std::int64_t>(columns, 1);
  double largest = 0;
  for (std::int64_t i = 0; i < steps; ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      const auto at = [&](std::int64_t step) {
        return wide(A.inputs[static_cast<std::size_t>(together * (1 + step))]);
      };
      largest = std::max(largest, static_cast<double>(std::abs(dot_of(at(i), at(j)))));
    }
  return largest;
}

// The basis of an ill-conditioned matrix is orthogonal to rounding with cgs2, and not with mgs.
TEST(Gmres, OrthogonalizesInTheWayThatIsAskedFor) {
  for (const char* method : {"gmres", "fgmres"}) {
    EXPECT_LT(lost_orthogonality("cgs2", method, 0), 1e-14) << method;
    EXPECT_GT(lost_orthogonality("mgs", method, 0), 1e-13) << method;
    EXPECT_LT(lost_orthogonality("mgs", method, 0), 1e-3) << method;
  }
  for (const std::int64_t columns : {1, 3}) {
    EXPECT_LT(lost_orthogonality("cgs2", "gmres", columns), 1e-14) << columns;
    EXPECT_GT(lost_orthogonality("mgs", "gmres", columns), 1e-13) << columns;
    EXPECT_LT(lost_orthogonality("mgs", "gmres", columns), 1e-3) << columns;
  }
}

TEST(FGmres, IsGmresWithAFixedPreconditioner) {
  const Dense matrix = convection_2d(9, 3);
  const DenseOperator<double> A(matrix);
  const auto b = right_hand_side<double>(matrix.n);
  const auto jacobi = make_preconditioner<double>("jacobi", A);
  jacobi->ensure(A);
  for (const Preconditioner<double>* M : {static_cast<const Preconditioner<double>*>(nullptr),
                                          static_cast<const Preconditioner<double>*>(jacobi.get())}) {
    const Solved one = solve("gmres", matrix, b, {.restart = 7}, M),
                 two = solve("fgmres", matrix, b, {.restart = 7}, M);
    EXPECT_EQ(one.report.iterations, two.report.iterations);
    EXPECT_EQ(one.report.restarts, two.report.restarts);
    for (std::size_t i = 0; i < one.x.size(); ++i) EXPECT_NEAR(one.x[i], two.x[i], 1e-12);
  }
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

// I + c S with S skew-symmetric: the eigenvalues are 1 + i c mu, far from the real axis for large c, where the
// polynomials of BiCGStab, with their real roots, hardly reduce the residual.
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
  // The system of test BiCgStab.BreakdownsAreNamed, where omega = 0: here it is solved in one iteration.
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
      if (i >= closed) A(i, i % closed) = 300;  // so that r is large beside the rounding of r0 . r
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

// In the step into the next space omega is t . r / t . t, made larger to 0.7 ||r|| / ||t|| where t and r are nearly
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

TEST(Options, OfMethodsAreChecked) {
  const auto complaint = [](const SolverOptions& options) -> std::string {
    try {
      make_solver<double>("cg", options);
    } catch (const BadArgument& e) { return e.what(); }
    return "accepted";
  };
  EXPECT_NE(complaint({.directions = 0}).find("directions is 0"), std::string::npos);
  EXPECT_NE(complaint({.directions = 101}).find("1 to 100"), std::string::npos);
  EXPECT_NE(complaint({.s = 0}).find("s is 0"), std::string::npos);
  EXPECT_NE(complaint({.s = 17}).find("1 to 16"), std::string::npos);
  EXPECT_EQ(find_solver("bicgstab2").products, 4);
  EXPECT_THROW(find_solver("minress"), BadArgument);
}

// The number of products is what predictions count with.
TEST(Options, ProductsOfAnIteration) {
  for (const SolverEntry& entry : solvers()) {
    const DenseOperator<double> A(convection_2d(9, 0));
    const auto b = right_hand_side<double>(81);
    std::vector<double> x(81, 0.0);
    const auto report = entry.make_f64({.stopping = {.max_iterations = 4}})->solve(A, view(b), view(x));
    EXPECT_EQ(report.iterations, 4) << entry.id;
    // One for b - A x0, one for b - A x at the end, one that asks whether the columns of A add up to zero; and two that
    // ask whether A is symmetric, where that matters.
    EXPECT_EQ(A.products() - 3 - (entry.symmetric ? 2 : 0), 4 * entry.products) << entry.id;
  }
}

TEST(Options, SymmetricMethodsRefuseAPreconditionerThatIsNot) {
  const auto csr =
      make_matrix(find_format("csr"), generate(test_context(), "poisson-2d", {{"n", 6}}), test_context());
  const auto M = make_preconditioner<double>("gauss-seidel", *csr);
  M->ensure(*csr);
  const auto b = right_hand_side<double>(36);
  for (const char* method : all_methods()) {
    std::vector<double> x(36, 0.0);
    const auto solver = make_solver<double>(method);
    const std::string_view name = method;
    if (name == "cg" || name == "minres") {
      EXPECT_TRUE(solver->needs_symmetric_preconditioner());
      EXPECT_THROW((void)solver->solve(*csr, view(b), view(x), M.get()), BadArgument) << method;
    } else {
      EXPECT_TRUE(solver->solve(*csr, view(b), view(x), M.get()).converged()) << method;
    }
  }
}

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
  // Where the tolerance allows that part, it is solved.
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

// The address of the second vector would wrap around to that of the first one.
TEST(NullSpaceOptions, AStrideBeyondTheAddressSpaceIsRefused) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 3}});
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  const std::vector<double> vectors(9, 1.0), b(9, 1.0);
  std::vector<double> x(9, 0.0);
  const auto solver = make_solver<double>("cg");
  solver->set_null_space({vectors.data(), 9, std::int64_t{1} << 61, 2, Space::host});
  EXPECT_THROW((void)solver->solve(*A, {b.data(), 9}, {x.data(), 9}), BadArgument);
}

class EveryMethod : public testing::TestWithParam<const char*> {
 protected:
  static CsrMatrix<double> system() {
    return generate(test_context(),
                    find_solver(GetParam()).symmetric ? "poisson-3d" : "convection-diffusion-3d",
                    {{"n", 12}});
  }
};
INSTANTIATE_TEST_SUITE_P(All, EveryMethod, testing::ValuesIn(all_methods()),
                         [](const auto& one) { return std::string(one.param); });

struct Answer {
  std::int64_t iterations;
  double recurrence, truth;
  std::vector<double> x;
  bool operator==(const Answer&) const = default;
};
Answer solve_on(const ContextPtr& context, const FormatEntry& format, const CsrMatrix<double>& csr,
                const char* method, const char* preconditioner, const SolverOptions& options = {}) {
  const auto A = make_matrix(format, placed(context, csr), context, most_tolerant(format));
  const auto M = make_preconditioner<double>(preconditioner, *A);
  if (M) M->ensure(*A);
  const Placed<double> b(context, right_hand_side<double>(csr.rows()));
  Placed<double> x(context, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
  const auto report = make_solver<double>(method, options)->solve(*A, b.read(), x.view(), M.get());
  EXPECT_TRUE(report.converged()) << method << " " << to_string(report.reason) << " " << report.detail;
  return {report.iterations, report.recurrence_residual, report.true_residual, x.fetch()};
}

TEST_P(EveryMethod, DeterministicModeGivesTheSameBits) {
  const auto csr = system();
  for (const char* preconditioner : {"none", "jacobi"}) {
    const Answer first = solve_on(Context::host(1, {.deterministic = true}), find_format("csr"), csr,
                                  GetParam(), preconditioner);
    for (const int threads : {1, 2, 3})
      for (const char* format : {"csr", "sell-c-sigma", "ell"})
        EXPECT_EQ(solve_on(Context::host(threads, {.deterministic = true}), find_format(format), csr,
                           GetParam(), preconditioner),
                  first)
            << format << " " << threads << " " << preconditioner;
  }
}

// Scalars of the method lie in device memory, which the host must not touch.
TEST_P(EveryMethod, RunsOnADevice) {
  const auto csr = system();
  for (const char* preconditioner : {"none", "jacobi", "chebyshev"})
    EXPECT_EQ(solve_on(fake_device_context(), fake_format("csr"), csr, GetParam(), preconditioner),
              solve_on(test_context(), find_format("csr"), csr, GetParam(), preconditioner))
        << preconditioner;
}

TEST_P(EveryMethod, GoesOnAfterAChangeOfFormat) {
  const auto csr = system();
  const auto b = right_hand_side<double>(csr.rows());
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  std::vector<double> exact(b.size(), 0.0), x = exact;
  const auto plain = make_solver<double>(GetParam(), {.stopping = {.relative_tolerance = 1e-10}})
                         ->solve(*A, view(b), view(exact));
  AdaptiveOperator<double> adaptive(csr, make_matrix(find_format("csr"), csr, test_context()));
  History switcher;
  switcher.then = [&](const IterationInfo& info) {
    if (info.iteration % 3 != 2) return true;
    return adaptive.switch_to({&find_format(adaptive.form() % 2 == 0 ? "sell-c-sigma" : "csr")},
                              info.iteration, "the test");
  };
  const auto report = make_solver<double>(GetParam(), {.stopping = {.relative_tolerance = 1e-10}})
                          ->solve(adaptive, view(b), view(x), nullptr, &switcher);
  EXPECT_TRUE(report.converged()) << report.detail;
  EXPECT_GE(adaptive.history().size(), 2u);
  EXPECT_EQ(report.restarts, plain.restarts) << "a change of format is no change of the operator";
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], exact[i], 1e-8);
}

TEST_P(EveryMethod, SeesNewValuesDuringASolve) {
  const Dense before = find_solver(GetParam()).symmetric ? convection_2d(9, 0) : convection_2d(9, 1);
  Dense after = before;
  for (std::int64_t i = 0; i < after.n; ++i) after(i, i) += 1;
  struct Changing final : DenseOperator<double> {
    Dense other;
    mutable bool changed = false;
    Changing(const Dense& a, Dense b) : DenseOperator<double>(a), other(std::move(b)) {}
    void do_apply(double alpha, VectorView<const double> x, double beta,
                  VectorView<double> y) const override {
      if (!changed) return DenseOperator<double>::do_apply(alpha, x, beta, y);
      for (std::int64_t i = 0; i < other.n; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < other.n; ++j) sum += static_cast<double>(other(i, j)) * x[j];
        y[i] = alpha * sum + (beta == 0 ? 0 : beta * y[i]);
      }
    }
  } A(before, after);
  const auto b = right_hand_side<double>(81);
  std::vector<double> x(81, 0.0);
  History history;
  history.then = [&](const IterationInfo& info) {
    if (info.iteration == 3 && !A.changed) A.changed = true, ++A.revision_.values;
    return true;
  };
  const auto report = make_solver<double>(GetParam())->solve(A, view(b), view(x), nullptr, &history);
  EXPECT_TRUE(report.converged()) << to_string(report.reason);
  EXPECT_GE(report.restarts, 1);
  EXPECT_LE(residual_norm(after, b, x), 1.01e-8L * report.rhs_norm);
}

}  // namespace
}  // namespace protean::test
